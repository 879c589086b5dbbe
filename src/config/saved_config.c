/* saved_config.c: computes the checksum of config.json, and finds which of the two files is sound. */
#include "config/saved_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"

enum { CONFIG_BYTES_MAX = 1 << 20 };

/* State of one file. PLAIN: valid, but without a checksum; SEALED: with a checksum that matches. */
typedef enum config_kind { CONFIG_ABSENT, CONFIG_DAMAGED, CONFIG_PLAIN, CONFIG_SEALED } config_kind;

/* Writes the hash of the object's members in the order of their names, without the checksum and without white space. */
static ls_status hash_members(json_t *object, char hash[LS_HASH_TEXT_BYTES]) {
    json_t *others = json_copy(object);
    (void)json_object_del(others, LS_CONFIG_CHECKSUM);
    char *text = others ? json_dumps(others, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(others);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for the checksum of " LS_CONFIG_FILE);
    ls_hash_text(ls_hash_bytes(text, strlen(text)), hash);
    free(text);
    return LS_OK;
}

ls_status ls_saved_config_seal(json_t *object) {
    char hash[LS_HASH_TEXT_BYTES];
    LS_TRY(hash_members(object, hash));
    if (json_object_set_new(object, LS_CONFIG_CHECKSUM, json_string(hash)) == 0) return LS_OK;
    return ls_fail(LS_ERR_RESOURCE, "out of memory for the checksum of " LS_CONFIG_FILE);
}

/* Returns SEALED if the object matches its checksum, PLAIN if it has none, and DAMAGED for another one or for what is
 * no object. */
static config_kind judge_object(json_t *object) {
    char hash[LS_HASH_TEXT_BYTES];
    const json_t *checksum = json_object_get(object, LS_CONFIG_CHECKSUM);
    if (!json_is_object(object)) return CONFIG_DAMAGED;
    if (!checksum) return CONFIG_PLAIN;
    const char *text = json_string_value(checksum);
    bool is_right = text && hash_members(object, hash) == LS_OK && strcmp(text, hash) == 0;
    return is_right ? CONFIG_SEALED : CONFIG_DAMAGED;
}

/* Returns the state of the file; one that cannot be read or parsed is DAMAGED. */
static config_kind judge_file(const char *path) {
    json_t *object = NULL;
    if (!ls_file_exists(path)) return CONFIG_ABSENT;
    if (ls_json_load_file(path, CONFIG_BYTES_MAX, &object) != LS_OK) return CONFIG_DAMAGED;
    config_kind kind = judge_object(object);
    json_decref(object);
    return kind;
}

/* A file without a checksum beside a sound copy counts as damaged, because the damage may have hit the key. */
ls_saved_config ls_saved_config_find(const char *folder, char path[PATH_MAX]) {
    char copy[PATH_MAX];
    if (snprintf(path, PATH_MAX, "%s/" LS_CONFIG_FILE, folder) >= PATH_MAX) return LS_CONFIG_ABSENT;
    if (snprintf(copy, PATH_MAX, "%s/" LS_CONFIG_COPY, folder) >= PATH_MAX) return LS_CONFIG_ABSENT;
    config_kind kind = judge_file(path);
    if (kind == CONFIG_SEALED) return LS_CONFIG_SOUND;
    if (judge_file(copy) == CONFIG_SEALED) {
        memcpy(path, copy, PATH_MAX);
        return LS_CONFIG_OF_COPY;
    }
    return kind == CONFIG_ABSENT ? LS_CONFIG_ABSENT : kind == CONFIG_PLAIN ? LS_CONFIG_SOUND : LS_CONFIG_DAMAGED;
}
