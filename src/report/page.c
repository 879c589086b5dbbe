/* page.c: puts a page together from blocks. */
#include "report/page.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void ls_page_free(ls_page *page) {
    if (page->open) fclose(page->open);
    free(page->buffer);
    for (int i = 0; i < page->count; i++) {
        free(page->block[i].text);
        free(page->block[i].caption);
        free(page->block[i].narrow);
    }
    memset(page, 0, sizeof *page);
}

/* Ends the block that is being written, if there is one, and keeps it unless memory ran out. */
static void end_page_block(ls_page *page) {
    if (!page->open) return;
    if (fclose(page->open) != 0) page->failed = true;
    page->open = NULL;
    if (page->failed) return;
    page->block[page->count++].text = page->buffer;
    page->buffer = NULL;
}

/* Ends the last block and opens a stream for the next one; sets page->failed if there is no room. */
static void begin_page_block(ls_page *page, ls_page_kind kind, const char *name) {
    end_page_block(page);
    page->failed = page->failed || page->count == LS_PAGE_BLOCKS_MAX;
    if (page->failed) return;
    page->block[page->count] = (ls_page_block){.kind = kind, .name = name};
    page->open = open_memstream(&page->buffer, &page->bytes);
    page->failed = !page->open;
}

/* Adds text to the block that is being written; does nothing without one. */
__attribute__((format(printf, 2, 0))) static void put(ls_page *page, const char *format, va_list list) {
    if (page->open && vfprintf(page->open, format, list) < 0) page->failed = true;
}

void ls_page_put(ls_page *page, const char *format, ...) {
    va_list list;
    va_start(list, format);
    put(page, format, list);
    va_end(list);
}

void ls_page_add(ls_page *page, ls_page_kind kind, const char *format, ...) {
    va_list list;
    begin_page_block(page, kind, NULL);
    va_start(list, format);
    put(page, format, list);
    va_end(list);
}

void ls_page_add_table(ls_page *page, const char *align, const char *head, ...) {
    va_list list;
    begin_page_block(page, LS_PAGE_TABLE, align);
    va_start(list, head);
    put(page, head, list);
    va_end(list);
}

/* Returns the chart drawn for this width, which the caller frees, and its height; NULL with page->failed if memory ran
 * out. */
static char *draw_chart(ls_page *page, ls_svg_draw *draw, const void *ctx, int width, int *height) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = page->failed ? NULL : open_memstream(&text, &bytes);
    if (!out) {
        page->failed = true;
        return NULL;
    }
    *height = draw(out, width, ctx);
    if (fclose(out) != 0) page->failed = true;
    return text;
}

void ls_page_add_chart(ls_page *page, const char *name, ls_svg_draw *draw, const void *ctx, const char *caption, ...) {
    va_list list;
    end_page_block(page);
    page->failed = page->failed || page->count == LS_PAGE_BLOCKS_MAX;
    if (page->failed) return;
    ls_page_block *block = &page->block[page->count++];
    *block = (ls_page_block){.kind = LS_PAGE_CHART, .name = name};
    block->text = draw_chart(page, draw, ctx, LS_SVG_WIDE, &block->height);
    block->narrow = draw_chart(page, draw, ctx, LS_SVG_NARROW, &block->narrow_height);
    va_start(list, caption);
    if (vasprintf(&block->caption, caption, list) < 0) {
        block->caption = NULL;
        page->failed = true;
    }
    va_end(list);
}

ls_status ls_page_end(ls_page *page) {
    end_page_block(page);
    return page->failed ? ls_fail(LS_ERR_RESOURCE, "out of memory for a page") : LS_OK;
}
