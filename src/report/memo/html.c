/* html.c: a memo as one page that loads nothing: style and drawings are in it. Colours follow the reader's light
 * or dark setting; paper is always light. */
#include <string.h>

#include "report/memo/doc.h"

/* u useful work, i idle, m communication, r what is repeated, s states, a activations, o anything else. */
const char ls_memo_style[] =
    "svg text{fill:#1f2328;font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"Liberation Sans\",sans-serif}"
    "svg .q{fill:#59636e}svg .t{font-weight:600}svg .e{text-anchor:end}svg .c{text-anchor:middle}svg .n{font-size:11px}"
    "svg .w{fill:#fff;text-anchor:middle;font-size:10px}"
    "svg .g{stroke:#d8dee4;fill:none}svg .x{stroke:#59636e;fill:none}svg .k{stroke:#b42318;fill:none;stroke-width:2}"
    "svg .kt{fill:#b42318}"
    "svg .u{fill:#2f6fb3}svg .i{fill:#c3cad1}svg .m{fill:#d0722a}svg .r{fill:#7a5cb0}svg .s{fill:#2f6fb3}"
    "svg .a{fill:#3c8c5a}svg .o{fill:#98a2ad}svg .b{fill:#d0722a}svg .z{fill:#eef1f4}"
    "svg .l1{stroke:#2f6fb3;fill:none;stroke-width:2.5}svg .l2{stroke:#d0722a;fill:none;stroke-width:2;"
    "stroke-dasharray:7 3}svg .l3{stroke:#59636e;fill:none;stroke-width:1;stroke-dasharray:2 3}"
    "@media screen and (prefers-color-scheme:dark){svg text{fill:#e6edf3}svg .q{fill:#9aa4af}svg .w{fill:#0d1117}"
    "svg .g{stroke:#30363d}svg .x{stroke:#9aa4af}svg .k{stroke:#ff8a7d}svg .kt{fill:#ff8a7d}svg .u{fill:#6ea8e0}"
    "svg .i{fill:#454d56}svg .m{fill:#e8a15a}svg .r{fill:#ab92dd}svg .s{fill:#6ea8e0}svg .a{fill:#6cc08b}"
    "svg .o{fill:#7d8792}svg .b{fill:#e8a15a}svg .z{fill:#20262e}svg .l1{stroke:#6ea8e0}svg .l2{stroke:#e8a15a}"
    "svg .l3{stroke:#9aa4af}}";

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

void ls_memo_escape(FILE *out, const char *text) {
    char before = ' ';
    for (; *text; before = *text++) {
        switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\1': fputs("<b>", out); break;
        case '\2': fputs("</b>", out); break;
        case ' ': fputs(joins(before, text[1]) ? "&nbsp;" : " ", out); break;
        default: fputc((unsigned char)*text < 0x20 && *text != '\n' ? ' ' : *text, out);
        }
    }
}

static void put_part(FILE *out, const char *text, size_t length) {
    char part[512];
    size_t kept = length < sizeof part ? length : sizeof part - 1;
    memcpy(part, text, kept);
    part[kept] = '\0';
    ls_memo_escape(out, part);
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

static void put_chart(FILE *out, const ls_memo_block *block) {
    fprintf(out, "<figure><div class=\"wide\"><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", block->width,
            block->height);
    ls_memo_escape(out, block->caption);
    fprintf(out, "\">\n%s</svg></div><figcaption>", block->text);
    ls_memo_escape(out, block->caption);
    fputs("</figcaption></figure>\n", out);
}

static void put_plain(FILE *out, const char *before, const char *text, const char *behind) {
    fputs(before, out);
    ls_memo_escape(out, text);
    fputs(behind, out);
}

static void put_block(FILE *out, const ls_memo_doc *doc, int i) {
    const ls_memo_block *block = &doc->block[i];
    bool first = i == 0 || doc->block[i - 1].kind != LS_MEMO_ITEM,
         last = i + 1 == doc->count || doc->block[i + 1].kind != LS_MEMO_ITEM;
    switch (block->kind) {
    case LS_MEMO_TITLE: put_plain(out, "<h1>", block->text, "</h1>\n"); break;
    case LS_MEMO_LEAD: put_plain(out, "<p class=\"lead\">", block->text, "</p>\n"); break;
    case LS_MEMO_HEADING: put_plain(out, "<h2>", block->text, "</h2>\n"); break;
    case LS_MEMO_ITEM:
        put_plain(out, first ? "<ul>\n<li>" : "<li>", block->text, last ? "</li>\n</ul>\n" : "</li>\n");
        break;
    case LS_MEMO_FACTS: put_facts(out, block->text); break;
    case LS_MEMO_TABLE: put_table(out, block->text, block->name); break;
    case LS_MEMO_CODE: put_plain(out, "<pre>", block->text, "</pre>\n"); break;
    case LS_MEMO_CHART: put_chart(out, block); break;
    default: put_plain(out, "<p>", block->text, "</p>\n");
    }
}

ls_status ls_memo_html(const ls_memo_doc *doc, char **out, size_t *bytes) {
    FILE *file = open_memstream(out, bytes);
    if (!file) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for the memo");
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          file);
    if (doc->count > 0) ls_memo_escape(file, doc->block[0].text);
    fprintf(file, "</title>\n<style>%s\n%s</style>\n</head>\n<body>\n<main>\n", page_style, ls_memo_style);
    for (int i = 0; i < doc->count; i++) put_block(file, doc, i);
    fputs("</main>\n</body>\n</html>\n", file);
    if (fclose(file) != 0) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for the memo");
    return LS_OK;
}

ls_status ls_memo_svg(const ls_memo_block *chart, char **out, size_t *bytes) {
    FILE *file = open_memstream(out, bytes);
    if (!file) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for a chart");
    fprintf(
        file,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n"
        "<style>%s svg .back{fill:#fff}@media screen and (prefers-color-scheme:dark){svg .back{fill:#0d1117}}</style>"
        "\n<rect width=\"%d\" height=\"%d\" class=\"back\"/>\n%s</svg>\n",
        chart->width, chart->height, chart->width, chart->height, ls_memo_style, chart->width, chart->height,
        chart->text);
    if (fclose(file) != 0) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for a chart");
    return LS_OK;
}
