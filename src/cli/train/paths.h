/* paths.h: files that the config.json of a run names, when the run goes on.
 *
 * Inputs (--data, --val-data, --tokenizer, --model, --layout) may be relative. They are looked for from the current
 * directory, as they always were, and then from the one in which the run was started, which config.json records.
 *
 * Outputs stay in the run's folder: a run may be somebody else's, and its config must not choose which file of the
 * user's is written over. */
#ifndef LS_CLI_TRAIN_PATHS_H
#define LS_CLI_TRAIN_PATHS_H

#include "config/options.h"

/* `options` were read from the config.json of the folder `run`, and from nowhere else. */
ls_status ls_train_paths_settle(const char *run, ls_options *options);

/* --trace as a config file names it becomes --trace run, with a warning. Options of flags and of the environment are
 * the user's own word and stay. */
ls_status ls_train_paths_keep_outputs_inside(ls_options *options);

#endif
