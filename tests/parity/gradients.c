/* gradients.c: loss and every gradient of a model for given weights and samples, for comparison with other programs.
 *
 *     gradients SHAPE.json WEIGHTS.safetensors TOKENS.i32 B T G S MICRO THREADS GRADIENTS.safetensors
 *     gradients SHAPE.json WEIGHTS.safetensors IMAGES.f32 CLASSES.i32 B G GHOST MICRO THREADS GRADIENTS.safetensors
 *               LOGITS.f32
 *
 * Weights have our names and canonical shapes. Tokens are B sequences of T + 1 ids; images are as models see them,
 * channels last. Prints the loss as a hex float and writes the gradient of the mean loss of each parameter. Of image
 * models also what running statistics have become, and the logits [2][B][classes]: first those of the training step,
 * then those of an evaluation behind it, with the new running statistics and the old weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/fpenv.h"
#include "model/model.h"
#include "model/shape_file.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "parallel/partition/state.h"
#include "tensors.h"

typedef struct job {
    ls_shape shape;
    size_t B, T, ghost, micro, pixels;
    int G, S, threads;
    ls_model *model;
    ls_device *device;
    ls_partition *partition;
    ls_safetensors *weights;
    char *samples, *classes; /* of the files; classes: of images */
    float *logits;           /* of images: [2][B][V] */
    size_t logits_elems;     /* that are there */
} job;

enum { BYTES_MAX = 1 << 28 };

