/* token_layout.c: parses the three formats of token files. Every size is checked against the available bytes before it
 * is used, with sums and products that cannot overflow. */
#include "data/text/token_layout.h"

#include <inttypes.h>
#include <string.h>

enum { SHOWN = 200, LLMC_MODEL_MAGIC = 20240326, LLMC_MODEL_MAGIC_FIRST = 20240000, LLMC_MODEL_MAGIC_LAST = 20259999 };

size_t ls_token_width(ls_token_type type) {
    static const uint8_t widths[] = {
        [LS_TOKEN_U8] = 1,  [LS_TOKEN_I8] = 1,  [LS_TOKEN_U16] = 2, [LS_TOKEN_I16] = 2,
        [LS_TOKEN_U32] = 4, [LS_TOKEN_I32] = 4, [LS_TOKEN_I64] = 8,
    };
    return widths[type];
}

/* One loop for each type; memcpy, because the ids may be unaligned. */
#define LOAD(c_type)                                                                                                   \
    for (size_t i = 0; i < count; i++) {                                                                               \
        c_type id;                                                                                                     \
        memcpy(&id, from + i * sizeof id, sizeof id);                                                                  \
        out[i] = (int64_t)id;                                                                                          \
    }                                                                                                                  \
    break

void ls_token_load(ls_token_type type, const uint8_t *from, size_t count, int64_t *out) {
    switch (type) {
    case LS_TOKEN_U8: LOAD(uint8_t);
    case LS_TOKEN_I8: LOAD(int8_t);
    case LS_TOKEN_U16: LOAD(uint16_t);
    case LS_TOKEN_I16: LOAD(int16_t);
    case LS_TOKEN_U32: LOAD(uint32_t);
    case LS_TOKEN_I32: LOAD(int32_t);
    case LS_TOKEN_I64: LOAD(int64_t);
    }
}

/* Returns word i of the data, of 32 bits. */
static uint32_t word_at(const uint8_t *data, size_t i) {
    uint32_t word;
    memcpy(&word, data + 4 * i, sizeof word);
    return word;
}

