/* partition_tensors.h: writes and reads the tensors of a partition (what one worker holds of the model:
 * parallel/partition) as one safetensors file. Tensors are whole, by parameter name, in canonical order (the model's,
 * independent of the layout), so the file has the same bytes under every layout. Saving and loading of checkpoints
 * (run/folder) call it.
 *
 * All workers declare the same file. Each writes the elements that its partition reports (of those that several workers
 * hold, one reports each), and reads all that it stores, in pieces: runs of at most 2^20 consecutive elements of a
 * tensor. No worker holds a whole tensor in host memory, and no byte is written twice. */
#ifndef LS_CHECKPOINT_PARTITION_TENSORS_H
#define LS_CHECKPOINT_PARTITION_TENSORS_H

#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "parallel/partition/partition.h"

enum { LS_PARTITION_TENSOR_NAME_MAX = LS_PARAM_NAME_MAX + 8 };

/* The declared tensors of one file. Tensor i is tensor first + i % per_param of parameter i / per_param. */
typedef struct ls_partition_tensors {
    const ls_model *model;      /* borrowed */
    ls_partition_tensor first;  /* of weights LS_TENSOR_WEIGHT, of optimizer state LS_TENSOR_MOMENT0 */
    int per_param, count;       /* tensors for each parameter; tensors of the file */
    ls_safetensors_decl *decls; /* what a writer of the file declares; points into `shapes` and `names` */
    int64_t (*shapes)[2];
    char (*names)[LS_PARTITION_TENSOR_NAME_MAX];
} ls_partition_tensors;

/* Declares `per_param` fp32 tensors for each parameter, from `first` on: weights have the names of the parameters,
 * optimizer state "<name>.m" and "<name>.v". Allocates lists alone, no tensors. Borrows the model. On failure there is
 * nothing to close. */
ls_status ls_partition_tensors_open(const ls_model *model, ls_partition_tensor first, int per_param,
                                    ls_partition_tensors *out);
void ls_partition_tensors_close(ls_partition_tensors *tensors);

/* Returns the parameter that tensor i of the file belongs to. */
const ls_param *ls_partition_tensors_param(const ls_partition_tensors *tensors, int i);
/* Returns which tensor of its parameter tensor i of the file is: weight, or first or second moment. */
ls_partition_tensor ls_partition_tensors_which(const ls_partition_tensors *tensors, int i);

/* Writes the elements that this partition reports with `writer`, which was created from these `decls` and may be one of
 * several writers of the file. Copies device memory to the host piece by piece. The caller ends the writer, also after
 * a failure. */
ls_status ls_partition_tensors_write(const ls_partition_tensors *tensors, ls_partition *partition,
                                     ls_safetensors_writer *writer);
/* Reads from `file` all elements that the partition stores, into device memory. LS_ERR_INPUT if a tensor is missing, or
 * is not fp32 of the declared shape; tensors before it are then read already. After weights, all workers must call
 * ls_partition_settle(). */
ls_status ls_partition_tensors_read(const ls_partition_tensors *tensors, ls_partition *partition,
                                    const ls_safetensors *file);

#endif
