/* one_worker.h: a model with weights, ready to run forward in this process: for eval and generate. */
#ifndef LS_CLI_ONE_WORKER_H
#define LS_CLI_ONE_WORKER_H

#include "run/inputs/model.h"
#include "comm/placement.h"
#include "parallel/partition/partition.h"

typedef struct ls_one_worker {
    ls_start start;
    ls_tokenizer *tokenizer; /* NULL: none */
    ls_placement placement;
    ls_device *device;
    ls_model *model;
    ls_policy policy;
    ls_partition *partition;
    size_t T, micro;
} ls_one_worker;

/* Precision and matrix unit are those of the options, else of the run that the weights come from, else fp32.
 * `T` tokens of a sequence (0: all positions of the model, at most LS_ONE_WORKER_T_MAX), `micro` sequences at a time.
 * On failure nothing is left to release. */
enum { LS_ONE_WORKER_T_MAX = 4096 };
ls_status ls_one_worker_open(const ls_options *options, size_t T, size_t micro, ls_one_worker *out);
void ls_one_worker_close(ls_one_worker *one);

#endif
