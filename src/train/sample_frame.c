/* sample_frame.c: a heading, and a margin before every line. */
#include "train/sample_frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char margin[] = "  | ";

static char printable(char c) {
    unsigned char byte = (unsigned char)c;
    return (byte < 0x20 && c != '\t') || byte == 0x7f ? '?' : c;
}

ls_status ls_sample_frame(int64_t step, const char *text, size_t bytes, char **out) {
    enum { HEADING_MAX = 64 };
    size_t lines = 1, used;
    while (bytes > 0 && text[bytes - 1] == '\n') bytes--;
    for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
    char *framed = *out = malloc(HEADING_MAX + lines * sizeof margin + bytes + 1);
    if (!framed) return ls_fail(LS_ERR_RESOURCE, "out of memory for a sample of %zu bytes", bytes);
    used = (size_t)snprintf(framed, HEADING_MAX, "--- sample at step %" PRId64 " ---\n%s", step, margin);
    for (size_t i = 0; i < bytes; i++) {
        framed[used++] = text[i] == '\n' ? '\n' : printable(text[i]);
        if (text[i] != '\n') continue;
        memcpy(framed + used, margin, sizeof margin - 1);
        used += sizeof margin - 1;
    }
    framed[used] = '\0';
    return LS_OK;
}
