/* llmc_export.c: a model file of llm.c from weights. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "interop/llmc.h"
#include "interop/llmc_file.h"
#include "interop/out_folder.h"

static ls_status check_shape(const ls_shape *shape) {
    bool fits = !ls_shape_is_llama(shape) && shape->tied && shape->attention_bias && shape->mlp_bias &&
                shape->kv_heads == shape->H && ls_shape_query_width(shape) == shape->C && shape->hidden == 4 * shape->C;
    if (!fits)
        return ls_fail(LS_ERR_INPUT,
                       "llm.c cannot hold '%s': it needs a GPT-2 with tied embeddings, biases, hidden 4 × width and no "
                       "grouped heads",
                       shape->name);
    if (shape->V > INT32_MAX - LS_LLMC_PADDING)
        return ls_fail(LS_ERR_INPUT, "the vocabulary of %zu is too large for llm.c, which pads it to a multiple of 128",
                       shape->V);
    return LS_OK;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

typedef struct file_out {
    const char *path;
    int fd;
} file_out;

static ls_status write_bytes(void *ctx, const void *data, size_t bytes) {
    const file_out *out = ctx;
    const char *at = data;
    while (bytes > 0) {
        ssize_t put = write(out->fd, at, bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return ls_fail_errno(LS_ERR_FAILED, "cannot write %zu bytes to %s", bytes, out->path);
        at += put;
        bytes -= (size_t)put;
    }
    return LS_OK;
}

/* Shows a full disk at once, where the file system can tell. */
static ls_status reserve(const file_out *out, size_t bytes) {
    int error;
    do error = posix_fallocate(out->fd, 0, (off_t)bytes);
    while (error == EINTR);
    if (error == 0 || error == EOPNOTSUPP || error == EINVAL) return LS_OK;
    errno = error;
    return ls_fail_errno(LS_ERR_FAILED, "cannot reserve %zu bytes for %s", bytes, out->path);
}

/* ---- content ----------------------------------------------------------------------------------------------------- */

static ls_status write_header(file_out *out, const ls_shape *shape, ls_dtype dtype, size_t padded) {
    int32_t header[LS_LLMC_HEADER_INTS] = {LS_LLMC_MAGIC,     dtype == LS_BF16 ? LS_LLMC_BF16 : LS_LLMC_FP32,
                                           (int32_t)shape->T, (int32_t)shape->V,
                                           (int32_t)shape->L, (int32_t)shape->H,
                                           (int32_t)shape->C, (int32_t)padded};
    return write_bytes(out, header, sizeof header);
}

static ls_status write_padding(file_out *out, size_t bytes) {
    static const char zeros[4096];
    for (; bytes > sizeof zeros; bytes -= sizeof zeros) LS_TRY(write_bytes(out, zeros, sizeof zeros));
    return write_bytes(out, zeros, bytes);
}

static ls_status write_param(file_out *out, const ls_param *param, ls_dtype dtype, ls_tensor_source source, void *ctx) {
    ls_stored stored = {
        .rows = param->rows, .columns = param->columns, .transposed = ls_llmc_is_turned(param), .dtype = dtype};
    return ls_stored_write(&stored, param->name, param, source, ctx, write_bytes, out);
}

static ls_status write_model(file_out *out, const ls_model *model, ls_dtype dtype, ls_tensor_source source, void *ctx) {
    const ls_block *first = &model->blocks[0], *last = &model->blocks[model->nblocks - 1];
    const ls_shape *shape = &model->shape;
    size_t padded = (shape->V + LS_LLMC_PADDING - 1) / LS_LLMC_PADDING * LS_LLMC_PADDING;
    size_t unit = ls_dtype_bytes(dtype);
    LS_TRY(reserve(out, LS_LLMC_HEADER_BYTES + ls_llmc_elem(model, padded, ls_model_params(model)) * unit));
    LS_TRY(write_header(out, shape, dtype, padded));
    for (int i = 0; i < first->nparams; i++) {
        LS_TRY(write_param(out, &first->param[i], dtype, source, ctx));
        if (i == 0) LS_TRY(write_padding(out, (padded - shape->V) * shape->C * unit));
    }
    for (int i = 0; i < model->blocks[1].nparams; i++)
        for (int b = 1; b < model->nblocks - 1; b++)
            LS_TRY(write_param(out, &model->blocks[b].param[i], dtype, source, ctx));
    for (int i = 0; i < last->nparams; i++) LS_TRY(write_param(out, &last->param[i], dtype, source, ctx));
    return LS_OK;
}

static ls_status put_in_place(file_out *out, const char *temporary) {
    int rc;
    do rc = fsync(out->fd);
    while (rc != 0 && errno == EINTR);
    if (rc != 0) return ls_fail_errno(LS_ERR_FAILED, "cannot sync %s to disk", out->path);
    rc = close(out->fd);
    out->fd = -1;
    if (rc != 0) return ls_fail_errno(LS_ERR_FAILED, "cannot close %s", out->path);
    if (rename(temporary, out->path) != 0)
        return ls_fail_errno(LS_ERR_FAILED, "cannot rename the finished file to %s", out->path);
    return ls_out_sync_parent(out->path);
}

ls_status ls_llmc_export(const char *path, const ls_model *model, ls_dtype dtype, ls_tensor_source source, void *ctx) {
    file_out out = {.path = path, .fd = -1};
    char *temporary = NULL;
    ls_status status;
    if (dtype != LS_F32 && dtype != LS_BF16)
        return ls_fail(LS_ERR_INPUT, "llm.c files are fp32 or bf16; use --dtype fp32 or bf16");
    LS_TRY(check_shape(&model->shape));
    LS_TRY(ls_file_can_write(path));
    if (asprintf(&temporary, "%s.partial-%ld", path, (long)getpid()) < 0)
        return ls_fail(LS_ERR_RESOURCE, "out of memory to write %s", path);
    out.fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out.fd < 0) {
        status = ls_fail_errno(LS_ERR_INPUT, "cannot write %s", temporary);
        goto out;
    }
    LS_TRY_OUT(write_model(&out, model, dtype, source, ctx));
    LS_TRY_OUT(put_in_place(&out, temporary));
out:
    if (out.fd >= 0) (void)close(out.fd);
    if (status != LS_OK) (void)unlink(temporary);
    free(temporary);
    return status;
}
