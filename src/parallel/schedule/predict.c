/* predict.c: predicts the pipeline timeline of a layout from the FLOPs of blocks, and the memory of a worker outside
 * its arena (the block of device memory with its tensors). */
#include "parallel/schedule/predict.h"

#include <stdlib.h>

#include "device/calls.h"
#include "parallel/layout/micro_batches.h"

/* ---- durations --------------------------------------------------------------------------------------------------- */

/* Returns the FLOPs of a block's forward pass. */
static double block_flops(const ls_layout_task *task, int b, size_t sequences) {
    ls_block_cost cost = ls_model_block_cost(task->model, &task->policy, b, sequences, task->T);
    return cost.product_flops + cost.attention_flops;
}

/* Returns the FLOPs of a layer's forward pass that are recomputed before its backward pass. */
static double again_flops(const ls_layout_task *task, const ls_layout *layout, int b, size_t sequences) {
    const ls_shape *shape = &task->model->shape;
    double rows = (double)sequences * (double)task->T;
    double in = 2 * rows * (double)shape->C * (double)ls_shape_mlp_width(shape);
    double out = 2 * rows * (double)shape->C * (double)shape->hidden;
    switch (layout->recompute) {
    case LS_RECOMPUTE_FULL: return block_flops(task, b, sequences) - out;
    case LS_RECOMPUTE_SELECTIVE: return in;
    default: return 0;
    }
}

/* Fills the costs of chunk `number` of the model, in FLOPs: seconds[kind] has pp·virtual stages entries,
 * [stage][chunk]. The embedding costs nothing. */
static void fill_chunk(const ls_layout_task *task, const ls_layout *layout, int number, size_t sequences,
                       double *seconds[LS_ACTION_KINDS]) {
    int at = number % layout->pp * layout->virtual_stages + number / layout->pp, last = task->model->nblocks - 1;
    double forward = 0, again = 0, head = 0;
    for (int b = layout->chunk_first[number]; b < layout->chunk_first[number + 1]; b++) {
        if (b == last) head = 3 * block_flops(task, b, sequences);
        if (b == 0 || b == last) continue;
        forward += block_flops(task, b, sequences);
        again += again_flops(task, layout, b, sequences);
    }
    seconds[LS_ACTION_FORWARD][at] = forward;
    seconds[LS_ACTION_BACKWARD][at] = 2 * forward + again + head;
    seconds[LS_ACTION_BACKWARD_INPUT][at] = forward + again + head;
    seconds[LS_ACTION_BACKWARD_WEIGHTS][at] = forward + again;
}

/* Simulates the schedule with the costs of the model's chunks; smaller micro-batches take proportionally less. */
static ls_status simulate(const ls_layout_task *task, const ls_layout *layout, const ls_micro_list *micros,
                          const ls_schedule *schedule, ls_simulation *out) {
    size_t chunks = (size_t)ls_layout_chunks(layout), count = (size_t)micros->count;
    double *memory = calloc(LS_ACTION_KINDS * chunks + count, sizeof *memory);
    if (!memory) return ls_fail(LS_ERR_RESOURCE, "out of memory for the costs of %zu chunks", chunks);
    double *seconds[LS_ACTION_KINDS], *share = memory + LS_ACTION_KINDS * chunks;
    ls_simulate_costs costs = {.micro_share = share};
    for (size_t k = 0; k < LS_ACTION_KINDS; k++) costs.seconds[k] = seconds[k] = memory + k * chunks;
    for (size_t m = 0; m < count; m++)
        share[m] = (double)(micros->micro[m].end - micros->micro[m].begin) / (double)micros->most;
    for (int number = 0; number < (int)chunks; number++) fill_chunk(task, layout, number, micros->most, seconds);
    ls_status status = ls_simulate(schedule, &costs, out);
    free(memory);
    return status;
}

ls_status ls_predict_schedule(const ls_layout_task *task, const ls_layout *wanted, int dp_row, ls_schedule *schedule,
                              ls_simulation *simulation) {
    ls_micro_list micros;
    ls_layout layout = *wanted;
    if (layout.dp == 1) layout.zero = 0;
    LS_TRY(ls_micro_list_make(&layout, task->B, task->G, dp_row, &micros));
    ls_status status = ls_schedule_make(layout.schedule, layout.pp, layout.virtual_stages, micros.count, schedule);
    if (status == LS_OK) {
        status = simulate(task, &layout, &micros, schedule, simulation);
        if (status != LS_OK) ls_schedule_free(schedule);
    }
    ls_micro_list_free(&micros);
    return status;
}

