/* signals.c: holds signals with handlers, because a signal mask applies to one thread only. */
#include "comm/launch/signals.h"

#include <unistd.h>

static const int numbers[LS_SIGNALS_HELD] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};
static volatile sig_atomic_t came, patience;

/* Handler: records the signal and sets the alarm. */
static void record_signal(int number) {
    came = number;
    if (patience) (void)alarm((unsigned)patience);
}

void ls_signals_hold(ls_held_signals *held, unsigned patience_s) {
    struct sigaction action = {.sa_handler = record_signal, .sa_flags = SA_RESTART};
    came = 0;
    patience = (int)patience_s;
    for (int i = 0; i < LS_SIGNALS_HELD; i++) {
        (void)sigaction(numbers[i], NULL, &held->before[i]);
        if (!(held->before[i].sa_flags & SA_SIGINFO) && held->before[i].sa_handler == SIG_DFL)
            (void)sigaction(numbers[i], &action, NULL);
    }
}

void ls_signals_let_go(const ls_held_signals *held) {
    for (int i = 0; i < LS_SIGNALS_HELD; i++) (void)sigaction(numbers[i], &held->before[i], NULL);
    if (came) (void)raise(came);
}

int ls_signals_came(void) { return came; }
