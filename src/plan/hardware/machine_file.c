/* machine_file.c: the members of a cluster file, as tables of names, places and ranges. Reading, writing and messages
 * use the same tables, so that what is written can be read. */
#include "plan/hardware/machine_file.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "config/suggest.h"
#include "model/shape_json.h"

enum { FILE_BYTES_MAX = 1 << 20, KEY_MAX = 64, SHOWN = 80, DIGITS = 12 };

typedef struct member {
    const char *name;
    size_t offset;
    double min, max;
} member;

static const member chip_members[] = {
    {"memory_bytes", offsetof(ls_chip, memory_bytes), 1e6, 1e15},
    {"peak_fp32_flops_per_second", offsetof(ls_chip, peak_flops[LS_PLAN_FP32]), 0, 1e19},
    {"peak_fp16_flops_per_second", offsetof(ls_chip, peak_flops[LS_PLAN_FP16]), 0, 1e19},
    {"peak_bf16_flops_per_second", offsetof(ls_chip, peak_flops[LS_PLAN_BF16]), 0, 1e19},
    {"peak_fp8_flops_per_second", offsetof(ls_chip, peak_flops[LS_PLAN_FP8]), 0, 1e19},
    {"peak_mxfp8_flops_per_second", offsetof(ls_chip, peak_flops[LS_PLAN_MXFP8]), 0, 1e19},
    {"share_fp32", offsetof(ls_chip, share[LS_PLAN_FP32]), 0, 1},
    {"share_fp16", offsetof(ls_chip, share[LS_PLAN_FP16]), 0, 1},
    {"share_bf16", offsetof(ls_chip, share[LS_PLAN_BF16]), 0, 1},
    {"share_fp8", offsetof(ls_chip, share[LS_PLAN_FP8]), 0, 1},
    {"share_mxfp8", offsetof(ls_chip, share[LS_PLAN_MXFP8]), 0, 1},
    {"units", offsetof(ls_chip, units), 1, 1e6},
    {"gemm_fill_elems", offsetof(ls_chip, gemm_fill), 0, 1e6},
    {"attention_share", offsetof(ls_chip, attention_share), .001, 1},
    {"attention_back_share", offsetof(ls_chip, attention_back_share), .001, 1},
    {"memory_bandwidth_bytes_per_second", offsetof(ls_chip, memory_bandwidth), 1e6, 1e16},
    {"bandwidth_share", offsetof(ls_chip, bandwidth_share), .001, 1},
    {"host_link_bytes_per_second", offsetof(ls_chip, host_link), 0, 1e16},
    {"host_bandwidth_bytes_per_second", offsetof(ls_chip, host_bandwidth), 0, 1e16},
    {"launch_seconds", offsetof(ls_chip, launch_seconds), 0, 1},
    {"reserved_bytes", offsetof(ls_chip, reserved_bytes), 0, 1e15},
    {"group_bytes", offsetof(ls_chip, group_bytes), 0, 1e15},
};
static const member link_members[] = {
    {"bandwidth_bytes_per_second", offsetof(ls_link, bandwidth), 1e3, 1e16},
    {"share", offsetof(ls_link, share), .001, 1},
    {"start_seconds", offsetof(ls_link, start_seconds), 0, 10},
    {"latency_seconds", offsetof(ls_link, latency_seconds), 0, 10},
};
enum {
    CHIP_MEMBERS = sizeof chip_members / sizeof *chip_members,
    LINK_MEMBERS = sizeof link_members / sizeof *link_members
};

static const char *const site_words[] = {"name",   "chip",    "chips",    "chips_per_node",
                                         "inside", "between", "measured", "source"};
static const char *const part_words[] = {"like", "name", "source", "is_cpu"};
enum { SITE_WORDS = sizeof site_words / sizeof *site_words, LINK_WORDS = 3, CHIP_WORDS = 4 };

static const char own_source[] = "a cluster file";

/* Defaults of a chip that a file describes without `like`: usual figures of accelerators. */
static const ls_chip usual_chip = {.name = "chip",
                                   .source = own_source,
                                   .share = {.6, .6, .6, .5, .5},
                                   .units = 100,
                                   .gemm_fill = 64,
                                   .attention_share = .4,
                                   .attention_back_share = .3,
                                   .bandwidth_share = .8,
                                   .host_link = 24e9,
                                   .host_bandwidth = 36e9,
                                   .launch_seconds = 2e-6,
                                   .reserved_bytes = 1.0 * 1024 * 1024 * 1024,
                                   .group_bytes = .5 * 1024 * 1024 * 1024};
