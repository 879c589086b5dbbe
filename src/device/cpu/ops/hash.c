/* hash.c: the hash of memory, made of those of pieces, by all threads. */
#include "device/cpu/cpu.h"

enum { PIECE_BYTES = 1 << 18 };

typedef struct hash_args {
    const char *x;
    size_t bytes;
    ls_hash128 *pieces;
} hash_args;

static void hash_pieces(const ls_kernels *kernels, const void *args, size_t begin, size_t end) {
    (void)kernels;
    const hash_args *a = args;
    for (size_t i = begin; i < end; i++) {
        size_t at = i * PIECE_BYTES, left = a->bytes - at;
        a->pieces[i] = ls_hash_bytes(a->x + at, left < PIECE_BYTES ? left : PIECE_BYTES);
    }
}

static ls_status hash(ls_device *device, ls_hash128 *out, const void *x, size_t bytes) {
    ls_cpu_device *cpu = ls_cpu_enter(device);
    size_t pieces = (bytes + PIECE_BYTES - 1) / PIECE_BYTES;
    void *space = NULL;
    LS_TRY(ls_cpu_scratch(cpu, (pieces + 1) * sizeof(ls_hash128), &space));
    hash_args args = {x, bytes, space};
    ls_cpu_run(cpu, pieces, 1, hash_pieces, &args);
    *out = ls_hash_combine(space, pieces);
    return LS_OK;
}

void ls_cpu_ops_fill_hash(ls_ops *ops) { ops->hash = hash; }
