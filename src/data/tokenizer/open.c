/* open.c: makes a tokenizer from its name, its files or their text. */
#include <stdlib.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files.h"
#include "data/tokenizer/inside.h"

enum { SHOWN = 200 };

#define FILE_BYTES_MAX ((size_t)256 << 20)

/* Makes an empty tokenizer with this name, without end-of-text and BOS tokens. */
static ls_status create_tokenizer(const char *name, ls_tokenizer **out) {
    ls_tokenizer *tokenizer = *out = calloc(1, sizeof *tokenizer);
    if (tokenizer) tokenizer->name = strdup(name);
    if (!tokenizer || !tokenizer->name) {
        ls_tokenizer_close(tokenizer);
        *out = NULL;
        return ls_fail(LS_ERR_RESOURCE, "out of memory for the tokenizer '%.*s'", SHOWN, name);
    }
    tokenizer->eot = tokenizer->bos = -1;
    return LS_OK;
}

/* Makes the tokenizer "bytes", whose ids are the 256 bytes. */
static ls_status open_byte_tokenizer(ls_tokenizer **out) {
    static const char identity[] = "lockstep tokenizer: bytes";
    ls_status status;
    LS_TRY(create_tokenizer("bytes", out));
    (*out)->hash = ls_hash_bytes(identity, sizeof identity - 1);
    for (int byte = 0; byte < 256; byte++) {
        char data = (char)byte;
        LS_TRY_OUT(ls_vocab_put(&(*out)->vocab, byte, &data, 1, true));
    }
out:
    if (status != LS_OK) {
        ls_tokenizer_close(*out);
        *out = NULL;
    }
    return status;
}

/* Computes the hash of everything that the ids depend on: the files, and the tokens at the ends of documents, which
 * other files may name. */
static void hash_tokenizer(ls_tokenizer *tokenizer) {
    const ls_hash128 ends = {.lo = (uint64_t)(int64_t)tokenizer->eot, .hi = (uint64_t)(int64_t)tokenizer->bos};
    const ls_hash128 parts[] = {tokenizer->content[0], tokenizer->content[1], ends};
    tokenizer->hash = ls_hash_combine(parts, sizeof parts / sizeof *parts);
}

/* Finishes a tokenizer that was made with `status`: hashes it, or on failure closes it and puts its name before the
 * message. */
static ls_status finish_tokenizer(ls_status status, ls_tokenizer **out, const char *name) {
    if (status == LS_OK) {
        hash_tokenizer(*out);
        return LS_OK;
    }
    ls_tokenizer_close(*out);
    *out = NULL;
    return ls_fail_at(status, "%.*s: ", SHOWN, name);
}

ls_status ls_tokenizer_from_json(const char *name, const char *text, size_t bytes, ls_tokenizer **out) {
    json_t *root = NULL;
    *out = NULL;
    LS_TRY(ls_json_load_text(name, text, bytes, &root));
    ls_status status = create_tokenizer(name, out);
    if (status == LS_OK) {
        (*out)->is_bpe = true;
        (*out)->content[0] = ls_hash_bytes(text, bytes);
        status = finish_tokenizer(ls_tokenizer_load_json(*out, name, root), out, name);
    }
    json_decref(root);
    return status;
}

/* ---- vocab.json and merges.txt ----------------------------------------------------------------------------------- */

/* Returns the number of lines, an empty last one included. */
static size_t count_lines(const char *text, size_t bytes) {
    size_t lines = 1;
    for (const char *at = text; bytes && (at = memchr(at, '\n', (size_t)(text + bytes - at))) != NULL; at++) lines++;
    return lines;
}

/* Adds the merges of merges.txt; empty lines and one with #version are skipped. */
static ls_status read_merges(ls_tokenizer *tokenizer, const char *text, size_t bytes) {
    const char *end = text + bytes;
    uint32_t rank = 0;
    for (size_t number = 1; text < end; number++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text)), *stop = newline ? newline : end;
        const char *start = text;
        text = newline ? newline + 1 : end;
        if (stop > start && stop[-1] == '\r') stop--;
        if (start == stop || (stop - start >= 8 && memcmp(start, "#version", 8) == 0)) continue;
        const char *space = memchr(start, ' ', (size_t)(stop - start));
        if (!space)
            return ls_fail(LS_ERR_INPUT, "line %zu of the merges is not two tokens with a space between", number);
        LS_TRY(ls_tokenizer_load_merge(tokenizer, start, (size_t)(space - start), space + 1, (size_t)(stop - space - 1),
                                       rank++));
    }
    return LS_OK;
}

