/* llmc.c: reads and writes model files of llm.c. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "interop/llmc.h"
#include "interop/weights_file.h"
#include "model/shape_file.h"

enum {
    LLMC_MAGIC = 20240326,
    LLMC_FP32 = 3,
    LLMC_BF16 = 5,
    LLMC_HEADER_INTS = 256,
    LLMC_HEADER_BYTES = 1024,
    LLMC_PADDING = 128 /* the vocabulary is padded to a multiple */
};

/* ---- offsets in the file ----------------------------------------------------------------------------------------- */

/* Returns whether the file stores the transpose of a parameter: outputs before inputs. */
static bool is_stored_transposed(const ls_param *param) { return strstr(param->name, ".out.weight") != NULL; }

/* Returns where parameter `number` begins, in elements after the header; `padded` is the number of rows of the token
 * table. If `number` is the number of parameters, returns the end of the last one. The file has the parameters in the
 * order of the model, except that it stores each tensor of a block for all layers before the next tensor. */
static size_t element_offset(const ls_model *model, size_t padded, int number) {
    size_t layers = model->shape.L, elem = padded * model->shape.C;
    int first = model->blocks[0].nparams, each = model->blocks[1].nparams, blocks = each * (int)layers;
    if (number == 0) return 0;
    for (int i = 1; i < first && i < number; i++) elem += ls_param_elems(ls_model_param(model, i));
    if (number < first) return elem;
    int in_blocks = number - first, tensors = in_blocks < blocks ? in_blocks % each : each;
    for (int i = 0; i < tensors; i++) elem += layers * ls_param_elems(&model->blocks[1].param[i]);
    if (in_blocks < blocks) return elem + (size_t)(in_blocks / each) * ls_param_elems(&model->blocks[1].param[tensors]);
    for (int i = first + blocks; i < number; i++) elem += ls_param_elems(ls_model_param(model, i));
    return elem;
}

/* ---- the header -------------------------------------------------------------------------------------------------- */

/* Reads exactly `bytes` bytes at an offset; LS_ERR_INPUT if the file ends before. */
static ls_status read_at(int fd, size_t offset, void *host, size_t bytes) {
    size_t got = ls_fd_read(fd, host, bytes, (off_t)offset);
    if (got == bytes) return LS_OK;
    if (errno == 0) return ls_fail(LS_ERR_INPUT, "the file is truncated at byte %zu", offset + got);
    return ls_fail_errno(LS_ERR_FAILED, "cannot read %zu bytes", bytes - got);
}

bool ls_llmc_is_model(const char *path) {
    int32_t magic = 0;
    int fd;
    if (ls_file_open_regular(path, &fd, NULL) != LS_OK) return false;
    bool is_model = ls_fd_read(fd, &magic, sizeof magic, 0) == sizeof magic && magic == LLMC_MAGIC;
    (void)close(fd);
    return is_model;
}

/* Makes the shape from the header, with the file's name; *padded is the number of rows of the token table. */
static ls_status read_shape(const int32_t *header, const char *path, ls_shape *shape, size_t *padded) {
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    for (int i = 2; i <= 7; i++)
        if (header[i] < 1)
            return ls_fail(LS_ERR_INPUT, "header field %d is %" PRId32 "; it must be positive", i, header[i]);
    *shape = (ls_shape){.arch = LS_ARCH_GPT2,
                        .T = (size_t)header[2],
                        .V = (size_t)header[3],
                        .L = (size_t)header[4],
                        .H = (size_t)header[5],
                        .kv_heads = (size_t)header[5],
                        .C = (size_t)header[6],
                        .hidden = 4 * (size_t)header[6],
                        .tied = true,
                        .attention_bias = true,
                        .mlp_bias = true,
                        .eps = 1e-5,
                        .init_std = 0.02};
    snprintf(shape->name, sizeof shape->name, "%.*s", (int)strcspn(file, "."), file);
    *padded = (size_t)header[7];
    if (shape->C % shape->H != 0)
        return ls_fail(LS_ERR_INPUT, "the width %zu is not a multiple of the %zu heads", shape->C, shape->H);
    shape->head_size = shape->C / shape->H;
    if (*padded < shape->V)
        return ls_fail(LS_ERR_INPUT, "the padded vocabulary (%zu) is smaller than the vocabulary (%zu)", *padded,
                       shape->V);
    return ls_shape_check(shape);
}

