/* llmc_import.c: weights from a model file of llm.c. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "interop/llmc_file.h"
#include "interop/weights_file.h"
#include "model/shape_file.h"

/* ---- where things are -------------------------------------------------------------------------------------------- */

bool ls_llmc_is_turned(const ls_param *param) { return strstr(param->name, ".out.weight") != NULL; }

/* Parameters come as ours do, but those of the blocks go tensor by tensor, then layer by layer. */
size_t ls_llmc_elem(const ls_model *model, size_t padded, int number) {
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

static ls_status read_at(int fd, size_t offset, void *host, size_t bytes) {
    char *at = host;
    while (bytes > 0) {
        ssize_t got = pread(fd, at, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ls_fail_errno(LS_ERR_FAILED, "cannot read %zu bytes", bytes);
        if (got == 0) return ls_fail(LS_ERR_INPUT, "the file is truncated at byte %zu", offset);
        at += got;
        offset += (size_t)got;
        bytes -= (size_t)got;
    }
    return LS_OK;
}

bool ls_llmc_is_model(const char *path) {
    struct stat about;
    int32_t magic = 0;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool is_model = read_at(fd, 0, &magic, sizeof magic) == LS_OK && magic == LS_LLMC_MAGIC;
    (void)close(fd);
    return is_model;
}

static ls_status shape_of(const int32_t *header, const char *path, ls_shape *shape, size_t *padded) {
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

static ls_status type_of(int32_t version, ls_dtype *dtype) {
    *dtype = version == LS_LLMC_BF16 ? LS_BF16 : LS_F32;
    if (version == LS_LLMC_FP32 || version == LS_LLMC_BF16) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "is version %" PRId32
                   " of llm.c's format; lockstep reads 3 (fp32) and 5 (bf16): export it again with a current llm.c",
                   version);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static ls_status read_stored(const ls_stored *stored, size_t byte_offset, void *host, size_t bytes) {
    const ls_weights *weights = stored->file;
    ls_status status = read_at(weights->fd, stored->offset + byte_offset, host, bytes);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "%s: ", weights->path);
}

static ls_status check_length(const ls_weights *weights, size_t want) {
    struct stat about;
    if (fstat(weights->fd, &about) != 0) return ls_fail_errno(LS_ERR_INPUT, "cannot read its size");
    if ((uint64_t)about.st_size == want) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "has %lld bytes, but its header describes a model of %zu: truncated, or not a model file of llm.c",
                   (long long)about.st_size, want);
}

static ls_status read_file(ls_weights *weights, const char *path) {
    int32_t header[LS_LLMC_HEADER_INTS];
    ls_shape shape;
    ls_dtype dtype;
    size_t padded = 0;
    LS_TRY(read_at(weights->fd, 0, header, sizeof header));
    LS_TRY(type_of(header[1], &dtype));
    LS_TRY(shape_of(header, path, &shape, &padded));
    LS_TRY(ls_weights_begin(weights, &shape, 0));
    int params = weights->model->nparams;
    size_t unit = ls_dtype_bytes(dtype);
    LS_TRY(check_length(weights, LS_LLMC_HEADER_BYTES + ls_llmc_elem(weights->model, padded, params) * unit));
    for (int p = 0; p < params; p++) {
        const ls_param *param = weights->model->params[p];
        weights->list[weights->count++] =
            (ls_stored){.param = p,
                        .rows = param->rows,
                        .columns = param->columns,
                        .transposed = ls_llmc_is_turned(param),
                        .dtype = dtype,
                        .read = read_stored,
                        .file = weights,
                        .offset = LS_LLMC_HEADER_BYTES + ls_llmc_elem(weights->model, padded, p) * unit};
    }
    return LS_OK;
}

ls_status ls_weights_from_llmc(ls_weights *weights, const char *path) {
    weights->kind = LS_WEIGHTS_LLMC;
    LS_TRY(ls_file_open_regular(path, &weights->fd, NULL));
    ls_status status = read_file(weights, path);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "%s: ", path);
}
