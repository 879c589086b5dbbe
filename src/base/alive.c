/* alive.c: the progress counter, phases and their durations. */
#include "base/alive.h"

#include <stddef.h>

#include "base/clock.h"

enum { KEPT = 9 };

static const uint64_t hook_ns = 500000000;

_Atomic uint64_t ls_alive_count;
static _Atomic int phase_now;
static uint64_t entered_ns;
static uint64_t lasted_ns[LS_PHASES][KEPT];
static unsigned turns[LS_PHASES];

static _Thread_local void (*own_hook)(void *ctx);
static _Thread_local void *own_ctx;
static _Thread_local uint64_t hooked_ns;

const char *ls_phase_text(ls_phase phase) {
    static const char *const texts[LS_PHASES] = {
#define LS_PHASE_TEXT(name, text) text,
        LS_PHASE_LIST(LS_PHASE_TEXT)
#undef LS_PHASE_TEXT
    };
    return (unsigned)phase < LS_PHASES ? texts[phase] : "working";
}

void ls_alive_set_hook(void (*hook)(void *ctx), void *ctx) {
    own_hook = hook;
    own_ctx = ctx;
}

void ls_alive_turn(void) {
    ls_alive_moved();
    if (!own_hook) return;
    uint64_t now = ls_clock_ns();
    if (now - hooked_ns < hook_ns) return;
    hooked_ns = now;
    own_hook(own_ctx);
}

ls_phase ls_phase_swap(ls_phase phase) {
    ls_alive_moved();
    return (ls_phase)atomic_exchange_explicit(&phase_now, (int)phase, memory_order_relaxed);
}

/* Calls the hook when an opaque phase begins, because its first progress may take long. */
ls_phase ls_phase_enter(ls_phase phase) {
    uint64_t now = ls_clock_ns();
    ls_phase before = ls_phase_swap(phase);
    if (ls_phase_is_opaque(phase)) {
        hooked_ns = 0;
        ls_alive_turn();
    }
    if (entered_ns) lasted_ns[before][turns[before]++ % KEPT] = now - entered_ns;
    entered_ns = now;
    return before;
}

ls_phase ls_phase_now(void) { return (ls_phase)atomic_load_explicit(&phase_now, memory_order_relaxed); }

/* Reads while the main thread may write: a torn list gives a number that is a little off. */
uint64_t ls_phase_usual_ns(ls_phase phase) {
    uint64_t sorted[KEPT];
    size_t count = turns[phase] < KEPT ? turns[phase] : KEPT;
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        uint64_t value = lasted_ns[phase][i];
        for (; at > 0 && sorted[at - 1] > value; at--) sorted[at] = sorted[at - 1];
        sorted[at] = value;
    }
    return count > 0 ? sorted[count / 2] : 0;
}
