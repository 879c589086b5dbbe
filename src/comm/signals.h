/* signals.h: signals that would end this process, held while it must not end. */
#ifndef LS_COMM_SIGNALS_H
#define LS_COMM_SIGNALS_H

#include <signal.h>

enum { LS_SIGNALS_HELD = 4 };

typedef struct ls_held_signals {
    struct sigaction before[LS_SIGNALS_HELD];
} ls_held_signals;

/* SIGINT, SIGTERM, SIGHUP and SIGXCPU are noted from now on, whichever thread they come to; one that the program has a
 * handler for, or ignores, is its own. `patience_s` after one came there is a SIGALRM; 0: none. One hold at a time. */
void ls_signals_hold(ls_held_signals *held, unsigned patience_s);
/* As before. The last that came is obeyed here. */
void ls_signals_let_go(const ls_held_signals *held);
/* The last that came; 0: none. */
int ls_signals_came(void);

#endif
