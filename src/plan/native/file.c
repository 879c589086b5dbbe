/* file.c: measured figures as JSON and back. The file is not trusted: every number is checked to be finite and above 0,
 * and every list to have its length. Functions that make JSON return a new reference, NULL if memory is short. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "plan/native/machine.h"

static const char *const op_names[LS_NATIVE_OPS] = {"all-reduce", "reduce-scatter", "all-gather", "send"};
#define LS_NATIVE_UNIT_NAME(id, name) "bf16/" name,
static const char *const type_names[LS_NATIVE_TYPES] = {"fp32", "bf16", LS_HARDWARE_UNITS(LS_NATIVE_UNIT_NAME)};
#undef LS_NATIVE_UNIT_NAME
static const char *const pass_types[2] = {"fp32", "bf16"};
static const char *const directions[2] = {"forward", "backward"};

static const char *const pass_names[LS_NATIVE_PASSES] = {
#define LS_NATIVE_PASS_NAME(id, name) name,
    LS_NATIVE_PASS_LIST(LS_NATIVE_PASS_NAME)
#undef LS_NATIVE_PASS_NAME
};

const char *ls_native_op_name(ls_native_op op) { return op_names[op]; }

const char *ls_native_type_name(int type) { return type_names[type]; }

/* ---- to JSON ----------------------------------------------------------------------------------------------------- */

/* Returns `count` numbers as a list. */
static json_t *seconds_list(const double *seconds, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, json_real(seconds[i]));
    return list;
}

/* Returns the measured matmuls as rows [form, type, m, n, k, slices, seconds]. */
static json_t *matmuls_json(const ls_native_rates *r) {
    json_t *list = json_array();
    for (int i = 0; i < r->matmuls; i++) {
        const ls_native_matmul *p = &r->matmul[i];
        json_array_append_new(list,
                              json_pack("[s, s, I, I, I, i, f]", ls_gemm_form_names[p->form], type_names[p->type],
                                        (json_int_t)p->m, (json_int_t)p->n, (json_int_t)p->k, p->slices, p->seconds));
    }
    return list;
}

/* Returns the seconds of attention by type and direction; types that were not measured are left out. */
static json_t *attention_json(const ls_native_rates *r) {
    json_t *types = json_object();
    for (int type = 0; type < LS_NATIVE_TYPES; type++) {
        if (!(r->attention[0][type][0][0] > 0)) continue;
        json_t *both = json_object();
        for (int back = 0; back < 2; back++) {
            json_t *heads = json_array();
            for (int d = 0; d < LS_NATIVE_HEADS; d++)
                json_array_append_new(heads, seconds_list(r->attention[back][type][d], LS_NATIVE_LENGTHS));
            json_object_set_new(both, directions[back], heads);
        }
        json_object_set_new(types, type_names[type], both);
    }
    return types;
}

/* Returns what dropout adds to attention, by type, forward and backward. */
static json_t *dropped_json(const ls_native_rates *r) {
    json_t *types = json_object();
    for (int type = 0; type < LS_NATIVE_TYPES; type++)
        if (r->dropped[0][type] > 0)
            json_object_set_new(types, type_names[type], json_pack("[f, f]", r->dropped[0][type], r->dropped[1][type]));
    return types;
}

/* Returns the seconds of passes; fused passes that were not measured, as on CPUs, are left out. */
static json_t *passes_json(const ls_native_rates *r) {
    json_t *passes = json_object();
    for (int i = 0; i < LS_NATIVE_PASSES; i++) {
        json_t *types = json_object();
        for (int t = 0; t < 2; t++)
            if (r->pass[i][t][0] > 0) json_object_set_new(types, pass_types[t], seconds_list(r->pass[i][t], 2));
        if (i >= LS_PASS_FUSED && json_object_size(types) == 0) {
            json_decref(types);
            continue;
        }
        json_object_set_new(passes, pass_names[i], types);
    }
    return passes;
}

/* Returns the measurements of one number of workers; the fitted laws are not written. */
static json_t *rates_json(const ls_native_rates *r) {
    return json_pack("{s:i, s:i, s:f, s:f, s:o, s:o, s:o, s:o}", "workers", r->workers, "threads", r->threads,
                     "launch_seconds", r->launch_seconds, "copy_bytes_per_second", r->copy_bytes_per_second,
                     "products_seconds", matmuls_json(r), "attention_head_seconds", attention_json(r),
                     "attention_dropout_pair_seconds", dropped_json(r), "passes_seconds", passes_json(r));
}

