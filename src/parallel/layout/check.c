/* check.c: whether a layout can be run for a task. Every refusal is LS_ERR_INPUT, and names the option and the nearest
 * legal value. The static functions check one condition each. */
#include <stdio.h>

#include "base/status.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/make.h"
#include "parallel/layout/micro_batches.h"

enum { SAID_MAX = 96 };

/* ---- mesh -------------------------------------------------------------------------------------------------------- */

/* Checks that a batch of B sequences can be divided into G gradient groups. */
static ls_status check_task(const ls_layout_task *task) {
    if (task->G >= 1 && (size_t)task->G <= task->B) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "--groups %d: a batch of %zu sequences allows 1 to %zu gradient groups", task->G,
                   task->B, task->B);
}

/* Checks that dp, tp and pp, and the number of workers, are within limits. */
static ls_status check_size(const ls_layout *layout) {
    const struct {
        const char *flag;
        int count;
    } rows[] = {{"dp", layout->dp}, {"tp", layout->tp}, {"pp", layout->pp}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].count < 1 || rows[i].count > LS_WORKERS_MAX)
            return ls_fail(LS_ERR_INPUT, "--%s %d: must be between 1 and %d", rows[i].flag, rows[i].count,
                           LS_WORKERS_MAX);
    if (ls_layout_workers(layout) <= LS_WORKERS_MAX) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "--dp %d --tp %d --pp %d is %d workers, but the limit is %d; lower one of them",
                   layout->dp, layout->tp, layout->pp, ls_layout_workers(layout), LS_WORKERS_MAX);
}

/* Checks that tp divides the slices (the fixed parts of a layer that tensor parallelism assigns). */
static ls_status check_tp(const ls_layout *layout, const ls_model *model) {
    int tp = layout->tp, below = tp, above = tp;
    if (model->S % tp == 0) return LS_OK;
    const char *s = model->S == 1 ? "" : "s", *or_less = model->S == 1 ? "" : " or less";
    if (tp > model->S && (tp & (tp - 1)) == 0 && (size_t)tp <= model->shape.kv_heads && tp <= LS_SLICES_MAX)
        return ls_fail(LS_ERR_INPUT,
                       "--tp %d exceeds the %d slice%s of a layer; use --tp %d%s, or --slices %d (changes the result)",
                       tp, model->S, s, model->S, or_less, tp);
    if (tp > model->S)
        return ls_fail(LS_ERR_INPUT, "--tp %d exceeds the %d slice%s of a layer; use --tp %d%s", tp, model->S, s,
                       model->S, or_less);
    while (model->S % below != 0) below--;
    while (model->S % above != 0) above++;
    return ls_fail(LS_ERR_INPUT, "--tp %d does not divide the %d slices of a layer; use --tp %d or --tp %d", tp,
                   model->S, below, above);
}

ls_status ls_layout_check_parts(const ls_layout *layout, const ls_layout_task *task) {
    const ls_model *model = task->model;
    LS_TRY(check_task(task));
    LS_TRY(check_size(layout));
    LS_TRY(check_tp(layout, model));
    if (layout->pp <= model->nblocks) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "--pp %d exceeds the blocks of %s: it has %d (embedding, %zu layers, head); use --pp %d or less",
                   layout->pp, model->shape.name, model->nblocks, model->shape.L, model->nblocks);
}

/* Writes how the user asked for dp, and how to ask for `most` replicas, which is as many as there can be. */
static void say_dp(const ls_layout *layout, int most, const ls_layout_request *request, char said[SAID_MAX],
                   char use[SAID_MAX]) {
    int workers = most * layout->tp * layout->pp;
    if (!request || ls_knob_is_given(request, LS_KNOB_dp) || request->workers == 0) {
        snprintf(said, SAID_MAX, "--dp %d", layout->dp);
        snprintf(use, SAID_MAX, "use --dp %d or less", most);
    } else if (request->launcher) {
        snprintf(said, SAID_MAX, "%s started %d workers: dp %d", request->launcher, request->workers, layout->dp);
        snprintf(use, SAID_MAX, "start %d workers or fewer", workers);
    } else {
        snprintf(said, SAID_MAX, "--workers %d: dp %d", request->workers, layout->dp);
        snprintf(use, SAID_MAX, "use --workers %d or fewer", workers);
    }
}

ls_status ls_layout_check_dp(const ls_layout *layout, const ls_layout_task *task, const ls_layout_request *request) {
    char said[SAID_MAX], use[SAID_MAX];
    if (layout->dp <= task->G) return LS_OK;
    say_dp(layout, task->G, request, said, use);
    if ((size_t)layout->dp > task->B)
        return ls_fail(LS_ERR_INPUT,
                       "%s exceeds the batch of %zu sequences; %s, or a larger --global-batch with --groups %d "
                       "(changes the result)",
                       said, task->B, use, layout->dp);
    return ls_fail(LS_ERR_INPUT, "%s exceeds the %d gradient groups; %s, or --groups %d (changes the result)", said,
                   task->G, use, layout->dp);
}

