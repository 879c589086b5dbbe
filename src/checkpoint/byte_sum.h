/* byte_sum.h: a checksum of a file that several processes write, computed from the bytes in memory before they are
 * written.
 *
 * A hash like XXH3 needs the bytes in order. For a file whose parts are in several processes it could only be computed
 * by reading the file back, and corruption on the way to the disk would be part of it. This sum is independent of the
 * order. With w(i) the file's 32-bit little-endian words (the last padded with zeros), and odd factors a of 32 bits and
 * b of 64 bits, it is
 *
 *     Σ w(i) · a(i mod 256) · b(i / 256)  mod 2^64
 *
 * for two sets of factors. Each process adds the bytes that it writes, at their place; then the sums of all processes
 * are added. Corruption of one word is always detected, because odd factors have inverses; other corruption is missed
 * with a probability of about 2^-62 or less. Like XXH3 here, the sum does not protect against an attacker. The text
 * form is 32 hexadecimal digits, the first sum first.
 *
 * The sum also counts bytes, so that bytes that no worker wrote are detected. */
#ifndef LS_CHECKPOINT_BYTE_SUM_H
#define LS_CHECKPOINT_BYTE_SUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/status.h"

enum { LS_BYTE_SUMS = 2 };

/* All zeros: the sum of no bytes. */
typedef struct ls_byte_sum {
    uint64_t sum[LS_BYTE_SUMS];
    uint64_t bytes;
} ls_byte_sum;

/* Adds bytes offset … offset + bytes − 1 of the file to *sum and to its count of bytes. Each byte of the file once, in
 * any order; offsets need no alignment. Only one thread at a time may add to the same sum. */
void ls_byte_sum_add(ls_byte_sum *sum, uint64_t offset, const void *data, size_t bytes);
/* Returns both sums as the 128-bit value that complete.json records; the count of bytes is not part of it, so the
 * caller compares that separately. */
ls_hash128 ls_byte_sum_value(const ls_byte_sum *sum);

/* Adds to *sum the sum, and the byte count, of other bytes of the same file, such as those that another worker
 * wrote. */
void ls_byte_sum_join(ls_byte_sum *sum, const ls_byte_sum *other);

#endif
