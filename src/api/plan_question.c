/* plan_question.c: makes the question for the planner (cluster, model, batch, framework, fixed knobs) from the options
 * of "plan". Functions read_* fill their part of it, and fail with LS_ERR_INPUT, naming the option. */
#include <stdio.h>
#include <string.h>

#include "api/plan.h"
#include "base/files.h"
#include "config/value.h"
#include "model/model.h"
#include "model/shape_file.h"
#include "plan/hardware/machine_file.h"
#include "plan/search.h"
#include "run/inputs/inputs.h"

/* Share of an accelerator's memory that a plan leaves free, because predictions are a few percent off. */
static const double HEADROOM = .05;

enum { NAME_MAX_BYTES = 4096, SEQ_MAX = 4096, CPU_SEQ_MAX = 1024, CPU_BATCH_TOKENS = 8192 };

/* ---- the cluster ------------------------------------------------------------------------------------------------- */

/* Returns whether a name of --cluster is meant as a file: it has a slash or the ending of one, or such a file
 * exists. */
static bool is_file_name(const char *name) {
    return strchr(name, '/') || ls_ends_with(name, ".json") || ls_ends_with(name, ".yaml") ||
           ls_ends_with(name, ".yml") || ls_file_exists(name);
}

/* Reads a link such as "100gbe" or "4x25gbe"; "400gbe/node" is one that the `node` chips of a node share, so its
 * bandwidth is divided among them. `id` is the option, for messages. */
static ls_status read_link(const ls_options *o, ls_option_id id, const char *text, int node, ls_link *out) {
    char name[LS_MACHINE_NAME_MAX];
    bool shared = ls_ends_with(text, "/node");
    size_t length = strlen(text) - (shared ? strlen("/node") : 0);
    if (length >= sizeof name) return ls_options_fail(o, id, "is too long for the name of a link");
    memcpy(name, text, length);
    name[length] = '\0';
    ls_status status = ls_link_find(name, out);
    if (status != LS_OK) return ls_fail_at(status, "--%s: ", ls_option_info_get(id)->name);
    if (shared) {
        out->bandwidth /= node;
        out->shared_by = node;
        snprintf(out->name, sizeof out->name, "%s", text);
    }
    return LS_OK;
}

/* Replaces the links of a site by those of --node-link (inside a node) and --network (between nodes), if they are
 * given. */
static ls_status set_links(const ls_options *o, ls_site *site) {
    if (o->node_link) LS_TRY(read_link(o, LS_OPT_node_link, o->node_link, site->node, &site->inside));
    if (o->network) LS_TRY(read_link(o, LS_OPT_network, o->network, site->node, &site->between));
    return LS_OK;
}

ls_status ls_cluster_option_site(const ls_options *o, const char *name, ls_site *out, bool *is_file,
                                 json_t **measured) {
    ls_cluster one;
    *measured = NULL;
    *is_file = is_file_name(name);
    ls_status status = *is_file ? ls_machine_file_read(name, &one, measured) : ls_cluster_of(name, 1, 0, &one);
    if (status != LS_OK) return ls_fail_at(status, "--cluster: ");
    *out = one.site[0];
    if (o->gpus_per_node > 0) out->node = (int)o->gpus_per_node;
    status = set_links(o, out);
    if (status != LS_OK) {
        json_decref(*measured);
        *measured = NULL;
    }
    return status;
}

/* Returns dp x tp x pp x cp if the options give dp, tp and pp, which is the number of chips without --gpus; otherwise
 * 0. */
static long long chips_of_request(const ls_layout_request *request) {
    const unsigned mesh = 1u << LS_KNOB_dp | 1u << LS_KNOB_tp | 1u << LS_KNOB_pp;
    const ls_knobs *k = &request->knobs;
    return (request->given & mesh) == mesh ? (long long)k->dp * k->tp * k->pp * k->context : 0;
}

/* Reads one cluster of the list --cluster. Its number of chips: --gpus, else the file's or the mesh's, else one node.
 * Replaces *all_measured by its figures, or NULL. */
