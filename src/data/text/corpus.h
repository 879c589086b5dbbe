/* corpus.h: one long sequence of tokens over several files, for training and for evaluation.
 *
 * Training, evaluation and `verify` open one. `list` names files and folders, separated by
 * commas; a name with * or ? stands for the files that match (data/text/paths.h). Token files (token_file.h) are used
 * unchanged. Anything else is text: one document per file, or, if the name ends in .jsonl or .ndjson, one JSON object
 * per line, with an end-of-text token after each document. Text is tokenized once into the cache folder, under a name
 * made of the hashes of text and tokenizer, and later runs find it there. Both are reported by the callback `say`.
 * Workers that open the same text concurrently wait for the first. Files of other formats are refused by their first
 * bytes (data/text/not_text.h).
 *
 * Opening checks all ids against the vocabulary; reading checks them again, because files may change. Only large files
 * of the cache, whose ids were checked when they were written, are verified piece by piece when they are read
 * (data/text/token_sums.h). Many threads may read. */
#ifndef LS_DATA_TEXT_CORPUS_H
#define LS_DATA_TEXT_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/status.h"
#include "data/tokenizer/frame.h"
#include "data/text/paths.h"
#include "data/text/token_file.h"
#include "data/tokenizer/tokenizer.h"

typedef struct ls_corpus ls_corpus;

/* How to open a corpus. It must stay valid only during the call. */
typedef struct ls_corpus_options {
    ls_tokenizer *tokenizer; /* NULL: text is refused */
    uint32_t vocab;          /* ids must be below it; 0: that of the tokenizer, or any that fits an int32_t */
    const char *cache_dir;   /* created if needed, private to its user; NULL: text is refused */
    ls_frame frame;          /* around each document of a text; token files have their own */
    double wait_s;           /* timeout for another process that tokenizes the same text; 0: 300 */
    const char *text_field;  /* of JSONL; NULL: "text" */
    ls_split split;          /* which files of folders to use */
    bool skip_check;         /* another worker has checked every id already */
    void (*say)(void *ctx, const char *message); /* NULL: ls_log_info() */
    void *say_ctx;
    ls_data_progress progress; /* bytes of the text being tokenized */
    void *progress_ctx;
    /* For tests with small files: */
    uint64_t pieces_from_bytes;  /* size of ids from which on cache files are verified in pieces; 0: 256 MiB */
    uint64_t cache_shard_tokens; /* tokens per file of the cache; 0: 2^30 */
} ls_corpus_options;

/* Opens all files of `list`, in their order. LS_ERR_INPUT for a missing file, a format that is no text, an id outside
 * the vocabulary. On failure *out is NULL. */
ls_status ls_corpus_open(const char *list, const ls_corpus_options *options, ls_corpus **out);
/* Opens the caller's own tokens, whose ids must be below `vocab`; `source` is borrowed until close. LS_ERR_INPUT if it
 * lacks identity, count or the function `tokens`. */
ls_status ls_corpus_open_source(const ls_source *source, uint32_t vocab, ls_corpus **out);
/* Closes all files and frees the corpus; NULL does nothing. */
void ls_corpus_close(ls_corpus *corpus);

/* Returns the number of tokens. */
uint64_t ls_corpus_count(const ls_corpus *corpus);
/* Returns the bytes of text that all tokens stand for, for losses in bits per byte; 0: not known for every file. */
uint64_t ls_corpus_text_bytes(const ls_corpus *corpus);
/* Returns the number of token files, of which a text in the cache may have several; 0 for own tokens. */
size_t ls_corpus_files(const ls_corpus *corpus);
/* Returns whether a file was text, so that its documents have the frame. */
bool ls_corpus_has_text(const ls_corpus *corpus);
/* Computes the hash by which two runs compare their data: of the ids in order, whatever the files and their width.
 * Reads all. */
ls_status ls_corpus_hash(const ls_corpus *corpus, ls_hash128 *out);
/* Reads tokens begin … begin+count−1, across files. LS_ERR_INPUT beyond the end, for an id outside the vocabulary,
 * and for a file that was truncated or damaged meanwhile. Any thread. */
ls_status ls_corpus_read(const ls_corpus *corpus, uint64_t begin, size_t count, int32_t *out);

#endif
