/* stage_weights.c: weights of a stage from and to the host, their hash, and the norm of their gradients. */
#include <stdlib.h>

#include "base/hash.h"
#include "kernels/optim.h"
#include "nn/init.h"
#include "parallel/stage_state.h"

static float *tensor_of(const ls_param *param, ls_stage_tensor which) {
    switch (which) {
    case LS_TENSOR_WEIGHT: return param->w;
    case LS_TENSOR_MOMENT0: return param->moment[0];
    case LS_TENSOR_MOMENT1: return param->moment[1];
    case LS_TENSOR_GRAD: return param->grad.slot[0];
    }
    return NULL;
}

/* The part of run i that lies in canonical elements first … first + count − 1, in elements. */
typedef struct piece {
    size_t memory, canonical, elems;
} piece;

static bool piece_get(const ls_param *param, int slices, int i, size_t first, size_t count, piece *out) {
    ls_param_run run;
    if (!ls_param_run_get(param, slices, i, &run)) return false;
    size_t begin = run.canonical_row * param->columns, end = begin + run.rows * param->columns;
    size_t from = begin > first ? begin : first, to = end < first + count ? end : first + count;
    out->memory = run.memory_row * param->columns + (from - begin);
    out->canonical = from;
    out->elems = to > from ? to - from : 0;
    return true;
}

ls_status ls_stage_write(ls_stage *stage, const ls_param *param, ls_stage_tensor which, size_t first, size_t count,
                         const float *host) {
    float *tensor = tensor_of(param, which);
    piece p;
    for (int i = 0; piece_get(param, stage->model->S, i, first, count, &p); i++)
        if (p.elems > 0)
            LS_TRY(ls_device_copy_in(stage->device, tensor + p.memory, host + (p.canonical - first),
                                     p.elems * sizeof(float)));
    return LS_OK;
}

ls_status ls_stage_read(ls_stage *stage, const ls_param *param, ls_stage_tensor which, size_t first, size_t count,
                        float *host) {
    const float *tensor = tensor_of(param, which);
    piece p;
    for (int i = 0; piece_get(param, stage->model->S, i, first, count, &p); i++)
        if (p.elems > 0)
            LS_TRY(ls_device_copy_out(stage->device, host + (p.canonical - first), tensor + p.memory,
                                      p.elems * sizeof(float)));
    return LS_OK;
}

static ls_status init_param(ls_stage *stage, const ls_param *param, uint64_t seed) {
    size_t elems = ls_param_elems(param);
    for (size_t first = 0; first < elems; first += stage->host_elems) {
        size_t count = elems - first < stage->host_elems ? elems - first : stage->host_elems;
        ls_init_param(param, seed, first, count, stage->host);
        LS_TRY(ls_stage_write(stage, param, LS_TENSOR_WEIGHT, first, count, stage->host));
    }
    return LS_OK;
}

ls_status ls_stage_init_weights(ls_stage *stage, uint64_t seed) {
    int count = ls_model_params(stage->model);
    for (int i = 0; i < count; i++) LS_TRY(init_param(stage, ls_model_param(stage->model, i), seed));
    return LS_OK;
}

/* ---- blocks of 1024 elements, slice by slice -----------------------------------------------------------------------
 */

static size_t blocks_of(size_t elems) { return (elems + LS_SQUARE_BLOCK - 1) / LS_SQUARE_BLOCK; }

static ls_status square_param(ls_stage *stage, const ls_param *param, ls_exact_sum *sum) {
    int slices = ls_param_slices(param, stage->model->S);
    size_t done = 0;
    for (int i = 0; i < slices; i++) {
        size_t begin = ls_param_slice_row(param, stage->model->S, i) * param->columns;
        size_t end = ls_param_slice_row(param, stage->model->S, i + 1) * param->columns;
        LS_TRY(
            stage->nn.ops->square_sums(stage->device, stage->squares + done, param->grad.slot[0] + begin, end - begin));
        done += blocks_of(end - begin);
    }
    LS_TRY(ls_device_copy_out(stage->device, stage->host_squares, stage->squares, done * sizeof(double)));
    ls_exact_sum_add_many(sum, stage->host_squares, done);
    return LS_OK;
}

ls_status ls_stage_square_norm(ls_stage *stage, ls_exact_sum *sum) {
    int count = ls_model_params(stage->model);
    for (int i = 0; i < count; i++) LS_TRY(square_param(stage, ls_model_param(stage->model, i), sum));
    return LS_OK;
}

/* Hashes of the blocks of elements begin … end−1 of a weight; returns behind the last. */
static ls_status hash_range(ls_stage *stage, const float *weight, size_t begin, size_t end, ls_hash128 *out) {
    size_t step = stage->host_elems / LS_SQUARE_BLOCK * LS_SQUARE_BLOCK;
    for (size_t at = begin; at < end; at += step) {
        size_t elems = end - at < step ? end - at : step;
        LS_TRY(ls_device_copy_out(stage->device, stage->host, weight + at, elems * sizeof(float)));
        for (size_t b = 0; b < elems; b += LS_SQUARE_BLOCK) {
            size_t n = elems - b < LS_SQUARE_BLOCK ? elems - b : LS_SQUARE_BLOCK;
            *out++ = ls_hash_f32(stage->host + b, n);
        }
    }
    return LS_OK;
}

static ls_status hash_param(ls_stage *stage, const ls_param *param, ls_hash128 *hashes, size_t *count) {
    int slices = ls_param_slices(param, stage->model->S);
    for (int i = 0; i < slices; i++) {
        size_t begin = ls_param_slice_row(param, stage->model->S, i) * param->columns;
        size_t end = ls_param_slice_row(param, stage->model->S, i + 1) * param->columns;
        LS_TRY(hash_range(stage, param->w, begin, end, hashes + *count));
        *count += blocks_of(end - begin);
    }
    return LS_OK;
}

ls_status ls_stage_hash(ls_stage *stage, char text[33]) {
    ls_status status = LS_OK;
    int params = ls_model_params(stage->model);
    size_t most = 0, count = 0;
    for (int i = 0; i < params; i++)
        most += ls_param_elems(ls_model_param(stage->model, i)) / LS_SQUARE_BLOCK + (size_t)stage->model->S;
    ls_hash128 *hashes = malloc(most * sizeof *hashes);
    if (!hashes) return ls_fail(LS_ERR_RESOURCE, "out of memory for the hashes of %zu blocks of weights", most);
    for (int i = 0; i < params; i++) LS_TRY_OUT(hash_param(stage, ls_model_param(stage->model, i), hashes, &count));
    ls_hash_text(ls_hash_combine(hashes, count), text);
out:
    free(hashes);
    return status;
}
