/* token_layout.h: finds the ids in the bytes of a token file (formats: token_file.h). For token_file.c, which reads all
 * formats, and for token_writer.c, which writes llm.c's. Works on memory, so that tests can try any bytes. Results
 * point into these bytes; any thread may call. */
#ifndef LS_DATA_TEXT_TOKEN_LAYOUT_H
#define LS_DATA_TEXT_TOKEN_LAYOUT_H

#include "data/text/token_file.h"

enum { LS_LLMC_WORDS = 256, LS_LLMC_BYTES = 4 * LS_LLMC_WORDS };
enum { LS_LLMC_MAGIC_16 = 20240520, LS_LLMC_VERSION_16 = 1, LS_LLMC_MAGIC_32 = 20240801, LS_LLMC_VERSION_32 = 7 };
enum { LS_LLMC_ORIGIN_WORD = 8, LS_LLMC_SUM_WORD = 16, LS_LLMC_SUM_END = 20 };
#define LS_LLMC_ORIGIN_MAGIC 0x4B54534Cu

/* How ids are stored: bits, with a sign (I) or without (U). */
typedef enum ls_token_type {
    LS_TOKEN_U8,
    LS_TOKEN_I8,
    LS_TOKEN_U16,
    LS_TOKEN_I16,
    LS_TOKEN_U32,
    LS_TOKEN_I32,
    LS_TOKEN_I64
} ls_token_type;

typedef struct ls_token_layout {
    const char *format; /* a constant: see ls_token_file_format() */
    ls_token_type type;
    const uint8_t *tokens; /* inside the file's bytes; of any alignment */
    uint64_t count;
    ls_token_origin origin;
    ls_hash128 sum; /* zeros: the file has none */
} ls_token_layout;

/* Returns the bytes of one id. */
size_t ls_token_width(ls_token_type type);
/* Converts `count` stored ids to int64_t. */
void ls_token_load(ls_token_type type, const uint8_t *from, size_t count, int64_t *out);

/* Returns the checksum of a file in llm.c's format that lockstep wrote: over its header (LS_LLMC_BYTES bytes, taken
 * with zeros in place of the checksum) and over `ids`, the hash of its ids. */
ls_hash128 ls_token_layout_sum(const void *header, ls_hash128 ids);

/* Returns whether a file that begins with these bytes (at least 4) has llm.c's format. */
bool ls_token_layout_is_llmc(const void *head, size_t bytes);
/* Parses the layout of name.bin; `index` is Megatron's name.idx, or NULL. `name` is for messages. *out points into
 * `data`. LS_ERR_INPUT if a size does not fit. */
ls_status ls_token_layout_parse(const char *name, const void *data, size_t bytes, const void *index, size_t index_bytes,
                                ls_token_layout *out);

#endif