/* ---- schedule ---------------------------------------------------------------------------------------------------- */

/* Returns the error for more chunks than blocks; `most`: how many chunks are possible. */
static ls_status fail_chunks(const ls_layout *layout, const ls_model *model, int most) {
    int v = layout->virtual_stages;
    if (most / layout->pp >= 2)
        return ls_fail(
            LS_ERR_INPUT,
            "--virtual-stages %d: %d stages allow at most %d chunks of %s in all; use --virtual-stages %d or less", v,
            layout->pp, most, model->shape.name, most / layout->pp);
    if (most < 4)
        return ls_fail(LS_ERR_INPUT, "--schedule interleaved: %s has only %d blocks; use --schedule 1f1b",
                       model->shape.name, model->nblocks);
    return ls_fail(LS_ERR_INPUT,
                   "--schedule interleaved: %d stages with at least 2 chunks each need %d blocks, but %s has %d; use "
                   "--pp %d, or --schedule 1f1b",
                   layout->pp, 2 * layout->pp, model->shape.name, model->nblocks, most / 2);
}

ls_status ls_layout_check_schedule(const ls_layout *layout, const ls_layout_task *task) {
    int v = layout->virtual_stages;
    int most = task->model->nblocks < LS_CHUNKS_MAX ? task->model->nblocks : LS_CHUNKS_MAX;
    bool interleaved = layout->schedule == LS_SCHEDULE_INTERLEAVED;
    if ((int)layout->schedule < 0 || layout->schedule >= LS_SCHEDULE_KINDS)
        return ls_fail(LS_ERR_INPUT, "--schedule: unknown kind %d", (int)layout->schedule);
    if (v < 1) return ls_fail(LS_ERR_INPUT, "--virtual-stages %d: must be at least 1", v);
    if (v > 1 && !interleaved)
        return ls_fail(
            LS_ERR_INPUT,
            "--virtual-stages %d requires --schedule interleaved, not %s; use that, or omit --virtual-stages", v,
            ls_schedule_kind_name(layout->schedule));
    if (!interleaved) return LS_OK;
    if (layout->pp == 1)
        return ls_fail(
            LS_ERR_INPUT,
            "--schedule interleaved requires a pipeline; use --pp 2 or more, or omit --schedule and --virtual-stages");
    if (v > most / layout->pp) return fail_chunks(layout, task->model, most);
    if (v > 1) return LS_OK;
    return ls_fail(
        LS_ERR_INPUT,
        "--virtual-stages 1: --schedule interleaved requires 2 or more; use --virtual-stages 2, or --schedule 1f1b");
}

/* Checks that the chunks cover all blocks in order, with at least one block each. */
static ls_status check_chunks(const ls_layout *layout, const ls_layout_task *task) {
    int chunks = ls_layout_chunks(layout), nblocks = task->model->nblocks;
    bool sound = layout->chunk_first[0] == 0 && layout->chunk_first[chunks] == nblocks;
    for (int c = 0; c < chunks; c++) sound = sound && layout->chunk_first[c] < layout->chunk_first[c + 1];
    if (sound) return LS_OK;
    return ls_fail(
        LS_ERR_INPUT,
        "--stages: the %d chunks must cover all %d blocks of %s in order, at least one block each; use --stages cost",
        chunks, nblocks, task->model->shape.name);
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

ls_status ls_layout_check_shares(const ls_layout *layout, const ls_layout_task *task) {
    double speeds[LS_WORKERS_MAX];
    int near[LS_WORKERS_MAX];
    int64_t sum = 0;
    char shares[LS_LAYOUT_SHOWN], better[LS_LAYOUT_SHOWN];
    ls_layout_list_text(layout->share, layout->dp, shares, sizeof shares);
    for (int d = 0; d < layout->dp; d++) {
        if (layout->share[d] < 1)
            return ls_fail(LS_ERR_INPUT, "--shares %s: data-parallel replica %d has %d groups; it needs at least 1",
                           shares, d, layout->share[d]);
        sum += layout->share[d];
        speeds[d] = layout->share[d];
    }
    if (sum == task->G) return LS_OK;
    ls_layout_share_by_speed(speeds, layout->dp, task->G, near);
    ls_layout_list_text(near, layout->dp, better, sizeof better);
    return ls_fail(LS_ERR_INPUT, "--shares %s sums to %lld, but a step has %d gradient groups; use e.g. --shares %s",
                   shares, (long long)sum, task->G, better);
}

/* Returns whether a block of the model has activations that --keep-activations would keep. */
static bool has_wide_activations(const ls_model *model) {
    for (int b = 0; b < model->nblocks; b++)
        if (model->blocks[b].kind->has_wide_activation) return true;
    return false;
}

/* Checks that --keep-activations has something to keep, and that --recompute keeps it too. */
static ls_status check_keep_activations(const ls_layout *layout, const ls_layout_task *task) {
    const ls_model *model = task->model;
    if (!layout->keep_activations) return LS_OK;
    if (!has_wide_activations(model))
        return ls_fail(LS_ERR_INPUT, "--keep-activations is for the MLPs of transformers, and %s has none; omit it",
                       model->shape.name);
    if (layout->recompute == LS_RECOMPUTE_NONE) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "--keep-activations keeps what --recompute %s makes again; omit one of them",
                   ls_recompute_name(layout->recompute));
}

