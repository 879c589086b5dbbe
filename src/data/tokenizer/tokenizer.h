/* tokenizer.h: text to token ids and back: the inside of the tokenizers of lockstep.h, which has the rest.
 *
 * Two kinds: "bytes", where an id is a byte, and byte-level BPE, as GPT-2, Llama 3 and their like have it. For both,
 * decode(encode(x)) = x for any bytes x, also bytes that are not UTF-8: such a byte counts as a character of its own
 * that is no letter, digit or space. The exceptions are tokenizer.json files that ask for them: a space put in front
 * (add_prefix_space), and blanks beside added tokens that are marked lstrip or rstrip.
 *
 * The same ids as Hugging Face `tokenizers` and tiktoken give. Letters, digits and spaces are those of
 * LS_UNICODE_VERSION (data/unicode.h); regular expressions other than the well-known ones go to PCRE2, with its tables.
 * What a tokenizer.json asks for and this cannot do is refused by name when it is opened.
 *
 * Encoding changes the cache of words inside, so one thread at a time may encode with one tokenizer; everything else
 * only reads. */
#ifndef LS_DATA_TOKENIZER_TOKENIZER_H
#define LS_DATA_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/status.h"
#include "lockstep.h"

ls_status ls_tokens_reserve(ls_tokens *tokens, size_t more);
ls_status ls_tokens_push(ls_tokens *tokens, int32_t id);

/* From memory; `name` is for messages. */
ls_status ls_tokenizer_from_json(const char *name, const char *text, size_t bytes, ls_tokenizer **out);
ls_status ls_tokenizer_from_merges(const char *name, const char *vocab, size_t vocab_bytes, const char *merges,
                                   size_t merges_bytes, ls_tokenizer **out);

/* ---- encode ------------------------------------------------------------------------------------------------------ */

/* Gets ids piece by piece, with the bytes of text that have been read so far. */
typedef ls_status (*ls_tokens_sink)(void *ctx, const int32_t *ids, size_t count, size_t bytes_done);
/* As ls_tokenizer_encode(), in memory that does not grow with the text. */
ls_status ls_tokenizer_encode_to(ls_tokenizer *tokenizer, const void *text, size_t bytes, unsigned flags,
                                 ls_tokens_sink sink, void *ctx);

/* ---- decode ------------------------------------------------------------------------------------------------------ */

/* The bytes of one id; for printing as ids come, since a character may be spread over several. Borrowed. An id below
 * the size of the vocabulary that no token has gives no bytes; any other is LS_ERR_INPUT. */
ls_status ls_tokenizer_token(const ls_tokenizer *tokenizer, int32_t id, const char **data, size_t *bytes);
/* Whether a token has this id: a model may have more ids than its tokenizer has tokens. */
bool ls_tokenizer_has_text(const ls_tokenizer *tokenizer, int32_t id);

/* ---- facts ------------------------------------------------------------------------------------------------------- */

/* "bytes", or the path it was opened with. */
const char *ls_tokenizer_name(const ls_tokenizer *tokenizer);
/* Of what the tokenizer was made from: equal hashes, equal ids. For identities and caches. */
ls_hash128 ls_tokenizer_hash(const ls_tokenizer *tokenizer);

/* The files that make it up, for copying beside an exported model: with those that Hugging Face keeps beside
 * tokenizer.json, where they exist. Borrowed; none for "bytes" and for tokenizers from memory. */
const char *const *ls_tokenizer_files(const ls_tokenizer *tokenizer, size_t *count);

#endif
