/* page_html.c: writes a page as HTML that loads no other file: style and drawings are in it. Colours follow the
 * reader's light or dark setting; paper is always light. */
#include <string.h>

#include "report/page.h"
#include "report/svg.h"

const char ls_page_style[] =
    ":root{color-scheme:light dark;--ink:#1f2328;--soft:#57606a;--line:#d8dee4;--page:#fff;--tint:#f5f7f9;"
    "--mark:#0072b2;--good:#00704f;--bad:#a3241b}"
    "@media screen and (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa4af;--line:#30363d;--page:#0d1117;"
    "--tint:#161b22;--mark:#58a6e0;--good:#2fc49a;--bad:#ff8a7d}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);overflow-wrap:break-word;"
    "font:16px/1.55 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Liberation Sans\",sans-serif}"
    "main{max-width:50rem;margin:0 auto;padding:2rem 1.25rem 4rem}a{color:var(--mark)}"
    "h1{font-size:1.75rem;line-height:1.2;margin:0 0 .4rem}.lead{color:var(--soft);margin:0 0 1.5rem}"
    "h2{font-size:1.25rem;line-height:1.3;margin:2.6rem 0 .6rem;padding-top:.9rem;border-top:1px solid var(--line)}"
    "p{margin:.7rem 0}ul{margin:.7rem 0;padding-left:1.2rem}li{margin:.35rem 0}"
    "dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(9rem,1fr));gap:.6rem;margin:1.2rem 0}"
    "dl div{display:flex;flex-direction:column-reverse;justify-content:flex-end;background:var(--tint);"
    "border-left:3px solid var(--mark);padding:.55rem .75rem;min-width:0}"
    "dt{color:var(--soft);font-size:.82rem;line-height:1.3}dd{margin:0;font-size:1.15rem;font-weight:600;"
    "line-height:1.35}"
    "pre{background:var(--tint);padding:.8rem 1rem;font-size:.85rem;line-height:1.45;white-space:pre-wrap;"
    "overflow-wrap:anywhere}.wide{margin:1rem 0;overflow-x:auto}"
    "table{border-collapse:collapse;width:100%;font-size:.88rem;line-height:1.4;font-variant-numeric:tabular-nums}"
    "th,td{padding:.35rem .7rem .35rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}"
    "th{font-weight:600;color:var(--soft);vertical-align:bottom}.r{text-align:right}"
    "td.r{white-space:nowrap}th:last-child,td:last-child{padding-right:0}"
    "@media (min-width:44rem){.long{columns:2;column-gap:2.5rem}.long tr{break-inside:avoid}}"
    "figure{margin:1.3rem 0}figure svg{display:block;width:100%;height:auto}figure svg.narrow{display:none}"
    "figcaption{color:var(--soft);font-size:.85rem;line-height:1.45;margin-top:.4rem}"
    /* A phone: charts of their own, and rows of wide tables as blocks of lines "column: value". */
    "@media screen and (max-width:44rem){main{padding:1.2rem 1rem 3rem}h1{font-size:1.4rem}"
    "figure svg.full{display:none}figure svg.narrow{display:block;max-width:26rem}"
    "table.many thead{display:none}table.many,table.many tbody,table.many tr,table.many td{display:block;width:100%}"
    "table.many tr{padding:.5rem 0;border-bottom:1px solid var(--line)}"
    "table.many td{border:0;padding:.1rem 0;text-align:right;white-space:normal;display:flex;gap:1rem;"
    "justify-content:space-between}table.many td::before{content:attr(data-of);color:var(--soft);text-align:left;"
    "flex:none;max-width:60%}table.many td:first-child{font-weight:600}table.many td:empty{display:none}}"
    "@media print{body{font-size:10.5pt}main{max-width:none;padding:0}h2{break-after:avoid;margin-top:1.5rem}"
    "figure,dl div,tr,pre{break-inside:avoid}dl div{background:none}}";

/* Returns whether a number and its unit meet here, which a non-breaking space keeps on one line. before, behind:
 * characters around a space. */
static bool joins(char before, char behind) {
    return before >= '0' && before <= '9' &&
           ((behind >= 'a' && behind <= 'z') || (behind >= 'A' && behind <= 'Z') || behind == '%');
}