/* Checks that --loss-chunk is not used for a model of images. */
static ls_status check_loss_chunk(const ls_layout *layout, const ls_layout_task *task) {
    if (layout->loss_chunk == 0 || !ls_shape_sees_images(&task->model->shape)) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "--loss-chunk %zu is for the logits of sequences, and %s is a model of images; omit it",
                   layout->loss_chunk, task->model->shape.name);
}

/* Checks that there are several TP workers, and a token for each. */
static ls_status check_sequence_parallel(const ls_layout *layout, const ls_layout_task *task) {
    if (!layout->sequence_parallel) return LS_OK;
    if (layout->tp == 1)
        return ls_fail(LS_ERR_INPUT,
                       "--sequence-parallel divides tokens among tensor-parallel workers and --tp is 1: %somit it",
                       task->model->S > 1 ? "use --tp 2 or more, or " : "");
    if (task->T >= (size_t)layout->tp) return LS_OK;
    return ls_fail(
        LS_ERR_INPUT,
        "--sequence-parallel: a sequence of %zu tokens is too short for --tp %d; use --seq %d or more, or omit it",
        task->T, layout->tp, layout->tp);
}

size_t ls_layout_largest_share(const ls_layout *layout, size_t B, int G) {
    size_t most = 1;
    for (int d = 0; d < layout->dp; d++) {
        int first = ls_layout_first_group(layout, d), end = ls_layout_first_group(layout, d + 1);
        size_t sequences = ls_slice_begin(B, G, end) - ls_slice_begin(B, G, first);
        if (sequences > most) most = sequences;
    }
    return most;
}

/* Checks that each replica runs its share as one micro-batch: statistics of the whole batch are known only when all of
 * it has reached the norm. */
static ls_status check_bn_sync(const ls_layout *layout, const ls_layout_task *task) {
    size_t share = ls_layout_largest_share(layout, task->B, task->G);
    if (!task->bn_sync) return LS_OK;
    if (layout->zero >= 2 && layout->dp > 1 && layout->dp < task->G)
        return ls_fail(LS_ERR_INPUT,
                       "--zero %d processes one gradient group at a time, but --bn sync needs all images of a step at "
                       "once; use --zero 1, or --dp %d",
                       layout->zero, task->G);
    if (layout->micro == 0 || layout->micro >= share) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "--micro-batch %zu: --bn sync needs all images of a step at once; use --micro-batch %zu, or omit it",
                   layout->micro, share);
}

/* Checks the options that need no other decision: ZeRO, recomputation, micro-batch, and those above. */
static ls_status check_rest(const ls_layout *layout, const ls_layout_task *task) {
    if (layout->zero < 0 || layout->zero > LS_KNOB_LAST_zero)
        return ls_fail(LS_ERR_INPUT, "--zero %d: must be between 0 and %d", layout->zero, LS_KNOB_LAST_zero);
    if ((int)layout->recompute < 0 || layout->recompute >= LS_RECOMPUTE_KINDS)
        return ls_fail(LS_ERR_INPUT, "--recompute: unknown kind %d", (int)layout->recompute);
    LS_TRY(check_keep_activations(layout, task));
    LS_TRY(check_loss_chunk(layout, task));
    LS_TRY(check_sequence_parallel(layout, task));
    LS_TRY(check_bn_sync(layout, task));
    if (task->ghost > 0 && layout->micro % task->ghost != 0)
        return ls_fail(LS_ERR_INPUT,
                       "--micro-batch %zu: batch norm normalizes %zu images together; use --micro-batch %zu",
                       layout->micro, task->ghost, layout->micro / task->ghost * task->ghost + task->ghost);
    if (layout->micro <= task->B) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "--micro-batch %zu exceeds the batch of %zu sequences; use --micro-batch %zu or less",
                   layout->micro, task->B, task->B);
}

ls_status ls_layout_check(const ls_layout *layout, const ls_layout_task *task) {
    LS_TRY(ls_layout_check_parts(layout, task));
    LS_TRY(ls_layout_check_dp(layout, task, NULL));
    LS_TRY(ls_layout_check_schedule(layout, task));
    LS_TRY(check_chunks(layout, task));
    LS_TRY(ls_layout_check_shares(layout, task));
    return check_rest(layout, task);
}
