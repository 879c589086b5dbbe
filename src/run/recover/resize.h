/* resize.h: the file `resize` of a run directory: how many workers somebody wants a run to go on with. Its supervisor
 * looks for it, takes it away, and lays the run out anew after the step under way. */
#ifndef LS_RUN_RECOVER_RESIZE_H
#define LS_RUN_RECOVER_RESIZE_H

#include <stdbool.h>

#include "base/status.h"

/* Leaves the note; LS_ERR_INPUT where no run is at work in the folder. */
ls_status ls_resize_ask(const char *run, int workers);
/* Whether there is one, which is taken away; −1 in *workers: it is no number. */
bool ls_resize_take(const char *run, int *workers);

#endif