/* Returns `count` sizes as a list. */
static json_t *sizes_list(const size_t *sizes, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, json_integer((json_int_t)sizes[i]));
    return list;
}

/* Returns one measured collective, with its seconds by size. */
static json_t *link_json(const ls_native_link *l) {
    return json_pack("{s:i, s:i, s:s, s:o}", "workers", l->workers, "group", l->group, "operation", op_names[l->op],
                     "seconds", seconds_list(l->seconds, LS_NATIVE_LINK_SIZES));
}

/* Members that the first version of the file had come first; a file without the others can still be read. */
static json_t *gpu_json(const ls_native_gpu *g) {
    const ls_native_sizes *sizes = &g->rates.sizes;
    json_t *object =
        json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "name", g->name, "count", g->count, "capability",
                  g->capability, "memory_bytes", g->memory_bytes, "matmul_flops_per_second", g->matmul_flops_per_second,
                  "peak_flops_per_second", g->peak_flops_per_second, "copy_bytes_per_second", g->copy_bytes_per_second,
                  "to_bytes_per_second", g->to_bytes_per_second, "from_bytes_per_second", g->from_bytes_per_second);
    if (!object || g->rates.workers == 0) return object;
    json_t *links = json_array(), *rates = rates_json(&g->rates);
    for (int i = 0; i < g->links; i++) json_array_append_new(links, link_json(&g->link[i]));
    json_object_set_new(rates, "pass_elems", sizes_list(sizes->pass, 2));
    json_object_set_new(rates, "head_sizes", sizes_list(sizes->head, LS_NATIVE_HEADS));
    json_object_set_new(rates, "lengths", sizes_list(sizes->length, LS_NATIVE_LENGTHS));
    json_object_set_new(object, "free_bytes", json_real(g->free_bytes));
    if (g->unit_flops_per_second > 0)
        json_object_set_new(object, "unit_flops_per_second", json_real(g->unit_flops_per_second));
    json_object_set_new(object, "open_seconds", json_real(g->open_seconds));
    json_object_set_new(object, "read_seconds", json_real(g->read_seconds));
    json_object_set_new(object, "rates", rates);
    json_object_set_new(object, "link_bytes", sizes_list(g->link_bytes, g->links > 0 ? LS_NATIVE_LINK_SIZES : 0));
    json_object_set_new(object, "links", links);
    return object;
}

