/* doc.c: putting a memo together, and numbers as people read them. */
#include "report/memo/doc.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

void ls_memo_doc_free(ls_memo_doc *doc) {
    if (doc->open) fclose(doc->open);
    free(doc->buffer);
    for (int i = 0; i < doc->count; i++) {
        free(doc->block[i].text);
        free(doc->block[i].caption);
    }
    memset(doc, 0, sizeof *doc);
}

void ls_memo_begin(ls_memo_doc *doc, ls_memo_kind kind, const char *name) {
    if (doc->count == LS_MEMO_BLOCKS_MAX) doc->failed = true;
    if (doc->failed) return;
    doc->open = open_memstream(&doc->buffer, &doc->bytes);
    if (!doc->open)
        doc->failed = true;
    else
        doc->block[doc->count] = (ls_memo_block){.kind = kind, .name = name};
}

__attribute__((format(printf, 2, 0))) static void put(ls_memo_doc *doc, const char *format, va_list list) {
    if (!doc->failed && vfprintf(doc->open, format, list) < 0) doc->failed = true;
}

void ls_memo_put(ls_memo_doc *doc, const char *format, ...) {
    va_list list;
    va_start(list, format);
    put(doc, format, list);
    va_end(list);
}

void ls_memo_end(ls_memo_doc *doc) {
    if (!doc->open) return;
    bool whole = fclose(doc->open) == 0;
    doc->open = NULL;
    if (!whole || doc->failed) {
        doc->failed = true;
        return;
    }
    doc->block[doc->count++].text = doc->buffer;
    doc->buffer = NULL;
}

void ls_memo_end_chart(ls_memo_doc *doc, int width, int height, const char *caption, ...) {
    ls_memo_end(doc);
    if (doc->failed) return;
    ls_memo_block *block = &doc->block[doc->count - 1];
    block->width = width;
    block->height = height;
    va_list list;
    va_start(list, caption);
    if (vasprintf(&block->caption, caption, list) < 0) {
        block->caption = NULL;
        doc->failed = true;
    }
    va_end(list);
}

void ls_memo_add(ls_memo_doc *doc, ls_memo_kind kind, const char *format, ...) {
    va_list list;
    ls_memo_begin(doc, kind, NULL);
    va_start(list, format);
    put(doc, format, list);
    va_end(list);
    ls_memo_end(doc);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Three digits that matter. */
static int places(double value) {
    if (value < 0) value = -value;
    return value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
}

static ls_memo_number with_unit(double value, const char *unit) {
    ls_memo_number out;
    if (value >= 999.5)
        out = ls_memo_whole(value);
    else
        snprintf(out.text, sizeof out.text, "%.*f", places(value), value);
    size_t used = strlen(out.text);
    snprintf(out.text + used, sizeof out.text - used, "%s", unit);
    return out;
}

ls_memo_number ls_memo_gib(double bytes) {
    const double mib = 1024.0 * 1024.0;
    if (bytes > 0 && bytes < 512 * mib) return with_unit(bytes / mib, " MiB");
    ls_memo_number out;
    double gib = bytes / (1024 * mib);
    if (gib >= 999.5) return with_unit(gib, " GiB");
    snprintf(out.text, sizeof out.text, "%.1f GiB", gib);
    return out;
}

ls_memo_number ls_memo_gb(double bytes) {
    if (bytes < 1e6) return with_unit(bytes / 1e3, " kB");
    if (bytes < 1e9) return with_unit(bytes / 1e6, " MB");
    return with_unit(bytes / 1e9, " GB");
}

ls_memo_number ls_memo_seconds(double value) {
    if (value == 0) return with_unit(0, " s");
    if (value < 1e-3) return with_unit(value * 1e6, " µs");
    if (value < 1) return with_unit(value * 1e3, " ms");
    return with_unit(value, " s");
}

ls_memo_number ls_memo_tick(double seconds) {
    ls_memo_number out;
    if (seconds == 0)
        snprintf(out.text, sizeof out.text, "0");
    else if (seconds < .1)
        snprintf(out.text, sizeof out.text, "%.4g ms", seconds * 1e3);
    else
        snprintf(out.text, sizeof out.text, "%.4g s", seconds);
    return out;
}

ls_memo_number ls_memo_whole(double value) {
    char digits[40];
    ls_memo_number out;
    int count = snprintf(digits, sizeof digits, "%.0f", value), used = 0;
    if (value < 0 || count > 20) { /* no figure of a memo is */
        snprintf(out.text, sizeof out.text, "%.3g", value);
        return out;
    }
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0) out.text[used++] = ',';
        out.text[used++] = digits[i];
    }
    out.text[used] = '\0';
    return out;
}

ls_memo_number ls_memo_percent(double share) {
    ls_memo_number out;
    double value = 100 * share, size = value < 0 ? -value : value;
    snprintf(out.text, sizeof out.text, "%.*f %%", size > 0 && size < 9.95 ? 1 : 0, value);
    return out;
}

ls_memo_number ls_memo_short(double value) {
    if (value >= 1e12) return with_unit(value / 1e12, " T");
    if (value >= 1e9) return with_unit(value / 1e9, " B");
    if (value >= 1e6) return with_unit(value / 1e6, " M");
    return ls_memo_whole(value);
}
