/* test_memo.c: what a memo says is what the model of its run says, in both files; they are well-formed and load
 * nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "model/shape_file.h"
#include "report/memo/facts.h"

static const char *const headings[] = {
    "Recommendation",
    "How it fits in memory",
    "Communication",
    "The pipeline, without and with micro-batches",
    "Precision: what it saves, what stays in fp32",
    "Where the time of a step goes",
    "Scaling",
    "What limits scaling",
    "What to try first",
    "How far to trust this",
};
enum { HEADINGS = sizeof headings / sizeof headings[0] };

static const char *const charts[] = {"memory", "timelines", "step", "scaling", "losses"};

typedef struct memo {
    ls_plan_question question;
    ls_plan_answer answer;
    char dir[64];
    char *md, *html;
} memo;

/* ---- making one -------------------------------------------------------------------------------------------------- */

static memo *begin(const char *model, const char *chip, int chips, const char *network) {
    memo *m = calloc(1, sizeof *m);
    assert_non_null(m);
    assert_int_equal(ls_shape_preset(model, &m->question.task.shape), LS_OK);
    assert_int_equal(ls_cluster_of(chip, chips, 0, &m->question.task.cluster), LS_OK);
    assert_int_equal(ls_link_find(network, &m->question.task.cluster.site[0].between), LS_OK);
    assert_int_equal(ls_stack_find("megatron", &m->question.task.stack), LS_OK);
    m->question.task.seq = m->question.task.shape.T < 4096 ? m->question.task.shape.T : 4096;
    m->question.task.global_batch = 256;
    m->question.request = ls_layout_request_none();
    snprintf(m->dir, sizeof m->dir, "/tmp/ls-memo-XXXXXX");
    assert_non_null(mkdtemp(m->dir));
    return m;
}

static char *read_file(const char *dir, const char *name) {
    char path[128], *data;
    size_t bytes;
    snprintf(path, sizeof path, "%s/sub/%s", dir, name);
    assert_int_equal(ls_file_read(path, 8 << 20, &data, &bytes), LS_OK);
    return data;
}

/* Every element is closed, in the right order. */
static void check_nesting(const char *html) {
    char open[32][16];
    int depth = 0;
    for (const char *at = strchr(html, '<'); at; at = strchr(at + 1, '<')) {
        const char *end = strchr(at, '>');
        char name[16] = "";
        assert_non_null(end);
        bool closes = at[1] == '/';
        sscanf(at + 1 + closes, "%15[A-Za-z0-9!]", name);
        assert_true(name[0] != '\0');
        if (name[0] == '!' || strcmp(name, "meta") == 0 || end[-1] == '/') continue;
        if (!closes) {
            assert_true(depth < 32);
            strcpy(open[depth++], name);
            continue;
        }
        assert_true(depth > 0);
        assert_string_equal(open[--depth], name);
    }
    assert_int_equal(depth, 0);
}

static void write_memo(memo *m) {
    char sub[80];
    snprintf(sub, sizeof sub, "%s/sub", m->dir);
    m->question.tokens = 300e9;
    m->question.price = 2.5;
    assert_int_equal(ls_plan_answer_find(&m->question, &m->answer), LS_OK);
    assert_int_equal(ls_plan_memo_write(sub, &m->answer), LS_OK);
    m->md = read_file(m->dir, "memo.md");
    m->html = read_file(m->dir, "memo.html");
    check_nesting(m->html);
    const char *const texts[] = {m->md, m->html};
    for (int i = 0; i < 2; i++) {
        assert_null(strstr(texts[i], " nan")); /* a source is called narayanan */
        assert_null(strstr(texts[i], "-inf"));
        assert_null(strstr(texts[i], "inf "));
        assert_null(strstr(texts[i], "http"));
        assert_null(strstr(texts[i], "(null)"));
    }
    assert_null(strstr(m->html, "url("));
    assert_null(strstr(m->html, "<script"));
    assert_null(strstr(m->html, " src="));
}

static void end(memo *m) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", m->dir);
    assert_int_equal(system(command), 0);
    free(m->md);
    free(m->html);
    free(m);
}

