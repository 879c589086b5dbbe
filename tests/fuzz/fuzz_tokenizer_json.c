/* fuzz_tokenizer_json.c: any bytes as tokenizer.json. What is accepted must encode and decode a text without losing it.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char text[] = "Hello  world's 1234\r\n\xff\xe2\x82\xac <|endoftext|> aaaa";
    ls_tokenizer *tokenizer = NULL;
    if (ls_tokenizer_from_json("fuzz", (const char *)data, bytes, &tokenizer) != LS_OK) return 0;
    for (unsigned flags = 0; flags < 2; flags++) {
        ls_tokens tokens = {0};
        char *back = NULL;
        size_t back_bytes = 0;
        if (ls_tokenizer_encode(tokenizer, text, sizeof text - 1, flags, &tokens) == LS_OK &&
            ls_tokenizer_decode(tokenizer, tokens.ids, tokens.count, &back, &back_bytes) != LS_OK)
            abort();
        free(back);
        ls_tokens_fini(&tokens);
    }
    ls_tokenizer_close(tokenizer);
    return 0;
}
