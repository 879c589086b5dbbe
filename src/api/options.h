/* options.h: checks of options by the library; and the options of a run: their sources, allowed combinations and
 * defaults. */
#ifndef LS_API_OPTIONS_H
#define LS_API_OPTIONS_H

#include "config/options.h"
#include "run/settings.h"

/* Fails with LS_ERR_INPUT unless the options belong to a command that `function` takes. */
ls_status ls_options_expect(const ls_options *options, ls_command command, const char *function);

/* A run that goes on, and one that branches off, has the options of the run before, but for those given now. A fork of
 * a checkpoint has those of the run in which the checkpoint lies, if any. The caller ends *out, after a failure too. */
ls_status ls_run_options_inherit(const ls_options *given, ls_options *out);
/* Checks that the options can be combined. */
ls_status ls_run_options_check(const ls_options *options);
/* What the weights begin from: --fork's checkpoint, --model, or the seed. The model of a fork is in its checkpoints. */
const char *ls_run_model_name(const ls_options *options);
/* Values that were left open are written into the options, so that the run directory tells what the run was, and going
 * on with it does not guess again. */
ls_status ls_run_options_pin(ls_options *options, const ls_settings *settings);

#endif
