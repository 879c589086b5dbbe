/* hash.h: 128-bit XXH3 of bytes, of fp32 tensors, and of lists of hashes.
 *
 * Finds differences and damage; it does not protect against an attacker. The hash of fp32 values is that of their
 * little-endian bytes after every NaN became 0x7FC00000 (rule 16), so that equal numbers have equal hashes on every
 * machine; −0 and +0 differ. The text form is the one that xxhsum prints. Nothing is allocated; any thread may call. */
#ifndef LS_BASE_HASH_H
#define LS_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ls_hash128 {
    uint64_t lo, hi;
} ls_hash128;

enum { LS_HASH_TEXT_BYTES = 33 };

ls_hash128 ls_hash_bytes(const void *data, size_t bytes);
ls_hash128 ls_hash_f32(const float *values, size_t elems);
/* One hash of `count` hashes in this order: the hash of their canonical forms (hi, then lo, big-endian). */
ls_hash128 ls_hash_combine(const ls_hash128 *hashes, size_t count);

bool ls_hash_equal(ls_hash128 a, ls_hash128 b);
/* 32 hexadecimal digits, hi first, and a NUL. */
void ls_hash_text(ls_hash128 hash, char out[LS_HASH_TEXT_BYTES]);

#endif
