/* published_runs.c: makes a task and a layout from the fields of a row, and predicts it. */
#include "plan/published/published_runs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "plan/cost/cost_case.h"
#include "plan/published/csv.h"

enum { VIRTUAL_MAX = 32 };

#define GIB (1024.0 * 1024.0 * 1024.0)

/* A column of whole numbers: where they go, and what they may be. */
typedef struct column {
    const char *name;
    size_t offset, bytes; /* of an int, a size_t or a bool */
    long long min, max;
    enum { FULL, MAY_BE_EMPTY, MAY_LACK } presence; /* an empty field is 0; the whole column may not be there */
} column;

#define AT(member) offsetof(ls_row, member), sizeof((ls_row *)NULL)->member

static const column columns[] = {
    {"layers", AT(task.shape.L), 1, 100000, FULL},
    {"hidden", AT(task.shape.C), 1, 1 << 24, FULL},
    {"heads", AT(task.shape.H), 1, 1 << 20, FULL},
    {"kv_heads", AT(task.shape.kv_heads), 1, 1 << 20, MAY_BE_EMPTY},
    {"ffn_hidden", AT(task.shape.hidden), 1, 1 << 26, MAY_BE_EMPTY},
    {"vocab", AT(task.shape.V), 1, 1 << 26, FULL},
    {"seq_len", AT(task.seq), 1, 1 << 26, FULL},
    {"n_gpus", AT(task.cluster.site[0].chips), 1, 1 << 24, FULL},
    {"gpus_per_node", AT(task.cluster.site[0].node), 1, 1 << 16, MAY_BE_EMPTY},
    {"dp", AT(layout.dp), 1, 1 << 24, MAY_BE_EMPTY},
    {"tp", AT(layout.tp), 1, 1 << 16, MAY_BE_EMPTY},
    {"pp", AT(layout.pp), 1, 1 << 16, MAY_BE_EMPTY},
    {"interleave_v", AT(layout.virtual_stages), 1, 1 << 16, MAY_BE_EMPTY},
    {"micro_batch", AT(layout.micro), 1, 1 << 20, MAY_BE_EMPTY},
    {"global_batch_seqs", AT(task.global_batch), 1, 1 << 26, FULL},
    {"sequence_parallel", AT(layout.sequence_parallel), 0, 1, MAY_BE_EMPTY},
    {"zero_stage", AT(layout.zero), 0, 3, MAY_BE_EMPTY},
    {"context_parallel", AT(layout.context), 1, 1024, MAY_LACK},
    {"gather_8bit", AT(layout.gather_8bit), 0, 1, MAY_LACK},
};
static const char *const texts[] = {"gpu_type", "recompute", "precision", "measured_metric", "value"};
enum { COLUMNS = sizeof columns / sizeof *columns, TEXTS = sizeof texts / sizeof *texts };

static const char *const metric_names[LS_ROW_METRICS] = {"iteration_seconds",    "hw_tflops_per_gpu",
                                                         "model_tflops_per_gpu", "mfu_pct",
                                                         "tokens_per_s_per_gpu", "peak_memory_gib"};

typedef struct source_row {
    const ls_csv *csv;
    size_t number;
} source_row;

/* Returns the row's field; "" if it is empty or the column is missing. */
static const char *text(const source_row *r, const char *name) { return ls_csv_field(r->csv, r->number, name); }

/* Returns LS_ERR_INPUT with a message of the file, the line and the field. */
static ls_status refuse_field(const source_row *r, const char *name, const char *what) {
    return ls_csv_refuse(r->csv, r->number, name, what);
}

/* Marks the row as one that cannot be predicted; the reason of the first call stays. */
static void reject(ls_row *row, const char *why) {
    if (!row->reason[0]) snprintf(row->reason, sizeof row->reason, "%s", why);
}

/* Marks the row as one that cannot be predicted because of an unknown name. */
static void reject_unknown(ls_row *row, const char *what, const char *value) {
    char why[sizeof row->reason];
    snprintf(why, sizeof why, "unknown %s \"%.64s\"", what, value);
    reject(row, why);
}

/* Reads a whole number into its member of the row; an empty field that may be empty leaves 0. */
static ls_status read_number(const source_row *r, const column *c, ls_row *row) {
    const char *from = text(r, c->name);
    char *end, *to = (char *)row + c->offset;
    if (!*from && c->presence != FULL) return LS_OK;
    long long n = strtoll(from, &end, 10);
    if (end == from || *end) return refuse_field(r, c->name, "it must be a whole number");
    if (n < c->min || n > c->max) return refuse_field(r, c->name, "it is out of range");
    switch (c->bytes) {
    case sizeof(size_t): memcpy(to, &(size_t){(size_t)n}, sizeof(size_t)); break;
    case sizeof(int): memcpy(to, &(int){(int)n}, sizeof(int)); break;
    default: memcpy(to, &(bool){n != 0}, sizeof(bool));
    }
    return LS_OK;
}

