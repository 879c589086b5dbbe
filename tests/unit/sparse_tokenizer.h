/* sparse_tokenizer.h: a tokenizer with fewer tokens than a model has ids, as with a padded vocabulary: the letters a …
 * t are the ids 1, 4, 7 … 58, and no other id has text. */
#ifndef SPARSE_TOKENIZER_H
#define SPARSE_TOKENIZER_H

#include <stdio.h>
#include <string.h>

#include "data/tokenizer/tokenizer.h"

enum { SPARSE_TOKENS = 20 };

static inline bool sparse_has(int32_t id) { return id >= 0 && id % 3 == 1 && id / 3 < SPARSE_TOKENS; }

static inline ls_tokenizer *sparse_tokenizer(void) {
    char text[1024];
    size_t used = 0;
    ls_tokenizer *tokenizer = NULL;
    used += (size_t)snprintf(text, sizeof text,
                             "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
                             "\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {");
    for (int i = 0; i < SPARSE_TOKENS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%c\": %d", i ? ", " : "", 'a' + i, 3 * i + 1);
    used += (size_t)snprintf(text + used, sizeof text - used, "}}}");
    return ls_tokenizer_from_json("sparse", text, used, &tokenizer) == LS_OK ? tokenizer : NULL;
}

#endif