/* ---- outside the arena ------------------------------------------------------------------------------------------- */

/* The most scratch that a matmul of the model needs, as far as they were added. */
typedef struct matmuls {
    const ls_gemm_kernels *kernels;
    ls_policy policy;
    size_t most;
} matmuls;

/* Counts the scratch for packed operands of one matmul. */
static void add_matmul(matmuls *p, ls_gemm_form form, size_t m, size_t n, size_t k, int slices) {
    ls_gemm call = {.form = form, .dtype = p->policy.act, .unit = p->policy.unit, .m = m, .n = n, .k = k};
    call.slices = slices;
    size_t bytes = ls_gemm_scratch_bytes(p->kernels, &call);
    if (bytes > p->most) p->most = bytes;
}

/* Counts the matmuls of a weight whose rows × C this worker has: forward, the gradient of its input, its own. */
static void add_weight(matmuls *p, size_t tokens, size_t rows, size_t C, int slices, int groups) {
    add_matmul(p, LS_GEMM_NT, tokens, rows, C, 1);
    add_matmul(p, LS_GEMM_NN, tokens, C, rows, slices);
    add_matmul(p, LS_GEMM_TN, rows, C, tokens, groups);
}

/* Returns the bytes of packed operands that the largest matmul of this worker needs. */
static size_t packed_bytes(const ls_layout_task *task, const ls_layout *layout, ls_place_in_layout place, size_t micro,
                           const ls_gemm_kernels *kernels) {
    const ls_model *model = task->model;
    const ls_shape *shape = &model->shape;
    ls_nn nn = {.shape = shape};
    int slices = model->S / layout->tp, groups = task->G < LS_GRAD_GROUPS_MAX ? task->G : LS_GRAD_GROUPS_MAX;
    size_t tokens = micro * task->T, C = shape->C;
    matmuls p = {.kernels = kernels, .policy = task->policy};
    ls_nn_take_slices(&nn, model->S, slices * place.tp, slices);
    for (int c = 0; c < layout->virtual_stages; c++) {
        int number = c * layout->pp + place.pp;
        int first = layout->chunk_first[number], end = layout->chunk_first[number + 1];
        if (end == model->nblocks) add_weight(&p, tokens, nn.own.vocabulary, C, LS_GEMM_SLICES_MAX, groups);
        if (end - first == 1 && (first == 0 || end == model->nblocks)) continue;
        add_weight(&p, tokens, nn.own.qkv, C, slices, groups);
        add_weight(&p, tokens, nn.own.query, C, slices, groups);
        add_weight(&p, tokens, nn.own.mlp, C, slices, groups);
        add_weight(&p, tokens, nn.own.hidden, C, slices, groups);
    }
    return p.most;
}

size_t ls_predict_outside_bytes(const ls_layout_task *task, const ls_layout *layout, ls_place_in_layout place,
                                const ls_gemm_kernels *kernels) {
    enum { PIECE_BYTES = 4 << 20, COMM_MEMBER_BYTES = 132 << 10, PROGRAM_BYTES = 4 << 20 };
    size_t micro = layout->micro < task->B ? layout->micro : task->B, squares = 0;
    for (int i = 0; i < ls_model_params(task->model); i++) {
        size_t blocks = ls_param_elems(ls_model_param(task->model, i)) / LS_SQUARE_BLOCK;
        if (blocks > squares) squares = blocks;
    }
    size_t tokens = 2 * micro * task->T * sizeof(int32_t);
    size_t members = (size_t)(ls_layout_workers(layout) + layout->dp + layout->tp + layout->pp);
    /* Two pieces: that of the stage, and one to save from. */
    size_t host = 2 * PIECE_BYTES + tokens + squares * sizeof(double);
    size_t comm = ls_layout_workers(layout) > 1 ? members * COMM_MEMBER_BYTES : 0;
    return packed_bytes(task, layout, place, micro, kernels) + host + comm + PROGRAM_BYTES;
}
