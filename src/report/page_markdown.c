/* page_markdown.c: writes a page as Markdown; its drawings are files beside it. */
#include <string.h>

#include "report/page.h"

/* Writes text escaped for Markdown, with ** for \1 and \2. */
static void put_text(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\1' || *text == '\2')
            fputs("**", out);
        else if (*text == '<')
            fputs("&lt;", out);
        else if (strchr("\\`*_|[]", *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

/* Writes the cell that begins at `text`, at most 511 bytes of it; returns where it ends, at a tab, a newline or the
 * end. */
static const char *put_cell(FILE *out, const char *text) {
    char cell[512];
    size_t length = strcspn(text, "\t\n"), kept = length < sizeof cell ? length : sizeof cell - 1;
    memcpy(cell, text, kept);
    cell[kept] = '\0';
    fputs("| ", out);
    put_text(out, cell);
    fputc(' ', out);
    return text + length;
}

/* Writes a table; align has 'r' for columns that are aligned to the right. */
static void put_table(FILE *out, const char *text, const char *align) {
    for (int row = 0; *text; row++) {
        for (;; text++) {
            text = put_cell(out, text);
            if (*text != '\t') break;
        }
        fputs("|\n", out);
        if (*text) text++;
        if (row > 0) continue;
        for (const char *a = align; *a; a++) fputs(*a == 'r' ? "|---:" : "|---", out);
        fputs("|\n", out);
    }
}

/* Writes lines "value <tab> what it is" as a table without a head. */
static void put_facts(FILE *out, const char *text) {
    fputs("| | |\n|---|---|\n", out);
    while (*text) {
        const char *tab = strchr(text, '\t'), *end = strchr(text, '\n');
        if (!tab || !end) return;
        put_cell(out, tab + 1);
        fprintf(out, "| **%.*s** |\n", (int)(tab - text), text);
        text = end + 1;
    }
}

/* Writes a link to the file of the chart, and its caption. */
static void put_chart(FILE *out, const ls_page_block *block) {
    fprintf(out, "![%s](%s.svg)\n\n*", block->name, block->name);
    put_text(out, block->caption);
    fputs("*\n", out);
}

/* Writes a block, with a newline at its end. */
static void put_block(FILE *out, const ls_page_block *block) {
    switch (block->kind) {
    case LS_PAGE_TITLE: fputs("# ", out); break;
    case LS_PAGE_HEADING: fputs("## ", out); break;
    case LS_PAGE_ITEM: fputs("- ", out); break;
    case LS_PAGE_FACTS: put_facts(out, block->text); return;
    case LS_PAGE_TABLE: put_table(out, block->text, block->name); return;
    case LS_PAGE_CODE: fprintf(out, "```\n%s\n```\n", block->text); return;
    case LS_PAGE_CHART: put_chart(out, block); return;
    default: break;
    }
    put_text(out, block->text);
    fputc('\n', out);
}

ls_status ls_page_markdown(const ls_page *page, char **out, size_t *bytes) {
    FILE *file = open_memstream(out, bytes);
    if (!file) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for the memo");
    for (int i = 0; i < page->count; i++) {
        bool in_list = i > 0 && page->block[i].kind == LS_PAGE_ITEM && page->block[i - 1].kind == LS_PAGE_ITEM;
        if (i > 0 && !in_list) fputc('\n', file);
        put_block(file, &page->block[i]);
    }
    if (fclose(file) != 0) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for the memo");
    return LS_OK;
}
