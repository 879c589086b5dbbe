/* signals.h: holds back signals that would end this process while it must not end: during MPI_Init (transports/mpi.c).
 */
#ifndef LS_COMM_SIGNALS_H
#define LS_COMM_SIGNALS_H

#include <signal.h>

enum { LS_SIGNALS_HELD = 4 };

typedef struct ls_held_signals {
    struct sigaction before[LS_SIGNALS_HELD]; /* the program's own, restored by ls_signals_let_go() */
} ls_held_signals;

/* Records SIGINT, SIGTERM, SIGHUP and SIGXCPU from now on, in any thread, unless the program handles or ignores them.
 * SIGALRM follows `patience_s` seconds after a recorded signal; 0: never. Holds cannot be nested. */
void ls_signals_hold(ls_held_signals *held, unsigned patience_s);
/* Restores the handlers and raises the last recorded signal, which may end the process. */
void ls_signals_let_go(const ls_held_signals *held);
/* Returns the last recorded signal; 0: none. */
int ls_signals_came(void);

#endif
