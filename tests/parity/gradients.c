/* gradients.c: loss and every gradient of a model for given weights and tokens, for comparison with other programs.
 *
 *     gradients SHAPE.json WEIGHTS.safetensors TOKENS.i32 B T G S MICRO THREADS GRADIENTS.safetensors
 *
 * Weights have our names and canonical shapes; tokens are B sequences of T + 1 ids. Prints the loss as a hex float and
 * writes the gradient of the mean loss of each parameter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/fpenv.h"
#include "model/model.h"
#include "model/shape_file.h"
#include "optim/clip.h"
#include "parallel/partition/partition.h"
#include "tensors.h"

typedef struct job {
    ls_shape shape;
    size_t B, T, micro;
    int G, S, threads;
    ls_model *model;
    ls_device *device;
    ls_partition *partition;
    ls_safetensors *weights;
    char *data; /* of the file of tokens */
    int32_t *ids, *targets;
} job;

enum { TOKENS_BYTES_MAX = 1 << 28 };

static ls_status load_tokens(job *j, const char *path) {
    size_t bytes, rows = j->B * j->T, window_bytes = (j->T + 1) * sizeof(int32_t);
    LS_TRY(ls_file_read(path, TOKENS_BYTES_MAX, &j->data, &bytes));
    if (bytes != j->B * window_bytes) return ls_fail(LS_ERR_INPUT, "%s has %zu bytes, not B·(T+1) ids", path, bytes);
    j->ids = malloc(rows * sizeof *j->ids);
    j->targets = malloc(rows * sizeof *j->targets);
    if (!j->ids || !j->targets) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu tokens", rows);
    for (size_t b = 0; b < j->B; b++) {
        const char *window = j->data + b * window_bytes;
        memcpy(j->ids + b * j->T, window, j->T * sizeof(int32_t));
        memcpy(j->targets + b * j->T, window + sizeof(int32_t), j->T * sizeof(int32_t));
    }
    return LS_OK;
}

static ls_status feed(void *ctx, size_t begin, size_t end, int32_t *ids, int32_t *targets) {
    const job *j = ctx;
    memcpy(ids, j->ids + begin * j->T, (end - begin) * j->T * sizeof *ids);
    memcpy(targets, j->targets + begin * j->T, (end - begin) * j->T * sizeof *targets);
    return LS_OK;
}

static ls_status run_step(job *j, double *loss, gradients *out) {
    int64_t tokens = (int64_t)(j->B * j->T);
    ls_loss_sum sum = {0};
    LS_TRY(ls_partition_step(j->partition, 0, ls_clip_backward_start(tokens, 0),
                             &(ls_partition_feed){.read = feed, .ctx = j}, &sum));
    *loss = ls_loss_sum_mean(&sum);
    *out = (gradients){j->partition, (float)ls_clip_token_scale(tokens, 0)};
    return LS_OK;
}

static ls_status open_model(job *j, const char *shape, const char *weights) {
    LS_TRY(ls_shape_read(shape, &j->shape));
    LS_TRY(ls_model_create(&j->shape, j->S, &j->model));
    LS_TRY(ls_device_open_cpu(j->threads, NULL, NULL, &j->device));
    ls_layout_task task = {.model = j->model, .B = j->B, .T = j->T, .G = j->G};
    ls_partition_setup setup = {
        .train = true, .B = j->B, .T = j->T, .G = j->G, .layout = ls_layout_one(&task, j->micro)};
    LS_TRY(ls_partition_create(j->model, j->device, &setup, &j->partition));
    LS_TRY(ls_safetensors_open(weights, &j->weights));
    return load_weights(j->partition, j->weights);
}

static ls_status run(char **argv) {
    ls_status status;
    double loss = 0;
    gradients grads = {0};
    job j = {.B = strtoul(argv[4], NULL, 10), .T = strtoul(argv[5], NULL, 10), .G = atoi(argv[6]), .S = atoi(argv[7])};
    j.micro = strtoul(argv[8], NULL, 10);
    j.threads = atoi(argv[9]);
    LS_TRY_OUT(open_model(&j, argv[1], argv[2]));
    LS_TRY_OUT(load_tokens(&j, argv[3]));
    LS_TRY_OUT(run_step(&j, &loss, &grads));
    LS_TRY_OUT(save_grads(&grads, argv[10]));
    printf("loss %a\n", loss);
out:
    ls_safetensors_close(j.weights);
    ls_partition_destroy(j.partition);
    ls_device_destroy(j.device);
    ls_model_destroy(j.model);
    free(j.data);
    free(j.ids);
    free(j.targets);
    return status;
}

int main(int argc, char **argv) {
    ls_fpenv_set();
    if (argc != 11) {
        fprintf(stderr, "usage: gradients SHAPE WEIGHTS TOKENS B T G S MICRO THREADS OUT\n");
        return 2;
    }
    ls_status status = run(argv);
    if (status != LS_OK) fprintf(stderr, "gradients: %s\n", ls_status_message());
    return (int)status;
}
