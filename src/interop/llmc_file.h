/* llmc_file.h: where things are in a model file of llm.c; for this folder only. */
#ifndef LS_INTEROP_LLMC_FILE_H
#define LS_INTEROP_LLMC_FILE_H

#include "nn/blocks.h"

enum {
    LS_LLMC_MAGIC = 20240326,
    LS_LLMC_FP32 = 3,
    LS_LLMC_BF16 = 5,
    LS_LLMC_HEADER_INTS = 256,
    LS_LLMC_HEADER_BYTES = 1024,
    LS_LLMC_PADDING = 128 /* the vocabulary is padded to a multiple */
};

/* The weights whose inputs our form has first. */
bool ls_llmc_is_turned(const ls_param *param);
/* First element of a parameter behind the header, for a token table of `padded` rows; of `number` = the number of
 * parameters: the end. */
size_t ls_llmc_elem(const ls_model *model, size_t padded, int number);

#endif
