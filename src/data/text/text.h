/* text.h: from text files to token writers, document by document.
 *
 * A file whose name ends in .jsonl or .ndjson has a JSON object on each line, whose text field is a document; blank
 * lines are passed over. Any other file is one document, whatever bytes it holds, but no NUL (data/text/not_text.h).
 * Around each document come the tokens of its frame (data/tokenizer/frame.h), and behind it the end-of-text token, if
 * the tokenizer has one. Where that is also the token in front, two documents have one between them. */
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
    /* The part of each file, above 0 and below 1, that goes to the validation writer: the last documents of JSONL, at
     * least one where there are two; of any other file the last bytes, from the beginning of a line on where there is
     * one. */
    double val_fraction;
    ls_data_progress progress; /* in bytes of the file */
    void *progress_ctx;
} ls_text_options;

/* Counts up over several files. */
typedef struct ls_text_counts {
    uint64_t documents, text_bytes;
    uint64_t invalid_bytes; /* not UTF-8; kept as they are */
} ls_text_counts;

bool ls_text_is_jsonl(const char *path);
/* `val` NULL: all goes to `train`. The path gives the kind and is for messages; `text` is what the file holds. An empty
 * file, or JSONL without documents, is LS_ERR_INPUT. */
ls_status ls_text_tokenize(const char *path, const ls_map *text, const ls_text_options *options, ls_token_writer *train,
                           ls_token_writer *val, ls_text_counts *counts);

#endif
