/* partition_tensors.h: writes and reads the tensors of a partition as one safetensors file: whole, by name, in
 * canonical order, and so the same bytes under every layout.
 *
 * All workers declare the same file. Each writes the elements that it reports, and reads those that it needs, in pieces
 * of at most 1 Mi elements. No worker holds a whole tensor, and no byte is written twice. */
#ifndef LS_CHECKPOINT_PARTITION_TENSORS_H
#define LS_CHECKPOINT_PARTITION_TENSORS_H

#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "parallel/partition/partition.h"

enum { LS_PARTITION_TENSOR_NAME_MAX = LS_PARAM_NAME_MAX + 8 };

/* Tensor i of the file is tensor first + i % per_param of parameter i / per_param. */
typedef struct ls_partition_tensors {
    const ls_model *model;
    ls_partition_tensor first;
    int per_param, count;
    ls_safetensors_decl *decls;
    int64_t (*shapes)[2];
    char (*names)[LS_PARTITION_TENSOR_NAME_MAX];
} ls_partition_tensors;

/* Declares `per_param` tensors for each parameter, from `first` on: weights have the names of the parameters, optimizer
 * state "<name>.m" and "<name>.v". Borrows the model. On failure there is nothing to close. */
ls_status ls_partition_tensors_open(const ls_model *model, ls_partition_tensor first, int per_param,
                                    ls_partition_tensors *out);
void ls_partition_tensors_close(ls_partition_tensors *tensors);

/* Returns the parameter that tensor i of the file belongs to. */
const ls_param *ls_partition_tensors_param(const ls_partition_tensors *tensors, int i);
/* Returns which of the parameter's tensors it is. */
ls_partition_tensor ls_partition_tensors_which(const ls_partition_tensors *tensors, int i);

/* Writes the elements that the partition reports with a writer of `decls`, which may be one of several. */
ls_status ls_partition_tensors_write(const ls_partition_tensors *tensors, ls_partition *partition,
                                     ls_safetensors_writer *writer);
/* Reads the elements that the partition stores. LS_ERR_INPUT if a tensor is missing or its shape or type is wrong. */
ls_status ls_partition_tensors_read(const ls_partition_tensors *tensors, ls_partition *partition,
                                    const ls_safetensors *file);

#endif
