/* doc.h: a memo as a list of blocks, from which both files are written, so that they say the same.
 *
 * Text is UTF-8 without markup, but for \1 … \2 around what is to be bold. Cells of a table are separated by tabs, rows
 * by line breaks; the first row is the head. A chart is what is inside an <svg>; its classes are those of
 * ls_memo_style. Adding to a document that has run out of memory does nothing; writing it then fails. */
#ifndef LS_REPORT_MEMO_DOC_H
#define LS_REPORT_MEMO_DOC_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"

typedef enum ls_memo_kind {
    LS_MEMO_TITLE,
    LS_MEMO_LEAD,    /* below the title */
    LS_MEMO_HEADING, /* of a section */
    LS_MEMO_TEXT,
    LS_MEMO_ITEM,  /* of a list */
    LS_MEMO_FACTS, /* lines "value <tab> what it is": the few figures that matter most */
    LS_MEMO_TABLE,
    LS_MEMO_CODE,
    LS_MEMO_CHART
} ls_memo_kind;

typedef struct ls_memo_block {
    ls_memo_kind kind;
    char *text;
    const char *name; /* of a chart: stem of its file; of a table: "lrr", how its columns are aligned */
    char *caption;    /* of a chart */
    int width, height;
} ls_memo_block;

enum { LS_MEMO_BLOCKS_MAX = 160 };

typedef struct ls_memo_doc {
    int count;
    bool failed; /* for want of memory */
    ls_memo_block block[LS_MEMO_BLOCKS_MAX];
    FILE *open; /* what is being written */
    char *buffer;
    size_t bytes;
} ls_memo_doc;

void ls_memo_doc_free(ls_memo_doc *doc);
/* A whole block of text at once, or the beginning of one that ls_memo_put() and ls_memo_end() go on with. */
void ls_memo_add(ls_memo_doc *doc, ls_memo_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
void ls_memo_begin(ls_memo_doc *doc, ls_memo_kind kind, const char *name);
void ls_memo_put(ls_memo_doc *doc, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ls_memo_end(ls_memo_doc *doc);
/* Ends a chart: its size, and what is said below it and read to those who cannot see it. */
void ls_memo_end_chart(ls_memo_doc *doc, int width, int height, const char *caption, ...)
    __attribute__((format(printf, 4, 5)));

/* Styles of charts: colours by class, on light and dark pages and in print. */
extern const char ls_memo_style[];
/* Text with the characters that mean something in HTML written as entities. */
void ls_memo_escape(FILE *out, const char *text);

/* The files: contents that the caller frees. LS_ERR_RESOURCE. */
ls_status ls_memo_html(const ls_memo_doc *doc, char **out, size_t *bytes);
ls_status ls_memo_markdown(const ls_memo_doc *doc, char **out, size_t *bytes);
ls_status ls_memo_svg(const ls_memo_block *chart, char **out, size_t *bytes);

/* Numbers as text: `ls_memo_bytes(x).text` lives as long as the expression it is in. */
typedef struct ls_memo_number {
    char text[32];
} ls_memo_number;
ls_memo_number ls_memo_gib(double bytes);     /* memory: "63.1 GiB" */
ls_memo_number ls_memo_gb(double bytes);      /* traffic: "1.3 GB", "420 MB" */
ls_memo_number ls_memo_seconds(double value); /* "12.3 s", "410 ms" */
ls_memo_number ls_memo_tick(double seconds);  /* "0", "2 s", "0.5 s": of a scale */
ls_memo_number ls_memo_whole(double value);   /* "12,345" */
ls_memo_number ls_memo_percent(double share); /* "4.1 %" */
ls_memo_number ls_memo_short(double value);   /* "70.6 B", "1.5 T" */

#endif
