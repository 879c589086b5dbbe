/* choices.c: the table of autotuning results in memory, and the file that keeps it (choices.h has the format). */
#include "device/cuda/choices.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"

enum { FILE_BYTES_MAX = 16 << 20, MAGIC_BYTES = 8 };
static const char magic[MAGIC_BYTES + 1] = "LSPROD01";

/* The first bytes of the file. */
typedef struct head {
    char magic[MAGIC_BYTES];
    uint64_t count;
} head;

_Static_assert(sizeof(ls_cuda_product_key) == 9 * 8 + 12 * 4 && sizeof(head) == MAGIC_BYTES + 8 &&
                   sizeof(ls_cuda_choice) == sizeof(ls_cuda_product_key) + 4 * 4 + sizeof(ls_lt_algorithm),
               "no gaps: they are written and compared as bytes");

/* Returns the choice with this key, compared byte by byte, or NULL. Valid until a choice is added. */
static ls_cuda_choice *find_choice(const ls_cuda_choices *choices, const ls_cuda_product_key *key) {
    for (size_t i = 0; i < choices->count; i++)
        if (memcmp(&choices->list[i].key, key, sizeof *key) == 0) return &choices->list[i];
    return NULL;
}

const ls_cuda_choice *ls_cuda_choices_find(const ls_cuda_choices *choices, const ls_cuda_product_key *key) {
    return find_choice(choices, key);
}

ls_status ls_cuda_choices_add(ls_cuda_choices *choices, const ls_cuda_choice *choice) {
    ls_cuda_choice *at = find_choice(choices, &choice->key);
    if (!at && choices->count == choices->capacity) {
        size_t capacity = choices->capacity ? 2 * choices->capacity : 32;
        ls_cuda_choice *list = realloc(choices->list, capacity * sizeof *list);
        if (!list) return ls_fail(LS_ERR_RESOURCE, "out of memory");
        choices->list = list;
        choices->capacity = capacity;
    }
    if (!at) at = &choices->list[choices->count++];
    *at = *choice;
    return LS_OK;
}

/* Returns the choices in a file's bytes, as a pointer into `data`, and sets *count. NULL, with *count unchanged,
 * if magic number, size or hash are wrong. */
static const ls_cuda_choice *content_of(const char *data, size_t bytes, size_t *count) {
    head h;
    ls_hash128 hash;
    if (bytes < sizeof h + sizeof hash) return NULL;
    memcpy(&h, data, sizeof h);
    size_t content = bytes - sizeof h - sizeof hash;
    if (memcmp(h.magic, magic, MAGIC_BYTES) != 0 || content % sizeof(ls_cuda_choice) != 0 ||
        h.count != content / sizeof(ls_cuda_choice))
        return NULL;
    memcpy(&hash, data + bytes - sizeof hash, sizeof hash);
    if (!ls_hash_equal(hash, ls_hash_bytes(data, bytes - sizeof hash))) return NULL;
    *count = (size_t)h.count;
    return (const ls_cuda_choice *)(const void *)(data + sizeof h);
}

void ls_cuda_choices_read(ls_cuda_choices *choices, const char *path) {
    char *data = NULL;
    size_t bytes = 0, count = 0;
    if (!ls_file_exists(path)) return;
    const ls_cuda_choice *list =
        ls_file_read(path, FILE_BYTES_MAX, &data, &bytes) == LS_OK ? content_of(data, bytes, &count) : NULL;
    if (!list) ls_log_warn("%s, which says how products are made fastest, is damaged; it is made anew", path);
    for (size_t i = 0; list && i < count; i++)
        if (list[i].way < LS_CUDA_WAYS && !find_choice(choices, &list[i].key))
            (void)ls_cuda_choices_add(choices, &list[i]);
    free(data);
}

void ls_cuda_choices_write(ls_cuda_choices *choices, const char *path) {
    ls_cuda_choices_read(choices, path);
    size_t content = choices->count * sizeof *choices->list, bytes = sizeof(head) + content;
    char *data = malloc(bytes + sizeof(ls_hash128));
    if (!data) return;
    head h = {.count = choices->count};
    memcpy(h.magic, magic, MAGIC_BYTES);
    memcpy(data, &h, sizeof h);
    if (content) memcpy(data + sizeof h, choices->list, content);
    ls_hash128 hash = ls_hash_bytes(data, bytes);
    memcpy(data + bytes, &hash, sizeof hash);
    (void)ls_file_write_atomic(path, data, bytes + sizeof hash);
    free(data);
}

void ls_cuda_choices_clear(ls_cuda_choices *choices) {
    free(choices->list);
    *choices = (ls_cuda_choices){0};
}
