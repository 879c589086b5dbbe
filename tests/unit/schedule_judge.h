/* schedule_judge.h: a second, plain reading of what makes lists of a pipeline good, by positions in the lists. It
 * shares nothing with ls_schedule_check. */
#ifndef LS_TESTS_SCHEDULE_JUDGE_H
#define LS_TESTS_SCHEDULE_JUDGE_H

#include <string.h>

#include "parallel/schedule/schedule.h"

#define F LS_ACTION_FORWARD
#define B LS_ACTION_BACKWARD
#define I LS_ACTION_BACKWARD_INPUT
#define W LS_ACTION_BACKWARD_WEIGHTS
enum { STAGES = 8, CHUNKS = 4, MICROS = 20 };

static ls_schedule made(ls_schedule_kind kind, int stages, int chunks, int micros) {
    ls_schedule s;
    if (ls_schedule_make(kind, stages, chunks, micros, &s) != LS_OK)
        fail_msg("%s %d %d %d: %s", ls_schedule_kind_name(kind), stages, chunks, micros, ls_status_message());
    return s;
}

/* Where in its stage's list each action is, −1: nowhere; [kind][chunk of the model][micro]. */
static int place[LS_ACTION_KINDS][STAGES * CHUNKS][MICROS];

static bool find_places(const ls_schedule *s) {
    memset(place, -1, sizeof place);
    for (int stage = 0; stage < s->stages; stage++)
        for (int i = 0; i < s->count[stage]; i++) {
            const ls_action *a = &s->actions[stage][i];
            if ((int)a->kind < 0 || a->kind >= LS_ACTION_KINDS || a->chunk < 0 || a->chunk >= s->chunks ||
                a->micro < 0 || a->micro >= s->micros)
                return false;
            int *at = &place[a->kind][a->chunk * s->stages + stage][a->micro];
            if (*at >= 0) return false;
            *at = i;
        }
    return true;
}

static int last_place(int g, int m) { return place[W][g][m] >= 0 ? place[W][g][m] : place[B][g][m]; }
static int back_place(int g, int m) { return place[I][g][m] >= 0 ? place[I][g][m] : place[B][g][m]; }

static bool order_is_good(int g, int m) {
    if (place[F][g][m] < 0) return false;
    if (m > 0 && place[F][g][m] < place[F][g][m - 1]) return false;
    bool whole = place[B][g][m] >= 0, input = place[I][g][m] >= 0, weights = place[W][g][m] >= 0;
    if (whole ? input || weights : !input || !weights) return false;
    if (place[F][g][m] > back_place(g, m) || back_place(g, m) > last_place(g, m)) return false;
    return m == 0 || (back_place(g, m) > back_place(g, m - 1) && last_place(g, m) > last_place(g, m - 1));
}

static bool slots_are_good(const ls_schedule *s, int g, int m) {
    int stage = g % s->stages, slots = ls_schedule_slots(s, stage, g / s->stages),
        kept = ls_schedule_kept(s, stage, g / s->stages);
    const ls_action *list = s->actions[stage], *first = &list[place[F][g][m]];
    if (first->slot < 0 || first->slot >= slots || first->kept != -1) return false;
    const ls_action *back = &list[back_place(g, m)], *last = &list[last_place(g, m)];
    if (back->slot != first->slot || last->slot != first->slot) return false;
    if (back == last ? back->kept != -1 : back->kept < 0 || back->kept >= kept || last->kept != back->kept)
        return false;
    for (int n = 0; n < m; n++) {
        if (last_place(g, n) > place[F][g][m] && list[place[F][g][n]].slot == first->slot) return false;
        bool both = back != last && place[I][g][n] >= 0;
        if (both && last_place(g, n) > back_place(g, m) && list[place[I][g][n]].kept == back->kept) return false;
    }
    return true;
}

/* One action after the other, always of the first stage that can go on. */
static bool can_run(const ls_schedule *s) {
    int at[STAGES] = {0}, last = s->stages * s->chunks - 1;
    for (bool moved = true; moved;) {
        moved = false;
        for (int stage = 0; stage < s->stages && !moved; stage++) {
            if (at[stage] == s->count[stage]) continue;
            const ls_action *a = &s->actions[stage][at[stage]];
            int g = a->chunk * s->stages + stage;
            moved = true;
            if (a->kind == F && g > 0) moved = place[F][g - 1][a->micro] < at[(g - 1) % s->stages];
            if ((a->kind == B || a->kind == I) && g < last)
                moved = back_place(g + 1, a->micro) < at[(g + 1) % s->stages];
            if (moved) at[stage]++;
        }
    }
    for (int stage = 0; stage < s->stages; stage++)
        if (at[stage] < s->count[stage]) return false;
    return true;
}

static bool judge(const ls_schedule *s) {
    if (!find_places(s)) return false;
    for (int g = 0; g < s->stages * s->chunks; g++)
        for (int m = 0; m < s->micros; m++)
            if (!order_is_good(g, m)) return false;
    for (int g = 0; g < s->stages * s->chunks; g++)
        for (int m = 0; m < s->micros; m++)
            if (!slots_are_good(s, g, m)) return false;
    return can_run(s);
}

#endif
