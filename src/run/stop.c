/* stop.c: handlers that set a flag. */
#include "run/stop.h"

#include <signal.h>
#include <stdatomic.h>

#include "base/clock.h"

_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "flags are set in a signal handler");

enum { STOPS = 4, SIGNALS = 6 };

/* Those that stop, then those that are caught by runs alone. */
static const int numbers[SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU, SIGUSR1, SIGUSR2};
static struct sigaction before[SIGNALS];
static bool installed[SIGNALS];
static atomic_int first_signal, save_asked;
static _Atomic uint64_t first_ns;

/* Reading the clock is among what a handler may do. */
static void note_signal(int number, siginfo_t *info, void *context) {
    int none = 0;
    (void)context;
    if (number == SIGUSR1) {
        atomic_store(&save_asked, 1);
        return;
    }
    /* The process that forked several workers passes what stops on as SIGTERM, with the number of what came. */
    if (number == SIGTERM && info->si_code == SI_QUEUE && info->si_value.sival_int == SIGINT) number = SIGINT;
    if (number != SIGINT && number != SIGUSR2) number = SIGTERM;
    if (atomic_load(&first_signal) == 0) atomic_store(&first_ns, ls_clock_ns());
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

static void put_back(int begin, int end) {
    for (int i = begin; i < end; i++) {
        if (installed[i]) (void)sigaction(numbers[i], &before[i], NULL); /* it was accepted once */
        installed[i] = false;
    }
}

static ls_status install(int begin, int end) {
    put_back(begin, end);
    for (int i = begin; i < end; i++) {
        struct sigaction action = action_for(numbers[i]);
        if (sigaction(numbers[i], NULL, &before[i]) != 0 ||
            (!is_ignored(&before[i]) && sigaction(numbers[i], &action, NULL) != 0)) {
            ls_status status = ls_fail_errno(LS_ERR_FAILED, "cannot install a handler for signal %d", numbers[i]);
            put_back(begin, i);
            return status;
        }
        installed[i] = true;
    }
    return LS_OK;
}

ls_status ls_stop_install(void) {
    if (atomic_load(&first_signal) != SIGUSR2 || !installed[SIGNALS - 1]) atomic_store(&first_signal, 0);
    return install(0, STOPS);
}

ls_status ls_stop_install_saves(void) {
    if (installed[STOPS] && installed[SIGNALS - 1]) return LS_OK;
    atomic_store(&save_asked, 0);
    atomic_store(&first_signal, 0);
    return install(STOPS, SIGNALS);
}

void ls_stop_restore(void) { put_back(0, SIGNALS); }

int ls_stop_signal(void) { return atomic_load(&first_signal); }
uint64_t ls_stop_ns(void) { return atomic_load(&first_ns); }
bool ls_stop_take_save(void) { return atomic_load(&save_asked) && atomic_exchange(&save_asked, 0); }

ls_status ls_stop_status_of(int signal) {
    switch (signal) {
    case 0: return LS_OK;
    case SIGINT: return ls_fail(LS_ERR_INTERRUPTED, "interrupted");
    case SIGUSR2: return ls_fail(LS_ERR_REQUEUED, "stopped by signal %d, SIGUSR2, to be started again", SIGUSR2);
    default: return ls_fail(LS_ERR_TERMINATED, "terminated by signal %d, SIGTERM", SIGTERM);
    }
}

ls_status ls_stop_status(void) { return ls_stop_status_of(ls_stop_signal()); }