json_t *ls_native_machine_to_json(const ls_native_machine *m) {
    json_t *rates = json_array(), *links = json_array();
    for (int i = 0; i < m->counts; i++) json_array_append_new(rates, rates_json(&m->rates[i]));
    for (int i = 0; i < m->links; i++) json_array_append_new(links, link_json(&m->link[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:f, s:o, s:o, s:o*}", "version", m->version, "cpu", m->cpu, "isa",
                     m->isa, "transport", m->transport, "cores", m->cores, "memory_bytes", m->memory_bytes, "rates",
                     rates, "links", links, "gpu", m->gpu.count > 0 ? gpu_json(&m->gpu) : NULL);
}

/* ---- from JSON --------------------------------------------------------------------------------------------------- */

/* Reads a finite number above 0. */
static ls_status read_positive(const json_t *value, const char *what, double *out) {
    double number = json_is_number(value) ? json_number_value(value) : 0;
    if (!(number > 0) || !isfinite(number)) return ls_fail(LS_ERR_INPUT, "%s: must be a number above 0", what);
    *out = number;
    return LS_OK;
}

/* Reads a list of exactly `count` numbers above 0. */
static ls_status read_seconds(const json_t *list, const char *what, int count, double *out) {
    if (!json_is_array(list) || json_array_size(list) != (size_t)count)
        return ls_fail(LS_ERR_INPUT, "%s: must be a list of %d numbers", what, count);
    for (int i = 0; i < count; i++) LS_TRY(read_positive(json_array_get(list, (size_t)i), what, &out[i]));
    return LS_OK;
}

/* Reads a whole number from 1 to `most`. */
static ls_status read_count(const json_t *object, const char *key, int most, int *out) {
    int64_t number;
    LS_TRY(ls_json_get_i64(object, key, &number));
    if (number < 1 || number > most) return ls_fail(LS_ERR_INPUT, "%s: must be between 1 and %d", key, most);
    *out = (int)number;
    return LS_OK;
}

/* Sets *out to the index of the text among the names. */
static ls_status read_name(const json_t *value, const char *what, const char *const *names, int count, int *out) {
    const char *text = json_string_value(value);
    for (*out = 0; text && *out < count; (*out)++)
        if (strcmp(text, names[*out]) == 0) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s: unknown name '%.40s'", what, text ? text : "");
}

/* Reads a row [form, type, m, n, k, slices, seconds]. */
static ls_status read_matmul(const json_t *row, ls_native_matmul *out) {
    size_t *const sizes[3] = {&out->m, &out->n, &out->k};
    double number = 0;
    int form;
    if (!json_is_array(row) || json_array_size(row) != 7)
        return ls_fail(LS_ERR_INPUT, "products_seconds: each row must be [form, type, m, n, k, slices, seconds]");
    LS_TRY(read_name(json_array_get(row, 0), "products_seconds", ls_gemm_form_names, LS_GEMM_FORMS, &form));
    out->form = (ls_gemm_form)form;
    LS_TRY(read_name(json_array_get(row, 1), "products_seconds", type_names, LS_NATIVE_TYPES, &out->type));
    for (int i = 0; i < 3; i++) {
        LS_TRY(read_positive(json_array_get(row, (size_t)i + 2), "products_seconds", &number));
        if (number < 1 || number > 1e9)
            return ls_fail(LS_ERR_INPUT, "products_seconds: sizes must be between 1 and 1e9");
        *sizes[i] = (size_t)number;
    }
    LS_TRY(read_positive(json_array_get(row, 5), "products_seconds", &number));
    if (number < 1 || number > LS_GEMM_SLICES_MAX)
        return ls_fail(LS_ERR_INPUT, "products_seconds: slices must be between 1 and 64");
    out->slices = (int)number;
    return read_positive(json_array_get(row, 6), "products_seconds", &out->seconds);
}

/* Reads all matmuls and fits their laws; every form must have been measured in fp32. */
static ls_status read_matmuls(const json_t *object, ls_native_rates *out) {
    json_t *list;
    LS_TRY(ls_json_get_array(object, "products_seconds", &list));
    size_t count = json_array_size(list);
    if (count > LS_NATIVE_MATMULS_MAX)
        return ls_fail(LS_ERR_INPUT, "products_seconds: must have at most %d rows", LS_NATIVE_MATMULS_MAX);
    out->matmuls = (int)count;
    for (size_t i = 0; i < count; i++) LS_TRY(read_matmul(json_array_get(list, i), &out->matmul[i]));
    ls_native_rates_fit(out);
    for (int form = 0; form < 3; form++)
        if (!out->law[form][0].known)
            return ls_fail(LS_ERR_INPUT, "products_seconds: no matmul of form %s in fp32", ls_gemm_form_names[form]);
    return LS_OK;
}

/* Reads attention of the types that are there; fp32 must be. */
static ls_status read_attention(const json_t *object, ls_native_rates *out) {
    json_t *types;
    LS_TRY(ls_json_get_object(object, "attention_head_seconds", &types));
    for (int type = 0; type < LS_NATIVE_TYPES; type++) {
        const json_t *both = json_object_get(types, type_names[type]);
        if (!both && type > 0) continue;
        for (int back = 0; back < 2; back++)
            for (int d = 0; d < LS_NATIVE_HEADS; d++)
                LS_TRY(read_seconds(json_array_get(json_object_get(both, directions[back]), (size_t)d),
                                    "attention_head_seconds", LS_NATIVE_LENGTHS, out->attention[back][type][d]));
    }
    return LS_OK;
}

/* Reads the times of attention with dropout, which files of earlier versions lack. */
static ls_status read_dropped(const json_t *object, ls_native_rates *out) {
    const char *key = "attention_dropout_pair_seconds";
    const json_t *types = json_object_get(object, key);
    if (types && !json_is_object(types)) return ls_fail(LS_ERR_INPUT, "%s: must be an object", key);
    for (int type = 0; type < LS_NATIVE_TYPES; type++) {
        const json_t *both = json_object_get(types, type_names[type]);
        double seconds[2];
        if (!both) continue;
        LS_TRY(read_seconds(both, key, 2, seconds));
        out->dropped[0][type] = seconds[0], out->dropped[1][type] = seconds[1];
    }
    return LS_OK;
}

/* Reads the times of passes. Each has fp32 times, except the conversion, which has only 16-bit ones. */
static ls_status read_passes(const json_t *object, ls_native_rates *out) {
    json_t *passes;
    LS_TRY(ls_json_get_object(object, "passes_seconds", &passes));
    for (int i = 0; i < LS_NATIVE_PASSES; i++) {
        const char *name = pass_names[i];
        const json_t *types = json_object_get(passes, name);
        bool any = false;
        for (int t = 0; t < 2; t++) {
            const json_t *list = json_object_get(types, pass_types[t]);
            if (!list) continue;
            LS_TRY(read_seconds(list, name, 2, out->pass[i][t]));
            any = true;
        }
        if (!any && i >= LS_PASS_FUSED) continue;
        if (!any) return ls_fail(LS_ERR_INPUT, "passes_seconds: %s is missing", name);
        for (int k = 0; k < 2; k++)
            if (!(out->pass[i][0][k] > 0)) out->pass[i][0][k] = out->pass[i][1][k];
    }
    return LS_OK;
}

/* Reads the measurements of one number of workers with at most `cores` threads each. */
static ls_status read_rates(const json_t *object, int cores, ls_native_rates *out) {
    if (!json_is_object(object)) return ls_fail(LS_ERR_INPUT, "rates: must be a list of objects");
    LS_TRY(read_count(object, "workers", LS_WORKERS_MAX, &out->workers));
    LS_TRY(read_count(object, "threads", cores, &out->threads));
    LS_TRY(read_positive(json_object_get(object, "launch_seconds"), "launch_seconds", &out->launch_seconds));
    LS_TRY(read_positive(json_object_get(object, "copy_bytes_per_second"), "copy_bytes_per_second",
                         &out->copy_bytes_per_second));
    LS_TRY(read_matmuls(object, out));
    LS_TRY(read_attention(object, out));
    LS_TRY(read_dropped(object, out));
    return read_passes(object, out);
}

/* Reads one measured collective. */
static ls_status read_link(const json_t *object, ls_native_link *out) {
    int op;
    if (!json_is_object(object)) return ls_fail(LS_ERR_INPUT, "links: must be a list of objects");
    LS_TRY(read_count(object, "workers", LS_WORKERS_MAX, &out->workers));
    LS_TRY(read_count(object, "group", out->workers, &out->group));
    LS_TRY(read_name(json_object_get(object, "operation"), "operation", op_names, LS_NATIVE_OPS, &op));
    out->op = (ls_native_op)op;
    return read_seconds(json_object_get(object, "seconds"), "seconds", LS_NATIVE_LINK_SIZES, out->seconds);
}

/* Reads a text, cut off to the room. */
static ls_status read_text(const json_t *object, const char *key, char *out, size_t room) {
    const char *text;
    LS_TRY(ls_json_get_text(object, key, &text));
    snprintf(out, room, "%s", text);
    return LS_OK;
}

/* Reads the rates by number of workers, which must ascend, and the links. */
static ls_status read_lists(const json_t *object, ls_native_machine *out) {
    json_t *rates, *links;
    LS_TRY(ls_json_get_array(object, "rates", &rates));
    LS_TRY(ls_json_get_array(object, "links", &links));
    if (json_array_size(rates) < 1 || json_array_size(rates) > LS_NATIVE_COUNTS_MAX)
        return ls_fail(LS_ERR_INPUT, "rates: must be a list of 1 to %d objects", LS_NATIVE_COUNTS_MAX);
    if (json_array_size(links) > LS_NATIVE_LINKS_MAX)
        return ls_fail(LS_ERR_INPUT, "links: must have at most %d entries", LS_NATIVE_LINKS_MAX);
    out->counts = (int)json_array_size(rates);
    out->links = (int)json_array_size(links);
    for (int i = 0; i < out->counts; i++) {
        LS_TRY(read_rates(json_array_get(rates, (size_t)i), out->cores, &out->rates[i]));
        if (i > 0 && out->rates[i].workers <= out->rates[i - 1].workers)
            return ls_fail(LS_ERR_INPUT, "rates: numbers of workers must ascend");
    }
    for (int i = 0; i < out->links; i++) LS_TRY(read_link(json_array_get(links, (size_t)i), &out->link[i]));
    return LS_OK;
}

/* Reads a list of positive, ascending sizes. */
static ls_status read_sizes(const json_t *object, const char *key, int count, size_t *out) {
    json_t *list;
    LS_TRY(ls_json_get_array(object, key, &list));
    if (json_array_size(list) != (size_t)count)
        return ls_fail(LS_ERR_INPUT, "%s: must be a list of %d sizes", key, count);
    for (int i = 0; i < count; i++) {
        json_int_t size = json_integer_value(json_array_get(list, (size_t)i));
        if (size < 1 || size > (json_int_t)1 << 48 || (i > 0 && (size_t)size <= out[i - 1]))
            return ls_fail(LS_ERR_INPUT, "%s: sizes must be above 0, and ascend", key);
        out[i] = (size_t)size;
    }
    return LS_OK;
}

/* Reads the sizes and the collectives of workers on GPUs; there may be none. */
static ls_status read_gpu_links(const json_t *object, ls_native_gpu *out) {
    json_t *links;
    LS_TRY(ls_json_get_array(object, "links", &links));
    if (json_array_size(links) > LS_NATIVE_GPU_LINKS_MAX)
        return ls_fail(LS_ERR_INPUT, "links: must have at most %d entries", LS_NATIVE_GPU_LINKS_MAX);
    out->links = (int)json_array_size(links);
    if (out->links > 0) LS_TRY(read_sizes(object, "link_bytes", LS_NATIVE_LINK_SIZES, out->link_bytes));
    for (int i = 0; i < out->links; i++) LS_TRY(read_link(json_array_get(links, (size_t)i), &out->link[i]));
    return LS_OK;
}

/* Reads the kernels of a GPU and what belongs to them; files of earlier versions have none, and workers stays 0. */
static ls_status read_gpu_rates(const json_t *object, ls_native_gpu *out) {
    const json_t *rates = json_object_get(object, "rates");
    ls_native_sizes *sizes = &out->rates.sizes;
    if (!rates) return LS_OK; /* a file of before */
    LS_TRY(read_positive(json_object_get(object, "free_bytes"), "free_bytes", &out->free_bytes));
    LS_TRY(read_positive(json_object_get(object, "open_seconds"), "open_seconds", &out->open_seconds));
    LS_TRY(read_positive(json_object_get(object, "read_seconds"), "read_seconds", &out->read_seconds));
    const json_t *unit = json_object_get(object, "unit_flops_per_second");
    if (unit) LS_TRY(read_positive(unit, "unit_flops_per_second", &out->unit_flops_per_second));
    LS_TRY(read_rates(rates, 1, &out->rates));
    LS_TRY(read_sizes(rates, "pass_elems", 2, sizes->pass));
    LS_TRY(read_sizes(rates, "head_sizes", LS_NATIVE_HEADS, sizes->head));
    LS_TRY(read_sizes(rates, "lengths", LS_NATIVE_LENGTHS, sizes->length));
    return read_gpu_links(object, out);
}

/* Reads the GPU; NULL: none was measured, and count stays 0. */
static ls_status read_gpu(const json_t *object, ls_native_gpu *out) {
    const struct {
        const char *key;
        double *to;
    } numbers[] = {{"memory_bytes", &out->memory_bytes},
                   {"matmul_flops_per_second", &out->matmul_flops_per_second},
                   {"peak_flops_per_second", &out->peak_flops_per_second},
                   {"copy_bytes_per_second", &out->copy_bytes_per_second},
                   {"to_bytes_per_second", &out->to_bytes_per_second},
                   {"from_bytes_per_second", &out->from_bytes_per_second}};
    enum { COUNT_MAX = 1024, CAPABILITY_MAX = 10000 };
    if (!object) return LS_OK;
    LS_TRY(read_text(object, "name", out->name, sizeof out->name));
    LS_TRY(read_count(object, "count", COUNT_MAX, &out->count));
    LS_TRY(read_count(object, "capability", CAPABILITY_MAX, &out->capability));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        LS_TRY(read_positive(json_object_get(object, numbers[i].key), numbers[i].key, numbers[i].to));
    ls_status status = read_gpu_rates(object, out);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "gpu: ");
}

/* Reads all members of `measured`. */
static ls_status read_machine(const json_t *object, ls_native_machine *out) {
    LS_TRY(read_text(object, "version", out->version, sizeof out->version));
    LS_TRY(read_text(object, "cpu", out->cpu, sizeof out->cpu));
    LS_TRY(read_text(object, "isa", out->isa, sizeof out->isa));
    LS_TRY(read_text(object, "transport", out->transport, sizeof out->transport));
    LS_TRY(read_count(object, "cores", 1 << 20, &out->cores));
    LS_TRY(read_gpu(json_object_get(object, "gpu"), &out->gpu));
    LS_TRY(read_positive(json_object_get(object, "memory_bytes"), "memory_bytes", &out->memory_bytes));
    return read_lists(object, out);
}

ls_status ls_native_machine_from_json(const char *source, const json_t *json, ls_native_machine *out) {
    memset(out, 0, sizeof *out);
    ls_status status = json_is_object(json) ? read_machine(json, out) : ls_fail(LS_ERR_INPUT, "must be an object");
    return status == LS_OK ? LS_OK : ls_fail_at(status, "%s: measured: (measure again with lockstep probe) ", source);
}
