/* layers.c: one layer of image models, forward and backward, for comparison with other programs.
 *
 *     layers FOLDER LAYER NUMBER…
 *
 * Tensors are files NAME.f32 (or .i32) of the folder, channels last; what a layer reads must be there, what it makes is
 * written. Gradients of parameters are those of a batch in one group. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/fpenv.h"
#include "device/ops.h"

enum { NUMBERS_MAX = 16, TENSORS_MAX = 32, THREADS = 2, BYTES_MAX = 1 << 28 };

typedef struct job {
    const char *folder;
    size_t n[NUMBERS_MAX];
    ls_device *device;
    const ls_ops *ops;
    int count;
    void *tensors[TENSORS_MAX];
} job;

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* *out is a pointer to numbers of 32 bits. */
static ls_status room(job *j, size_t elems, void *out) {
    void *memory = NULL;
    memcpy(out, &memory, sizeof memory);
    if (j->count == TENSORS_MAX) return ls_fail(LS_ERR_FAILED, "more than %d tensors", TENSORS_MAX);
    LS_TRY(ls_device_alloc(j->device, elems * sizeof(float), &memory));
    j->tensors[j->count++] = memory;
    memcpy(out, &memory, sizeof memory);
    return LS_OK;
}

static void path_of(const job *j, const char *name, char path[static 4096]) {
    snprintf(path, 4096, "%s/%s.%s", j->folder, name, strcmp(name, "targets") == 0 ? "i32" : "f32");
}

/* The same, with what the file has. */
static ls_status take(job *j, const char *name, size_t elems, void *out) {
    char path[4096], *data;
    size_t bytes;
    void *memory = NULL;
    memcpy(out, &memory, sizeof memory);
    path_of(j, name, path);
    LS_TRY(ls_file_read(path, BYTES_MAX, &data, &bytes));
    ls_status status = bytes == elems * sizeof(float)
                           ? room(j, elems, &memory)
                           : ls_fail(LS_ERR_INPUT, "%s has %zu bytes, not %zu numbers", path, bytes, elems);
    if (status == LS_OK) status = ls_device_copy_in(j->device, memory, data, bytes);
    if (status == LS_OK) memcpy(out, &memory, sizeof memory);
    free(data);
    return status;
}

static ls_status give(const job *j, const char *name, const float *from, size_t elems) {
    char path[4096];
    float *host = malloc(elems * sizeof *host);
    if (!host) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu numbers", elems);
    path_of(j, name, path);
    ls_status status = ls_device_copy_out(j->device, host, from, elems * sizeof *host);
    if (status == LS_OK) status = ls_file_write_atomic(path, host, elems * sizeof *host);
    free(host);
    return status;
}