/* Fills in what the columns leave open of the shape; the family follows from the width of the MLP. */
static ls_status complete_shape(const source_row *r, ls_row *row) {
    ls_shape *shape = &row->task.shape;
    if (shape->kv_heads == 0) shape->kv_heads = shape->H;
    if (shape->hidden == 0) shape->hidden = 4 * shape->C;
    if (shape->C % shape->H != 0) return refuse_field(r, "heads", "it does not divide hidden");
    shape->head_size = shape->C / shape->H;
    shape->T = row->task.seq;
    shape->arch =
        shape->hidden == 4 * shape->C ? LS_ARCH_GPT2 : LS_ARCH_LLAMA; /* a gated MLP is not four times as wide */
    shape->tied = ls_shape_family(shape)->usual.tied;
    return LS_OK;
}

/* ---- chips, links and programs ----------------------------------------------------------------------------------- */

/* Reads Gb/s of one chip, a positive number, as the bandwidth between nodes; an empty field leaves the link usual for
 * the chip. */
static ls_status read_between(const source_row *r, ls_link *between) {
    const char *from = text(r, "link_between_gbps_per_gpu");
    char *end;
    if (!*from) return LS_OK;
    double rate = strtod(from, &end);
    if (*end || !(rate > 0 && rate < 1e9))
        return refuse_field(r, "link_between_gbps_per_gpu", "it must be a number above 0");
    between->bandwidth = rate / 8 * 1e9;
    return LS_OK;
}

/* Reads chip and links. An unknown chip or link rejects the row, with its reason, and is no error; a malformed rate is
 * one. */
static ls_status read_cluster(const source_row *r, ls_row *row) {
    ls_site *site = &row->task.cluster.site[0];
    const char *inside = text(r, "link_inside");
    if (ls_cluster_of(text(r, "gpu_type"), site->chips, site->node, &row->task.cluster) != LS_OK) {
        snprintf(site->chip.name, sizeof site->chip.name, "%s", text(r, "gpu_type"));
        reject_unknown(row, "chip", text(r, "gpu_type"));
    }
    if (*inside && ls_link_find(inside, &site->inside) != LS_OK) reject_unknown(row, "link", inside);
    return read_between(r, &site->between);
}

/* Reads a number type, which may be followed by how it is used: "bf16-amp", "bf16-pure". */
static void read_precision(const source_row *r, ls_row *row) {
    const char *p = text(r, "precision"), *use = strchrnul(p, '-');
    char name[16];
    snprintf(name, sizeof name, "%.*s", (int)(use - p), p);
    int type = (int)row->layout.type;
    if (!ls_choice_find(LS_CHOICES(LS_PLAN_TYPE_LIST), name, &type)) reject_unknown(row, "precision", p);
    row->layout.type = (ls_plan_type)type;
    row->layout.pure_16bit = strcmp(use, "-pure") == 0;
}

/* Guesses the program from other columns if the row does not name it. */
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

/* Reads words of the column `overlap`: which communication overlaps with compute. */
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

/* Returns true if the column has `word`, false if it is empty or has `other`; rejects the row otherwise. */
static bool says(const source_row *r, ls_row *row, const char *name, const char *word, const char *other) {
    const char *value = text(r, name);
    if (*value && strcmp(value, word) != 0 && strcmp(value, other) != 0) reject_unknown(row, name, value);
    return strcmp(value, word) == 0;
}

/* Reads the training framework and the columns that change it; unknown words reject the row. */
static void read_program(const source_row *r, ls_row *row) {
    const ls_chip *chip = &row->task.cluster.site[0].chip;
    const char *program = text(r, "program");
    if (!*program) program = likely_program(r, row);
    if (ls_stack_find(program, &row->task.stack) != LS_OK) reject_unknown(row, "program", program);
    if (says(r, row, "attention", "flash", "unfused")) row->task.stack.flash = true;
    read_overlap(r, row);
    row->with_context = says(r, row, "memory_metric", "nvidia-smi", "allocated");
    if (says(r, row, "fp8_scaling", "row", "tensor") && !row->reason[0])
        /* scales by rows make matmuls no faster than in 16 bits; the casts are there */
        row->layout.type_slowdown = ls_plan_rate(chip, LS_PLAN_FP8) / ls_plan_rate(chip, LS_PLAN_BF16);
}

/* ---- a row ------------------------------------------------------------------------------------------------------- */

