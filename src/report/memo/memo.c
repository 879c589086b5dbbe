/* memo.c: composes the sections of a memo in their order, and writes its files. */
#include "report/memo/memo.h"

#include <stdlib.h>

#include "base/files.h"
#include "plan/cost/cost_case.h"
#include "report/memo/facts.h"

enum { PATH_MAX_CHARS = 4096 };

/* Adds title and first paragraph: model, cluster, step, and the training program that is assumed. */
static void put_title(ls_page *doc, const ls_memo_facts *f) {
    const ls_plan_task *task = f->task;
    const char *name = task->shape.name[0] ? task->shape.name : "A model";
    const ls_site *first = &task->cluster.site[0], *second = &task->cluster.site[1];
    if (task->cluster.sites > 1)
        ls_page_add(doc, LS_PAGE_TITLE, "%s on %d × %s and %d × %s", name, first->chips, first->chip.name,
                    second->chips, second->chip.name);
    else
        ls_page_add(doc, LS_PAGE_TITLE, "%s on %d × %s", name, first->chips, first->chip.name);
    ls_page_add(doc, LS_PAGE_LEAD, "%s parameters in %zu layers. A step is %zu sequences of %s tokens. ",
                LS_SHORT(f->params), task->shape.L, task->global_batch, LS_WHOLE((double)task->seq));
    if (f->nodes > 1)
        ls_page_put(doc, "%d nodes of %d %s: %s inside, %s (%s) between them. ", f->nodes, f->site->node, f->chips,
                    f->site->inside.name, f->site->between.name, ls_link_rate_text(&f->site->between, 1).text);
    if (task->cluster.sites > 1) ls_page_put(doc, "%s between the two sites. ", task->cluster.across.name);
    ls_page_put(doc, "The training program is assumed to work like %s.", task->stack.name);
}

/* Adds all sections and ends the page; without a layout that fits some are left out. */
static ls_status put_sections(ls_page *doc, const ls_memo_facts *f) {
    put_title(doc, f);
    ls_memo_recommend(doc, f);
    ls_memo_memory(doc, f);
    if (f->fits) {
        ls_memo_traffic(doc, f);
        LS_TRY(ls_memo_utilisation(doc, f));
    }
    ls_memo_precision(doc, f);
    if (f->fits) ls_memo_step(doc, f);
    ls_memo_scaling(doc, f);
    if (f->fits) {
        ls_memo_bottleneck(doc, f);
        ls_memo_mitigation(doc, f);
        ls_memo_course(doc, f);
    }
    ls_memo_trust(doc, f);
    return ls_page_end(doc);
}

/* Writes dir/STEM ENDING, replacing it atomically. */
static ls_status write_file(const char *dir, const char *stem, const char *ending, const char *data, size_t bytes) {
    char path[PATH_MAX_CHARS];
    if (snprintf(path, sizeof path, "%s/%s%s", dir, stem, ending) >= (int)sizeof path)
        return ls_fail(LS_ERR_INPUT, "the name of the memo folder is too long");
    return ls_file_write_atomic(path, data, bytes);
}

/* Writes each chart of the page as an SVG file. */
static ls_status write_charts(const char *dir, const ls_page *doc) {
    for (int i = 0; i < doc->count; i++) {
        if (doc->block[i].kind != LS_PAGE_CHART) continue;
        char *data = NULL;
        size_t bytes = 0;
        ls_status status = ls_page_svg(&doc->block[i], &data, &bytes);
        if (status == LS_OK) status = write_file(dir, doc->block[i].name, ".svg", data, bytes);
        free(data);
        if (status != LS_OK) return status;
    }
    return LS_OK;
}

/* Writes all files into `dir`, which it creates. */
static ls_status write_files(const char *dir, const ls_page *doc) {
    char *html = NULL, *markdown = NULL;
    size_t html_bytes = 0, markdown_bytes = 0;
    ls_status status;
    LS_TRY_OUT(ls_page_html(doc, &html, &html_bytes));
    LS_TRY_OUT(ls_page_markdown(doc, &markdown, &markdown_bytes));
    LS_TRY_OUT(ls_dir_make(dir));
    LS_TRY_OUT(write_charts(dir, doc));
    LS_TRY_OUT(write_file(dir, "memo", ".md", markdown, markdown_bytes));
    status = write_file(dir, "memo", ".html", html, html_bytes);
out:
    free(html);
    free(markdown);
    return status;
}

ls_status ls_plan_memo_write(const char *dir, const ls_plan_answer *answer) {
    ls_memo_facts facts = {.answer = answer,
                           .task = &answer->task,
                           .request = &answer->question->request,
                           .found = &answer->found,
                           .tokens = answer->question->tokens,
                           .price = answer->question->price};
    ls_page doc = {0};
    LS_TRY(ls_memo_facts_find(&facts));
    ls_status status = put_sections(&doc, &facts);
    if (status == LS_OK) status = write_files(dir, &doc);
    ls_page_free(&doc);
    return status;
}
