/* page.h: a report as a list of blocks, which is written as HTML and as Markdown with the same content.
 *
 *     ls_page page = {0};  LS_HEADING(&page, …);  LS_TEXT(&page, …);  ls_page_end(&page);  ls_page_html(&page, …);
 *
 * Text is UTF-8 without markup except \1 … \2 around bold text. Cells of a table are separated by tabs, rows by line
 * breaks; the first row is the head. A chart is drawn twice, for a screen and for a phone. Adding to a page that has
 * run out of memory or of blocks does nothing; ls_page_end() then fails. The caller frees the page with ls_page_free().
 *
 * The memo of a plan, the report of runs, the live page and the report of `lockstep scale` are such pages. */
#ifndef LS_REPORT_PAGE_H
#define LS_REPORT_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"
#include "report/svg.h"

typedef enum ls_page_kind {
    LS_PAGE_TITLE,
    LS_PAGE_LEAD,    /* below the title */
    LS_PAGE_HEADING, /* of a section */
    LS_PAGE_TEXT,
    LS_PAGE_ITEM,  /* of a list */
    LS_PAGE_FACTS, /* lines "value <tab> what it is": the few figures that matter most */
    LS_PAGE_TABLE,
    LS_PAGE_CODE,
    LS_PAGE_CHART
} ls_page_kind;

typedef struct ls_page_block {
    ls_page_kind kind;
    char *text;       /* of a chart: its drawing for a screen */
    const char *name; /* of a chart: stem of its file; of a table: "lrr", how its columns are aligned. Borrowed */
    char *caption;    /* of a chart: shown below it and read by screen readers */
    char *narrow;     /* of a chart: its drawing for a phone */
    int height, narrow_height; /* of both drawings, in pixels */
} ls_page_block;

enum { LS_PAGE_BLOCKS_MAX = 160 };

typedef struct ls_page {
    int count;
    bool failed; /* out of memory, or more than LS_PAGE_BLOCKS_MAX blocks */
    ls_page_block block[LS_PAGE_BLOCKS_MAX];
    FILE *open;   /* stream of the block that is being written; NULL: none, or out of memory */
    char *buffer; /* of that stream */
    size_t bytes;
} ls_page;

/* Frees all blocks and leaves an empty page. */
void ls_page_free(ls_page *page);
/* Begins a block with its first text; it ends where the next block begins. */
void ls_page_add(ls_page *page, ls_page_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Adds text to the block that was begun last. */
void ls_page_put(ls_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define LS_HEADING(page, ...) ls_page_add(page, LS_PAGE_HEADING, __VA_ARGS__)
#define LS_TEXT(page, ...) ls_page_add(page, LS_PAGE_TEXT, __VA_ARGS__)
#define LS_ITEM(page, ...) ls_page_add(page, LS_PAGE_ITEM, __VA_ARGS__)
/* Begins a table with its head, a line with the columns' names. align: "lrr", left or right for each column; borrowed,
 * so it must outlive the page. */
void ls_page_add_table(ls_page *page, const char *align, const char *head, ...) __attribute__((format(printf, 3, 4)));
/* Adds a chart, drawn at once, so ctx may be freed. `name`: stem of its file, borrowed, so it must outlive the page. A
 * caption that begins with \3 is for screen readers only. */
void ls_page_add_chart(ls_page *page, const char *name, ls_svg_draw *draw, const void *ctx, const char *caption, ...)
    __attribute__((format(printf, 5, 6)));

/* Ends the last block, before the page is written. Fails with LS_ERR_RESOURCE if memory or blocks ran out at any
 * time. */
ls_status ls_page_end(ls_page *page);

/* Style sheet (CSS) of pages; charts also need ls_svg_style. */
extern const char ls_page_style[];

enum { LS_PAGE_ID_MAX = 48 };
/* Returns the number of sections, at least 1. A section is a heading and what is below it; section 0 is what precedes
 * the first heading. The live page sends single sections. */
int ls_page_sections(const ls_page *page);
/* Prints a section as HTML and writes its id: the heading in lower case, with a dash for all but letters and digits;
 * "top" for section 0. */
void ls_page_put_section(const ls_page *page, int section, char id[LS_PAGE_ID_MAX], FILE *out);

/* Makes the page as HTML that loads no other file. The caller sets *out to NULL before and frees it, also on failure;
 * fails only with LS_ERR_RESOURCE. */
ls_status ls_page_html(const ls_page *page, char **out, size_t *bytes);
/* Makes the page as Markdown, which refers to its charts as NAME.svg. The caller sets *out to NULL before and frees it,
 * also on failure. */
ls_status ls_page_markdown(const ls_page *page, char **out, size_t *bytes);
/* Makes a chart of a page, as drawn for a screen, as an SVG file. The caller sets *out to NULL before and frees it,
 * also on failure. */
ls_status ls_page_svg(const ls_page_block *chart, char **out, size_t *bytes);

#endif