/* Reads the recomputation; an empty field leaves it to be chosen. */
static ls_status read_recompute(const source_row *r, ls_row *row) {
    const char *t = text(r, "recompute");
    int kind = LS_RECOMPUTE_NONE;
    row->free_recompute = !*t;
    if (*t && !ls_choice_find(LS_CHOICES(LS_RECOMPUTE_LIST), t, &kind))
        return refuse_field(r, "recompute", "it must be none, selective or full");
    row->layout.recompute = (ls_recompute)kind;
    return LS_OK;
}

/* Notes which knobs the row leaves open, gives those a neutral value, and reads number type and recomputation. */
static ls_status complete_layout(const source_row *r, ls_row *row) {
    ls_knobs *l = &row->layout;
    row->free_zero = !*text(r, "zero_stage");
    row->free_virtual = l->virtual_stages == 0 && l->pp > 1;
    row->free_micro = l->micro == 0;
    if (l->virtual_stages == 0) l->virtual_stages = 1;
    if (l->micro == 0) l->micro = 1;
    if (l->context == 0) l->context = 1;
    read_precision(r, row);
    return read_recompute(r, row);
}

/* Reads the metric and the measured value; an empty value is 0: there is nothing to compare with. */
static ls_status read_value(const source_row *r, ls_row *row) {
    const char *m = text(r, "measured_metric"), *v = text(r, "value");
    char *end;
    int i = 0;
    while (i < LS_ROW_METRICS && strcmp(m, metric_names[i]) != 0) i++;
    if (i == LS_ROW_METRICS) return refuse_field(r, "measured_metric", "unknown metric");
    row->metric = (ls_row_metric)i;
    row->value = strtod(v, &end);
    if (!*v)
        row->value = 0; /* blanked: there is nothing to compare with */
    else if (*end || !(row->value > 0 && row->value < 1e300))
        return refuse_field(r, "value", "it must be a number above 0");
    return LS_OK;
}

/* Reads a row. Fails only if a field is malformed; a row that cannot be predicted gets a reason. */
static ls_status read_row(const source_row *r, ls_row *row) {
    row->id = strdup(text(r, "id"));
    row->source = strdup(text(r, "source"));
    row->group = strdup(text(r, "source_group"));
    row->model = strdup(text(r, "model"));
    if (!row->id || !row->source || !row->group || !row->model)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for a row");
    for (int i = 0; i < COLUMNS; i++) LS_TRY(read_number(r, &columns[i], row));
    LS_TRY(complete_shape(r, row));
    LS_TRY(read_cluster(r, row));
    LS_TRY(complete_layout(r, row));
    read_program(r, row);
    LS_TRY(read_value(r, row));
    ls_knobs *l = &row->layout;
    if (l->dp == 0 || l->tp == 0 || l->pp == 0) reject(row, "its layout is not given");
    if (row->reason[0]) return LS_OK;
    if (row->free_zero) l->zero = l->dp > 1 ? 1 : 0;
    if (!*text(r, "sequence_parallel")) l->sequence_parallel = l->tp > 1 && row->task.stack.usual_sequence_parallel;
    l->schedule = l->virtual_stages > 1 ? LS_SCHEDULE_INTERLEAVED : LS_SCHEDULE_1F1B;
    if (ls_plan_check(&row->task, l) != LS_OK) reject(row, ls_status_message());
    return LS_OK;
}

/* Makes rows of the table and frees it; after a failure *out is empty. */
static ls_status read_rows(ls_csv *csv, ls_rows *out) {
    ls_status status = LS_OK;
    const char *lacks = NULL;
    for (int i = TEXTS - 1; i >= 0; i--)
        if (!ls_csv_has(csv, texts[i])) lacks = texts[i];
    for (int i = COLUMNS - 1; i >= 0; i--)
        if (columns[i].presence != MAY_LACK && !ls_csv_has(csv, columns[i].name)) lacks = columns[i].name;
    out->row = calloc(csv->rows - 1, sizeof *out->row);
    if (lacks)
        status = ls_fail(LS_ERR_INPUT, "%s has no column \"%s\"", csv->name, lacks);
    else if (!out->row)
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for %zu rows", csv->rows - 1);
    for (size_t i = 1; status == LS_OK && i < csv->rows; i++)
        status = read_row(&(source_row){csv, i}, &out->row[out->count++]);
    if (status != LS_OK) ls_rows_free(out);
    ls_csv_free(csv);
    return status;
}

/* Reads one table. */
static ls_status read_file(const char *path, ls_rows *out) {
    ls_csv csv;
    *out = (ls_rows){0};
    LS_TRY(ls_csv_read(path, &csv));
    return read_rows(&csv, out);
}

