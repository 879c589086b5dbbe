/* corpus.h: one long sequence of tokens over several files, for training and for evaluation.
 *
 * `list` names files and folders, separated by commas; a name with * or ? stands for the files that match
 * (data/text/paths.h). Token files (token_file.h) are used as they are. Anything else is text: one document a file, or
 * a JSON object a line where the name ends in .jsonl or .ndjson, with an end-of-text token behind each document. Text
 * is tokenized once, into the cache folder, under a name made of the hashes of the text and of the tokenizer; the next
 * run finds it there. Both are reported through `say`. Workers that open the same text at the same time wait for the
 * one that came first. Files of other formats are refused by their first bytes (data/text/not_text.h).
 *
 * All ids are checked against the vocabulary before open returns, and again whenever they are read, since files may be
 * changed meanwhile. Only the large files of the cache, whose ids were checked when they were written, are verified
 * piece by piece when they are read (data/text/token_sums.h). Reading is safe from many threads. */
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

typedef struct ls_corpus_options {
    ls_tokenizer *tokenizer; /* NULL: text is refused */
    uint32_t vocab;          /* ids must be below it; 0: that of the tokenizer, or whatever an int32_t holds */
    const char *cache_dir;   /* made where needed, for its user alone; NULL: text is refused */
    ls_frame frame;          /* around each document of a text; token files are as they are */
    double wait_s;           /* for another process that tokenizes the same text and makes no progress; 0: 300 */
    const char *text_field;  /* of JSONL; NULL: "text" */
    ls_split split;          /* which files of folders are meant */
    bool skip_check;         /* a worker whose neighbour has looked at every id already */
    void (*say)(void *ctx, const char *message); /* NULL: ls_log_info() */
    void *say_ctx;
    ls_data_progress progress; /* bytes of the text being tokenized */
    void *progress_ctx;
    /* For tests, which have no large files. */
    uint64_t pieces_from_bytes;  /* cache files with so many bytes of ids are verified in pieces; 0: 256 MiB */
    uint64_t cache_shard_tokens; /* tokens of a file of the cache; 0: 2^30 */
} ls_corpus_options;

ls_status ls_corpus_open(const char *list, const ls_corpus_options *options, ls_corpus **out);
/* Tokens that the caller has; `source` is borrowed. */
ls_status ls_corpus_open_source(const ls_source *source, uint32_t vocab, ls_corpus **out);
/* NULL does nothing. */
void ls_corpus_close(ls_corpus *corpus);

uint64_t ls_corpus_count(const ls_corpus *corpus);
/* Bytes of the text behind all tokens; 0: not known for every file. */
uint64_t ls_corpus_text_bytes(const ls_corpus *corpus);
size_t ls_corpus_files(const ls_corpus *corpus);
/* Whether one of the files was text, so that the frame is around its documents. */
bool ls_corpus_has_text(const ls_corpus *corpus);
/* Of the ids themselves, in order, whatever files they come from and of whatever width: the identity of the data. Reads
 * everything. */
ls_status ls_corpus_hash(const ls_corpus *corpus, ls_hash128 *out);
/* Tokens begin … begin+count−1, across files. LS_ERR_INPUT beyond the end, and for an id that is not in the
 * vocabulary (any more). */
ls_status ls_corpus_read(const ls_corpus *corpus, uint64_t begin, size_t count, int32_t *out);

#endif