static ls_status read_site(const ls_options *o, const char *name, ls_plan_question *q, ls_site *out,
                           json_t **all_measured) {
    json_t *measured;
    bool is_file;
    LS_TRY(ls_cluster_option_site(o, name, out, &is_file, &measured));
    json_decref(*all_measured);
    *all_measured = measured;
    long long chips = o->gpus > 0 ? o->gpus : is_file ? out->chips : chips_of_request(&q->request);
    if (chips > LS_CHIPS_MAX)
        return ls_fail(LS_ERR_INPUT, "dp × tp × pp is %lld chips; the limit is %d", chips, LS_CHIPS_MAX);
    out->chips = chips > 0 ? (int)chips : out->node;
    return LS_OK;
}

/* Reads the list --cluster and the link between its sites. *measured gets the figures of the last site (see
 * read_site). */
static ls_status read_cluster(const ls_options *o, ls_plan_question *q, json_t **measured) {
    ls_cluster *cluster = &q->task.cluster;
    const char *at = o->cluster;
    while (at) {
        char name[NAME_MAX_BYTES];
        size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof name)
            return ls_options_fail(o, LS_OPT_cluster, "has an empty name, or one that is too long");
        if (cluster->sites == LS_SITES_MAX)
            return ls_options_fail(o, LS_OPT_cluster, "at most %d clusters are supported", LS_SITES_MAX);
        memcpy(name, at, length);
        name[length] = '\0';
        at = at[length] ? at + length + 1 : NULL;
        LS_TRY(read_site(o, name, q, &cluster->site[cluster->sites], measured));
        cluster->sites++;
    }
    snprintf(cluster->name, sizeof cluster->name, "%s", cluster->site[0].chip.name);
    if (cluster->sites > 1 && !o->link)
        return ls_options_fail(o, LS_OPT_cluster, "two clusters require --link, the link between them, e.g. 10gbe");
    if (cluster->sites < 2 && o->link)
        return ls_options_fail(o, LS_OPT_link, "applies to two clusters only; the link between nodes is --network");
    if (o->link) LS_TRY(read_link(o, LS_OPT_link, o->link, 1, &cluster->across));
    cluster->across.shared_by = 1;
    return ls_cluster_check(cluster);
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

/* Returns the default sequences of a step, a power of two: at most the tokens that Brown et al. (2020, table 2.1) used
 * for models of this size, and at least one for every eight chips. For CPUs at most 8192 tokens; one sequence in any
 * case. */
static size_t usual_batch(const ls_plan_task *task) {
    double params = ls_model_count_params(&task->shape);
    size_t tokens = params < 5e8 ? 524288 : params < 2e9 ? 1048576 : params < 2e10 ? 2097152 : 4194304, batch = 1;
    if (task->cluster.site[0].chip.is_cpu) tokens = CPU_BATCH_TOKENS;
    while (2 * batch * task->seq <= tokens) batch *= 2;
    while (!task->cluster.site[0].chip.is_cpu && 8 * batch < (size_t)ls_cluster_chips(&task->cluster)) batch *= 2;
    return batch;
}

/* Sets sequence length and global batch: by default the positions of the model, at most 4096 (1024 on CPUs), and
 * usual_batch(). */
static ls_status read_sizes(const ls_options *o, ls_plan_task *task) {
    size_t most = task->cluster.site[0].chip.is_cpu ? CPU_SEQ_MAX : SEQ_MAX, T = task->shape.T;
    task->seq = o->seq > 0 ? (size_t)o->seq : T < most ? T : most;
    if (task->seq > T)
        return ls_options_fail(o, LS_OPT_seq, "%s has %zu positions: use --seq %zu or less", task->shape.name, T, T);
    task->global_batch = o->global_batch > 0 ? (size_t)o->global_batch : usual_batch(task);
    return LS_OK;
}

/* Sets the training program to plan for: --stack, else Megatron, or this one on CPUs. */
static ls_status read_stack(const ls_options *o, ls_plan_task *task) {
    bool cpu = task->cluster.site[0].chip.is_cpu;
    if (o->stack) {
        ls_status status = ls_stack_find(o->stack, &task->stack);
        return status == LS_OK ? LS_OK : ls_fail_at(status, "--stack: ");
    }
    return ls_stack_find(cpu ? "native" : "megatron", &task->stack);
}