/* Fills a tokenizer from vocab.json and merges.txt, with GPT-2's pattern and end-of-text token. */
static ls_status load_merges(ls_tokenizer *tokenizer, const json_t *vocab, const char *merges, size_t bytes) {
    static const char end_of_text[] = "<|endoftext|>";
    if (!json_is_object(vocab))
        return ls_fail(LS_ERR_INPUT,
                       "the vocabulary must be a JSON object of tokens and their ids, as in {\"the\": 0}");
    LS_TRY(ls_tokenizer_load_vocab(tokenizer, vocab));
    LS_TRY(ls_bpe_init(&tokenizer->bpe, &tokenizer->vocab, count_lines(merges, bytes), false));
    LS_TRY(read_merges(tokenizer, merges, bytes));
    tokenizer->steps[tokenizer->step_count++] = (ls_pretok){.kind = LS_PRETOK_GPT2};
    const json_t *id = json_object_get(vocab, end_of_text);
    if (id) {
        ls_added_token token = {.id = (int32_t)json_integer_value(id),
                                .text = end_of_text,
                                .bytes = sizeof end_of_text - 1,
                                .special = true};
        LS_TRY(ls_tokenizer_load_added(tokenizer, &token));
    }
    ls_tokenizer_complete(tokenizer);
    return LS_OK;
}

ls_status ls_tokenizer_from_merges(const char *name, const char *vocab, size_t vocab_bytes, const char *merges,
                                   size_t merges_bytes, ls_tokenizer **out) {
    json_t *root = NULL;
    *out = NULL;
    LS_TRY(ls_json_load_text(name, vocab, vocab_bytes, &root));
    ls_status status = create_tokenizer(name, out);
    if (status == LS_OK) {
        (*out)->is_bpe = true;
        (*out)->content[0] = ls_hash_bytes(vocab, vocab_bytes);
        (*out)->content[1] = ls_hash_bytes(merges, merges_bytes);
        status = finish_tokenizer(load_merges(*out, root, merges, merges_bytes), out, name);
    }
    json_decref(root);
    return status;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Returns the path of the file `name`: in `path` if that is a folder (is_folder), otherwise in the folder of the file
 * `path`. */
static ls_path path_beside(const char *path, bool is_folder, const char *name) {
    return is_folder ? ls_path_in(path, name) : ls_path_beside(path, name);
}

/* Records a path for ls_tokenizer_files(), if the file exists. */
static ls_status note_file(ls_tokenizer *tokenizer, const char *path) {
    if (tokenizer->file_count == LS_TOKENIZER_FILES_MAX || !ls_file_exists(path)) return LS_OK;
    char *copy = strdup(path);
    if (!copy) return ls_fail(LS_ERR_RESOURCE, "out of memory for the names of the tokenizer's files");
    tokenizer->files[tokenizer->file_count++] = copy;
    return LS_OK;
}

/* Sets *id to the added token that the value names, as text or as an object; otherwise leaves it. */
static void read_config_token(const ls_tokenizer *tokenizer, const json_t *value, int32_t *id) {
    const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
    int32_t found = ls_added_id(&tokenizer->added, text);
    if (found >= 0) *id = found;
}

/* Reads the frame of a tokenizer without tokenizer.json, as Hugging Face does. */
static void read_config_frame(ls_tokenizer *tokenizer, const json_t *root) {
    ls_frame *frame = &tokenizer->frame;
    if (json_is_true(json_object_get(root, "add_bos_token")) && tokenizer->bos >= 0)
        frame->before[frame->before_count++] = tokenizer->bos;
    if (json_is_true(json_object_get(root, "add_eos_token")) && tokenizer->eot >= 0)
        frame->after[frame->after_count++] = tokenizer->eot;
}

/* Reads tokenizer_config.json, which names the tokens at the ends of documents; without it they are guessed by name. */
static ls_status read_config(ls_tokenizer *tokenizer, const char *path, bool is_folder, bool is_json) {
    ls_path config = path_beside(path, is_folder, "tokenizer_config.json");
    json_t *root = NULL;
    if (!ls_file_exists(config.text)) return LS_OK;
    LS_TRY(ls_json_load_file(config.text, FILE_BYTES_MAX, &root));
    read_config_token(tokenizer, json_object_get(root, "eos_token"), &tokenizer->eot);
    read_config_token(tokenizer, json_object_get(root, "bos_token"), &tokenizer->bos);
    if (!is_json) read_config_frame(tokenizer, root);
    json_decref(root);
    hash_tokenizer(tokenizer);
    return LS_OK;
}

/* Records the files of the tokenizer that exist. */
static ls_status note_files(ls_tokenizer *tokenizer, const char *path, bool is_folder) {
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                                        "vocab.json", "merges.txt"};
    if (!is_folder) LS_TRY(note_file(tokenizer, path));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ls_path name = path_beside(path, is_folder, names[i]);
        if (is_folder || strcmp(name.text, path) != 0) LS_TRY(note_file(tokenizer, name.text));
    }
    return LS_OK;
}

