/* text.c: a layout in one line, and lists of numbers as "5,4,4". */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "config/value.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/parts.h"

enum { NUMBER_MAX = 16 };

static const char *const recompute_names[LS_RECOMPUTE_KINDS] = {
    [LS_RECOMPUTE_NONE] = "none", [LS_RECOMPUTE_SELECTIVE] = "selective", [LS_RECOMPUTE_FULL] = "full"};

const char *ls_recompute_name(ls_recompute recompute) { return recompute_names[recompute]; }

/* ---- lists ------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void add(char *text, size_t room, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, room - used, format, args);
    va_end(args);
}

void ls_layout_list_text(const int *numbers, int count, char *text, size_t room) {
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        char number[NUMBER_MAX];
        int length = snprintf(number, sizeof number, "%s%d", i > 0 ? "," : "", numbers[i]);
        /* whole numbers only, and room for dots where some are left out */
        size_t needed = strlen(text) + (size_t)length + (i + 1 < count ? sizeof ",…" : 1);
        if (needed > room) {
            add(text, room, ",…");
            return;
        }
        add(text, room, "%s", number);
    }
}

ls_status ls_layout_list_parse(const char *flag, const char *text, const char *wanted, int max, int *numbers,
                               int *count) {
    const char *at = text;
    for (*count = 0;; at++) {
        char number[NUMBER_MAX];
        int64_t value = 0;
        size_t length = strcspn(at, ",");
        bool sound = length < sizeof number;
        if (sound) {
            memcpy(number, at, length);
            number[length] = '\0';
            sound = ls_value_parse_int(number, &value) == LS_OK && value >= 1 && value <= INT32_MAX;
        }
        if (!sound) return ls_fail(LS_ERR_INPUT, "%s %.*s: must be %s", flag, LS_LAYOUT_SHOWN, text, wanted);
        if (*count == max)
            return ls_fail(LS_ERR_INPUT, "%s %.*s: lists more than %d numbers", flag, LS_LAYOUT_SHOWN, text, max);
        numbers[(*count)++] = (int)value;
        at += length;
        if (!*at) return LS_OK;
    }
}

/* ---- one line ---------------------------------------------------------------------------------------------------- */

static bool has_unequal_shares(const ls_layout *layout) {
    int least = layout->share[0], most = layout->share[0];
    for (int d = 1; d < layout->dp; d++) {
        if (layout->share[d] < least) least = layout->share[d];
        if (layout->share[d] > most) most = layout->share[d];
    }
    return most > least;
}

void ls_layout_text(const ls_layout *layout, char *text, size_t room) {
    char list[LS_LAYOUT_SHOWN];
    int blocks[LS_CHUNKS_MAX], chunks = ls_layout_chunks(layout);
    if (room == 0) return;
    text[0] = '\0';
    add(text, room, "dp %d × tp %d × pp %d", layout->dp, layout->tp, layout->pp);
    if (has_unequal_shares(layout)) {
        ls_layout_list_text(layout->share, layout->dp, list, sizeof list);
        add(text, room, ", shares %s", list);
    }
    if (layout->pp > 1) {
        for (int c = 0; c < chunks; c++) blocks[c] = layout->chunk_first[c + 1] - layout->chunk_first[c];
        ls_layout_list_text(blocks, chunks, list, sizeof list);
        add(text, room, ", %s", ls_schedule_kind_name(layout->schedule));
        if (layout->virtual_stages > 1) add(text, room, " with %d virtual stages", layout->virtual_stages);
        add(text, room, ", blocks %s", list);
    }
    add(text, room, ", zero %d", layout->zero);
    if (layout->recompute != LS_RECOMPUTE_NONE)
        add(text, room, ", %s recomputation", ls_recompute_name(layout->recompute));
    if (layout->sequence_parallel) add(text, room, ", sequence parallel");
    if (layout->micro > 0) add(text, room, ", micro-batch %zu", layout->micro);
}
