/* options.h: options by name for programs that use the library (options.c), and the options of a training run before it
 * starts (run_options.c): those that a resumed or forked run inherits, which of them can be combined, and the values
 * that the run fixes. Called in the parent before workers start; nothing here needs a thread or a worker. */
#ifndef LS_API_OPTIONS_H
#define LS_API_OPTIONS_H

#include "config/options.h"
#include "run/settings.h"

/* Fails with LS_ERR_INPUT, naming `function` (for the message), unless the options were created for exactly this
 * command. */
ls_status ls_options_expect(const ls_options *options, ls_command command, const char *function);

/* Fills *out with the options of a run: with --resume those in the config.json of the run in --out, with --fork those
 * in that of the run whose checkpoint it names, if it belongs to a run; then those given now, which win. Options of one
 * invocation (--out, --resume, --fork, --transport, --slow-link, --json) are not inherited, nor by a fork --model and
 * --preset. The run's layout options are not inherited if those given now name workers, dp, tp, pp or a layout file,
 * and its schedule, stages and virtual stages not if one of these is given. Inputs with relative paths that exist only
 * from the folder in which the run was started get that folder in front, and --trace of a file becomes "run". With
 * --config in `given`, nothing is inherited. Changes no file. The caller ends *out with ls_options_fini(), also after a
 * failure. */
ls_status ls_run_options_inherit(const ls_options *given, ls_options *out);
/* Checks that the options can be combined with each other and with the launcher. LS_ERR_INPUT names the option to
 * change. */
ls_status ls_run_options_check(const ls_options *options);
/* Returns where the run takes its shape and first weights from, as ls_start_open() takes it: --fork's checkpoint,
 * --preset, --model, a resumed run's own folder if that has a checkpoint, else "tiny". Borrowed from the options. */
const char *ls_run_model_name(const ls_options *options);
/* Writes the resolved values of options that were left open (sequence length, batch, groups, slices, warm-up, matrix
 * unit …) into the options, as if a file had given them, so that config.json records them and a resumed run does not
 * choose again. */
ls_status ls_run_options_pin(ls_options *options, const ls_settings *settings);

#endif
