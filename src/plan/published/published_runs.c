/* published_runs.c: from the fields of a row to a task and a layout. */
#include "plan/published/published_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cost/cost_case.h"
#include "plan/published/csv.h"

enum { VIRTUAL_MAX = 32 };

#define GIB (1024.0 * 1024.0 * 1024.0)

/* Columns that a table must have; a row may leave most of them empty. */
static const char *const required[] = {"layers",
                                       "hidden",
                                       "heads",
                                       "kv_heads",
                                       "ffn_hidden",
                                       "vocab",
                                       "seq_len",
                                       "gpu_type",
                                       "n_gpus",
                                       "gpus_per_node",
                                       "dp",
                                       "tp",
                                       "pp",
                                       "interleave_v",
                                       "micro_batch",
                                       "global_batch_seqs",
                                       "zero_stage",
                                       "recompute",
                                       "sequence_parallel",
                                       "precision",
                                       "measured_metric",
                                       "value"};

static const char *const metric_names[LS_ROW_METRICS] = {"iteration_seconds",    "hw_tflops_per_gpu",
                                                         "model_tflops_per_gpu", "mfu_pct",
                                                         "tokens_per_s_per_gpu", "peak_memory_gib"};

typedef struct source_row {
    const char *path;
    const ls_csv *csv;
    size_t number;
} source_row;

/* Empty where the table has no such column. */
static const char *text(const source_row *r, const char *name) {
    return ls_csv_field(r->csv, r->number, ls_csv_column(r->csv, name));
}

static ls_status bad(const source_row *r, const char *name, const char *what) {
    return ls_fail(LS_ERR_INPUT, "%s, line %zu: %s is \"%s\"; %s", r->path, r->csv->line[r->number], name,
                   text(r, name), what);
}

/* The row cannot be predicted: it is counted and named with its reason, which the first call gives. */
static void reject(ls_row *row, const char *why) {
    if (!row->reason[0]) snprintf(row->reason, sizeof row->reason, "%s", why);
}

static void reject_unknown(ls_row *row, const char *what, const char *value) {
    char why[sizeof row->reason];
    snprintf(why, sizeof why, "unknown %s \"%.64s\"", what, value);
    reject(row, why);
}

/* A whole number in min … max; an empty field is 0 where it may be empty. */
static ls_status whole(const source_row *r, const char *name, long long min, long long max, bool may_lack,
                       long long *out) {
    const char *from = text(r, name);
    char *end;
    if (!*from && may_lack) {
        *out = 0;
        return LS_OK;
    }
    *out = strtoll(from, &end, 10);
    if (end == from || *end) return bad(r, name, "it must be a whole number");
    if (*out < min || *out > max) return bad(r, name, "it is out of range");
    return LS_OK;
}

#define WHOLE(name, min, max, lack, target)                                                                            \
    do {                                                                                                               \
        long long whole_;                                                                                              \
        LS_TRY(whole(r, (name), (min), (max), (lack), &whole_));                                                       \
        (target) = (__typeof__(target))whole_;                                                                         \
    } while (0)

static ls_status read_shape(const source_row *r, ls_row *row) {
    ls_shape *shape = &row->task.shape;
    WHOLE("layers", 1, 100000, false, shape->L);
    WHOLE("hidden", 1, 1 << 24, false, shape->C);
    WHOLE("heads", 1, 1 << 20, false, shape->H);
    WHOLE("kv_heads", 1, 1 << 20, true, shape->kv_heads);
    WHOLE("ffn_hidden", 1, 1 << 26, true, shape->hidden);
    WHOLE("vocab", 1, 1 << 26, false, shape->V);
    WHOLE("seq_len", 1, 1 << 26, false, row->task.seq);
    if (shape->kv_heads == 0) shape->kv_heads = shape->H;
    if (shape->hidden == 0) shape->hidden = 4 * shape->C;
    if (shape->C % shape->H != 0) return bad(r, "heads", "it does not divide hidden");
    shape->head_size = shape->C / shape->H;
    shape->T = row->task.seq;
    shape->arch =
        shape->hidden == 4 * shape->C ? LS_ARCH_GPT2 : LS_ARCH_LLAMA; /* a gated MLP is not four times as wide */
    shape->tied = shape->arch == LS_ARCH_GPT2;
    return LS_OK;
}

