/* probe_file.h: where measured machines are kept between runs. */
#ifndef LS_CLI_PROBE_FILE_H
#define LS_CLI_PROBE_FILE_H

#include <limits.h>

#include "config/options.h"
#include "lab/probe/probe.h"

/* The file of this machine in the cache folder. */
ls_status ls_probe_file_path(char path[PATH_MAX]);
/* Writes a cluster file with what was measured. */
ls_status ls_probe_file_write(const char *path, const ls_native_machine *machine);
/* Reads what was measured out of a cluster file; LS_ERR_INPUT where it holds no such figures. */
ls_status ls_probe_file_read(const char *path, ls_native_machine *machine);
/* From the cache where that is of this CPU and version, else measured now, which goes to the cache. `again`: measured
 * in any case. *measured tells which it was. Starts workers: no thread may have been started. */
ls_status ls_probe_file_get(const ls_options *options, bool again, ls_native_machine *machine, bool *measured);
/* Measures up to so many workers (0: as ls_probe_options says), with a line on the terminal that tells how far it is.
 */
ls_status ls_probe_measure(const ls_options *options, int workers, ls_native_machine *machine, bool *first);

#endif