/* Sets *dtype to the element type of a version of the format. The message of the error begins with its verb, because
 * the caller puts the path before it. */
static ls_status dtype_of_version(int32_t version, ls_dtype *dtype) {
    *dtype = version == LLMC_BF16 ? LS_BF16 : LS_F32;
    if (version == LLMC_FP32 || version == LLMC_BF16) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "is version %" PRId32
                   " of llm.c's format; lockstep reads 3 (fp32) and 5 (bf16): export it again with a current llm.c",
                   version);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Reads bytes of a stored tensor: the `read` of ls_stored. */
static ls_status read_stored(const ls_stored *stored, size_t byte_offset, void *host, size_t bytes) {
    const ls_weights *weights = stored->file;
    ls_status status = read_at(weights->fd, stored->offset + byte_offset, host, bytes);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "%s: ", weights->path);
}

/* Checks that the file has exactly `want` bytes. */
static ls_status check_length(const ls_weights *weights, size_t want) {
    struct stat about;
    if (fstat(weights->fd, &about) != 0) return ls_fail_errno(LS_ERR_INPUT, "cannot read its size");
    if ((uint64_t)about.st_size == want) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "has %lld bytes, but its header describes a model of %zu: truncated, or not a model file of llm.c",
                   (long long)about.st_size, want);
}

/* Reads the header, checks the length, and lists every parameter with its place in the file. */
static ls_status read_file(ls_weights *weights, const char *path) {
    int32_t header[LLMC_HEADER_INTS];
    ls_shape shape;
    ls_dtype dtype;
    size_t padded = 0;
    LS_TRY(read_at(weights->fd, 0, header, sizeof header));
    LS_TRY(dtype_of_version(header[1], &dtype));
    LS_TRY(read_shape(header, path, &shape, &padded));
    LS_TRY(ls_weights_begin(weights, &shape, 0));
    int params = weights->model->nparams;
    size_t unit = ls_dtype_bytes(dtype);
    LS_TRY(check_length(weights, LLMC_HEADER_BYTES + element_offset(weights->model, padded, params) * unit));
    for (int p = 0; p < params; p++) {
        const ls_param *param = weights->model->params[p];
        weights->list[weights->count++] =
            (ls_stored){.param = p,
                        .rows = param->rows,
                        .columns = param->columns,
                        .transposed = is_stored_transposed(param),
                        .dtype = dtype,
                        .read = read_stored,
                        .file = weights,
                        .offset = LLMC_HEADER_BYTES + element_offset(weights->model, padded, p) * unit};
    }
    return LS_OK;
}

ls_status ls_weights_from_llmc(ls_weights *weights, const char *path) {
    weights->kind = LS_WEIGHTS_LLMC;
    LS_TRY(ls_file_open_regular(path, &weights->fd, NULL));
    ls_status status = read_file(weights, path);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "%s: ", path);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Checks that llm.c can run the shape. */
