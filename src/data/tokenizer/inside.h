/* inside.h: the internal structure of a tokenizer, for the files of this folder. Loading fills a new tokenizer, which
 * the caller closes if it fails. */
#ifndef LS_DATA_TOKENIZER_INSIDE_H
#define LS_DATA_TOKENIZER_INSIDE_H

#include "base/json.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/frame.h"
#include "data/tokenizer/pretok.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/vocab.h"

enum { LS_PRETOK_STEPS_MAX = 16, LS_TOKENIZER_FILES_MAX = 8 };

/* An added token, which is searched for in the text before any other step. */
typedef struct ls_added_token {
    int32_t id;
    const char *text; /* never empty; owned if the token is in a list */
    size_t bytes;
    /* special: recognized in a text only with LS_ENCODE_SPECIAL; lstrip, rstrip: takes in blanks on that side. */
    bool special, lstrip, rstrip;
    bool late; /* "normalized": searched for in the rest of the text after the others */
} ls_added_token;

typedef struct ls_added {
    ls_added_token *tokens; /* sorted by first byte, the longest first */
    size_t count, capacity;
    size_t first[257]; /* tokens with first byte b: first[b] … first[b+1]−1 */
    bool has_late;
} ls_added;

struct ls_tokenizer {
    bool is_bpe; /* false: ids are bytes */
    char *name;
    ls_hash128 hash, content[2]; /* hash: of all that ids depend on; content: of each file */
    ls_vocab vocab;
    ls_bpe bpe;
    ls_pretok steps[LS_PRETOK_STEPS_MAX]; /* of the pre-tokenizer, in order */
    size_t step_count;
    bool add_prefix_space;
    ls_added added;
    int32_t eot, bos; /* end-of-text and beginning-of-text; −1: none */
    ls_frame frame;   /* from its files; `after` may end with eot */
    char *files[LS_TOKENIZER_FILES_MAX];
    size_t file_count;
};

/* ---- making (json.c, open.c) ------------------------------------------------------------------------------------- */

/* Fills the empty vocabulary from an object of texts, in GPT-2's alphabet (vocab.h), and ids. Other texts stand for
 * their own bytes. */
ls_status ls_tokenizer_load_vocab(ls_tokenizer *tokenizer, const json_t *vocab);
/* Adds a merge of two tokens in GPT-2's alphabet. `rank` counts from 0. */
ls_status ls_tokenizer_load_merge(ls_tokenizer *tokenizer, const char *left, size_t left_bytes, const char *right,
                                  size_t right_bytes, uint32_t rank);
/* Adds to tokenizer->added, unsorted; the text is copied. */
ls_status ls_tokenizer_load_added(ls_tokenizer *tokenizer, const ls_added_token *token);
/* Sorts the added tokens, and finds the end-of-text and BOS tokens if they are not known yet. */
void ls_tokenizer_complete(ls_tokenizer *tokenizer);
/* Fills an empty tokenizer from the root of a tokenizer.json; `name` is for messages. */
ls_status ls_tokenizer_load_json(ls_tokenizer *tokenizer, const char *name, const json_t *root);

/* ---- added tokens (added_tokens.c) ------------------------------------------------------------------------------- */

/* Sorts the tokens for ls_added_find() and builds its index. To be called after the last one is added. */
void ls_added_sort(ls_added *added);
/* Returns the id of the token with this text, which may be NULL; −1: none. */
int32_t ls_added_id(const ls_added *added, const char *text);
/* Frees the tokens and their texts. */
void ls_added_fini(ls_added *added);

typedef struct ls_added_match {
    const ls_added_token *token; /* NULL: none */
    const uint8_t *start, *end;  /* including the blanks that lstrip and rstrip take */
} ls_added_match;

/* Finds the first added token of the round (late or not) in at … end; of several at one place, the longest. Unless
 * `special`, the text of a special token is skipped, and hides tokens that overlap it. If there is none, start and end
 * of the match are `end`. */
ls_added_match ls_added_find(const ls_added *added, bool late, bool special, const uint8_t *at, const uint8_t *end);

#endif
