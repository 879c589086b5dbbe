/* options.h: checks of options by the library; and the options of a run: their sources, allowed combinations and
 * defaults. Called before workers start. */
#ifndef LS_API_OPTIONS_H
#define LS_API_OPTIONS_H

#include "config/options.h"
#include "run/settings.h"

/* Fails with LS_ERR_INPUT unless the options belong to a command that `function` takes. */
ls_status ls_options_expect(const ls_options *options, ls_command command, const char *function);

/* Fills *out with the options of a run: for --resume those of the run before, for --fork those of the run that has the
 * checkpoint, if any; then those given now, which win. The caller ends *out, also after a failure. */
ls_status ls_run_options_inherit(const ls_options *given, ls_options *out);
/* Checks that the options can be combined. LS_ERR_INPUT names the one to change. */
ls_status ls_run_options_check(const ls_options *options);
/* Returns the name from which the weights begin: --fork's checkpoint, --preset, --model, a resumed run's own folder,
 * else "tiny". Borrowed. */
const char *ls_run_model_name(const ls_options *options);
/* Writes the values that were left open into the options, as if a file had given them, so that the run directory
 * records them and a resumed run does not choose again. */
ls_status ls_run_options_pin(ls_options *options, const ls_settings *settings);

#endif
