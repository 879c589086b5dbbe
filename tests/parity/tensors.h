/* tensors.h: weights of a partition from a file of safetensors, and its gradients to one; for the programs of this
 * folder.
 *
 * Tensors have our names and canonical shapes. */
#ifndef LS_TESTS_PARITY_TENSORS_H
#define LS_TESTS_PARITY_TENSORS_H

#include <stdlib.h>

#include "checkpoint/safetensors.h"
#include "../save_tensors.h"
#include "parallel/partition/partition.h"

static inline ls_status load_weights(ls_partition *partition, const ls_safetensors *file) {
    const ls_model *model = ls_partition_model(partition);
    for (int i = 0; i < ls_model_params(model); i++) {
        const ls_param *p = ls_model_param(model, i);
        const ls_safetensor *tensor;
        int64_t shape[2] = {(int64_t)p->rows, (int64_t)p->columns};
        LS_TRY(ls_safetensors_need(file, p->name, p->kind == LS_PARAM_VECTOR ? 1 : 2, shape, &tensor));
        float *data = malloc(tensor->bytes);
        ls_status status = data ? ls_safetensor_read(tensor, 0, data, tensor->bytes)
                                : ls_fail(LS_ERR_RESOURCE, "out of memory for %s", p->name);
        if (status == LS_OK) status = ls_partition_write(partition, p, LS_TENSOR_WEIGHT, 0, ls_param_elems(p), data);
        free(data);
        LS_TRY(status);
    }
    return LS_OK;
}

typedef struct gradients {
    ls_partition *partition;
    float factor; /* from what the step left to the gradient of the mean loss */
} gradients;

static inline ls_status read_grad(void *ctx, int tensor, size_t byte_offset, void *host, size_t bytes) {
    const gradients *g = ctx;
    const ls_param *param = ls_model_param(ls_partition_model(g->partition), tensor);
    ls_partition_tensor which = param->running ? LS_TENSOR_WEIGHT : LS_TENSOR_GRAD;
    float *values = host;
    size_t count = bytes / sizeof(float);
    LS_TRY(ls_partition_read(g->partition, param, which, byte_offset / sizeof(float), count, values));
    for (size_t i = 0; i < count && !param->running; i++) values[i] *= g->factor;
    return LS_OK;
}

/* Of running statistics, which have none, what they are. */
static inline ls_status save_grads(gradients *g, const char *path) {
    const ls_model *model = ls_partition_model(g->partition);
    int count = ls_model_params(model);
    ls_safetensors_decl *decls = calloc((size_t)count, sizeof *decls);
    int64_t(*shapes)[2] = calloc((size_t)count, sizeof *shapes);
    ls_status status = decls && shapes ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for %d names", count);
    for (int i = 0; i < count && status == LS_OK; i++) {
        const ls_param *p = ls_model_param(model, i);
        shapes[i][0] = (int64_t)p->rows;
        shapes[i][1] = (int64_t)p->columns;
        decls[i] = (ls_safetensors_decl){p->name, LS_F32, p->kind == LS_PARAM_VECTOR ? 1 : 2, shapes[i]};
    }
    ls_safetensors_plan plan = {.tensors = decls, .count = count};
    if (status == LS_OK) status = save_tensors(path, &plan, read_grad, g, NULL);
    free(decls);
    free(shapes);
    return status;
}

#endif
