/* text.c: see text.h. */
#include "data/text/text.h"

#include <inttypes.h>
#include <string.h>

#include "base/alive.h"
#include "base/files.h"
#include "base/json.h"
#include "data/text/not_text.h"
#include "data/tokenizer/unicode.h"

enum { SHOWN = 200 };

/* A file that is being tokenized, and where its ids go; `val` is NULL if all go to `train`. */
typedef struct text_job {
    const char *path;
    const ls_map *text;
    const ls_text_options *options;
    ls_token_writer *train, *val;
    ls_text_counts *counts;
    /* the document being tokenized */
    ls_token_writer *writer;
    size_t document_done; /* bytes of it whose tokens are written */
    size_t offset;        /* its offset in the file, for progress */
} text_job;

bool ls_text_is_jsonl(const char *path) { return ls_ends_with(path, ".jsonl") || ls_ends_with(path, ".ndjson"); }

/* Receives ids from the tokenizer, reports progress and passes them to the writer of the document. */
static ls_status receive_ids(void *ctx, const int32_t *ids, size_t count, size_t bytes_done) {
    text_job *job = ctx;
    size_t bytes = bytes_done - job->document_done;
    job->document_done = bytes_done;
    if (job->options->progress)
        job->options->progress(job->options->progress_ctx, job->offset + bytes_done, job->text->bytes);
    return ls_token_writer_add(job->writer, ids, count, bytes);
}

/* Counts the bytes that are not part of valid UTF-8. */
static uint64_t count_invalid(const uint8_t *text, size_t bytes) {
    uint64_t invalid = 0;
    for (size_t at = 0; at < bytes;) {
        at += ls_utf8_valid_bytes(text + at, bytes - at);
        if (at < bytes) {
            invalid++;
            at++;
        }
    }
    return invalid;
}

/* Writes the frame's tokens before a document, unless there is only one and it is the end-of-text token that the
 * previous document ended with, or the text spells the first one out and special tokens are recognized. */
static ls_status begin_document(text_job *job, const void *text, size_t bytes) {
    const ls_text_options *o = job->options;
    const ls_frame *frame = &o->frame;
    bool follows = frame->before_count == 1 && frame->before[0] == ls_tokenizer_eot(o->tokenizer) &&
                   ls_token_writer_count(job->writer) > 0;
    bool is_spelled = (o->encode_flags & LS_ENCODE_SPECIAL) && ls_frame_is_spelled(o->tokenizer, frame, text, bytes);
    if (follows || is_spelled) return LS_OK;
    return ls_token_writer_add(job->writer, frame->before, frame->before_count, 0);
}

/* Writes a document: frame, ids, frame, end-of-text. */
static ls_status add_document(text_job *job, const void *text, size_t bytes, bool is_val) {
    ls_tokenizer *tokenizer = job->options->tokenizer;
    const ls_frame *frame = &job->options->frame;
    int32_t end = ls_tokenizer_eot(tokenizer);
    job->writer = is_val ? job->val : job->train;
    job->document_done = 0;
    job->counts->text_bytes += bytes;
    job->counts->invalid_bytes += count_invalid(text, bytes);
    LS_TRY(begin_document(job, text, bytes));
    LS_TRY(ls_tokenizer_encode_to(tokenizer, text, bytes, job->options->encode_flags, receive_ids, job));
    LS_TRY(ls_token_writer_add(job->writer, frame->after, frame->after_count, 0));
    return end >= 0 ? ls_token_writer_add(job->writer, &end, 1, 0) : LS_OK;
}

/* ---- plain text -------------------------------------------------------------------------------------------------- */

/* Returns the offset of the validation part: after the next line end, or at the next character if no line begins
 * behind it. */
static size_t find_cut(const ls_map *text, double val_fraction) {
    size_t cut = (size_t)((double)text->bytes * (1 - val_fraction));
    if (cut > text->bytes) cut = text->bytes;
    const uint8_t *newline = memchr(text->data + cut, '\n', text->bytes - cut);
    if (newline && newline + 1 < text->data + text->bytes) return (size_t)(newline + 1 - text->data);
    while (cut < text->bytes && (text->data[cut] & 0xC0) == 0x80) cut++;
    return cut;
}