/* ---- chips, links and programs ----------------------------------------------------------------------------------- */

/* Gb/s of one chip; a positive number, or empty: as usual for the chip. */
static ls_status read_between(const source_row *r, ls_link *between) {
    const char *from = text(r, "link_between_gbps_per_gpu");
    char *end;
    if (!*from) return LS_OK;
    double rate = strtod(from, &end);
    if (*end || !(rate > 0 && rate < 1e9)) return bad(r, "link_between_gbps_per_gpu", "it must be a number above 0");
    between->bandwidth = rate / 8 * 1e9;
    return LS_OK;
}

static ls_status read_cluster(const source_row *r, ls_row *row) {
    ls_site *site = &row->task.cluster.site[0];
    const char *inside = text(r, "link_inside");
    int chips, node;
    WHOLE("n_gpus", 1, 1 << 24, false, chips);
    WHOLE("gpus_per_node", 1, 1 << 16, true, node);
    if (ls_cluster_of(text(r, "gpu_type"), chips, node, &row->task.cluster) != LS_OK) {
        snprintf(site->chip.name, sizeof site->chip.name, "%s", text(r, "gpu_type"));
        reject_unknown(row, "chip", text(r, "gpu_type"));
    }
    if (*inside && ls_link_find(inside, &site->inside) != LS_OK) reject_unknown(row, "link", inside);
    return read_between(r, &site->between);
}

/* A type, which may be followed by how it is used: "bf16-amp", "bf16-pure". */
static void read_precision(const source_row *r, ls_row *row) {
    const char *p = text(r, "precision"), *use = strchrnul(p, '-');
    char name[16];
    snprintf(name, sizeof name, "%.*s", (int)(use - p), p);
    int type = (int)row->layout.type;
    if (!ls_choice_find(LS_CHOICES(LS_PLAN_TYPE_LIST), name, &type)) reject_unknown(row, "precision", p);
    row->layout.type = (ls_plan_type)type;
    row->layout.pure_16bit = strcmp(use, "-pure") == 0;
}

/* The program where the row does not name it, from what it says otherwise. */
static const char *likely_program(const source_row *r, const ls_row *row) {
    const ls_chip *chip = &row->task.cluster.site[0].chip;
    const ls_knobs *layout = &row->layout;
    if (strchr(text(r, "precision"), '-')) return "fsdp";
    if (layout->zero == 3 && layout->type == LS_PLAN_FP16) return "deepspeed-2021";
    if (layout->zero == 3) return layout->type == LS_PLAN_FP8 ? "fsdp-compile" : "fsdp";
    /* Chips with fp8 came after attention that keeps its scores on the chip. */
    bool flash = strcmp(text(r, "attention"), "flash") == 0;
    return flash || chip->peak_flops[LS_PLAN_FP8] > 0 ? "megatron" : "megatron-2021";
}

/* Words of the column `overlap`: which communication hides behind computing. */
static void read_overlap(const source_row *r, ls_row *row) {
    for (const char *at = text(r, "overlap"); *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (length == 6 && memcmp(at, "reduce", 6) == 0)
            row->task.stack.reduce_overlaps = true;
        else if (length == 2 && memcmp(at, "tp", 2) == 0)
            row->layout.tp_overlap = true;
        else
            reject_unknown(row, "overlap", at);
        at += length;
    }
}