/* Makes a tokenizer from a tokenizer.json. */
static ls_status open_json(const char *path, ls_tokenizer **out) {
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_file_read(path, FILE_BYTES_MAX, &text, &bytes));
    ls_status status = ls_tokenizer_from_json(path, text, bytes, out);
    free(text);
    return status;
}

/* Makes a tokenizer from a vocab.json and the merges.txt beside it. */
static ls_status open_merges(const char *vocab_path, ls_tokenizer **out) {
    char *vocab = NULL, *merges = NULL;
    size_t vocab_bytes = 0, merges_bytes = 0;
    ls_status status;
    LS_TRY_OUT(ls_file_read(vocab_path, FILE_BYTES_MAX, &vocab, &vocab_bytes));
    LS_TRY_OUT(ls_file_read(ls_path_beside(vocab_path, "merges.txt").text, FILE_BYTES_MAX, &merges, &merges_bytes));
    LS_TRY_OUT(ls_tokenizer_from_merges(vocab_path, vocab, vocab_bytes, merges, merges_bytes, out));
out:
    free(vocab);
    free(merges);
    return status;
}

/* Finds the main file: for a folder, tokenizer.json or vocab.json. */
static ls_status find_file(const char *path, bool *is_folder, ls_path *file) {
    struct stat about;
    if (stat(path, &about) != 0 && errno == ENOENT)
        return ls_fail(LS_ERR_INPUT,
                       "there is no file or folder '%.*s'; a tokenizer is bytes, a folder, or a tokenizer.json", SHOWN,
                       path);
    if (stat(path, &about) != 0) return ls_file_fail_open(path);
    *is_folder = S_ISDIR(about.st_mode);
    *file = *is_folder ? ls_path_in(path, "tokenizer.json") : ls_path_format("%s", path);
    if (ls_file_exists(file->text)) return LS_OK;
    *file = ls_path_in(path, "vocab.json");
    if (ls_file_exists(file->text)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the folder '%.*s' has neither tokenizer.json nor vocab.json and merges.txt", SHOWN,
                   path);
}

ls_status ls_tokenizer_open(const char *path, ls_tokenizer **out) {
    ls_path file;
    bool is_folder = false;
    *out = NULL;
    if (strcmp(path, "bytes") == 0) return open_byte_tokenizer(out);
    LS_TRY(find_file(path, &is_folder, &file));
    const char *slash = strrchr(file.text, '/');
    bool is_json = strcmp(slash ? slash + 1 : file.text, "vocab.json") != 0;
    ls_status status;
    LS_TRY_OUT((is_json ? open_json : open_merges)(file.text, out));
    LS_TRY_OUT(read_config(*out, path, is_folder, is_json));
    LS_TRY_OUT(note_files(*out, path, is_folder));
out:
    if (status != LS_OK) {
        ls_tokenizer_close(*out);
        *out = NULL;
    }
    return status;
}
