/* text.h: tokenizes text files document by document, into token writers (token_file.h): for `lockstep tokenize`, and
 * for the token cache.
 *
 * A file whose name ends in .jsonl or .ndjson has a JSON object on each line, whose text field is a document; blank
 * lines are skipped. Any other file is one document of any bytes but NUL (data/text/not_text.h). Each document is
 * surrounded by the tokens of its frame (data/tokenizer/frame.h) and followed by the end-of-text token, if the
 * tokenizer has one. If that is also the token before a document, there is one of them between two documents. */
#ifndef LS_DATA_TEXT_TEXT_H
#define LS_DATA_TEXT_TEXT_H

#include "data/tokenizer/frame.h"
#include "data/text/map_file.h"
#include "data/text/token_file.h"
#include "data/tokenizer/tokenizer.h"

typedef struct ls_text_options {
    ls_tokenizer *tokenizer;
    ls_frame frame;
    const char *text_field; /* of JSONL; NULL: "text" */
    unsigned encode_flags;  /* LS_ENCODE_SPECIAL */
    /* The fraction of each file, above 0 and below 1, for the validation writer: the last documents of JSONL, at least
     * one if there are two; of any other file the last bytes, from the start of a line if there is one. */
    double val_fraction;
    ls_data_progress progress; /* in bytes of the file */
    void *progress_ctx;
} ls_text_options;

/* What was tokenized, accumulated over several files. */
typedef struct ls_text_counts {
    uint64_t documents, text_bytes;
    uint64_t invalid_bytes; /* that are not UTF-8; kept unchanged */
} ls_text_counts;

/* Returns whether the name ends in .jsonl or .ndjson. */
bool ls_text_is_jsonl(const char *path);
/* Tokenizes a file with the content `text`, and adds to `counts`; `path` decides whether it is JSONL, and is for
 * messages. `val` NULL: all goes to `train`. LS_ERR_INPUT for an empty file, text with a NUL, or JSONL without
 * documents. The caller finishes the writers. */
ls_status ls_text_tokenize(const char *path, const ls_map *text, const ls_text_options *options, ls_token_writer *train,
                           ls_token_writer *val, ls_text_counts *counts);

#endif