/* True where the column says `word`, false where it is empty or says `other`. */
static bool says(const source_row *r, ls_row *row, const char *name, const char *word, const char *other) {
    const char *value = text(r, name);
    if (*value && strcmp(value, word) != 0 && strcmp(value, other) != 0) reject_unknown(row, name, value);
    return strcmp(value, word) == 0;
}

static ls_status read_program(const source_row *r, ls_row *row) {
    ls_knobs *layout = &row->layout;
    const ls_chip *chip = &row->task.cluster.site[0].chip;
    const char *program = text(r, "program");
    if (!*program) program = likely_program(r, row);
    if (ls_stack_find(program, &row->task.stack) != LS_OK) reject_unknown(row, "program", program);
    WHOLE("context_parallel", 1, 1024, true, layout->context);
    if (layout->context == 0) layout->context = 1;
    WHOLE("gather_8bit", 0, 1, true, layout->gather_8bit);
    if (says(r, row, "attention", "flash", "unfused")) row->task.stack.flash = true;
    read_overlap(r, row);
    row->with_context = says(r, row, "memory_metric", "nvidia-smi", "allocated");
    if (says(r, row, "fp8_scaling", "row", "tensor") && !row->reason[0])
        /* scales by rows make matmuls no faster than in 16 bits; the casts are there */
        layout->type_slowdown = ls_plan_rate(chip, LS_PLAN_FP8) / ls_plan_rate(chip, LS_PLAN_BF16);
    return LS_OK;
}

/* ---- a row ------------------------------------------------------------------------------------------------------- */

static ls_status read_recompute(const source_row *r, ls_row *row) {
    const char *t = text(r, "recompute");
    int kind = LS_RECOMPUTE_NONE;
    row->free_recompute = !*t;
    if (*t && !ls_choice_find(LS_CHOICES(LS_RECOMPUTE_LIST), t, &kind))
        return bad(r, "recompute", "it must be none, selective or full");
    row->layout.recompute = (ls_recompute)kind;
    return LS_OK;
}

static ls_status read_layout(const source_row *r, ls_row *row) {
    ls_knobs *l = &row->layout;
    *l = (ls_knobs){0};
    WHOLE("dp", 1, 1 << 24, true, l->dp);
    WHOLE("tp", 1, 1 << 16, true, l->tp);
    WHOLE("pp", 1, 1 << 16, true, l->pp);
    WHOLE("interleave_v", 1, 1 << 16, true, l->virtual_stages);
    WHOLE("micro_batch", 1, 1 << 20, true, l->micro);
    WHOLE("global_batch_seqs", 1, 1 << 26, false, row->task.global_batch);
    WHOLE("sequence_parallel", 0, 1, true, l->sequence_parallel);
    row->free_zero = !*text(r, "zero_stage");
    WHOLE("zero_stage", 0, 3, true, l->zero);
    row->free_virtual = l->virtual_stages == 0 && l->pp > 1;
    row->free_micro = l->micro == 0;
    if (l->virtual_stages == 0) l->virtual_stages = 1;
    if (l->micro == 0) l->micro = 1;
    read_precision(r, row);
    return read_recompute(r, row);
}

static ls_status read_value(const source_row *r, ls_row *row) {
    const char *m = text(r, "measured_metric"), *v = text(r, "value");
    char *end;
    int i = 0;
    while (i < LS_ROW_METRICS && strcmp(m, metric_names[i]) != 0) i++;
    if (i == LS_ROW_METRICS) return bad(r, "measured_metric", "unknown metric");
    row->metric = (ls_row_metric)i;
    row->value = strtod(v, &end);
    if (!*v)
        row->value = 0; /* blanked: there is nothing to compare with */
    else if (*end || !(row->value > 0 && row->value < 1e300))
        return bad(r, "value", "it must be a number above 0");
    return LS_OK;
}