/* Sums of rows of C numbers. */
static ls_status sum_rows(job *j, const char *name, const float *dy, size_t rows, size_t C) {
    size_t bounds[2] = {0, rows};
    ls_token_groups groups = {.T = 1, .slices = 1, .groups = 1, .bounds = bounds};
    float *db;
    LS_TRY(room(j, C, &db));
    LS_TRY(j->ops->bias_grad(j->device, &(ls_bias_grad_call){db, dy, LS_F32, C, C, &groups}));
    return give(j, name, db, C);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* images height width, then the window: kernel, stride, pad, each y and x */
static ls_window window_of(const size_t *n) { return (ls_window){n[0], n[1], n[2], n[3], n[4], n[5]}; }

/* images height width c_in c_out window */
static ls_status conv(job *j) {
    ls_conv_call c = {j->n[0], j->n[1], j->n[2], j->n[3], j->n[4], window_of(j->n + 5), .x = NULL};
    size_t positions = c.images * ls_window_rows(&c.window, c.height) * ls_window_columns(&c.window, c.width);
    size_t in = c.images * c.height * c.width * c.c_in, out = positions * c.c_out;
    size_t weights = c.c_out * c.window.kernel_y * c.window.kernel_x * c.c_in;
    LS_TRY(take(j, "x", in, &c.x));
    LS_TRY(take(j, "w", weights, &c.w));
    LS_TRY(take(j, "b", c.c_out, &c.bias));
    LS_TRY(take(j, "dy", out, &c.dy));
    LS_TRY(room(j, out, &c.y));
    LS_TRY(room(j, in, &c.dx));
    LS_TRY(room(j, weights, &c.dw));
    LS_TRY(j->ops->conv_forward(j->device, &c));
    LS_TRY(j->ops->conv_input_grad(j->device, &c));
    LS_TRY(j->ops->conv_weight_grad(j->device, &c));
    LS_TRY(give(j, "y", c.y, out));
    LS_TRY(give(j, "dx", c.dx, in));
    LS_TRY(give(j, "dw", c.dw, weights));
    return sum_rows(j, "db", c.dy, positions, c.c_out);
}

/* images height width channels window count_pad */
static ls_status pool(job *j, bool is_max) {
    ls_pooling_call c = {j->n[0], j->n[1], j->n[2], j->n[3], window_of(j->n + 4), j->n[10] != 0, .x = NULL};
    size_t out = c.images * ls_window_rows(&c.window, c.height) * ls_window_columns(&c.window, c.width) * c.channels;
    size_t in = c.images * c.height * c.width * c.channels;
    LS_TRY(take(j, "x", in, &c.x));
    LS_TRY(take(j, "dy", out, &c.dy));
    LS_TRY(room(j, out, &c.y));
    LS_TRY(room(j, out, &c.taps));
    LS_TRY(room(j, in, &c.dx));
    LS_TRY((is_max ? j->ops->max_pool_forward : j->ops->mean_pool_forward)(j->device, &c));
    LS_TRY((is_max ? j->ops->max_pool_backward : j->ops->mean_pool_backward)(j->device, &c));
    LS_TRY(give(j, "y", c.y, out));
    return give(j, "dx", c.dx, in);
}

static ls_status max_pool(job *j) { return pool(j, true); }
static ls_status mean_pool(job *j) { return pool(j, false); }

/* Statistics of each ghost group are given too. */
static ls_status norm_train(job *j, ls_batch_norm_call c, size_t n, size_t groups) {
    size_t C = c.channels;
    LS_TRY(take(j, "dy", n, &c.dy));
    LS_TRY(room(j, groups * C, &c.mean));
    LS_TRY(room(j, groups * C, &c.rstd));
    LS_TRY(room(j, groups * C, &c.var));
    LS_TRY(room(j, groups * C, &c.sum));
    LS_TRY(room(j, groups * C, &c.dot));
    LS_TRY(room(j, n, &c.dx));
    LS_TRY(j->ops->batch_norm_forward(j->device, &c));
    LS_TRY(j->ops->batch_norm_grad_sums(j->device, &c));
    LS_TRY(j->ops->batch_norm_input_grad(j->device, &c));
    LS_TRY(give(j, "y", c.y, n));
    LS_TRY(give(j, "mean", c.mean, groups * C));
    LS_TRY(give(j, "var", c.var, groups * C));
    LS_TRY(give(j, "dx", c.dx, n));
    LS_TRY(sum_rows(j, "dw", c.dot, groups, C));
    return sum_rows(j, "db", c.sum, groups, C);
}

/* With running statistics. */
static ls_status norm_infer(job *j, ls_batch_norm_call c, size_t n) {
    LS_TRY(take(j, "running_var", c.channels, &c.sums));
    LS_TRY(take(j, "running_mean", c.channels, &c.mean));
    LS_TRY(room(j, c.channels, &c.rstd));
    c.ghost = c.images;
    c.shared = true;
    c.count = 1;
    LS_TRY(j->ops->batch_norm_rstd(j->device, &c));
    LS_TRY(j->ops->batch_norm_apply(j->device, &c));
    return give(j, "inferred", c.y, n);
}

/* images pixels channels ghost relu */
static ls_status norm(job *j) {
    ls_batch_norm_call c = {.images = j->n[0], .pixels = j->n[1], .channels = j->n[2], .ghost = j->n[3]};
    size_t n = c.images * c.pixels * c.channels;
    c.relu = j->n[4] != 0;
    c.eps = 1e-5f;
    LS_TRY(take(j, "x", n, &c.x));
    LS_TRY(take(j, "w", c.channels, &c.w));
    LS_TRY(take(j, "b", c.channels, &c.b));
    LS_TRY(room(j, n, &c.y));
    LS_TRY(norm_train(j, c, n, c.images / c.ghost));
    return norm_infer(j, c, n);
}

/* elems sigmoid */
static ls_status act(job *j) {
    size_t n = j->n[0];
    const float *x, *dy;
    float *y, *dx;
    LS_TRY(take(j, "x", n, &x));
    LS_TRY(take(j, "dy", n, &dy));
    LS_TRY(room(j, n, &y));
    LS_TRY(room(j, n, &dx));
    LS_TRY(
        j->ops->act_forward(j->device, &(ls_act_call){j->n[1] ? LS_ACT_SIGMOID : LS_ACT_RELU, y, NULL, x, LS_F32, n}));
    LS_TRY(
        j->ops->act_backward(j->device, &(ls_act_call){j->n[1] ? LS_ACT_SIGMOID : LS_ACT_RELU, dx, dy, y, LS_F32, n}));
    LS_TRY(give(j, "y", y, n));
    return give(j, "dx", dx, n);
}

/* rows columns seed purpose step first_row percent */
static ls_status dropout(job *j) {
    size_t n = j->n[0] * j->n[1], columns = j->n[1];
    ls_dropout_call c = {.rows = j->n[0], .columns = columns, .drop.first = j->n[5]};
    c.x_stride = c.y_stride = columns;
    c.drop.key = ls_rng_key_make(j->n[2], (uint32_t)j->n[3], j->n[4]);
    ls_drop_set_rate(&c.drop, (double)j->n[6] / 100);
    LS_TRY(take(j, "x", n, &c.x));
    LS_TRY(room(j, n, &c.y));
    LS_TRY(j->ops->dropout_add(j->device, &c));
    LS_TRY(give(j, "y", c.y, n));
    LS_TRY(take(j, "dy", n, &c.x));
    LS_TRY(j->ops->dropout_add(j->device, &c));
    return give(j, "dx", c.y, n);
}

/* rows inputs outputs */
static ls_status linear(job *j) {
    size_t rows = j->n[0], in = j->n[1], out = j->n[2];
    const float *x, *w, *b, *dy;
    float *y, *dx, *dw;
    LS_TRY(take(j, "x", rows * in, &x));
    LS_TRY(take(j, "w", out * in, &w));
    LS_TRY(take(j, "b", out, &b));
    LS_TRY(take(j, "dy", rows * out, &dy));
    LS_TRY(room(j, rows * out, &y));
    LS_TRY(room(j, rows * in, &dx));
    LS_TRY(room(j, out * in, &dw));
    ls_gemm forward = {.form = LS_GEMM_NT, .m = rows, .n = out, .k = in, .a = x, .b = w, .c = y, .bias = b};
    forward.lda = forward.ldb = in;
    forward.ldc = out;
    ls_gemm input = {.form = LS_GEMM_NN, .m = rows, .n = in, .k = out, .a = dy, .b = w, .c = dx};
    input.lda = out;
    input.ldb = input.ldc = in;
    ls_gemm weight = {.form = LS_GEMM_TN, .m = out, .n = in, .k = rows, .a = dy, .b = x, .c = dw};
    weight.lda = out;
    weight.ldb = weight.ldc = in;
    LS_TRY(j->ops->gemm(j->device, &forward));
    LS_TRY(j->ops->gemm(j->device, &input));
    LS_TRY(j->ops->gemm(j->device, &weight));
    LS_TRY(give(j, "y", y, rows * out));
    LS_TRY(give(j, "dx", dx, rows * in));
    LS_TRY(give(j, "dw", dw, out * in));
    return sum_rows(j, "db", dy, rows, out);
}

/* rows classes; dx is the gradient of the sum of the losses */
static ls_status loss(job *j) {
    size_t rows = j->n[0], V = j->n[1], bounds[2] = {0, V};
    ls_loss_call c = {.rows = rows, .z_stride = V, .bounds = bounds, .slices = 1, .dz_stride = V, .g = 1};
    float *dz;
    LS_TRY(take(j, "x", rows * V, &c.z));
    LS_TRY(take(j, "targets", rows, &c.targets));
    LS_TRY(room(j, rows, &c.loss));
    LS_TRY(room(j, rows * V, &dz));
    c.dz = dz;
    LS_TRY(j->ops->loss_rows(j->device, &c));
    LS_TRY(give(j, "y", c.loss, rows));
    return give(j, "dx", dz, rows * V);
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int numbers;
    ls_status (*run)(job *j);
} layers[] = {
    {"conv", 11, conv}, {"max", 11, max_pool},   {"mean", 11, mean_pool}, {"norm", 5, norm},
    {"act", 2, act},    {"dropout", 7, dropout}, {"linear", 3, linear},   {"loss", 2, loss},
};

static ls_status run(int argc, char **argv) {
    job j = {.folder = argv[1]};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        if (strcmp(argv[2], layers[i].name) != 0 || argc - 3 != layers[i].numbers) continue;
        for (int k = 3; k < argc; k++) j.n[k - 3] = strtoul(argv[k], NULL, 10);
        LS_TRY(ls_device_open_cpu(THREADS, NULL, NULL, &j.device));
        j.ops = j.device->ops;
        ls_status status = layers[i].run(&j);
        for (int k = 0; k < j.count; k++) ls_device_free(j.device, j.tensors[k]);
        ls_device_destroy(j.device);
        return status;
    }
    return ls_fail(LS_ERR_INPUT, "%d numbers for %s: there is no such layer", argc - 3, argv[2]);
}

int main(int argc, char **argv) {
    ls_fpenv_set();
    if (argc < 3) {
        fprintf(stderr, "usage: layers FOLDER LAYER NUMBER...\n");
        return 2;
    }
    ls_status status = run(argc, argv);
    if (status != LS_OK) fprintf(stderr, "layers: %s\n", ls_status_message());
    return (int)status;
}
