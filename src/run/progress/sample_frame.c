/* sample_frame.c: a heading, and a margin before every line. */
#include "run/progress/sample_frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer/utf8_stream.h"

static const char margin[] = "  | ";

ls_status ls_sample_frame(int64_t step, const char *text, size_t bytes, char **out) {
    enum { HEADING_MAX = 64 };
    ls_utf8_stream stream = {.for_terminal = true};
    size_t lines = 1, used, shown_bytes;
    while (bytes > 0 && text[bytes - 1] == '\n') bytes--;
    for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    char *shown = malloc(ls_utf8_stream_room(bytes)),
         *framed = *out = malloc(HEADING_MAX + lines * sizeof margin + ls_utf8_stream_room(bytes) + 1);
    if (!shown || !framed) {
        free(shown);
        free(framed);
        *out = NULL;
        return ls_fail(LS_ERR_RESOURCE, "out of memory for a sample of %zu bytes", bytes);
    }
    shown_bytes = ls_utf8_stream_add(&stream, text, bytes, shown);
    shown_bytes += ls_utf8_stream_end(&stream, shown + shown_bytes);
    used = (size_t)snprintf(framed, HEADING_MAX, "--- sample at step %" PRId64 " ---\n%s", step, margin);
    for (size_t i = 0; i < shown_bytes; i++) {
        framed[used++] = shown[i];
        if (shown[i] != '\n') continue;
        memcpy(framed + used, margin, sizeof margin - 1);
        used += sizeof margin - 1;
    }
    framed[used] = '\0';
    free(shown);
    return LS_OK;
}
