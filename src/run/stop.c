/* stop.c: installs and restores signal handlers, which only set flags. */
#include "run/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"

_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "flags are set in a signal handler");

enum { CAUGHT = 4 };

/* A signal with the handler that it had before. */
typedef struct caught {
    int number;
    bool installed;
    struct sigaction before;
} caught;

static caught of_loop[CAUGHT] = {{.number = SIGINT}, {.number = SIGTERM}, {.number = SIGHUP}, {.number = SIGXCPU}};
static caught of_run[CAUGHT] = {{.number = SIGUSR1}, {.number = SIGUSR2}, {.number = SIGHUP}, {.number = SIGXCPU}};
static int holders; /* of those of a run */
static atomic_int first_signal, save_asked;
static _Atomic uint64_t first_ns;

/* Signal handler. SIGUSR1 asks for a save. Any other signal asks the run to stop: the first one is recorded, with its
 * time, and later ones change nothing. SIGHUP and SIGXCPU count as SIGTERM. Async-signal-safe, as reading the clock
 * is. */
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

/* Signal handler outside the training loop: ends the process like SIGTERM. */
static void terminate(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    (void)kill(getpid(), SIGTERM);
}

/* Returns the action for a signal. SIGINT is caught once (SA_RESETHAND), so that a second one ends the process. */
static struct sigaction action_for(const caught *signals, int number) {
    bool ends = signals == of_run && (number == SIGHUP || number == SIGXCPU);
    struct sigaction action = {.sa_sigaction = ends ? terminate : note_signal,
                               .sa_flags = SA_RESTART | SA_SIGINFO | (number == SIGINT ? (int)SA_RESETHAND : 0)};
    (void)sigemptyset(&action.sa_mask);
    return action;
}

/* Returns whether the action ignores its signal. */
static bool is_ignored(const struct sigaction *action) {
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_IGN;
}

/* Restores the previous handlers of a list. */
static void put_back(caught *signals) {
    for (caught *s = signals; s < signals + CAUGHT; s++) {
        if (s->installed) (void)sigaction(s->number, &s->before, NULL); /* it was accepted once */
        s->installed = false;
    }
}

/* Installs the handlers of a list, except for signals that are ignored; on failure none is left installed. */
static ls_status install(caught *signals) {
    put_back(signals);
    for (caught *s = signals; s < signals + CAUGHT; s++) {
        struct sigaction action = action_for(signals, s->number);
        if (sigaction(s->number, NULL, &s->before) != 0 ||
            (!is_ignored(&s->before) && sigaction(s->number, &action, NULL) != 0)) {
            ls_status status = ls_fail_errno(LS_ERR_FAILED, "cannot install a handler for signal %d", s->number);
            put_back(signals);
            return status;
        }
        s->installed = true;
    }
    return LS_OK;
}

ls_status ls_stop_install(void) {
    if (atomic_load(&first_signal) != SIGUSR2 || holders == 0) atomic_store(&first_signal, 0);
    return install(of_loop);
}

void ls_stop_restore(void) { put_back(of_loop); }

ls_status ls_stop_hold(void) {
    if (holders == 0) {
        atomic_store(&save_asked, 0);
        atomic_store(&first_signal, 0);
        LS_TRY(install(of_run));
    }
    holders++;
    return LS_OK;
}

void ls_stop_release(void) {
    if (holders > 0 && --holders == 0) put_back(of_run);
}

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
