/* text.c: a layout in one line, and lists of numbers as "5,4,4". */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "config/value.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/parts.h"

enum { NUMBER_MAX = 16 };

void ls_layout_list_text(const int *numbers, int count, char *text, size_t room) {
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        char number[NUMBER_MAX];
        int length = snprintf(number, sizeof number, "%s%d", i > 0 ? "," : "", numbers[i]);
        /* whole numbers only, and room for dots where some are left out */
        size_t needed = strlen(text) + (size_t)length + (i + 1 < count ? sizeof ",…" : 1);
        bool fits = needed <= room;
        strncat(text, fits ? number : ",…", room - strlen(text) - 1);
        if (!fits) return;
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

void ls_layout_blocks_text(const int *chunk_first, int chunks, char *text, size_t room) {
    int blocks[LS_CHUNKS_MAX];
    for (int c = 0; c < chunks; c++) blocks[c] = chunk_first[c + 1] - chunk_first[c];
    ls_layout_list_text(blocks, chunks, text, room);
}

static bool has_unequal_shares(const ls_layout *layout) {
    for (int d = 1; d < layout->dp; d++)
        if (layout->share[d] != layout->share[0]) return true;
    return false;
}

void ls_layout_text(const ls_layout *layout, char *text, size_t room) {
    char shares[LS_LAYOUT_SHOWN], blocks[LS_LAYOUT_SHOWN];
    ls_layout_list_text(layout->share, layout->dp, shares, sizeof shares);
    ls_layout_blocks_text(layout->chunk_first, ls_layout_chunks(layout), blocks, sizeof blocks);
    ls_knobs_text(&layout->knobs, LS_WORDS_LAYOUT, has_unequal_shares(layout) ? shares : NULL,
                  layout->pp > 1 ? blocks : NULL, text, room);
}