/* Reads "300B", "1.5T" or "2000000" into *out; 0 if `text` is NULL or empty. */
static ls_status read_count(const ls_options *o, ls_option_id id, const char *text, double *out) {
    static const char letters[] = "KMBT";
    static const double factors[] = {1e3, 1e6, 1e9, 1e12};
    char number[32];
    size_t length = text ? strlen(text) : 0;
    *out = 0;
    if (length == 0) return LS_OK;
    const char *unit = strchr(letters, text[length - 1]);
    if (unit) length--;
    if (length > 0 && length < sizeof number) {
        memcpy(number, text, length);
        number[length] = '\0';
        if (ls_value_parse_float(number, out) == LS_OK && *out > 0) {
            if (unit) *out *= factors[unit - letters];
            if (*out >= 1 && *out <= 1e18) return LS_OK;
        }
    }
    if (id == LS_OPT_params) return ls_options_fail(o, id, "must be a number of parameters, e.g. 13B or 350M");
    return ls_options_fail(o, id, "must be a number of tokens, e.g. 300B or 1.5T");
}

/* Makes the shape of --params, or reads that of --model. */
static ls_status read_shape(const ls_options *o, ls_shape *out) {
    double params;
    LS_TRY(read_count(o, LS_OPT_params, o->params, &params));
    if (params > 0) {
        if (o->model) return ls_options_fail(o, LS_OPT_params, "give it or --model, not both");
        return ls_options_blame(o, LS_OPT_params, ls_shape_of_size(o->family, params, out));
    }
    ls_start start;
    LS_TRY(ls_start_look(o->model, &start));
    *out = start.shape;
    ls_start_close(&start);
    return LS_OK;
}

/* Reads the rate of failures, if --mtbf is given; converts hours, minutes and GB/s to seconds and bytes per second.
 * Default bandwidth: 1 GB/s per node. */
static ls_status read_failures(const ls_options *o, ls_plan_question *q) {
    int nodes = 0;
    for (int i = 0; i < q->task.cluster.sites; i++) {
        const ls_site *site = &q->task.cluster.site[i];
        nodes += (site->chips + site->node - 1) / site->node;
    }
    if (!(o->mtbf > 0)) {
        if (ls_options_is_given(o, LS_OPT_checkpoint_bandwidth))
            return ls_options_fail(o, LS_OPT_checkpoint_bandwidth, "requires --mtbf");
        return LS_OK;
    }
    if (!(q->tokens > 0)) return ls_options_fail(o, LS_OPT_mtbf, "requires --tokens N");
    q->failures.node_seconds = o->mtbf * 3600;
    q->failures.bytes_per_second = (o->checkpoint_bandwidth > 0 ? o->checkpoint_bandwidth : nodes) * 1e9;
    q->failures.restart_seconds = o->restart_minutes * 60;
    return LS_OK;
}

/* ---- knobs ------------------------------------------------------------------------------------------------------- */

/* Reads the knobs that only other programs have: context parallelism, size of the sharding group, offloading, bits of
 * the optimizer state. */
static ls_status read_others(const ls_options *o, ls_layout_request *out) {
    if (o->cp > 0) ls_knob_give(out, LS_KNOB_context, (double)o->cp);
    if (ls_options_is_given(o, LS_OPT_shard_among)) {
        ls_knob_give(out, LS_KNOB_shard_group, (double)o->shard_among);
        if (o->shard_among > 0 && !ls_knob_is_given(out, LS_KNOB_zero)) ls_knob_give(out, LS_KNOB_zero, 3);
    }
    if (o->offload) ls_knob_give(out, LS_KNOB_offload, true);
    if (strcmp(o->optimizer_states, "bf16") == 0)
        ls_knob_give(out, LS_KNOB_state_bits, 16);
    else if (strcmp(o->optimizer_states, "8bit") == 0)
        ls_knob_give(out, LS_KNOB_state_bits, 8);
    else if (strcmp(o->optimizer_states, "fp32") != 0)
        return ls_options_fail(o, LS_OPT_optimizer_states, "must be fp32, bf16 or 8bit");
    return LS_OK;
}

