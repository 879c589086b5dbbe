/* stop.c: handlers that set a flag. */
#include "run/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "the flag is set in a signal handler");

enum { SIGNALS = 2 };

static const int numbers[SIGNALS] = {SIGINT, SIGTERM};
static struct sigaction before[SIGNALS];
static bool installed;
static atomic_int first_signal;

/* The process that forked several workers passes both signals on as SIGTERM, with the number of the one that came. */
static void note_signal(int number, siginfo_t *info, void *context) {
    int none = 0;
    (void)context;
    if (number == SIGTERM && info->si_code == SI_QUEUE && info->si_value.sival_int == SIGINT) number = SIGINT;
    (void)atomic_compare_exchange_strong(&first_signal, &none, number);
}

/* After SA_RESETHAND's one delivery the next SIGINT ends the process. */
static struct sigaction action_for(int number) {
    struct sigaction action = {.sa_sigaction = note_signal,
                               .sa_flags = SA_RESTART | SA_SIGINFO | (number == SIGINT ? (int)SA_RESETHAND : 0)};
    (void)sigemptyset(&action.sa_mask);
    return action;
}

static bool is_ignored(const struct sigaction *action) {
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_IGN;
}

/* The first `count` signals as they were. */
static void put_back(int count) {
    for (int i = 0; i < count; i++) (void)sigaction(numbers[i], &before[i], NULL); /* it was accepted once */
}

ls_status ls_stop_install(void) {
    atomic_store(&first_signal, 0);
    if (installed) put_back(SIGNALS);
    installed = false;
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction action = action_for(numbers[i]);
        if (sigaction(numbers[i], NULL, &before[i]) != 0 ||
            (!is_ignored(&before[i]) && sigaction(numbers[i], &action, NULL) != 0)) {
            put_back(i);
            return ls_fail_errno(LS_ERR_FAILED, "cannot install a handler for signal %d", numbers[i]);
        }
    }
    installed = true;
    return LS_OK;
}

void ls_stop_restore(void) {
    if (installed) put_back(SIGNALS);
    installed = false;
}

int ls_stop_signal(void) { return atomic_load(&first_signal); }

ls_status ls_stop_status_of(int signal) {
    switch (signal) {
    case 0: return LS_OK;
    case SIGINT: return ls_fail(LS_ERR_INTERRUPTED, "interrupted");
    default: return ls_fail(LS_ERR_TERMINATED, "terminated by signal %d, SIGTERM", SIGTERM);
    }
}

ls_status ls_stop_status(void) { return ls_stop_status_of(ls_stop_signal()); }