static void has(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void has(const char *text, const char *format, ...) {
    char wanted[512];
    va_list list;
    va_start(list, format);
    vsnprintf(wanted, sizeof wanted, format, list);
    va_end(list);
    if (!strstr(text, wanted)) fail_msg("'%s' is not in the memo", wanted);
}

/* In both; the page keeps numbers and units together. */
static void both(const memo *m, const char *wanted) {
    char page[512];
    size_t used = 0;
    has(m->md, "%s", wanted);
    for (const char *c = wanted; *c && used < sizeof page - 8; c++) {
        bool joins = *c == ' ' && c > wanted && c[-1] >= '0' && c[-1] <= '9' &&
                     ((c[1] >= 'a' && c[1] <= 'z') || (c[1] >= 'A' && c[1] <= 'Z') || c[1] == '%');
        if (joins)
            used += (size_t)snprintf(page + used, sizeof page - used, "&nbsp;");
        else
            page[used++] = *c;
    }
    page[used] = '\0';
    has(m->html, "%s", page);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_sections(void **state) {
    (void)state;
    memo *m = begin("llama-70b", "A100", 32, "100gbe");
    write_memo(m);
    const char *md = m->md, *html = m->html;
    for (int i = 0; i < HEADINGS; i++) {
        char line[128];
        snprintf(line, sizeof line, "\n## %s\n", headings[i]);
        md = strstr(md, line); /* each behind the one before it */
        assert_non_null(md);
        snprintf(line, sizeof line, "<h2>%s</h2>", headings[i]);
        html = strstr(html, line);
        assert_non_null(html);
    }
    for (int i = 0; i < 5; i++) {
        char name[32], link[64];
        snprintf(name, sizeof name, "%s.svg", charts[i]);
        snprintf(link, sizeof link, "](%s)", name);
        has(m->md, "%s", link);
        char *svg = read_file(m->dir, name);
        assert_int_equal(strncmp(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 39), 0);
        assert_null(strstr(svg, "nan"));
        assert_null(strstr(svg, "&nbsp")); /* is not defined in XML */
        check_nesting(svg);
        free(svg);
    }
    int figures = 0;
    for (const char *at = m->html; (at = strstr(at, "<svg class=\"full\"")); at++) figures++;
    assert_int_equal(figures, 5);
    has(m->html, "prefers-color-scheme:dark");
    has(m->html, "@media print");
    end(m);
}

/* Formatted here independently from the search's own prediction. */
static void test_numbers(void **state) {
    (void)state;
    memo *m = begin("llama-70b", "A100", 32, "100gbe");
    char text[128];
    write_memo(m);
    assert_true(m->answer.found.fitting > 0);
    const ls_prediction *p = &m->answer.found.fits[0].prediction;
    const ls_knobs *l = &m->answer.found.fits[0].layout;
    const double gib = 1024.0 * 1024 * 1024, tokens = 256.0 * 4096;
    snprintf(text, sizeof text, "dp %d × tp %d × pp %d", l->dp, l->tp, l->pp);
    both(m, text);
    snprintf(text, sizeof text, "%.1f GiB", p->memory_bytes / gib);
    both(m, text);
    assert_true(p->seconds >= 10 && p->seconds < 99.9);
    double error = m->answer.error; /* of the runs of this chip */
    assert_true(error > .05 && error < .1);
    snprintf(text, sizeof text, "%.1f s ± %.0f %%", p->seconds, 100 * error);
    both(m, text);
    snprintf(text, sizeof text, "%.1f s to %.1f s", p->seconds * (1 - error), p->seconds * (1 + error));
    both(m, text);
    long long rate = (long long)(tokens / p->seconds + .5);
    snprintf(text, sizeof text, "%lld,%03lld", rate / 1000, rate % 1000);
    both(m, text);
    snprintf(text, sizeof text, "%.0f days", 300e9 / (tokens / p->seconds) / 86400);
    both(m, text);
    long long hours = (long long)(300e9 / (tokens / p->seconds) / 3600 * 32 + .5);
    snprintf(text, sizeof text, "%lld,%03lld", hours / 1000, hours % 1000);
    both(m, text);
    snprintf(text, sizeof text, "%.0f %%", 100 * p->model_flops / (p->seconds * 32 * 312e12));
    both(m, text);
    for (int k = 0; k < LS_MEMORY_KINDS; k++) {
        if (p->memory[k] < gib) continue;
        snprintf(text, sizeof text, "| %s | %.1f GiB |", ls_memory_kind_label((ls_memory_kind)k), p->memory[k] / gib);
        has(m->md, "%s", text);
    }
    for (int k = 0; k < LS_TIME_KINDS; k++)
        if (p->time[k] > .01 * p->seconds) has(m->html, ">%s</text>", ls_time_kind_label((ls_time_kind)k));
    const ls_plan_choice *next = &m->answer.found.fits[1], *lacks = &m->answer.found.lacks[0];
    snprintf(text, sizeof text, "| %.1f s | +%.1f %% |", next->prediction.seconds,
             100 * (next->prediction.seconds / p->seconds - 1));
    has(m->md, "%s", text);
    snprintf(text, sizeof text, "| %.1f GiB | %.1f GiB |", lacks->prediction.memory_bytes / gib,
             lacks->prediction.memory_bytes / gib - 80);
    has(m->md, "%s", text);
    end(m);
}

static ls_memo_facts *facts_of(memo *m) {
    ls_memo_facts *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(ls_plan_answer_find(&m->question, &m->answer), LS_OK);
    *f = (ls_memo_facts){
        .answer = &m->answer, .task = &m->answer.task, .request = &m->question.request, .found = &m->answer.found};
    assert_int_equal(ls_memo_facts_find(f), LS_OK);
    return f;
}

static bool near(double a, double b) { return a > .999999 * b && a < 1.000001 * b; }

/* By hand: 70b has 80 layers of 8192 columns; tokens of a micro-batch 4096; 20 layers a stage, 256 micro-batches. */
static void test_traffic(void **state) {
    (void)state;
    memo *m = begin("llama-70b", "A100", 64, "100gbe");
    ls_knob_give(&m->question.request, LS_KNOB_dp, 2);
    ls_knob_give(&m->question.request, LS_KNOB_tp, 8);
    ls_knob_give(&m->question.request, LS_KNOB_pp, 4);
    ls_knob_give(&m->question.request, LS_KNOB_virtual_stages, 1);
    ls_knob_give(&m->question.request, LS_KNOB_micro, 1);
    ls_knob_give(&m->question.request, LS_KNOB_zero, 1);
    ls_knob_give(&m->question.request, LS_KNOB_recompute, LS_RECOMPUTE_NONE);
    ls_knob_give(&m->question.request, LS_KNOB_schedule, LS_SCHEDULE_1F1B);
    ls_memo_facts *f = facts_of(m);
    assert_true(f->fits);
    assert_int_equal(f->micros, 128);
    assert_true(f->choice.layout.sequence_parallel);
    double array = 2.0 * 4096 * 8192;
    /* Five gathers and five scatters, each 7/8 of the array, in 20 layers, for 128 micro-batches. */
    assert_true(near(f->flow[LS_MEMO_TP].bytes, 10 * 7 / 8.0 * array * 20 * 128));
    assert_string_equal(f->flow[LS_MEMO_TP].where, "inside a node");
    /* An eighth of the array forward and one backward. */
    assert_true(near(f->flow[LS_MEMO_PP].bytes, 2 * array / 8 * 128));
    assert_string_equal(f->flow[LS_MEMO_PP].where, "between nodes");
    /* Half of the stage's fp32 gradients, and half of its bf16 weights. A layer: q 8192², k and v an eighth each, o,
     * and three of the MLP; norms as the model counts them; one table. */
    double layer = (8192.0 * 8192 * 2.25 + 3 * 8192.0 * 28672) / 8 + 4 * 8192;
    double params = 20 * layer + 128256.0 / 1024 * 1024 * 8192 / 8;
    assert_true(f->reduce_bytes > .999 * params * 4 / 2 && f->reduce_bytes < 1.01 * params * 4 / 2);
    assert_true(near(f->spread_bytes, f->reduce_bytes / 2));
    assert_string_equal(f->flow[LS_MEMO_DP].where, "between nodes");
    /* A node has one chip of the two replicas of a row, so all of it leaves. */
    assert_true(near(f->flow[LS_MEMO_DP].outside_bytes, f->flow[LS_MEMO_DP].bytes));
    assert_true(f->flow[LS_MEMO_TP].outside_bytes == 0);
    assert_true(f->flow[LS_MEMO_GATHER].bytes == 0 && f->flow[LS_MEMO_ACROSS].bytes == 0);
    for (int i = 0; i < LS_MEMO_FLOWS; i++) assert_true(f->flow[i].seen <= f->flow[i].link_seconds + 1e-12);
    free(f);
    end(m);
}

/* Eight chips of a node send what leaves it side by side: the link is busy for an eighth of what each sends. */
static void test_shared_way_out(void **state) {
    (void)state;
    memo *m = begin("llama-8b", "H100", 16, "ndr");
    ls_knob_give(&m->question.request, LS_KNOB_dp, 16);
    ls_knob_give(&m->question.request, LS_KNOB_zero, 1);
    ls_knob_give(&m->question.request, LS_KNOB_micro, 1);
    ls_knob_give(&m->question.request, LS_KNOB_recompute, LS_RECOMPUTE_FULL);
    ls_memo_facts *f = facts_of(m);
    const ls_memo_flow *flow = &f->flow[LS_MEMO_DP];
    assert_true(near(flow->outside_bytes, flow->bytes / 8));
    double wire = flow->outside_bytes / (50e9 * f->site->between.share);
    assert_true(flow->link_seconds > wire && flow->link_seconds < wire + 1e-3);
    free(f);
    end(m);
}

static void test_timelines(void **state) {
    (void)state;
    memo *m = begin("llama-70b", "A100", 64, "100gbe");
    ls_knob_give(&m->question.request, LS_KNOB_tp, 8);
    ls_knob_give(&m->question.request, LS_KNOB_pp, 4);
    ls_knob_give(&m->question.request, LS_KNOB_virtual_stages, 1);
    ls_knob_give(&m->question.request, LS_KNOB_schedule, LS_SCHEDULE_1F1B);
    ls_memo_facts *f = facts_of(m);
    const ls_memo_pipe *pipe = &f->pipe;
    assert_true(pipe->there && pipe->chosen);
    assert_int_equal(pipe->naive.schedule, LS_SCHEDULE_NAIVE);
    /* One of four stages works at any time, less what sending takes. */
    assert_true(pipe->busy[0] <= .25 + 1e-12 && pipe->busy[0] > .24);
    assert_true(pipe->busy[1] > .85 && pipe->busy[1] < 1);
    assert_true(pipe->step[0].seconds > 3 * pipe->step[1].seconds);
    assert_true(pipe->step[1].seconds == f->choice.prediction.seconds);
    write_memo(m);
    char *svg = read_file(m->dir, "timelines.svg");
    int lanes = 0;
    for (const char *at = svg; (at = strstr(at, ">stage ")); at++) lanes++;
    assert_int_equal(lanes, 8);
    char text[64];
    snprintf(text, sizeof text, "busy %.0f %%", 100 * pipe->busy[0]);
    has(svg, "%s", text);
    snprintf(text, sizeof text, "busy %.0f %%", 100 * pipe->busy[1]);
    has(svg, "%s", text);
    free(svg);
    free(f);
    end(m);
}

static void test_nothing_fits(void **state) {
    (void)state;
    memo *m = begin("llama-70b", "A100", 8, "hdr");
    write_memo(m);
    assert_int_equal(m->answer.found.fitting, 0);
    both(m, "Nothing fits.");
    char text[64];
    const ls_prediction *p = &m->answer.found.lacks[0].prediction;
    snprintf(text, sizeof text, "it lacks %.1f GiB", (p->memory_bytes - p->capacity_bytes) / (1024.0 * 1024 * 1024));
    both(m, text);
    assert_true(m->answer.remedy.chips > 8); /* what the terminal says */
    has(m->md, "The smallest cluster of this kind that fits has **%d GPUs**", m->answer.remedy.chips);
    assert_true(m->answer.remedy.is_offloaded);
    has(m->md, "on the host (--offload) it fits, as dp %d ×", m->answer.remedy.offloaded.layout.dp);
    assert_null(strstr(m->md, "## What to try first"));
    end(m);
}

/* What else might be right is said: which devices, what grows with them and what treats that, how collectives are
 * assumed to work, what a slower link does, and the errors by source. */
static void test_doubts(void **state) {
    (void)state;
    memo *m = begin("llama-1b", "A100", 16, "1gbe");
    char text[256];
    write_memo(m);
    const ls_plan_use *use = &m->answer.use;
    assert_true(ls_plan_use_is_fewer(use));
    long long fast = (long long)(use->fastest.tokens_per_second + .5),
              all = (long long)(use->all.tokens_per_second + .5);
    snprintf(text, sizeof text, "Use %d of the 16 A100-80GB-SXM: %lld,%03lld tokens per second against %lld,%03lld",
             use->fastest.chips[0], fast / 1000, fast % 1000, all / 1000, all % 1000);
    both(m, text);
    has(m->md, "| vtrain | A100-80GB-SXM | 199 | ");
    end(m);
    m = begin("llama-13b", "A100", 16, "100gbe");
    m->question.task.global_batch = 512;
    m->question.task.seq = 2048;
    assert_int_equal(ls_stack_find("fsdp-compile", &m->question.task.stack), LS_OK);
    m->question.request.memory_bytes = .95 * m->question.task.cluster.site[0].chip.memory_bytes;
    write_memo(m);
    both(m, "The robust choice is");
    both(m, "With half the bandwidth between nodes (50 Gb/s per chip) a step takes");
    has(m->md, "hierarchical: 8 rings over 2 nodes, each through its own adapter");
    end(m);
    m = begin("llama-8b", "A100", 64, "25gbe");
    m->question.task.global_batch = 1024;
    write_memo(m);
    const ls_plan_bottleneck *b = &m->answer.bottleneck;
    assert_true(b->is_there && b->is_treated);
    snprintf(text, sizeof text, "Against %s, which limits scaling: ", ls_time_kind_phrase(b->kind));
    both(m, text);
    has(m->md, "**%s**", b->treatment.what);
    end(m);
    m = begin("llama-8b", "MI325X", 8, "ndr");
    write_memo(m);
    both(m, "No measured run of MI325X-256GB is among them");
    end(m);
}

/* A run with failures: the interval, the goodput, days and cost are those of the course. */
static void test_failures_are_told(void **state) {
    (void)state;
    memo *m = begin("llama-13b", "H100", 64, "ndr");
    m->question.tokens = 300e9;
    m->question.failures =
        (ls_plan_failures){.node_seconds = 500 * 3600, .bytes_per_second = 20e9, .restart_seconds = 1200};
    write_memo(m);
    ls_course c = ls_plan_course_of(&m->question, &m->answer.task, m->answer.best);
    char text[128];
    assert_true(c.seconds > c.work_seconds);
    both(m, "The whole run, with failures");
    snprintf(text, sizeof text, "Save every %s of training.", LS_SECONDS(c.interval_seconds));
    both(m, text);
    snprintf(text, sizeof text, "is then %.1f %%", 100 * c.goodput);
    both(m, text);
    has(m->md, "| without failures and checkpoints | %.1f | %s | %s |", c.work_seconds / 86400,
        LS_WHOLE(c.work_seconds / 3600 * 64), LS_WHOLE(c.work_seconds / 3600 * 160));
    has(m->md, "failures | %.1f | %s | %s |", c.seconds / 86400, LS_WHOLE(c.seconds / 3600 * 64),
        LS_WHOLE(c.seconds / 3600 * 160));
    end(m);
    m = begin("llama-13b", "H100", 64, "ndr");
    m->question.tokens = 300e9;
    m->question.failures = (ls_plan_failures){.node_seconds = 3600, .bytes_per_second = 1e8, .restart_seconds = 1200};
    write_memo(m);
    both(m, "The run never ends");
    end(m);
}

/* Other answers: one chip, ZeRO 3, fp32, fp16, a large pipeline, two sites. */
static void test_other_answers(void **state) {
    (void)state;
    memo *m = begin("gpt2-124m", "H100", 1, "ndr");
    write_memo(m);
    has(m->md, "The model fits on one GPU");
    has(m->md, "A single GPU.");
    end(m);
    m = begin("llama-8b", "H100", 16, "ndr");
    ls_knob_give(&m->question.request, LS_KNOB_zero, 3);
    ls_knob_give(&m->question.request, LS_KNOB_tp, 1);
    ls_knob_give(&m->question.request, LS_KNOB_pp, 1);
    write_memo(m);
    has(m->md, "(ZeRO 3)");
    end(m);
    m = begin("llama-8b", "A100", 16, "hdr");
    ls_knob_give(&m->question.request, LS_KNOB_type, LS_PLAN_FP32);
    write_memo(m);
    has(m->md, "Everything is in fp32");
    end(m);
    m = begin("llama-8b", "V100", 32, "edr");
    ls_knob_give(&m->question.request, LS_KNOB_type, LS_PLAN_FP16);
    write_memo(m);
    has(m->md, "the loss must be scaled");
    end(m);
    m = begin("llama-70b", "A100", 320, "hdr");
    ls_knob_give(&m->question.request, LS_KNOB_pp, 40);
    ls_knob_give(&m->question.request, LS_KNOB_virtual_stages, 1);
    write_memo(m);
    has(m->md, "A pipeline of 40 stages");
    end(m);
    m = begin("llama-8b", "A100", 16, "hdr");
    m->question.task.cluster.sites = 2;
    m->question.task.cluster.site[1] = m->question.task.cluster.site[0];
    assert_int_equal(ls_link_find("100gbe", &m->question.task.cluster.across), LS_OK);
    write_memo(m);
    has(m->md, "between the sites");
    end(m);
}

/* A name of the user's is text, whatever is in it. */
static void test_escapes(void **state) {
    (void)state;
    memo *m = begin("gpt2-124m", "A100", 2, "hdr");
    snprintf(m->question.task.shape.name, sizeof m->question.task.shape.name, "<script>a&\"b\"|*");
    write_memo(m);
    has(m->html, "<h1>&lt;script&gt;a&amp;&quot;b&quot;|* on");
    has(m->md, "# &lt;script>a&\"b\"\\|\\* on");
    end(m);
}

static void test_failures(void **state) {
    (void)state;
    memo *m = begin("gpt2-124m", "A100", 2, "hdr");
    char path[128];
    assert_int_equal(ls_plan_answer_find(&m->question, &m->answer), LS_OK);
    snprintf(path, sizeof path, "%s/file", m->dir);
    assert_int_equal(ls_file_write_atomic(path, "x", 1), LS_OK);
    assert_int_not_equal(ls_plan_memo_write(path, &m->answer), LS_OK);
    snprintf(path, sizeof path, "%s/file/below", m->dir);
    assert_int_not_equal(ls_plan_memo_write(path, &m->answer), LS_OK);
    m->answer.found.fitting = m->answer.found.missing = 0;
    snprintf(path, sizeof path, "%s/sub", m->dir);
    assert_int_equal(ls_plan_memo_write(path, &m->answer), LS_ERR_INPUT);
    assert_false(ls_file_exists(path));
    end(m);
}

static void test_figures(void **state) {
    (void)state;
    assert_string_equal(ls_number_whole(1234567).text, "1,234,567");
    assert_string_equal(ls_number_whole(999).text, "999");
    assert_string_equal(ls_number_gib(80 * 1073741824.0).text, "80.0 GiB");
    assert_string_equal(ls_number_gib(1500 * 1073741824.0).text, "1,500 GiB");
    assert_string_equal(ls_number_gib(100 * 1048576.0).text, "100 MiB");
    assert_string_equal(ls_number_gb(1.5e9).text, "1.50 GB");
    assert_string_equal(ls_number_gb(999.6e9).text, "1,000 GB");
    assert_string_equal(ls_number_seconds(.0123).text, "12.3 ms");
    assert_string_equal(ls_number_seconds(0).text, "0.00 s");
    assert_string_equal(ls_number_percent(.0412).text, "4.1 %");
    assert_string_equal(ls_number_percent(.512).text, "51 %");
    assert_string_equal(ls_number_short(70.6e9).text, "70.6 B");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sections),      cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_traffic),       cmocka_unit_test(test_shared_way_out),
        cmocka_unit_test(test_timelines),     cmocka_unit_test(test_nothing_fits),
        cmocka_unit_test(test_doubts),        cmocka_unit_test(test_failures_are_told),
        cmocka_unit_test(test_other_answers), cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_failures),      cmocka_unit_test(test_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
