/* predict.h: what a layout does to the stages of a pipeline, and what a worker needs beside its arena, from shapes
 * alone.
 *
 * Durations are floating-point operations, so only their ratios mean anything: backward is twice forward, half of it
 * for the input and half for the weights; recomputation is forward once more; the head does all of its work in
 * backward, as it is run. Sending takes no time. */
#ifndef LS_PARALLEL_SCHEDULE_PREDICT_H
#define LS_PARALLEL_SCHEDULE_PREDICT_H

#include "device/cpu/gemm/gemm.h"
#include "parallel/schedule/simulate.h"
#include "parallel/partition/partition.h"

/* The schedule of a replica and its course. After a failure there is nothing to free. */
ls_status ls_predict_schedule(const ls_layout_task *task, const ls_layout *layout, int dp_row, ls_schedule *schedule,
                              ls_simulation *simulation);

/* Bytes that a worker needs beside its arena, about: operands of matmuls, packed; buffers of the host for tokens,
 * squares and pieces of tensors; places of the communicators; the program. */
size_t ls_predict_outside_bytes(const ls_layout_task *task, const ls_layout *layout, ls_place_in_layout place,
                                const ls_gemm_kernels *kernels);

#endif