static ls_status read_row(const source_row *r, ls_row *row) {
    row->id = strdup(text(r, "id"));
    row->source = strdup(text(r, "source"));
    row->group = strdup(text(r, "source_group"));
    row->model = strdup(text(r, "model"));
    if (!row->id || !row->source || !row->group || !row->model)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for a row");
    LS_TRY(read_shape(r, row));
    LS_TRY(read_cluster(r, row));
    LS_TRY(read_layout(r, row));
    LS_TRY(read_program(r, row));
    LS_TRY(read_value(r, row));
    ls_knobs *l = &row->layout;
    if (l->dp == 0 || l->tp == 0 || l->pp == 0) reject(row, "its layout is not given");
    if (row->reason[0]) return LS_OK;
    if (row->free_zero) l->zero = l->dp > 1 ? 1 : 0;
    l->schedule = l->virtual_stages > 1 ? LS_SCHEDULE_INTERLEAVED : LS_SCHEDULE_1F1B;
    if (ls_plan_check(&row->task, l) != LS_OK) reject(row, ls_status_message());
    return LS_OK;
}

static ls_status read_rows(const char *path, const ls_csv *csv, ls_rows *out) {
    ls_status status = LS_OK;
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++)
        if (ls_csv_column(csv, required[i]) < 0)
            return ls_fail(LS_ERR_INPUT, "%s has no column \"%s\"", path, required[i]);
    out->row = calloc(csv->rows - 1, sizeof *out->row);
    if (!out->row) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu rows", csv->rows - 1);
    for (size_t i = 1; status == LS_OK && i < csv->rows; i++)
        status = read_row(&(source_row){path, csv, i}, &out->row[out->count++]);
    if (status != LS_OK) ls_rows_free(out);
    return status;
}

ls_status ls_rows_read(const char *path, ls_rows *out) {
    ls_csv csv;
    memset(out, 0, sizeof *out);
    LS_TRY(ls_csv_read(path, &csv));
    ls_status status = read_rows(path, &csv, out);
    ls_csv_free(&csv);
    return status;
}

ls_status ls_rows_parse(const char *name, const char *text, size_t bytes, ls_rows *out) {
    ls_csv csv;
    memset(out, 0, sizeof *out);
    LS_TRY(ls_csv_parse(name, text, bytes, &csv));
    ls_status status = read_rows(name, &csv, out);
    ls_csv_free(&csv);
    return status;
}

void ls_rows_free(ls_rows *rows) {
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->row[i].id);
        free(rows->row[i].source);
        free(rows->row[i].group);
        free(rows->row[i].model);
    }
    free(rows->row);
    memset(rows, 0, sizeof *rows);
}

double ls_row_measured(const ls_row *row) {
    const ls_plan_task *task = &row->task;
    double flops = ls_plan_model_flops(&task->shape, (double)task->seq, (double)task->global_batch);
    double chips = ls_cluster_chips(&task->cluster);
    switch (row->metric) {
    case LS_ROW_SECONDS: return row->value;
    case LS_ROW_HW_TFLOPS: {
        /* Three passes of four are the model's; the head is not computed again. */
        double head =
            6.0 * (double)task->seq * (double)task->global_batch * (double)task->shape.V * (double)task->shape.C;
        return ((flops - head) * 4 / 3 + head) / (row->value * 1e12 * chips);
    }
    case LS_ROW_MODEL_TFLOPS: return flops / (row->value * 1e12 * chips);
    case LS_ROW_MFU: return flops / (row->value / 100 * task->cluster.site[0].chip.peak_flops[LS_PLAN_BF16] * chips);
    case LS_ROW_TOKENS: return (double)task->seq * (double)task->global_batch / (row->value * chips);
    default: return row->value * GIB;
    }
}

double ls_row_predicted(const ls_row *row, const ls_prediction *p) {
    if (row->metric != LS_ROW_MEMORY) return p->seconds;
    return row->with_context ? p->memory_bytes : p->memory_bytes - p->memory[LS_MEMORY_RESERVED];
}

