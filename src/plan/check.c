/* check.c: refuses layouts that are impossible, with messages that say what is possible, and writes a layout as a file
 * for train --layout. */
#include "plan/plan.h"

/* Returns LS_ERR_INPUT for a degree below 1. */
static ls_status refuse_number(const char *name, long long value) {
    return ls_fail(LS_ERR_INPUT, "%s is %lld; it must be 1 or more", name, value);
}

/* Checks each knob by itself, without the model or the cluster. */
static ls_status check_numbers(const ls_knobs *l) {
    if (l->dp < 1) return refuse_number("dp", l->dp);
    if (l->tp < 1) return refuse_number("tp", l->tp);
    if (l->pp < 1) return refuse_number("pp", l->pp);
    if (l->context < 1) return refuse_number("context parallelism", l->context);
    if (l->virtual_stages < 1) return refuse_number("virtual stages", l->virtual_stages);
    if (l->micro < 1) return refuse_number("the micro-batch", 0);
    if (l->state_bits != 0 && l->state_bits != 8 && l->state_bits != 16)
        return ls_fail(LS_ERR_INPUT, "optimizer states of %d bits are not possible; use 32, 16 or 8", l->state_bits);
    if (l->shard_group < 0 || (l->shard_group > 0 && l->zero != 3))
        return ls_fail(LS_ERR_INPUT, "sharding among %d replicas requires ZeRO 3", l->shard_group);
    if (l->shard_group > 0 && l->dp * l->context % l->shard_group != 0)
        return ls_fail(LS_ERR_INPUT, "sharding among %d replicas does not divide the %d there are", l->shard_group,
                       l->dp * l->context);
    if (l->zero < 0 || l->zero > 3) return ls_fail(LS_ERR_INPUT, "zero is %d; it must be 0, 1, 2 or 3", l->zero);
    return LS_OK;
}

/* Checks the knobs against the model's heads and layers, and refuses the two knobs whose cost only measured machines
 * have. */
static ls_status check_model(const ls_plan_task *task, const ls_knobs *l) {
    const ls_shape *shape = &task->shape;
    long long chunks = (long long)l->pp * l->virtual_stages;
    if (shape->H % (size_t)l->tp != 0)
        return ls_fail(LS_ERR_INPUT, "tp %d does not divide the %zu attention heads of the model", l->tp, shape->H);
    if (shape->kv_heads % (size_t)l->tp != 0 && (size_t)l->tp % shape->kv_heads != 0)
        return ls_fail(LS_ERR_INPUT,
                       "tp %d neither divides the %zu key/value heads of the model nor is a multiple of them", l->tp,
                       shape->kv_heads);
    if (chunks > (long long)shape->L || chunks >= LS_CHUNKS_MAX)
        return ls_fail(LS_ERR_INPUT, "pp %d × %d virtual stages exceed the %zu layers of the model", l->pp,
                       l->virtual_stages, shape->L);
    if (l->virtual_stages > 1 && l->schedule != LS_SCHEDULE_INTERLEAVED)
        return ls_fail(LS_ERR_INPUT, "%d virtual stages require the interleaved schedule", l->virtual_stages);
    if (l->keep_activations)
        return ls_fail(LS_ERR_INPUT,
                       "kept activations are predicted for machines that probe measured, not for clusters");
    if (l->loss_chunk)
        return ls_fail(LS_ERR_INPUT,
                       "a loss in chunks is predicted for machines that probe measured, not for clusters");
    if (l->sequence_parallel && l->tp < 2) return ls_fail(LS_ERR_INPUT, "sequence parallelism requires tp 2 or more");
    return LS_OK;
}

/* With the optimizer state on the host: checks that the figures of every site's host link are known. */
static ls_status check_host(const ls_plan_task *task, const ls_knobs *l) {
    for (int i = 0; l->offload && i < task->cluster.sites; i++) {
        const ls_chip *chip = &task->cluster.site[i].chip;
        if (chip->host_link > 0 && chip->host_bandwidth > 0) continue;
        return ls_fail(LS_ERR_INPUT,
                       "optimizer states on the host of %s: its link is not known; set \"host_link_bytes_per_second\" "
                       "and \"host_bandwidth_bytes_per_second\" in the cluster file",
                       chip->name);
    }
    return LS_OK;
}

