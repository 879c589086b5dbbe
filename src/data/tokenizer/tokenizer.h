/* tokenizer.h: converts text to token ids and back, for data, prompts and samples. The public part (open, close,
 * encode, decode) is in lockstep.h.
 *
 * There are two kinds: "bytes", where an id is a byte, and byte-level BPE, as in GPT-2 and Llama 3. For both,
 * decode(encode(x)) = x for any bytes x. A byte that is not valid UTF-8 counts as a character that is neither letter,
 * digit nor space. Exceptions exist only for tokenizer.json files that request them: a space before the text
 * (add_prefix_space), and blanks beside added tokens that are marked lstrip or rstrip.
 *
 * The ids are those of Hugging Face `tokenizers` and tiktoken. Letters, digits and spaces are those of
 * LS_UNICODE_VERSION (data/tokenizer/unicode.h); regular expressions other than the well-known ones are run by PCRE2,
 * with its own tables. Unsupported features of a tokenizer.json are refused by name when it is opened.
 *
 * Encoding changes a cache inside the tokenizer, so one thread at a time may encode with it; all other functions only
 * read. */
#ifndef LS_DATA_TOKENIZER_TOKENIZER_H
#define LS_DATA_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/status.h"
#include "lockstep.h"

/* Makes room for so many more ids; the count stays. */
ls_status ls_tokens_reserve(ls_tokens *tokens, size_t more);
/* Appends an id. LS_ERR_RESOURCE if memory is short. */
ls_status ls_tokens_push(ls_tokens *tokens, int32_t id);

/* Makes a tokenizer from the text of a tokenizer.json; `name` is for messages. LS_ERR_INPUT names a feature that is not
 * supported. On failure *out is NULL. */
ls_status ls_tokenizer_from_json(const char *name, const char *text, size_t bytes, ls_tokenizer **out);
/* Makes a tokenizer from the texts of vocab.json and merges.txt (GPT-2's form); `name` is for messages. On failure
 * *out is NULL. */
ls_status ls_tokenizer_from_merges(const char *name, const char *vocab, size_t vocab_bytes, const char *merges,
                                   size_t merges_bytes, ls_tokenizer **out);

/* ---- encode ------------------------------------------------------------------------------------------------------ */

/* Receives ids piece by piece, with the number of bytes of text read so far; `ids` is valid only during the call. */
typedef ls_status (*ls_tokens_sink)(void *ctx, const int32_t *ids, size_t count, size_t bytes_done);
/* Encodes like ls_tokenizer_encode(), but passes the ids to `sink`, with memory that does not grow with the text (but
 * with add_prefix_space it copies each part between added tokens). Ends at the sink's first failure. */
ls_status ls_tokenizer_encode_to(ls_tokenizer *tokenizer, const void *text, size_t bytes, unsigned flags,
                                 ls_tokens_sink sink, void *ctx);

/* ---- decode ------------------------------------------------------------------------------------------------------ */

/* Sets *data and *bytes to the text of one id, borrowed, which may be a part of a character. An unused id below the
 * size of the vocabulary gives no bytes; any other unknown id is LS_ERR_INPUT. */
ls_status ls_tokenizer_token(const ls_tokenizer *tokenizer, int32_t id, const char **data, size_t *bytes);
/* Returns whether a token has this id. A model may have more ids than its tokenizer has tokens. */
bool ls_tokenizer_has_text(const ls_tokenizer *tokenizer, int32_t id);

/* ---- facts ------------------------------------------------------------------------------------------------------- */

/* Returns "bytes", or the path that the tokenizer was opened with. */
const char *ls_tokenizer_name(const ls_tokenizer *tokenizer);
/* Returns the hash of the tokenizer's files: equal hashes give equal ids. For identities and caches. */
ls_hash128 ls_tokenizer_hash(const ls_tokenizer *tokenizer);

/* Returns the paths of the tokenizer's files, to be copied beside an exported model, including those that Hugging Face
 * keeps beside tokenizer.json. Borrowed; none for "bytes" and for tokenizers from memory. */
const char *const *ls_tokenizer_files(const ls_tokenizer *tokenizer, size_t *count);

#endif