static ls_status check_shape(const ls_shape *shape) {
    bool fits = shape->arch == LS_ARCH_GPT2 && shape->tied && shape->attention_bias && shape->mlp_bias &&
                shape->kv_heads == shape->H && ls_shape_query_width(shape) == shape->C && shape->hidden == 4 * shape->C;
    if (!fits)
        return ls_fail(LS_ERR_INPUT,
                       "llm.c cannot hold '%s': it needs a GPT-2 with tied embeddings, biases, hidden 4 × width and no "
                       "grouped heads",
                       shape->name);
    if (shape->V > INT32_MAX - LLMC_PADDING)
        return ls_fail(LS_ERR_INPUT, "the vocabulary of %zu is too large for llm.c, which pads it to a multiple of 128",
                       shape->V);
    return LS_OK;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* Appends bytes to the file; an ls_stored_write_fn. */
static ls_status write_bytes(void *ctx, const void *data, size_t bytes) {
    const ls_new_file *out = ctx;
    size_t put = ls_fd_write(out->fd, data, bytes, -1);
    if (put == bytes) return LS_OK;
    return ls_fail_errno(LS_ERR_FAILED, "cannot write %zu bytes to %s", bytes - put, out->path.text);
}

/* Reserves the disk space, so that a full disk fails before any weight is written, if the file system supports it. */
static ls_status reserve_space(const ls_new_file *out, size_t bytes) {
    int error;
    do error = posix_fallocate(out->fd, 0, (off_t)bytes);
    while (error == EINTR);
    if (error == 0 || error == EOPNOTSUPP || error == EINVAL) return LS_OK;
    errno = error;
    return ls_fail_errno(LS_ERR_FAILED, "cannot reserve %zu bytes for %s", bytes, out->path.text);
}

/* ---- content ----------------------------------------------------------------------------------------------------- */

/* Writes the header of 1024 bytes. */
static ls_status write_header(ls_new_file *out, const ls_shape *shape, ls_dtype dtype, size_t padded) {
    int32_t header[LLMC_HEADER_INTS] = {LLMC_MAGIC,        dtype == LS_BF16 ? LLMC_BF16 : LLMC_FP32,
                                        (int32_t)shape->T, (int32_t)shape->V,
                                        (int32_t)shape->L, (int32_t)shape->H,
                                        (int32_t)shape->C, (int32_t)padded};
    return write_bytes(out, header, sizeof header);
}

/* Writes zeros for the rows that pad the vocabulary. */
static ls_status write_padding(ls_new_file *out, size_t bytes) {
    static const char zeros[4096];
    for (; bytes > sizeof zeros; bytes -= sizeof zeros) LS_TRY(write_bytes(out, zeros, sizeof zeros));
    return write_bytes(out, zeros, bytes);
}

/* Pulls one parameter from the source and writes it. */
static ls_status write_param(ls_new_file *out, const ls_param *param, ls_dtype dtype, ls_tensor_source source,
                             void *ctx) {
    ls_stored stored = {
        .rows = param->rows, .columns = param->columns, .transposed = is_stored_transposed(param), .dtype = dtype};
    return ls_stored_write(&stored, param->name, param, source, ctx, write_bytes, out);
}

/* Writes the whole file, in the order of llm.c: each tensor of a block for all layers before the next tensor. */
static ls_status write_model(ls_new_file *out, const ls_model *model, ls_dtype dtype, ls_tensor_source source,
                             void *ctx) {
    const ls_block *first = &model->blocks[0], *last = &model->blocks[model->nblocks - 1];
    const ls_shape *shape = &model->shape;
    size_t padded = (shape->V + LLMC_PADDING - 1) / LLMC_PADDING * LLMC_PADDING;
    size_t unit = ls_dtype_bytes(dtype);
    LS_TRY(reserve_space(out, LLMC_HEADER_BYTES + element_offset(model, padded, ls_model_params(model)) * unit));
    LS_TRY(write_header(out, shape, dtype, padded));
    for (int i = 0; i < first->nparams; i++) {
        LS_TRY(write_param(out, &first->param[i], dtype, source, ctx));
        if (first->param[i].role == LS_ROLE_TOKENS) LS_TRY(write_padding(out, (padded - shape->V) * shape->C * unit));
    }
    for (int i = 0; i < model->blocks[1].nparams; i++)
        for (int b = 1; b < model->nblocks - 1; b++)
            LS_TRY(write_param(out, &model->blocks[b].param[i], dtype, source, ctx));
    for (int i = 0; i < last->nparams; i++) LS_TRY(write_param(out, &last->param[i], dtype, source, ctx));
    return LS_OK;
}

ls_status ls_llmc_export(const char *path, const ls_model *model, ls_dtype dtype, ls_tensor_source source, void *ctx) {
    ls_new_file out;
    if (dtype != LS_F32 && dtype != LS_BF16)
        return ls_fail(LS_ERR_INPUT, "llm.c files are fp32 or bf16; use --dtype fp32 or bf16");
    LS_TRY(check_shape(&model->shape));
    LS_TRY(ls_file_can_write(path));
    LS_TRY(ls_new_file_open(path, &out));
    ls_status status = write_model(&out, model, dtype, source, ctx);
    if (status == LS_OK) status = ls_new_file_commit(&out);
    ls_new_file_close(&out);
    return status;
}
