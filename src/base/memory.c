/* memory.c: available memory from /proc/meminfo, growing arrays, and regions. */
#include "base/memory.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t look_first_bytes = (size_t)32 << 20;

size_t ls_memory_available(void) {
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file) return SIZE_MAX;
    char line[128];
    size_t kib = SIZE_MAX >> 10;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1) break;
    fclose(file);
    return kib << 10;
}

bool ls_memory_of_process(int pid, ls_memory_use *out) {
    char path[64];
    long long pages = 0, shared = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = pid > 0 ? fopen(path, "re") : NULL;
    bool found = file && fscanf(file, "%*d %lld %lld", &pages, &shared) == 2;
    if (file) (void)fclose(file);
    double page = (double)sysconf(_SC_PAGESIZE);
    *out = (ls_memory_use){(double)pages * page, (double)shared * page};
    return found;
}

ls_status ls_memory_check(size_t bytes) {
    if (bytes < look_first_bytes) return LS_OK;
    size_t available = ls_memory_available();
    if (bytes <= available) return LS_OK;
    return ls_fail(LS_ERR_RESOURCE, "out of memory: %zu MiB requested, %zu MiB available", bytes >> 20,
                   available >> 20);
}

ls_status ls_pages_alloc(size_t bytes, void **out) {
    size_t length = bytes > 0 ? bytes : 1;
    *out = NULL;
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return ls_fail_errno(LS_ERR_RESOURCE, "cannot map %zu MiB of memory", bytes >> 20);
    (void)madvise(memory, length, MADV_HUGEPAGE); /* slower without */
    *out = memory;
    return LS_OK;
}

void ls_pages_free(void *memory, size_t bytes) {
    if (memory) (void)munmap(memory, bytes > 0 ? bytes : 1);
}

void *ls_list_grow(void *list, size_t count, size_t *capacity, size_t bytes) {
    if (count < *capacity) return list;
    size_t more = *capacity ? 2 * *capacity : 16;
    void *larger = realloc(list, more * bytes);
    if (larger) *capacity = more;
    return larger;
}

typedef struct ls_region_block {
    alignas(max_align_t) struct ls_region_block *before;
} ls_region_block;

void *ls_region_take(ls_region *region, size_t count, size_t bytes) {
    size_t all;
    bool fits =
        !__builtin_mul_overflow(count, bytes, &all) && !__builtin_add_overflow(all, sizeof(ls_region_block), &all);
    ls_region_block *block = fits ? calloc(1, all) : NULL;
    if (!block) {
        region->is_short = true;
        return NULL;
    }
    block->before = region->last;
    region->last = block;
    return block + 1;
}

void ls_region_free(ls_region *region) {
    while (region->last) {
        ls_region_block *before = region->last->before;
        free(region->last);
        region->last = before;
    }
    *region = (ls_region){0};
}

/* Starts with a capacity of 64 elements and doubles it when it is used up. */
ls_status ls_array_grow(void *array, size_t count, size_t elem_bytes, const char *what) {
    enum { FIRST = 64 };
    size_t capacity = count < FIRST ? FIRST : 2 * count, bytes;
    void *memory;
    if (count > 0 && (count < FIRST || (count & (count - 1)) != 0)) return LS_OK;
    memcpy(&memory, array, sizeof memory);
    memory = __builtin_mul_overflow(capacity, elem_bytes, &bytes) ? NULL : realloc(memory, bytes);
    if (!memory) return ls_fail(LS_ERR_RESOURCE, "out of memory for %zu %s", capacity, what);
    memcpy(array, &memory, sizeof memory);
    return LS_OK;
}