/* Tokenizes a file as one document, or cut into one for training and one for validation. */
static ls_status tokenize_plain(text_job *job) {
    const ls_map *text = job->text;
    size_t cut = job->val ? find_cut(text, job->options->val_fraction) : text->bytes;
    job->counts->documents++;
    if (cut) LS_TRY(add_document(job, text->data, cut, false));
    job->offset = cut;
    return cut < text->bytes ? add_document(job, text->data + cut, text->bytes - cut, true) : LS_OK;
}

/* ---- JSONL ------------------------------------------------------------------------------------------------------- */

/* Returns whether the line has only blanks. */
static bool is_blank(const uint8_t *at, const uint8_t *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
    return at == end;
}

/* Sets *stop to the end of the line at `at`, and returns the start of the next one. */
static const uint8_t *next_line(const uint8_t *at, const uint8_t *end, const uint8_t **stop) {
    const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
    *stop = newline ? newline : end;
    return newline ? newline + 1 : end;
}

/* Returns the number of lines of JSONL that are not blank. */
static uint64_t count_documents(const ls_map *text) {
    const uint8_t *end = text->data + text->bytes, *stop, *told = text->data;
    uint64_t count = 0;
    for (const uint8_t *at = text->data, *next; at < end; at = next) {
        next = next_line(at, end, &stop);
        count += !is_blank(at, stop);
        if (next - told < LS_ALIVE_BYTES) continue;
        told = next;
        ls_alive_turn();
    }
    return count;
}

/* Returns how many of `count` documents are for training: rounded, but at least one for each part if there are two. */
static uint64_t train_share(uint64_t count, double val_fraction) {
    uint64_t val = (uint64_t)((double)count * val_fraction + 0.5);
    if (!val && count > 1) val = 1;
    return val < count ? count - val : 1;
}

/* Adds the document of one line of JSONL; `number` is the line's, for messages. */
static ls_status add_line(text_job *job, const uint8_t *line, size_t bytes, uint64_t number, bool is_val) {
    const char *field = job->options->text_field ? job->options->text_field : "text";
    json_error_t error;
    json_t *root = json_loadb((const char *)line, bytes, JSON_ALLOW_NUL, &error);
    if (!root)
        return ls_fail(LS_ERR_INPUT, "%.*s:%" PRIu64 ": not a JSON object: %s", SHOWN, job->path, number, error.text);
    const json_t *text = json_object_get(root, field);
    ls_status status;
    if (json_is_string(text)) {
        job->counts->documents++;
        status = add_document(job, json_string_value(text), json_string_length(text), is_val);
    } else if (!json_is_object(root)) {
        status = ls_fail(LS_ERR_INPUT, "%.*s:%" PRIu64 ": not a JSON object", SHOWN, job->path, number);
    } else {
        status =
            ls_fail(LS_ERR_INPUT, "%.*s:%" PRIu64 ": the member \"%.60s\" is %s; --text-field names the one to take",
                    SHOWN, job->path, number, field, text ? "not a string" : "missing");
    }
    json_decref(root);
    return status;
}

/* Tokenizes each line as a document; the last ones go to the validation writer, if there is one. */
static ls_status tokenize_jsonl(text_job *job) {
    const uint8_t *end = job->text->data + job->text->bytes, *stop;
    uint64_t documents = count_documents(job->text), number = 0, line = 0;
    uint64_t for_train = job->val ? train_share(documents, job->options->val_fraction) : documents;
    if (!documents) return ls_fail(LS_ERR_INPUT, "%.*s has no documents", SHOWN, job->path);
    for (const uint8_t *at = job->text->data, *next; at < end; at = next) {
        line++;
        next = next_line(at, end, &stop);
        if (is_blank(at, stop)) continue;
        job->offset = (size_t)(at - job->text->data);
        LS_TRY(add_line(job, at, (size_t)(stop - at), line, number++ >= for_train));
    }
    return LS_OK;
}

ls_status ls_text_tokenize(const char *path, const ls_map *text, const ls_text_options *options, ls_token_writer *train,
                           ls_token_writer *val, ls_text_counts *counts) {
    text_job job = {.path = path, .text = text, .options = options, .train = train, .val = val, .counts = counts};
    if (!text->bytes) return ls_fail(LS_ERR_INPUT, "%.*s is empty: there is nothing to tokenize", SHOWN, path);
    LS_TRY(ls_not_text_check(path, text->data, text->bytes));
    LS_TRY(ls_not_text_check_nul(path, text->data, text->bytes));
    return ls_text_is_jsonl(path) ? tokenize_jsonl(&job) : tokenize_plain(&job);
}