/* Reads the layout options; knobs that are not given stay open for the search. */
static ls_status read_request(const ls_options *o, ls_layout_request *out) {
    json_t *file;
    LS_TRY(ls_layout_request_from_options(o, &file, out));
    json_decref(file);
    out->shares = out->stages = NULL; /* they went with the file; other programs divide as they do */
    const ls_knobs *k = &out->knobs;
    bool has_tp = ls_knob_is_given(out, LS_KNOB_tp), has_pp = ls_knob_is_given(out, LS_KNOB_pp);
    if (out->workers > 0 && !ls_knob_is_given(out, LS_KNOB_dp) && has_tp && has_pp)
        ls_knob_give(out, LS_KNOB_dp, out->workers / k->tp / k->pp);
    if (ls_options_is_given(o, LS_OPT_precision)) ls_knob_give(out, LS_KNOB_type, o->precision);
    return read_others(o, out);
}

/* Limits the memory of a layout to that of the smallest chip, less HEADROOM. CPUs have no such limit here. */
static void read_memory(ls_plan_question *q) {
    const ls_cluster *cluster = &q->task.cluster;
    double least = cluster->site[0].chip.memory_bytes;
    if (cluster->sites > 1 && cluster->site[1].chip.memory_bytes < least) least = cluster->site[1].chip.memory_bytes;
    if (!cluster->site[0].chip.is_cpu) q->request.memory_bytes = least * (1 - HEADROOM);
}

/* Refuses 8-bit types that a chip of the cluster does not have. */
static ls_status check_type(const ls_options *o, const ls_plan_question *q) {
    ls_plan_type type = q->request.knobs.type;
    for (int i = 0; ls_plan_is_8bit(type) && i < q->task.cluster.sites; i++) {
        const ls_chip *chip = &q->task.cluster.site[i].chip;
        if (chip->peak_flops[type] > 0) continue;
        return ls_options_fail(o, LS_OPT_precision, "%s does not support %s: use %s", chip->name,
                               ls_plan_type_name(type), chip->peak_flops[LS_PLAN_FP8] > 0 ? "fp8" : "bf16 or fp16");
    }
    return LS_OK;
}

/* Reads all parts of the question, in the order in which later ones need earlier ones. */
static ls_status read_question(const ls_options *o, ls_plan_question *q, json_t **measured) {
    LS_TRY(read_shape(o, &q->task.shape));
    LS_TRY(ls_image_option_refuse(&q->task.shape, "plan"));
    LS_TRY(read_request(o, &q->request));
    LS_TRY(read_cluster(o, q, measured));
    LS_TRY(check_type(o, q));
    LS_TRY(read_sizes(o, &q->task));
    LS_TRY(read_stack(o, &q->task));
    LS_TRY(read_count(o, LS_OPT_tokens, o->tokens, &q->tokens));
    q->price = o->price;
    if (q->price > 0 && !(q->tokens > 0)) return ls_options_fail(o, LS_OPT_price, "needs --tokens N to compute a cost");
    LS_TRY(read_failures(o, q));
    read_memory(q);
    return LS_OK;
}

ls_status ls_plan_question_read(const ls_options *o, ls_plan_question *out, json_t **measured) {
    memset(out, 0, sizeof *out);
    if (!o->cluster)
        return ls_fail(LS_ERR_INPUT, "plan needs --cluster: a chip such as H100 (--cluster list shows all), or a file");
    if (!o->model && !o->params)
        return ls_fail(
            LS_ERR_INPUT,
            "plan needs --model: a preset such as llama-8b, a shape file, or a config.json; or --params, such as 13B");
    *measured = NULL;
    ls_status status = read_question(o, out, measured);
    if (status == LS_OK) return LS_OK;
    json_decref(*measured);
    *measured = NULL;
    return status;
}