/* Returns the 64-bit number at these bytes, of any alignment. */
static uint64_t u64_at(const uint8_t *data) {
    uint64_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

/* Returns the 64-bit number at word i. */
static uint64_t pair_at(const uint8_t *data, size_t i) { return u64_at(data + 4 * i); }

/* ---- llm.c ------------------------------------------------------------------------------------------------------- */

bool ls_token_layout_is_llmc(const void *head, size_t bytes) {
    uint32_t magic = bytes >= 4 ? word_at(head, 0) : 0;
    return magic == LS_LLMC_MAGIC_16 || magic == LS_LLMC_MAGIC_32;
}

ls_hash128 ls_token_layout_sum(const void *header, ls_hash128 ids) {
    uint8_t copy[LS_LLMC_BYTES];
    memcpy(copy, header, sizeof copy);
    memset(copy + 4 * LS_LLMC_SUM_WORD, 0, 4 * (LS_LLMC_SUM_END - LS_LLMC_SUM_WORD));
    const ls_hash128 parts[] = {ls_hash_bytes(copy, sizeof copy), ids};
    return ls_hash_combine(parts, sizeof parts / sizeof *parts);
}

/* Parses llm.c's header, with lockstep's metadata if there are any. The size must be exactly that of the header and
 * the ids. */
static ls_status parse_llmc(const char *name, const uint8_t *data, size_t bytes, ls_token_layout *out) {
    if (bytes < LS_LLMC_BYTES)
        return ls_fail(LS_ERR_INPUT, "%.*s is truncated: %zu bytes, less than the header of llm.c's token files (%d)",
                       SHOWN, name, bytes, LS_LLMC_BYTES);
    bool is_wide = word_at(data, 0) == LS_LLMC_MAGIC_32;
    uint32_t version = word_at(data, 1), wanted = is_wide ? LS_LLMC_VERSION_32 : LS_LLMC_VERSION_16;
    int32_t count = (int32_t)word_at(data, 2);
    if (version != wanted)
        return ls_fail(LS_ERR_INPUT, "%.*s is a token file of llm.c of version %u; only %u is known", SHOWN, name,
                       version, wanted);
    if (count <= 0) return ls_fail(LS_ERR_INPUT, "%.*s holds no tokens: its header says %d", SHOWN, name, count);
    uint64_t expected = LS_LLMC_BYTES + (uint64_t)count * (is_wide ? 4 : 2);
    if (bytes != expected)
        return ls_fail(LS_ERR_INPUT,
                       "%.*s is %s: its header says %d tokens, which are %" PRIu64 " bytes, but it has %zu", SHOWN,
                       name, bytes < expected ? "truncated" : "too long", count, expected, bytes);
    *out = (ls_token_layout){.format = "llm.c",
                             .type = is_wide ? LS_TOKEN_U32 : LS_TOKEN_U16,
                             .tokens = data + LS_LLMC_BYTES,
                             .count = (uint64_t)count};
    if (word_at(data, LS_LLMC_ORIGIN_WORD) == LS_LLMC_ORIGIN_MAGIC)
        out->origin = (ls_token_origin){.text_bytes = pair_at(data, 9),
                                        .vocab = word_at(data, 11),
                                        .tokenizer = {.lo = pair_at(data, 12), .hi = pair_at(data, 14)}};
    if (out->origin.vocab)
        out->sum = (ls_hash128){.lo = pair_at(data, LS_LLMC_SUM_WORD), .hi = pair_at(data, LS_LLMC_SUM_WORD + 2)};
    return LS_OK;
}

/* ---- Megatron ---------------------------------------------------------------------------------------------------- */

/* name.idx has: the mark, version (u64), type (u8), numbers of sequences and documents (u64 each); for each sequence
 * its length in ids (i32); for each sequence its offset in bytes (i64); the first sequence of each document (i64);
 * perhaps more. */
enum { MARK_BYTES = 9, VERSION_AT = 9, TYPE_AT = 17, SEQUENCES_AT = 18, DOCUMENTS_AT = 26, LENGTHS_AT = 34 };

/* Sets *out to the type with this code of Megatron's index. */
static ls_status megatron_type(const char *name, uint8_t code, ls_token_type *out) {
    static const struct {
        uint8_t code;
        ls_token_type type;
    } known[] = {{1, LS_TOKEN_U8},  {2, LS_TOKEN_I8},  {3, LS_TOKEN_I16},
                 {4, LS_TOKEN_I32}, {5, LS_TOKEN_I64}, {8, LS_TOKEN_U16}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        *out = known[i].type;
        if (known[i].code == code) return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "the index of %.*s says type %u, which is %s", SHOWN, name, code,
                   code == 6 || code == 7 ? "one of fractions, not of token ids" : "not known");
}

/* Checks that the sequences follow each other without gaps, because they are read as one sequence, and fill the file.
 * *count: ids in all. */
static ls_status check_sequences(const char *name, const uint8_t *lengths, const uint8_t *starts, uint64_t sequences,
                                 uint64_t width, uint64_t bytes, uint64_t *count) {
    uint64_t at = 0;
    for (uint64_t i = 0; i < sequences; i++) {
        int32_t length = (int32_t)word_at(lengths, i);
        if (length < 0 || u64_at(starts + 8 * i) != at)
            return ls_fail(LS_ERR_INPUT,
                           "the index of %.*s is wrong: sequence %" PRIu64 " has %d tokens from byte %" PRIu64
                           " on, but the one before it ends at byte %" PRIu64,
                           SHOWN, name, i, length, u64_at(starts + 8 * i), at);
        at += (uint64_t)length * width;
        if (at > bytes)
            return ls_fail(LS_ERR_INPUT,
                           "%.*s is truncated: its index has sequence %" PRIu64 " end at byte %" PRIu64
                           ", but it has %" PRIu64,
                           SHOWN, name, i, at, bytes);
    }
    if (at != bytes)
        return ls_fail(LS_ERR_INPUT,
                       "%.*s is longer than its index says: it has %" PRIu64 " bytes, the index %" PRIu64
                       "; put the .idx file that was written with it beside it",
                       SHOWN, name, bytes, at);
    *count = at / width;
    return LS_OK;
}

/* Parses the index of a Megatron pair, and checks it against the size of the data. */
static ls_status parse_megatron(const char *name, const uint8_t *data, size_t bytes, const uint8_t *index,
                                size_t index_bytes, ls_token_layout *out) {
    static const char mark[MARK_BYTES] = "MMIDIDX\0"; /* and one more zero */
    if (index_bytes < LENGTHS_AT || memcmp(index, mark, sizeof mark) != 0)
        return ls_fail(LS_ERR_INPUT, "the index beside %.*s is not Megatron's (it does not begin with MMIDIDX)", SHOWN,
                       name);
    uint64_t version = u64_at(index + VERSION_AT), sequences = u64_at(index + SEQUENCES_AT);
    uint64_t documents = u64_at(index + DOCUMENTS_AT), capacity = index_bytes - LENGTHS_AT;
    if (version != 1)
        return ls_fail(LS_ERR_INPUT, "the index of %.*s has version %" PRIu64 "; only 1 is known", SHOWN, name,
                       version);
    if (sequences > capacity / 12 || documents > (capacity - 12 * sequences) / 8)
        return ls_fail(LS_ERR_INPUT,
                       "the index of %.*s is truncated: %zu bytes cannot hold %" PRIu64 " sequences and %" PRIu64
                       " documents",
                       SHOWN, name, index_bytes, sequences, documents);
    *out = (ls_token_layout){.format = "Megatron", .tokens = data};
    LS_TRY(megatron_type(name, index[TYPE_AT], &out->type));
    const uint8_t *lengths = index + LENGTHS_AT;
    LS_TRY(check_sequences(name, lengths, lengths + 4 * sequences, sequences, ls_token_width(out->type), bytes,
                           &out->count));
    return out->count ? LS_OK : ls_fail(LS_ERR_INPUT, "%.*s holds no tokens", SHOWN, name);
}

/* ---- nanoGPT ----------------------------------------------------------------------------------------------------- */

/* Parses a file without a header as 16-bit ids, and refuses other files of llm.c. */
static ls_status parse_plain(const char *name, const uint8_t *data, size_t bytes, ls_token_layout *out) {
    uint32_t first = bytes >= 4 ? word_at(data, 0) : 0;
    if (first >= LLMC_MODEL_MAGIC_FIRST && first <= LLMC_MODEL_MAGIC_LAST)
        return ls_fail(LS_ERR_INPUT, "%.*s is not a token file: it begins with %u, as %s of llm.c do", SHOWN, name,
                       first, first == LLMC_MODEL_MAGIC ? "models" : "other files");
    if (bytes % 2)
        return ls_fail(
            LS_ERR_INPUT,
            "%.*s is truncated or not a token file: without a known header it would be 16-bit ids, but has %zu bytes",
            SHOWN, name, bytes);
    *out = (ls_token_layout){.format = "nanoGPT", .type = LS_TOKEN_U16, .tokens = data, .count = bytes / 2};
    return LS_OK;
}

ls_status ls_token_layout_parse(const char *name, const void *data, size_t bytes, const void *index, size_t index_bytes,
                                ls_token_layout *out) {
    if (!bytes) return ls_fail(LS_ERR_INPUT, "%.*s is empty: it holds no tokens", SHOWN, name);
    if (index) return parse_megatron(name, data, bytes, index, index_bytes, out);
    if (ls_token_layout_is_llmc(data, bytes)) return parse_llmc(name, data, bytes, out);
    return parse_plain(name, data, bytes, out);
}