/* ---- knobs that a row leaves open -------------------------------------------------------------------------------- */

typedef struct choice {
    bool any;
    ls_knobs layout;
    ls_prediction best;
} choice;

static ls_status consider(const ls_row *row, const ls_knobs *layout, choice *c) {
    ls_prediction p;
    if (ls_plan_check(&row->task, layout) != LS_OK) return LS_OK;
    if (row->task.global_batch % ((size_t)layout->dp * layout->micro) != 0) return LS_OK;
    LS_TRY(ls_plan_predict(&row->task, layout, &p));
    bool fits = ls_prediction_fits(&p), had = c->any && ls_prediction_fits(&c->best);
    bool better = !c->any || (fits && !had) ||
                  (fits == had && p.seconds < c->best.seconds); /* it has been run, so something did fit */
    if (better) *c = (choice){true, *layout, p};
    return LS_OK;
}

/* Embedding and head may stand for a layer each. */
static bool divides_evenly(size_t layers, size_t chunks) { return layers % chunks == 0 || (layers + 2) % chunks == 0; }

static ls_status try_virtual(const ls_row *row, ls_knobs layout, choice *c) {
    if (!row->free_virtual) return consider(row, &layout, c);
    for (int v = 1; v <= VIRTUAL_MAX && (size_t)(v * layout.pp) <= row->task.shape.L; v++) {
        if (v > 1 && row->task.stack.even_stages && !divides_evenly(row->task.shape.L, (size_t)(v * layout.pp)))
            continue;
        size_t micros = row->task.global_batch / ((size_t)layout.dp * layout.micro);
        if (v > 1 && micros % (size_t)layout.pp != 0) continue;
        if (row->task.stack.usual_virtual && v != row->task.stack.usual_virtual) continue;
        layout.virtual_stages = v;
        layout.schedule = v > 1 ? LS_SCHEDULE_INTERLEAVED : LS_SCHEDULE_1F1B;
        LS_TRY(consider(row, &layout, c));
    }
    return LS_OK;
}

/* Sharded optimizer state or not. */
static ls_status try_zero(const ls_row *row, ls_knobs layout, choice *c) {
    if (!row->free_zero || layout.dp < 2) return try_virtual(row, layout, c);
    for (layout.zero = 0; layout.zero < 2; layout.zero++) LS_TRY(try_virtual(row, layout, c));
    return LS_OK;
}

static ls_status try_recompute(const ls_row *row, ls_knobs layout, choice *c) {
    if (!row->free_recompute) return try_zero(row, layout, c);
    for (int i = 0; i < LS_RECOMPUTE_KINDS; i++) {
        layout.recompute = (ls_recompute)i;
        LS_TRY(try_zero(row, layout, c));
    }
    return LS_OK;
}

ls_status ls_row_predict(const ls_row *row, ls_knobs *chosen, ls_prediction *out) {
    choice c = {.any = false};
    ls_knobs layout = row->layout;
    if (row->reason[0]) return ls_fail(LS_ERR_INPUT, "row %s: %s", row->id, row->reason);
    size_t share = row->task.global_batch / (size_t)layout.dp;
    bool is_free = row->free_micro;
    if (is_free && layout.pp > 1 && row->task.stack.micro_per_stage && share >= (size_t)layout.pp) {
        layout.micro = share / (size_t)layout.pp;
        is_free = false;
    }
    for (size_t micro = is_free ? 1 : layout.micro; micro <= share; micro *= 2) {
        layout.micro = micro;
        LS_TRY(try_recompute(row, layout, &c));
        if (!is_free || micro >= 64) break;
    }
    if (!c.any) { /* a batch that does not divide: as it is given */
        LS_TRY(ls_plan_predict(&row->task, &row->layout, &c.best));
        c.layout = row->layout;
    }
    if (chosen) *chosen = c.layout;
    *out = c.best;
    return LS_OK;
}