/* Appends the rows of `more`, and takes their ownership. */
static ls_status append_rows(ls_rows *out, ls_rows *more) {
    ls_row *all = realloc(out->row, (out->count + more->count) * sizeof *all);
    if (!all) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu rows", out->count + more->count);
    out->row = all;
    memcpy(all + out->count, more->row, more->count * sizeof *all);
    out->count += more->count;
    free(more->row);
    *more = (ls_rows){0};
    return LS_OK;
}

/* Filter of scandir(): files that end in .csv. */
static int is_table(const struct dirent *entry) { return ls_ends_with(entry->d_name, ".csv"); }

/* Orders the files of a folder by name, for scandir(). */
static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* Reads all tables of a folder, in the order of their names. */
static ls_status read_folder(const char *path, ls_rows *out) {
    struct dirent **entry;
    int count = scandir(path, &entry, is_table, by_name);
    if (count < 0) return ls_fail(LS_ERR_INPUT, "%s cannot be read: %s", path, strerror(errno));
    ls_status status = count > 0 ? LS_OK : ls_fail(LS_ERR_INPUT, "%s has no file that ends in .csv", path);
    for (int i = 0; i < count; i++) {
        ls_rows more = {0};
        if (status == LS_OK) status = read_file(ls_path_in(path, entry[i]->d_name).text, &more);
        if (status == LS_OK) status = append_rows(out, &more);
        ls_rows_free(&more);
        free(entry[i]);
    }
    free(entry);
    if (status != LS_OK) ls_rows_free(out);
    return status;
}

ls_status ls_rows_read(const char *path, ls_rows *out) {
    *out = (ls_rows){0};
    return ls_folder_exists(path) ? read_folder(path, out) : read_file(path, out);
}

ls_status ls_rows_parse(const char *name, const char *text, size_t bytes, ls_rows *out) {
    ls_csv csv;
    *out = (ls_rows){0};
    LS_TRY(ls_csv_parse(name, text, bytes, &csv));
    return read_rows(&csv, out);
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

/* Predicted memory is off by so much on average: a layout that lacks less than that may have fitted. */
static const double MEMORY_DOUBT = .08;

/* Returns whether the layout fits, or its missing memory is within the error of the prediction. */
static bool may_fit(const ls_prediction *p) { return p->memory_bytes <= (1 + MEMORY_DOUBT) * p->capacity_bytes; }

/* Predicts the layout and keeps it if it is possible, divides the batch, and is faster; one that fits is preferred. */
static ls_status try_layout(const ls_row *row, const ls_knobs *layout, choice *c) {
    ls_prediction p;
    if (ls_plan_check(&row->task, layout) != LS_OK) return LS_OK;
    if (row->task.global_batch % ((size_t)layout->dp * layout->micro) != 0) return LS_OK;
    LS_TRY(ls_plan_predict(&row->task, layout, &p));
    bool fits = may_fit(&p), had = c->any && may_fit(&c->best);
    bool better = !c->any || (fits && !had) ||
                  (fits == had && p.seconds < c->best.seconds); /* it has been run, so something did fit */
    if (better) *c = (choice){true, *layout, p};
    return LS_OK;
}

/* Returns whether chunks can be equal; embedding and head may stand for a layer each. */
static bool divides_evenly(size_t layers, size_t chunks) { return layers % chunks == 0 || (layers + 2) % chunks == 0; }

/* Tries numbers of virtual stages if the row does not say, those that its program uses. */
static ls_status try_virtual(const ls_row *row, ls_knobs layout, choice *c) {
    if (!row->free_virtual) return try_layout(row, &layout, c);
    for (int v = 1; v <= VIRTUAL_MAX && (size_t)(v * layout.pp) <= row->task.shape.L; v++) {
        if (v > 1 && row->task.stack.even_stages && !divides_evenly(row->task.shape.L, (size_t)(v * layout.pp)))
            continue;
        size_t micros = row->task.global_batch / ((size_t)layout.dp * layout.micro);
        if (v > 1 && micros % (size_t)layout.pp != 0) continue;
        if (row->task.stack.usual_virtual && v != row->task.stack.usual_virtual) continue;
        layout.virtual_stages = v;
        layout.schedule = v > 1 ? LS_SCHEDULE_INTERLEAVED : LS_SCHEDULE_1F1B;
        LS_TRY(try_layout(row, &layout, c));
    }
    return LS_OK;
}

/* Tries optimizer state sharded (ZeRO 1) and not, if the row does not say which. */
static ls_status try_zero(const ls_row *row, ls_knobs layout, choice *c) {
    if (!row->free_zero || layout.dp < 2) return try_virtual(row, layout, c);
    for (layout.zero = 0; layout.zero < 2; layout.zero++) LS_TRY(try_virtual(row, layout, c));
    return LS_OK;
}

/* Tries all kinds of recomputation if the row does not say which. */
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
