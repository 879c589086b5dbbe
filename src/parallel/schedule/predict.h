/* predict.h: predicts, from shapes alone, the pipeline timeline of a layout and the memory of a worker beside its
 * arena (the one block of device memory that holds its tensors).
 *
 * Durations are numbers of floating-point operations, so only their ratios are meaningful: backward is twice forward,
 * half of it for the input and half for the weights. Recomputation adds the forward of each layer without the MLP's
 * second matmul (full) or that of the MLP's first matmul (selective), to each of the two halves if they are apart. The
 * head does all its work, three times its forward, in backward (of the input). The embedding and communication take no
 * time. */
#ifndef LS_PARALLEL_SCHEDULE_PREDICT_H
#define LS_PARALLEL_SCHEDULE_PREDICT_H

#include "device/cpu/gemm/gemm.h"
#include "parallel/schedule/simulate.h"
#include "parallel/partition/partition.h"

/* Makes the schedule of replica dp_row and simulates it; the caller frees both. `seconds` in the result are FLOPs, and
 * peak_bytes are 0. The layout must fit the task, and its micro be set. After a failure there is nothing to free. */
ls_status ls_predict_schedule(const ls_layout_task *task, const ls_layout *layout, int dp_row, ls_schedule *schedule,
                              ls_simulation *simulation);

/* Estimates the bytes that a worker needs beside its arena: packed operands of matmuls; host buffers for tokens,
 * squares and pieces of tensors; buffers of the communicators; the program. */
size_t ls_predict_outside_bytes(const ls_layout_task *task, const ls_layout *layout, ls_place_in_layout place,
                                const ls_gemm_kernels *kernels);

#endif
