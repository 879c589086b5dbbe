/* unit_hint.c: the units worth a word, the fastest first. */
#include "run/progress/unit_hint.h"

#include <stdio.h>

static const ls_unit faster[] = {LS_UNIT_AMX, LS_UNIT_BFMMLA};

bool ls_unit_hint_is_of_use(const ls_policy *policy) { return policy->act == LS_BF16 && policy->unit == LS_UNIT_CHAIN; }

void ls_unit_hint_count(int64_t having[LS_UNITS]) {
    for (int u = 0; u < LS_UNITS; u++) having[u] = ls_unit_is_here((ls_unit)u);
}

void ls_unit_hint_text(const int64_t having[LS_UNITS], int workers, char text[LS_UNIT_HINT_MAX]) {
    text[0] = '\0';
    for (size_t i = 0; i < sizeof faster / sizeof *faster; i++) {
        if (having[faster[i]] < workers) continue;
        snprintf(text, LS_UNIT_HINT_MAX,
                 "matrix unit chain: same bits on every CPU; --matrix-unit %s is about twice as fast here and changes "
                 "the result",
                 ls_unit_name(faster[i]));
        return;
    }
}
