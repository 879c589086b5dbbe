/* logits.c: logits of every position of a sequence, for comparison with other programs.
 *
 *     logits MODEL TOKENS.i32 LOGITS.f32
 *
 * MODEL is anything with weights: a checkpoint, a run directory, a Hugging Face folder, a file of llm.c. The sequence
 * goes through once position by position, each giving a row of V logits, and then as a whole: the last row must be the
 * same bits, else the program fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/fpenv.h"
#include "interop/weights.h"
#include "model/model.h"
#include "parallel/partition/partition.h"

enum { TOKENS_BYTES_MAX = 1 << 24 };

typedef struct job {
    ls_weights *weights;
    ls_model *model;
    ls_device *device;
    ls_partition *partition;
    char *data; /* of the file of tokens */
    int32_t *ids;
    size_t T;
    float *logits; /* [T][V] */
    float *last;   /* [V] */
} job;

static ls_status put_rows(void *ctx, const ls_param *param, size_t first_row, size_t rows, const float *data) {
    size_t columns = param->columns;
    return ls_partition_write(ctx, param, LS_TENSOR_WEIGHT, first_row * columns, rows * columns, data);
}

static ls_status load_model(job *j, const char *path) {
    LS_TRY(ls_weights_open(path, &j->weights));
    const ls_shape *shape = ls_weights_shape(j->weights);
    if (j->T == 0 || j->T > shape->T)
        return ls_fail(LS_ERR_INPUT, "%zu tokens, but %s has %zu positions", j->T, shape->name, shape->T);
    LS_TRY(ls_model_create(shape, ls_model_default_slices(shape, LS_UNIT_CHAIN), &j->model));
    LS_TRY(ls_device_open_cpu(2, NULL, NULL, &j->device));
    ls_layout_task task = {.model = j->model, .B = 1, .T = j->T, .G = 1};
    ls_partition_setup setup = {.B = 1, .T = j->T, .G = 1, .layout = ls_layout_one(&task, 1)};
    LS_TRY(ls_partition_create(j->model, j->device, &setup, &j->partition));
    return ls_weights_load(j->weights, j->model, put_rows, j->partition);
}

static ls_status load_tokens(job *j, const char *path) {
    size_t bytes;
    LS_TRY(ls_file_read(path, TOKENS_BYTES_MAX, &j->data, &bytes));
    j->T = bytes / sizeof *j->ids;
    j->ids = malloc(bytes > 0 ? bytes : 1);
    if (!j->ids) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu tokens", j->T);
    memcpy(j->ids, j->data, j->T * sizeof *j->ids);
    return LS_OK;
}

static ls_status check_ids(const job *j, size_t V) {
    for (size_t i = 0; i < j->T; i++)
        if (j->ids[i] < 0 || (size_t)j->ids[i] >= V)
            return ls_fail(LS_ERR_INPUT, "token %zu is %d, the vocabulary has %zu", i, (int)j->ids[i], V);
    return LS_OK;
}

static ls_status compute(job *j) {
    size_t V = j->model->shape.V;
    LS_TRY(check_ids(j, V));
    j->logits = malloc(j->T * V * sizeof *j->logits);
    j->last = malloc(V * sizeof *j->last);
    if (!j->logits || !j->last) return ls_fail(LS_ERR_RESOURCE, "out of memory for logits");
    for (size_t t = 0; t < j->T; t++) LS_TRY(ls_partition_extend(j->partition, t, 1, j->ids + t, j->logits + t * V));
    LS_TRY(ls_partition_extend(j->partition, 0, j->T, j->ids, j->last));
    if (memcmp(j->last, j->logits + (j->T - 1) * V, V * sizeof *j->last) != 0)
        return ls_fail(LS_ERR_FAILED, "the logits of the last position depend on how the sequence was cut");
    return LS_OK;
}

static ls_status save(const job *j, const char *path) {
    size_t count = j->T * j->model->shape.V;
    FILE *file = fopen(path, "wb");
    if (!file) return ls_fail_errno(LS_ERR_FAILED, "cannot write %s", path);
    bool whole = fwrite(j->logits, sizeof *j->logits, count, file) == count;
    if (fclose(file) != 0 || !whole) return ls_fail_errno(LS_ERR_FAILED, "cannot write %s", path);
    return LS_OK;
}

static ls_status run(char **argv) {
    ls_status status;
    job j = {0};
    LS_TRY_OUT(load_tokens(&j, argv[2]));
    LS_TRY_OUT(load_model(&j, argv[1]));
    LS_TRY_OUT(compute(&j));
    LS_TRY_OUT(save(&j, argv[3]));
out:
    ls_partition_destroy(j.partition);
    ls_device_destroy(j.device);
    ls_model_destroy(j.model);
    ls_weights_close(j.weights);
    free(j.data);
    free(j.ids);
    free(j.logits);
    free(j.last);
    return status;
}

int main(int argc, char **argv) {
    ls_fpenv_set();
    if (argc != 4) {
        fprintf(stderr, "usage: logits MODEL TOKENS.i32 LOGITS.f32\n");
        return 2;
    }
    ls_status status = run(argv);
    if (status != LS_OK) fprintf(stderr, "logits: %s\n", ls_status_message());
    return (int)status;
}
