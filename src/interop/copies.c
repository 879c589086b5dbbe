/* copies.c: copies the files of a tokenizer beside a model, or writes those of a byte-level one. */
#include "interop/copies.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "interop/weights_file.h"

#define COPY_BYTES_MAX ((size_t)1 << 30)

static const char *const file_names[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",  "vocab.json",
    "merges.txt",     "tokenizer.model",       "chat_template.jinja",     LS_GENERATION_CONFIG,
};
enum { FILE_COUNT = sizeof file_names / sizeof *file_names, BYTE_COUNT = 256 };

const char *ls_copies_name(int i) { return i >= 0 && i < FILE_COUNT ? file_names[i] : NULL; }

bool ls_copies_has_tokenizer(const char *folder) {
    return ls_folder_has(folder, "tokenizer.json") ||
           (ls_folder_has(folder, "vocab.json") && ls_folder_has(folder, "merges.txt"));
}

/* Copies one file of a folder into another folder. */
static ls_status copy_file(const char *from_folder, const char *to_folder, const char *name) {
    char *data = NULL;
    size_t bytes;
    LS_TRY(ls_file_read(ls_path_in(from_folder, name).text, COPY_BYTES_MAX, &data, &bytes));
    ls_status status = ls_file_write_atomic(ls_path_in(to_folder, name).text, data, bytes);
    free(data);
    return status;
}

ls_status ls_copies_put(const char *tokenizer, const char *folder) {
    if (!ls_file_exists(tokenizer)) {
        ls_log_warn("the tokenizer %s no longer exists; the model is written without it", tokenizer);
        return LS_OK;
    }
    ls_path from = ls_folder_exists(tokenizer) ? ls_path_format("%s", tokenizer) : ls_path_beside(tokenizer, ".");
    for (int i = 0; i < FILE_COUNT; i++)
        if (ls_folder_has(from.text, file_names[i])) LS_TRY(copy_file(from.text, folder, file_names[i]));
    return LS_OK;
}

ls_status ls_copies_put_generation(const char *model, const char *folder) {
    bool has_one = ls_folder_exists(model) && ls_folder_has(model, LS_GENERATION_CONFIG);
    return has_one ? copy_file(model, folder, LS_GENERATION_CONFIG) : LS_OK;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Returns whether GPT-2's alphabet writes this byte as itself. */
static bool is_printable(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

/* Returns the symbol of a byte in byte-level tokenizers: printable Latin-1 bytes stand for themselves, the others are
 * U+0100 and following, in order. */
static int byte_symbol(int byte) {
    int others = 0;
    if (is_printable(byte)) return byte;
    for (int i = 0; i < byte; i++) others += !is_printable(i);
    return 0x100 + others;
}

/* Makes the vocabulary in which each byte's symbol has the byte as its id, a new reference; NULL if memory is short. */
static json_t *byte_vocab(void) {
    json_t *vocab = json_object();
    for (int byte = 0; byte < BYTE_COUNT; byte++) {
        int symbol = byte_symbol(byte);
        char text[3] = {(char)symbol, '\0', '\0'};
        if (symbol >= 0x80) {
            text[0] = (char)(0xC0 | symbol >> 6);
            text[1] = (char)(0x80 | (symbol & 0x3F));
        }
        if (json_object_set_new(vocab, text, json_integer(byte)) != 0) {
            json_decref(vocab);
            return NULL;
        }
    }
    return vocab;
}

/* Writes JSON into a file of the folder, and releases it; NULL: memory was short, which is LS_ERR_RESOURCE. */
static ls_status put_json(const char *folder, const char *name, json_t *json) {
    char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
    json_decref(json);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for %s", name);
    ls_status status = ls_file_write_atomic(ls_path_in(folder, name).text, text, strlen(text));
    free(text);
    return status;
}

ls_status ls_copies_put_bytes(const char *folder, size_t positions) {
    json_t *tokenizer =
        json_pack("{s:s, s:n, s:n, s:[], s:n, s:{s:s, s:b, s:b, s:b}, s:n, s:{s:s, s:b, s:b, s:b}, "
                  "s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:[]}}",
                  "version", "1.0", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "type",
                  "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 0, "post_processor", "decoder",
                  "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 0, "model", "type", "BPE",
                  "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                  "byte_fallback", 0, "ignore_merges", 0, "vocab", byte_vocab(), "merges");
    LS_TRY(put_json(folder, "tokenizer.json", tokenizer));
    json_t *config = json_pack("{s:s, s:b, s:I}", "tokenizer_class", "PreTrainedTokenizerFast",
                               "clean_up_tokenization_spaces", 0, "model_max_length", (json_int_t)positions);
    return put_json(folder, "tokenizer_config.json", config);
}