static const ls_link usual_link = {
    .name = "link", .source = own_source, .share = .8, .start_seconds = 30e-6, .latency_seconds = 8e-6};

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Makes a copy of the object with dashes in names replaced by underscores, a new reference. LS_ERR_INPUT if that makes
 * two names equal. */
static ls_status with_underscores(const json_t *object, json_t **out) {
    const char *key;
    json_t *value;
    *out = json_object();
    if (!*out) return ls_fail(LS_ERR_RESOURCE, "out of memory for a cluster file");
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        char name[KEY_MAX];
        snprintf(name, sizeof name, "%s", key);
        for (char *at = name; *at; at++)
            if (*at == '-') *at = '_';
        bool twice = json_object_get(*out, name) != NULL;
        if (!twice && json_object_set(*out, name, value) == 0) continue;
        json_decref(*out);
        *out = NULL;
        return twice ? ls_fail(LS_ERR_INPUT, "\"%.*s\" is given twice; keep one", SHOWN, key)
                     : ls_fail(LS_ERR_RESOURCE, "out of memory for a cluster file");
    }
    return LS_OK;
}

/* Refuses members that are neither among the words nor in the table. */
static ls_status check_names(const json_t *object, const char *const *words, int count, const member *table, int rows) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        ls_suggest suggest;
        ls_suggest_init(&suggest, key);
        bool known = false;
        for (int i = 0; i < count + rows; i++) {
            const char *name = i < count ? words[i] : table[i - count].name;
            known = known || strcmp(name, key) == 0;
            ls_suggest_offer(&suggest, name);
        }
        if (known) continue;
        if (suggest.best)
            return ls_fail(LS_ERR_INPUT, "unknown name \"%.*s\"; did you mean \"%s\"?", SHOWN, key, suggest.best);
        return ls_fail(LS_ERR_INPUT, "unknown name \"%.*s\" (docs/reference/planner.md lists the names)", SHOWN, key);
    }
    return LS_OK;
}

/* Reads the table's members that the object has into their fields, and checks their ranges; fields of absent
 * members stay. */
static ls_status read_numbers(const json_t *object, const member *table, int rows, void *out) {
    for (int i = 0; i < rows; i++) {
        double value;
        if (!ls_shape_json_has(object, table[i].name)) continue;
        LS_TRY(ls_json_get_f64(object, table[i].name, &value));
        if (!(value >= table[i].min && value <= table[i].max))
            return ls_fail(LS_ERR_INPUT, "\"%s\" is %g; it must be between %g and %g", table[i].name, value,
                           table[i].min, table[i].max);
        memcpy((char *)out + table[i].offset, &value, sizeof value);
    }
    return LS_OK;
}

/* Reads "name" if it is there; `out` has LS_MACHINE_NAME_MAX bytes. */
static ls_status read_name(const json_t *object, char *out) {
    const char *text = NULL;
    LS_TRY(ls_shape_json_text(object, "name", &text));
    if (text) snprintf(out, LS_MACHINE_NAME_MAX, "%s", text);
    return LS_OK;
}

/* Fails with LS_ERR_INPUT if the object lacks the member. */
static ls_status require_member(const json_t *object, const char *key) {
    if (ls_shape_json_has(object, key)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "\"%s\" is missing; set it, or \"like\": a name from the table", key);
}

/* Reads a chip from an object over the chip of the table named by "like", or over usual figures; checks that it can
 * compute. */
