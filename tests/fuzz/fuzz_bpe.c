/* fuzz_bpe.c: any bytes as text, through byte-level BPE with the patterns of GPT-2 and Llama 3: decode(encode(x)) = x.
 * The vocabulary is made here: 256 bytes, and merges of common pairs. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer/pretok.h"
#include "data/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { ROOM = 16384 };

/* The character of GPT-2's alphabet for a byte, escaped for JSON. */
static int put_byte(char *out, size_t room, int byte) {
    int others = 0;
    for (int b = 0; b < byte; b++) others += b < 0x21 || (b > 0x7E && b < 0xA1) || b == 0xAD;
    bool is_own = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    return snprintf(out, room, "\\u%04x", (unsigned)(is_own ? byte : 0x100 + others));
}

static ls_tokenizer *make(const char *split) {
    static const char *const merges[] = {"a a",         "aa aa",           "h e", "\\u0120 t",
                                         "\\u0120t he", "\\u00e2 \\u0124", "1 2", "\\u010a \\u010a"};
    char *text = malloc(ROOM);
    ls_tokenizer *tokenizer = NULL;
    if (!text) abort();
    size_t used = (size_t)snprintf(text, ROOM, "{\"model\": {\"vocab\": {");
    for (int byte = 0; byte < 256; byte++) {
        used += (size_t)snprintf(text + used, ROOM - used, "%s\"", byte ? ", " : "");
        used += (size_t)put_byte(text + used, ROOM - used, byte);
        used += (size_t)snprintf(text + used, ROOM - used, "\": %d", byte);
    }
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        const char *space = strchr(merges[i], ' ');
        used += (size_t)snprintf(text + used, ROOM - used, ", \"%.*s%s\": %zu", (int)(space - merges[i]), merges[i],
                                 space + 1, 256 + i);
    }
    used += (size_t)snprintf(text + used, ROOM - used, "}, \"merges\": [");
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        used += (size_t)snprintf(text + used, ROOM - used, "%s\"%s\"", i ? ", " : "", merges[i]);
    used += (size_t)snprintf(text + used, ROOM - used,
                             "]}, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [%s", split);
    used += (size_t)snprintf(
        text + used, ROOM - used,
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": %s}]}, \"added_tokens\": "
        "[{\"id\": 300, \"content\": \"<x>\", \"special\": true}, {\"id\": 301, \"content\": \"<\"}]}",
        *split ? "false" : "true");
    if (ls_tokenizer_from_json("fuzz", text, used, &tokenizer) != LS_OK) {
        fprintf(stderr, "%s\n", ls_status_message());
        abort();
    }
    free(text);
    return tokenizer;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static ls_tokenizer *tokenizers[2];
    if (!tokenizers[0]) {
        tokenizers[0] = make("");
        tokenizers[1] = make(
            "{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"(?i:'s|'t|'re|'ve|'m|'ll|"
            "'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*"
            "[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}}, ");
    }
    for (int i = 0; i < 4; i++) {
        ls_tokens tokens = {0};
        char *back = NULL;
        size_t back_bytes = 0;
        if (ls_tokenizer_encode(tokenizers[i / 2], data, bytes, (unsigned)i % 2, &tokens) != LS_OK) abort();
        if (ls_tokenizer_decode(tokenizers[i / 2], tokens.ids, tokens.count, &back, &back_bytes) != LS_OK) abort();
        if (back_bytes != bytes || (bytes && memcmp(back, data, bytes) != 0)) abort();
        free(back);
        ls_tokens_fini(&tokens);
    }
    return 0;
}