static ls_status load(const char *path, size_t bytes, char **data) {
    size_t found;
    LS_TRY(ls_file_read(path, BYTES_MAX, data, &found));
    return found == bytes ? LS_OK : ls_fail(LS_ERR_INPUT, "%s has %zu bytes, not %zu", path, found, bytes);
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static ls_status feed_tokens(void *ctx, size_t begin, size_t end, int32_t *ids, int32_t *targets) {
    const job *j = ctx;
    for (size_t b = begin; b < end; b++, ids += j->T, targets += j->T) {
        const char *window = j->samples + b * (j->T + 1) * sizeof *ids;
        memcpy(ids, window, j->T * sizeof *ids);
        memcpy(targets, window + sizeof *ids, j->T * sizeof *targets);
    }
    return LS_OK;
}

static ls_status feed_images(void *ctx, size_t begin, size_t end, float *pixels, int32_t *classes) {
    const job *j = ctx;
    size_t each = j->pixels * sizeof(float);
    memcpy(pixels, j->samples + begin * each, (end - begin) * each);
    memcpy(classes, j->classes + begin * sizeof *classes, (end - begin) * sizeof *classes);
    return LS_OK;
}

static ls_status load_tokens(job *j, const char *tokens) {
    return load(tokens, j->B * (j->T + 1) * sizeof(int32_t), &j->samples);
}

static ls_status load_images(job *j, const char *images, const char *classes) {
    LS_TRY(load(images, j->B * j->pixels * sizeof(float), &j->samples));
    LS_TRY(load(classes, j->B * sizeof(int32_t), &j->classes));
    j->logits = calloc(2 * j->B * j->shape.V, sizeof *j->logits);
    return j->logits ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for logits");
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static ls_status open_model(job *j, const char *shape, const char *weights) {
    LS_TRY(ls_shape_read(shape, &j->shape));
    j->pixels = j->shape.image.height * j->shape.image.width * j->shape.image.channels;
    LS_TRY(ls_model_create(&j->shape, j->S, &j->model));
    LS_TRY(ls_device_open_cpu(j->threads, NULL, NULL, &j->device));
    ls_layout_task task = {.model = j->model, .B = j->B, .T = j->T, .G = j->G};
    ls_partition_setup setup = {
        .train = true, .B = j->B, .T = j->T, .G = j->G, .layout = ls_layout_one(&task, j->micro)};
    setup.ghost = ls_shape_has_batch_norm(&j->shape) ? j->ghost : 0;
    LS_TRY(ls_partition_create(j->model, j->device, &setup, &j->partition));
    LS_TRY(ls_safetensors_open(weights, &j->weights));
    return load_weights(j->partition, j->weights);
}

static ls_status run_step(job *j, const ls_partition_feed *from, double *loss, gradients *out) {
    int64_t tokens = (int64_t)(j->B * j->T);
    ls_loss_sum sum = {0};
    LS_TRY(ls_partition_step(j->partition, 0, ls_clip_backward_start(tokens, 0), from));
    LS_TRY(ls_partition_losses(j->partition, &sum));
    *loss = ls_loss_sum_mean(&sum);
    *out = (gradients){j->partition, (float)ls_clip_token_scale(tokens, 0)};
    return LS_OK;
}

/* Logits stand in their place when they are made; the loss then puts their gradient there. */
static ls_status keep_logits(void *ctx, ls_made_part *part, const void *y, ls_dtype dtype, size_t elems) {
    job *j = ctx;
    (void)part, (void)dtype;
    if (y != j->partition->nn.scratch.logits) return LS_OK;
    if (elems > 2 * j->B * j->shape.V - j->logits_elems)
        return ls_fail(LS_ERR_FAILED, "more than %zu rows of logits", 2 * j->B);
    LS_TRY(ls_device_copy_out(j->device, j->logits + j->logits_elems, y, elems * sizeof(float)));
    j->logits_elems += elems;
    return LS_OK;
}

/* A step of rate 0: only running statistics move. */
static ls_status follow(const job *j, float factor) {
    ls_optimizer sgd = {.kind = LS_OPTIMIZER_SGD};
    ls_adamw_powers powers = {.updates = 1};
    ls_optimizer_update update = ls_optimizer_update_at(&sgd, &powers, 0, factor);
    update.ghosts = (double)j->B / (double)j->ghost;
    LS_TRY(ls_optimizer_step(&update, j->device, &j->partition->nn.policy, j->model));
    return ls_partition_publish(j->partition);
}

/* The step of an image model, and an evaluation. */
static ls_status run_both(job *j, double *loss, gradients *out) {
    ls_partition_feed from = {.images = feed_images, .ctx = j};
    ls_loss_sum evaluated = {0};
    int64_t right = 0;
    j->partition->nn.made = (ls_made_watch){keep_logits, j, NULL};
    LS_TRY(run_step(j, &from, loss, out));
    LS_TRY(follow(j, out->factor));
    LS_TRY(ls_partition_evaluate(j->partition, j->B, 1, &from, &evaluated, &right));
    if (j->logits_elems != 2 * j->B * j->shape.V) return ls_fail(LS_ERR_FAILED, "%zu logits", j->logits_elems);
    return LS_OK;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static ls_status run(char **argv, bool images) {
    ls_status status;
    double loss = 0;
    gradients grads = {0};
    job j = {.micro = strtoul(argv[8], NULL, 10), .threads = atoi(argv[9]), .G = atoi(argv[6]), .S = 1, .T = 1};
    j.B = strtoul(argv[images ? 5 : 4], NULL, 10);
    if (images) {
        j.ghost = strtoul(argv[7], NULL, 10);
    } else {
        j.T = strtoul(argv[5], NULL, 10);
        j.S = atoi(argv[7]);
    }
    LS_TRY_OUT(open_model(&j, argv[1], argv[2]));
    LS_TRY_OUT(images ? load_images(&j, argv[3], argv[4]) : load_tokens(&j, argv[3]));
    LS_TRY_OUT(images ? run_both(&j, &loss, &grads)
                      : run_step(&j, &(ls_partition_feed){.read = feed_tokens, .ctx = &j}, &loss, &grads));
    LS_TRY_OUT(save_grads(&grads, argv[10]));
    if (images) LS_TRY_OUT(ls_file_write_atomic(argv[11], j.logits, j.logits_elems * sizeof *j.logits));
    printf("loss %a\n", loss);
out:
    ls_safetensors_close(j.weights);
    ls_partition_destroy(j.partition);
    ls_device_destroy(j.device);
    ls_model_destroy(j.model);
    free(j.samples);
    free(j.classes);
    free(j.logits);
    return status;
}

int main(int argc, char **argv) {
    ls_fpenv_set();
    if (argc != 11 && argc != 12) {
        fprintf(stderr, "usage: gradients SHAPE WEIGHTS TOKENS B T G S MICRO THREADS OUT\n"
                        "       gradients SHAPE WEIGHTS IMAGES CLASSES B G GHOST MICRO THREADS OUT LOGITS\n");
        return 2;
    }
    ls_status status = run(argv, argc == 12);
    if (status != LS_OK) fprintf(stderr, "gradients: %s\n", ls_status_message());
    return (int)status;
}
