/* ask.h: requests out of rows of numbers, where 0 of a count, and −1 of anything, leaves a knob open. */
#ifndef LS_TESTS_ASK_H
#define LS_TESTS_ASK_H

#include "parallel/layout/layout.h"

static inline void ask(ls_layout_request *request, ls_knob knob, double value) {
    const ls_knob_info *info = ls_knob_info_get(knob);
    bool is_count = info->kind == LS_KNOB_KIND_SIZE || (info->kind == LS_KNOB_KIND_INT && info->neutral > 0);
    if (value > 0 || (value == 0 && !is_count)) ls_knob_give(request, knob, value);
}

#endif