/* Writes text escaped for HTML, with <b> for \1 and </b> for \2. */
static void put_text(FILE *out, const char *text) {
    for (char before = ' '; *text; before = *text++) {
        if (*text == '\1')
            fputs("<b>", out);
        else if (*text == '\2')
            fputs("</b>", out);
        else if (*text == ' ' && joins(before, text[1]))
            fputs("&nbsp;", out);
        else
            ls_svg_escape(out, (char[]){*text, '\0'});
    }
}

/* Writes the first `length` bytes of a text, at most 511, escaped as by put_text(). */
static void put_part(FILE *out, const char *text, size_t length) {
    char part[512];
    size_t kept = length < sizeof part ? length : sizeof part - 1;
    memcpy(part, text, kept);
    part[kept] = '\0';
    put_text(out, part);
}

/* Writes the text of a cell with break points in long words such as hashes, because a column is at least as wide as its
 * longest unbroken word. */
static void put_cell(FILE *out, const char *text, size_t length) {
    enum { WORD = 20, PIECE = 8 };
    while (length > 0) {
        size_t end = 0, word = 0; /* up to the end of a long word, or of all */
        for (; end < length && word <= WORD; end++) word = text[end] == ' ' ? 0 : word + 1;
        if (word <= WORD) {
            put_part(out, text, end);
            return;
        }
        end -= word - PIECE;
        while (((unsigned char)text[end] & 0xc0) == 0x80) end++;
        put_part(out, text, end);
        fputs("<wbr>", out);
        text += end;
        length -= end;
    }
}

/* Writes the name of column number `column`, from the table's head, as an attribute, which phones show in front of the
 * cell. */
static void put_column(FILE *out, const char *head, int column) {
    char name[128];
    for (; column > 0 && *head && *head != '\n'; head++) column -= *head == '\t';
    size_t length = strcspn(head, "\t\n");
    snprintf(name, sizeof name, "%.*s", (int)length, head);
    fputs(" data-of=\"", out);
    ls_svg_escape(out, name);
    fputc('"', out);
}

/* Returns the number of lines. */
static int rows_of(const char *text) {
    int rows = 0;
    for (; *text; text++) rows += *text == '\n';
    return rows;
}

/* Writes a table. On phones one of more than three columns becomes blocks of lines; one of two columns and over 30 rows
 * is set in two columns. */
