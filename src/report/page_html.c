/* page_html.c: one page that loads nothing: style and drawings are in it. Colours follow the reader's light
 * or dark setting; paper is always light. */
#include <string.h>

#include "report/page.h"
#include "report/svg.h"

static const char page_style[] =
    ":root{color-scheme:light "
    "dark;--ink:#1f2328;--soft:#59636e;--line:#d8dee4;--page:#fff;--tint:#f5f7f9;--mark:#2f6fb3}"
    "@media screen and (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa4af;--line:#30363d;--page:#0d1117;"
    "--tint:#161b22;--mark:#6ea8e0}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);"
    "font:16px/1.55 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Liberation Sans\",sans-serif}"
    "main{max-width:50rem;margin:0 auto;padding:2rem 1.25rem 4rem}"
    "h1{font-size:1.75rem;line-height:1.2;margin:0 0 .4rem}.lead{color:var(--soft);margin:0 0 1.5rem}"
    "h2{font-size:1.25rem;line-height:1.3;margin:2.6rem 0 .6rem;padding-top:.9rem;border-top:1px solid var(--line)}"
    "p{margin:.7rem 0}ul{margin:.7rem 0;padding-left:1.2rem}li{margin:.35rem 0}"
    "dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(10.5rem,1fr));gap:.6rem;margin:1.2rem 0}"
    "dl div{display:flex;flex-direction:column-reverse;justify-content:flex-end;background:var(--tint);"
    "border-left:3px solid var(--mark);padding:.55rem .75rem}"
    "dt{color:var(--soft);font-size:.82rem;line-height:1.3}dd{margin:0;font-size:1.15rem;font-weight:600;line-height:1."
    "35}"
    "pre{background:var(--tint);padding:.8rem 1rem;overflow-x:auto;font-size:.85rem;"
    "line-height:1.45}.wide{overflow-x:auto;margin:1rem 0}"
    "table{border-collapse:collapse;width:100%;font-size:.88rem;line-height:1.4;font-variant-numeric:tabular-nums}"
    "th,td{padding:.35rem .7rem .35rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}"
    "th{font-weight:600;color:var(--soft)}.r{text-align:right}td.r{white-space:nowrap}th{vertical-align:bottom}th:last-"
    "child,td:last-child{padding-"
    "right:0}"
    "figure{margin:1.3rem 0}figure svg{display:block;width:100%;height:auto}"
    "figcaption{color:var(--soft);font-size:.85rem;line-height:1.45;margin-top:.4rem}"
    "@media screen and (max-width:44rem){main{padding:1.2rem 1rem 3rem}h1{font-size:1.4rem}figure svg{min-width:35rem}"
    "table{min-width:27rem}}"
    "@media print{body{font-size:10.5pt}main{max-width:none;padding:0}h2{break-after:avoid;margin-top:1.5rem}"
    "figure,dl div,tr,pre{break-inside:avoid}pre{white-space:pre-wrap}.wide{overflow:visible}dl div{background:none}}";

/* A number and its unit stay on one line. */
static bool joins(char before, char behind) {
    return before >= '0' && before <= '9' &&
           ((behind >= 'a' && behind <= 'z') || (behind >= 'A' && behind <= 'Z') || behind == '%');
}

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

static void put_part(FILE *out, const char *text, size_t length) {
    char part[512];
    size_t kept = length < sizeof part ? length : sizeof part - 1;
    memcpy(part, text, kept);
    part[kept] = '\0';
    put_text(out, part);
}

static void put_table(FILE *out, const char *text, const char *align) {
    fputs("<div class=\"wide\"><table>\n", out);
    for (int row = 0; *text; row++) {
        const char *tag = row == 0 ? "th" : "td";
        fputs(row == 0 ? "<thead><tr>" : "<tr>", out);
        for (const char *a = align;; text++) {
            size_t length = strcspn(text, "\t\n");
            fprintf(out, "<%s%s>", tag, *a == 'r' ? " class=\"r\"" : "");
            put_part(out, text, length);
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

static void put_chart(FILE *out, const ls_page_block *block) {
    fprintf(out, "<figure><div class=\"wide\"><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", block->width,
            block->height);
    put_text(out, block->caption);
    fprintf(out, "\">\n%s</svg></div><figcaption>", block->text);
    put_text(out, block->caption);
    fputs("</figcaption></figure>\n", out);
}

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

ls_status ls_page_html(const ls_page *page, char **out, size_t *bytes) {
    FILE *file = open_memstream(out, bytes);
    if (!file) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for the memo");
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          file);
    if (page->count > 0) put_text(file, page->block[0].text);
    fprintf(file, "</title>\n<style>%s\n%s</style>\n</head>\n<body>\n<main>\n", page_style, ls_svg_style);
    for (int i = 0; i < page->count; i++) put_block(file, page, i);
    fputs("</main>\n</body>\n</html>\n", file);
    if (fclose(file) != 0) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for the memo");
    return LS_OK;
}

ls_status ls_page_svg(const ls_page_block *chart, char **out, size_t *bytes) {
    FILE *file = open_memstream(out, bytes);
    if (!file) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for a chart");
    ls_svg_begin(file, chart->width, chart->height);
    fputs(chart->text, file);
    ls_svg_end(file);
    if (fclose(file) != 0) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for a chart");
    return LS_OK;
}
