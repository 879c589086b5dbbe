/* fuzz_identity.c: any bytes as the identity of a run. What is accepted is written and read back as itself, and differs
 * from nothing but what its text says. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "run/folder/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const ls_identity *identity) {
    ls_identity *back = NULL;
    ls_identity_change change;
    ls_hash128 a, b;
    char *text = NULL;
    size_t text_bytes = 0;
    if (ls_identity_to_text(identity, &text, &text_bytes) != LS_OK) abort();
    if (ls_identity_from_text("back", text, text_bytes, &back) != LS_OK) abort();
    if (ls_identity_hash(identity, &a) != LS_OK || ls_identity_hash(back, &b) != LS_OK || !ls_hash_equal(a, b)) abort();
    if (ls_identity_diff(identity, back, &change, 1) != 0) abort();
    if (ls_identity_check(identity, back, "the copy") != LS_OK) abort();
    free(text);
    ls_identity_destroy(back);
}

/* Nearly no input has the hash of its fields: the fields alone are tried under their right hash too. */
static ls_status with_right_hash(const json_t *json, ls_identity **out) {
    json_t *copy = json_deep_copy(json);
    if (!json_is_object(copy)) {
        json_decref(copy);
        return LS_ERR_INPUT;
    }
    char hash[LS_HASH_TEXT_BYTES];
    json_t *fields = json_object_get(copy, "fields");
    char *text = json_is_object(fields) ? json_dumps(fields, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    ls_hash_text(ls_hash_bytes(text ? text : "", text ? strlen(text) : 0), hash);
    free(text);
    json_object_set_new(copy, "hash", json_string(hash));
    ls_status status = ls_identity_from_json("fuzz", copy, out);
    json_decref(copy);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_identity *identity = NULL;
    json_t *json = NULL;
    char *text = malloc(bytes ? bytes : 1); /* no room behind the last byte */
    if (!text) return 0;
    memcpy(text, data, bytes);
    if (ls_identity_from_text("fuzz", text, bytes, &identity) == LS_OK) check(identity);
    ls_identity_destroy(identity);
    identity = NULL;
    if (ls_json_load_text("fuzz", text, bytes, &json) == LS_OK && with_right_hash(json, &identity) == LS_OK)
        check(identity);
    ls_identity_destroy(identity);
    json_decref(json);
    free(text);
    return 0;
}