static ls_status read_chip_object(const json_t *object, ls_chip *out) {
    const char *like = NULL;
    LS_TRY(check_names(object, part_words, CHIP_WORDS, chip_members, CHIP_MEMBERS));
    LS_TRY(ls_shape_json_text(object, "like", &like));
    if (like) {
        LS_TRY(ls_chip_find(like, out));
    } else {
        *out = usual_chip;
        LS_TRY(require_member(object, "memory_bytes"));
        LS_TRY(require_member(object, "memory_bandwidth_bytes_per_second"));
    }
    out->source = own_source;
    LS_TRY(read_name(object, out->name));
    LS_TRY(ls_shape_json_bool(object, "is_cpu", &out->is_cpu));
    LS_TRY(read_numbers(object, chip_members, CHIP_MEMBERS, out));
    bool rated = false;
    for (int t = 0; t < LS_PLAN_TYPES; t++) {
        if (out->peak_flops[t] > 0 && !(out->share[t] > 0))
            return ls_fail(LS_ERR_INPUT, "\"share_%s\" must be above 0 where a peak rate is given",
                           ls_plan_type_name((ls_plan_type)t));
        rated = rated || out->peak_flops[t] > 0;
    }
    if (!rated)
        return ls_fail(LS_ERR_INPUT,
                       "no peak rate is given; set \"peak_bf16_flops_per_second\" or that of another type");
    if (out->reserved_bytes >= out->memory_bytes)
        return ls_fail(LS_ERR_INPUT, "\"reserved_bytes\" (%g) must be less than \"memory_bytes\" (%g)",
                       out->reserved_bytes, out->memory_bytes);
    return LS_OK;
}

/* Reads a link from an object likewise. */
static ls_status read_link_object(const json_t *object, ls_link *out) {
    const char *like = NULL;
    LS_TRY(check_names(object, part_words, LINK_WORDS, link_members, LINK_MEMBERS));
    LS_TRY(ls_shape_json_text(object, "like", &like));
    if (like) {
        LS_TRY(ls_link_find(like, out));
    } else {
        *out = usual_link;
        LS_TRY(require_member(object, "bandwidth_bytes_per_second"));
    }
    out->source = own_source;
    LS_TRY(read_name(object, out->name));
    return read_numbers(object, link_members, LINK_MEMBERS, out);
}

/* Reads the link under `key`, a name or an object; without that member *out stays. */
static ls_status read_link(const json_t *site, const char *key, ls_link *out) {
    const json_t *value = json_object_get(site, key);
    ls_status status;
    json_t *clean = NULL;
    if (!value) return LS_OK;
    if (json_is_string(value))
        status = ls_link_find(json_string_value(value), out);
    else if (json_is_object(value))
        status = with_underscores(value, &clean);
    else
        status = ls_fail(LS_ERR_INPUT, "must be the name of a link or an object");
    if (clean) status = read_link_object(clean, out);
    json_decref(clean);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "%s: ", key);
}

/* Reads "chip" into site 0 of *out. For a chip of the table, or like one, also sets its usual node and links; other
 * chips get nodes of 8, and the site must have both links. */
static ls_status read_chip(const json_t *site, ls_cluster *out) {
    const json_t *value = json_object_get(site, "chip");
    json_t *clean;
    if (!value) return ls_fail(LS_ERR_INPUT, "\"chip\" is missing: give a name such as \"H100\", or an object");
    if (json_is_string(value)) return ls_cluster_of(json_string_value(value), 1, 0, out);
    if (!json_is_object(value)) return ls_fail(LS_ERR_INPUT, "chip: must be the name of a chip or an object");
    ls_status status = with_underscores(value, &clean);
    if (status != LS_OK) return ls_fail_at(status, "chip: ");
    const char *like = json_string_value(json_object_get(clean, "like"));
    if (like) status = ls_cluster_of(like, 1, 0, out);
    if (status == LS_OK && !like) {
        *out = (ls_cluster){.sites = 1, .site[0] = {.node = 8}};
        if (!json_object_get(site, "inside") || !json_object_get(site, "between"))
            status = ls_fail(LS_ERR_INPUT, "without \"like\" a site needs its links, \"inside\" and \"between\"");
    }
    if (status == LS_OK) status = read_chip_object(clean, &out->site[0].chip);
    json_decref(clean);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "chip: ");
}

/* Reads a number of chips; without that member *out stays. */
static ls_status read_count(const json_t *site, const char *key, int *out) {
    int64_t count;
    if (!ls_shape_json_has(site, key)) return LS_OK;
    LS_TRY(ls_json_get_i64(site, key, &count));
    if (count < 1 || count > LS_CHIPS_MAX)
        return ls_fail(LS_ERR_INPUT, "\"%s\" is %lld; it must be between 1 and %d", key, (long long)count,
                       LS_CHIPS_MAX);
    *out = (int)count;
    return LS_OK;
}