static void put_table(FILE *out, const char *text, const char *align) {
    const char *head = text;
    bool many = strlen(align) > 3, is_long = strlen(align) == 2 && rows_of(text) > 30;
    fprintf(out, "<div class=\"wide%s\"><table%s>\n", is_long ? " long" : "", many ? " class=\"many\"" : "");
    for (int row = 0; *text; row++) {
        const char *tag = row == 0 ? "th" : "td", *a = align;
        fputs(row == 0 ? "<thead><tr>" : "<tr>", out);
        for (int column = 0;; text++, column++) {
            size_t length = strcspn(text, "\t\n");
            fprintf(out, "<%s%s", tag, *a == 'r' ? " class=\"r\"" : "");
            if (many && row > 0 && length > 0) put_column(out, head, column);
            fputc('>', out);
            put_cell(out, text, length);
            fprintf(out, "</%s>", tag);
            text += length;
            if (*a) a++;
            if (*text != '\t') break;
        }
        if (*text) text++;
        fputs(row == 0 ? "</tr></thead><tbody>\n" : "</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* Writes lines "value <tab> what it is" as a description list; a line without tab or newline ends it. */
static void put_facts(FILE *out, const char *text) {
    fputs("<dl>\n", out);
    while (*text) {
        size_t value = strcspn(text, "\t"), end = strcspn(text, "\n");
        if (value >= end || text[end] == '\0') break;
        fputs("<div><dt>", out);
        put_part(out, text + value + 1, end - value - 1);
        fputs("</dt><dd>", out);
        put_part(out, text, value);
        fputs("</dd></div>\n", out);
        text += end + 1;
    }
    fputs("</dl>\n", out);
}

/* Writes a drawing with its caption as the text for screen readers. */
static void put_svg(FILE *out, const char *class, int width, int height, const char *drawing, const char *caption) {
    fprintf(out, "<svg class=\"%s\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", class, width, height);
    put_text(out, caption + (caption[0] == '\3'));
    fprintf(out, "\">\n%s</svg>", drawing);
}

/* Writes both drawings of a chart, of which the style shows one, and its caption unless that begins with \3. */
static void put_chart(FILE *out, const ls_page_block *block) {
    fputs("<figure>", out);
    put_svg(out, "full", LS_SVG_WIDE, block->height, block->text, block->caption);
    put_svg(out, "narrow", LS_SVG_NARROW, block->narrow_height, block->narrow, block->caption);
    if (block->caption[0] != '\3') {
        fputs("<figcaption>", out);
        put_text(out, block->caption);
        fputs("</figcaption>", out);
    }
    fputs("</figure>\n", out);
}

/* Writes block i; the first and last of consecutive items open and close their list. */
static void put_block(FILE *out, const ls_page *page, int i) {
    static const char *const tags[LS_PAGE_CHART + 1][2] = {
        [LS_PAGE_TITLE] = {"<h1>", "</h1>\n"},   [LS_PAGE_LEAD] = {"<p class=\"lead\">", "</p>\n"},
        [LS_PAGE_HEADING] = {"<h2>", "</h2>\n"}, [LS_PAGE_TEXT] = {"<p>", "</p>\n"},
        [LS_PAGE_ITEM] = {"<li>", "</li>\n"},    [LS_PAGE_CODE] = {"<pre>", "</pre>\n"}};
    const ls_page_block *block = &page->block[i];
    bool is_item = block->kind == LS_PAGE_ITEM;
    if (is_item && (i == 0 || page->block[i - 1].kind != LS_PAGE_ITEM)) fputs("<ul>\n", out);
    switch (block->kind) {
    case LS_PAGE_FACTS: put_facts(out, block->text); break;
    case LS_PAGE_TABLE: put_table(out, block->text, block->name); break;
    case LS_PAGE_CHART: put_chart(out, block); break;
    default:
        fputs(tags[block->kind][0], out);
        put_text(out, block->text);
        fputs(tags[block->kind][1], out);
    }
    if (is_item && (i + 1 == page->count || page->block[i + 1].kind != LS_PAGE_ITEM)) fputs("</ul>\n", out);
}

int ls_page_sections(const ls_page *page) {
    int count = 1;
    for (int i = 0; i < page->count; i++) count += page->block[i].kind == LS_PAGE_HEADING;
    return count;
}

void ls_page_put_section(const ls_page *page, int section, char id[LS_PAGE_ID_MAX], FILE *out) {
    int at = 0, n = 0;
    snprintf(id, LS_PAGE_ID_MAX, "top");
    for (int i = 0; i < page->count; i++) {
        at += page->block[i].kind == LS_PAGE_HEADING;
        if (at != section) continue;
        if (page->block[i].kind == LS_PAGE_HEADING) {
            for (const char *c = page->block[i].text; *c && n < LS_PAGE_ID_MAX - 1; c++)
                id[n++] = (char)((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') ? *c
                                 : *c >= 'A' && *c <= 'Z'                             ? *c + 32
                                                                                      : '-');
            id[n] = '\0';
        }
        put_block(out, page, i);
    }
}

ls_status ls_page_html(const ls_page *page, char **out, size_t *bytes) {
    FILE *file = open_memstream(out, bytes);
    if (!file) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for the memo");
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          file);
    if (page->count > 0) put_text(file, page->block[0].text);
    fprintf(file, "</title>\n<style>%s\n%s</style>\n</head>\n<body>\n<main>\n", ls_page_style, ls_svg_style);
    for (int i = 0; i < page->count; i++) put_block(file, page, i);
    fputs("</main>\n</body>\n</html>\n", file);
    if (fclose(file) != 0) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for the memo");
    return LS_OK;
}

ls_status ls_page_svg(const ls_page_block *chart, char **out, size_t *bytes) {
    FILE *file = open_memstream(out, bytes);
    if (!file) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for a chart");
    ls_svg_begin(file, LS_SVG_WIDE, chart->height);
    fputs(chart->text, file);
    ls_svg_end(file);
    if (fclose(file) != 0) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for a chart");
    return LS_OK;
}
