/* memory.c: what /proc/meminfo says is available; arrays that double. */
#include "base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t look_first_bytes = (size_t)32 << 20;

static size_t available_bytes(void) {
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file) return SIZE_MAX;
    char line[128];
    size_t kib = SIZE_MAX >> 10;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1) break;
    fclose(file);
    return kib << 10;
}

ls_status ls_memory_check(size_t bytes) {
    if (bytes < look_first_bytes) return LS_OK;
    size_t available = available_bytes();
    if (bytes <= available) return LS_OK;
    return ls_fail(LS_ERR_RESOURCE, "out of memory: %zu MiB requested, %zu MiB available", bytes >> 20,
                   available >> 20);
}

/* 64 elements, then twice as many whenever they are full. */
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
