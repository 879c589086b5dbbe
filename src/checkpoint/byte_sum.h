/* byte_sum.h: a checksum of a file that several processes write, taken of the bytes in memory before they are written.
 *
 * A hash like XXH3 needs the bytes in order, so one of a file whose parts are in several processes could only be taken
 * by reading the file back: damage on the way to the disk would be signed. This sum does not mind the order: with w(i)
 * the file's 32-bit little-endian words (the last filled up with zeros) it is, twice, with two sets of odd factors, a
 * of 32 bits and b of 64,
 *
 *     Σ w(i) · a(i mod 256) · b(i / 256)  mod 2^64
 *
 * Each process adds what it writes, at its place; the sums of all processes are added. Damage within one word is always
 * found, for odd factors have inverses; any other is missed with a probability of about 2^-62 or less. Like XXH3 here,
 * it is no protection against an attacker. The text form is 32 hexadecimal digits, the first sum first.
 *
 * Also counts the bytes, so that bytes that no worker wrote are noticed. */
#ifndef LS_CHECKPOINT_BYTE_SUM_H
#define LS_CHECKPOINT_BYTE_SUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/status.h"

enum { LS_BYTE_SUMS = 2 };

/* Zeroed: of no byte. */
typedef struct ls_byte_sum {
    uint64_t sum[LS_BYTE_SUMS];
    uint64_t bytes;
} ls_byte_sum;

/* Bytes offset … offset + bytes − 1 of the file; each byte once, in any order. Any thread. */
void ls_byte_sum_add(ls_byte_sum *sum, uint64_t offset, const void *data, size_t bytes);
/* The same form as a hash has. */
ls_hash128 ls_byte_sum_value(const ls_byte_sum *sum);

/* Adds what another process, or this one elsewhere in the file, has summed. */
void ls_byte_sum_join(ls_byte_sum *sum, const ls_byte_sum *other);

#endif