/* Checks for whole stages, or whole replicas, on each of two sites. */
static ls_status check_sites(const ls_plan_task *task, const ls_knobs *l) {
    if (task->cluster.sites < 2) return LS_OK;
    int first = task->cluster.site[0].chips, row = l->tp * l->context;
    if (l->stages_across && first % (row * l->dp) != 0)
        return ls_fail(LS_ERR_INPUT,
                       "the %d pipeline stages of dp %d × tp %d cannot be divided between sites of %d and %d chips",
                       l->pp, l->dp, l->tp, first, task->cluster.site[1].chips);
    if (!l->stages_across && first % (row * l->pp) != 0)
        return ls_fail(LS_ERR_INPUT,
                       "the %d replicas of tp %d × pp %d cannot be divided between sites of %d and %d chips", l->dp,
                       l->tp, l->pp, first, task->cluster.site[1].chips);
    return LS_OK;
}

/* Checks the limits of what pipeline.c can simulate. */
static ls_status check_units(const ls_plan_task *task, const ls_knobs *l) {
    long long whole = (long long)l->dp * (long long)l->micro, chunks = (long long)l->pp * l->virtual_stages;
    long long micros = ((long long)task->global_batch + whole - 1) / whole;
    if (l->schedule != LS_SCHEDULE_GPIPE && micros > 5LL * l->pp) micros = 5LL * l->pp;
    if (chunks == 1 || l->schedule == LS_SCHEDULE_NAIVE || micros <= LS_SCHEDULE_UNITS_MAX / chunks) return LS_OK;
    return ls_fail(
        LS_ERR_INPUT,
        "%lld micro-batches in %lld chunks exceed what can be simulated (%d); use larger micro-batches or fewer stages",
        micros, chunks, LS_SCHEDULE_UNITS_MAX);
}

ls_status ls_plan_check(const ls_plan_task *task, const ls_knobs *l) {
    int chips = ls_cluster_chips(&task->cluster);
    LS_TRY(check_numbers(l));
    LS_TRY(check_model(task, l));
    LS_TRY(check_host(task, l));
    if ((long long)l->dp * l->tp * l->pp * l->context != chips)
        return ls_fail(LS_ERR_INPUT, "dp %d × tp %d × pp %d is %lld chips; the cluster has %d", l->dp, l->tp, l->pp,
                       (long long)l->dp * l->tp * l->pp * l->context, chips);
    LS_TRY(check_sites(task, l));
    if ((size_t)l->dp * l->micro > task->global_batch)
        return ls_fail(LS_ERR_INPUT, "dp %d with micro-batches of %zu needs a global batch of at least %zu; it is %zu",
                       l->dp, l->micro, (size_t)l->dp * l->micro, task->global_batch);
    return check_units(task, l);
}

/* Formats the groups of each replica for --shares, in the order of sites, with the smallest numbers of that proportion.
 * Returns `text`, or NULL where no uneven shares are needed (or dp is above LS_CHUNKS_MAX). */
static const char *shares_text(const ls_plan_task *task, const ls_knobs *layout, char *text, size_t room) {
    int replicas[2], micros[2], share[LS_CHUNKS_MAX];
    if (layout->dp > LS_CHUNKS_MAX || !ls_plan_shares(task, layout, replicas, micros) || micros[0] == micros[1])
        return NULL;
    int a = micros[0], b = micros[1];
    while (b != 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    for (int d = 0; d < layout->dp; d++) share[d] = micros[d >= replicas[0]] / a;
    ls_layout_list_text(share, layout->dp, text, room);
    return text;
}

json_t *ls_plan_to_json(const ls_plan_task *task, const ls_knobs *layout, unsigned also) {
    int chunk_first[LS_CHUNKS_MAX + 1];
    char stages[LS_LAYOUT_LIST_MAX], shares[LS_LAYOUT_LIST_MAX];
    ls_plan_blocks(task, layout, chunk_first);
    ls_layout_blocks_text(chunk_first, layout->pp * layout->virtual_stages, stages, sizeof stages);
    return ls_knobs_to_json(layout, shares_text(task, layout, shares, sizeof shares), layout->pp > 1 ? stages : NULL,
                            also);
}
