/* llmc.h: writes model files of llm.c (GPT-2). weights.h reads them. All numbers are little-endian.
 *
 *     1024 bytes   256 int32: 20240326, version (3: fp32, 5: bf16), positions, vocab, layers, heads, width,
 *                  padded vocab
 *     the rest     token table with padding rows, positions, then one tensor after the other, each with all its
 *                  layers, the final norm; weights are [outputs][inputs] */
#ifndef LS_INTEROP_LLMC_H
#define LS_INTEROP_LLMC_H

#include "interop/stored.h"
#include "nn/blocks.h"

/* Writes a model file, whole or not at all. `dtype` is LS_F32 or LS_BF16. LS_ERR_INPUT for a shape that llm.c cannot
 * run, or values too large for the type; LS_ERR_RESOURCE if the disk is full. */
ls_status ls_llmc_export(const char *path, const ls_model *model, ls_dtype dtype, ls_tensor_source source, void *ctx);

#endif