/* Reads the whole file; *out is written only on success. *measured gets a new reference, or NULL. */
static ls_status read_site(const json_t *site, ls_cluster *out, json_t **measured) {
    ls_cluster cluster;
    LS_TRY(check_names(site, site_words, SITE_WORDS, NULL, 0));
    LS_TRY(read_chip(site, &cluster));
    snprintf(cluster.name, sizeof cluster.name, "%s", cluster.site[0].chip.name);
    LS_TRY(read_name(site, cluster.name));
    LS_TRY(read_count(site, "chips_per_node", &cluster.site[0].node));
    cluster.site[0].chips = cluster.site[0].node;
    LS_TRY(read_count(site, "chips", &cluster.site[0].chips));
    LS_TRY(read_link(site, "inside", &cluster.site[0].inside));
    LS_TRY(read_link(site, "between", &cluster.site[0].between));
    LS_TRY(ls_cluster_check(&cluster));
    json_t *carried = json_object_get(site, "measured");
    if (carried && !json_is_object(carried)) return ls_fail(LS_ERR_INPUT, "measured: must be an object");
    if (measured) *measured = json_incref(carried);
    *out = cluster;
    return LS_OK;
}

ls_status ls_machine_from_json(const char *source, const json_t *json, ls_cluster *out, json_t **measured) {
    json_t *clean;
    if (measured) *measured = NULL;
    if (!json_is_object(json))
        return ls_fail(LS_ERR_INPUT, "%s: must be an object, e.g. {\"chip\": \"H100\", \"chips\": 64}", source);
    ls_status status = with_underscores(json, &clean);
    if (status == LS_OK) {
        status = read_site(clean, out, measured);
        json_decref(clean);
    }
    return status == LS_OK ? LS_OK : ls_fail_at(status, "%s: ", source);
}

ls_status ls_machine_file_read(const char *path, ls_cluster *out, json_t **measured) {
    char *text = NULL;
    size_t bytes = 0;
    json_t *json = NULL;
    if (measured) *measured = NULL;
    LS_TRY(ls_file_read(path, FILE_BYTES_MAX, &text, &bytes));
    bool is_yaml = ls_file_has_suffix(path, ".yaml") || ls_file_has_suffix(path, ".yml");
    ls_status status =
        is_yaml ? ls_shape_yaml_load(path, text, bytes, &json) : ls_json_load_text(path, text, bytes, &json);
    free(text);
    if (status != LS_OK) return status;
    status = ls_machine_from_json(path, json, out, measured);
    json_decref(json);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Returns a chip or link as a new object with the members of the table; NULL: out of memory. */
static json_t *part_to_json(const char *name, const char *source, const member *table, int rows, const void *from) {
    json_t *object = json_pack("{s:s, s:s}", "name", name, "source", source ? source : own_source);
    for (int i = 0; i < rows; i++) {
        double value;
        memcpy(&value, (const char *)from + table[i].offset, sizeof value);
        if (object && json_object_set_new(object, table[i].name, json_real(value)) == 0) continue;
        json_decref(object);
        return NULL;
    }
    return object;
}

/* Returns the link as a new object; NULL: out of memory. */
static json_t *link_to_json(const ls_link *link) {
    return part_to_json(link->name, link->source, link_members, LINK_MEMBERS, link);
}

json_t *ls_machine_to_json(const ls_cluster *cluster, const json_t *measured) {
    const ls_site *site = &cluster->site[0];
    json_t *chip = part_to_json(site->chip.name, site->chip.source, chip_members, CHIP_MEMBERS, &site->chip);
    bool whole = chip && json_object_set_new(chip, "is_cpu", json_boolean(site->chip.is_cpu)) == 0;
    json_t *object = json_pack("{s:s, s:o, s:i, s:i, s:o, s:o}", "name", cluster->name, "chip", chip, "chips",
                               site->chips, "chips_per_node", site->node, "inside", link_to_json(&site->inside),
                               "between", link_to_json(&site->between));
    if (measured) whole = whole && json_object_set(object, "measured", (json_t *)(uintptr_t)measured) == 0;
    if (whole) return object;
    json_decref(object);
    return NULL;
}

ls_status ls_machine_file_write(const char *path, const ls_cluster *cluster, const json_t *measured) {
    json_t *json = ls_machine_to_json(cluster, measured);
    char *text = json ? json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(json);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for a cluster file");
    ls_status status = ls_file_write_atomic(path, text, strlen(text));
    free(text);
    return status;
}
