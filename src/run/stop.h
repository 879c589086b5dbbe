/* stop.h: SIGINT and SIGTERM ask for an orderly stop: the training loop ends its step, saves, and leaves.
 *
 * The handlers only set a flag, which the loop polls. A second SIGINT ends the process at once, as it would without
 * them; SIGTERM may be sent again, as schedulers do, without more effect. A signal that was ignored before (nohup, a
 * job in the background) stays ignored. System calls are restarted.
 *
 * A worker of ls_workers_run() with pass_signals is told by its parent, which also counts the SIGINTs; both arrive as
 * SIGTERM, and ls_stop_signal() tells which it was.
 *
 * The handlers belong to the process; install and restore are called from one thread. */
#ifndef LS_RUN_STOP_H
#define LS_RUN_STOP_H

#include "base/status.h"

/* Clears the flag. Installing twice is one installation. */
ls_status ls_stop_install(void);
/* Puts back what was there before; nothing where nothing is installed. The flag stays readable. */
void ls_stop_restore(void);

/* The first signal that came since installing, SIGINT or SIGTERM; 0: none. Any thread. */
int ls_stop_signal(void);
/* The same as what a run that was stopped returns: LS_OK without a signal, else LS_ERR_INTERRUPTED or LS_ERR_TERMINATED
 * with a message. */
ls_status ls_stop_status(void);

/* The same for a signal that another worker has got. */
ls_status ls_stop_status_of(int signal);

#endif
