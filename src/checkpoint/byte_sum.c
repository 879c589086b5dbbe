/* byte_sum.c: computes the checksum of byte_sum.h: sums the file's words times their factors, one block of 256 words at
 * a time. */
#include "checkpoint/byte_sum.h"

#include <pthread.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words of the sum are little-endian");

enum { BLOCK_WORDS = 256, WORD_BYTES = 4 };

/* ---- factors ----------------------------------------------------------------------------------------------------- */

/* Returns SplitMix64 of (set, number), made odd: for numbers below BLOCK_WORDS the factor a of a word's place in its
 * block (its low 32 bits count), from BLOCK_WORDS on the factor b of a block. */
static uint64_t factor(int set, uint64_t number) {
    uint64_t z = (number + 1) * 0x9e3779b97f4a7c15u + (uint64_t)set * 0xd1b54a32d192ed03u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) | 1;
}

/* 32 bits, because vector units multiply 32-bit numbers. */
static uint32_t places[LS_BYTE_SUMS][BLOCK_WORDS];
static pthread_once_t places_are_filled = PTHREAD_ONCE_INIT;

/* Fills `places`, the factors of the 256 places in a block; called once per process, by pthread_once(). */
static void fill_places(void) {
    for (int s = 0; s < LS_BYTE_SUMS; s++)
        for (uint64_t i = 0; i < BLOCK_WORDS; i++) places[s][i] = (uint32_t)factor(s, i);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Adds words first … first + count − 1 of block `block`, times their factors. */
static void add_in_block(ls_byte_sum *sum, uint64_t block, size_t first, const unsigned char *data, size_t count) {
    for (int s = 0; s < LS_BYTE_SUMS; s++) {
        const uint32_t *by = places[s] + first;
        uint64_t total = 0;
        for (size_t i = 0; i < count; i++) {
            uint32_t word;
            memcpy(&word, data + i * WORD_BYTES, sizeof word);
            total += (uint64_t)word * by[i];
        }
        sum->sum[s] += total * factor(s, BLOCK_WORDS + block);
    }
}

/* Adds `count` words of the file from word `index` on. */
static void add_words(ls_byte_sum *sum, uint64_t index, const unsigned char *data, size_t count) {
    while (count > 0) {
        size_t first = (size_t)(index % BLOCK_WORDS), n = count < BLOCK_WORDS - first ? count : BLOCK_WORDS - first;
        add_in_block(sum, index / BLOCK_WORDS, first, data, n);
        index += n;
        data += n * WORD_BYTES;
        count -= n;
    }
}

/* Adds `count` bytes of word `index` from its byte `place` on; its other bytes count as zeros, so the parts of a word
 * may be added separately. */
static void add_part(ls_byte_sum *sum, uint64_t index, size_t place, const unsigned char *data, size_t count) {
    unsigned char word[WORD_BYTES] = {0};
    memcpy(word + place, data, count);
    add_words(sum, index, word, 1);
}

void ls_byte_sum_add(ls_byte_sum *sum, uint64_t offset, const void *data, size_t bytes) {
    const unsigned char *at = data;
    size_t place = (size_t)(offset % WORD_BYTES);
    pthread_once(&places_are_filled, fill_places);
    sum->bytes += bytes;
    if (place > 0 && bytes > 0) {
        size_t count = bytes < WORD_BYTES - place ? bytes : WORD_BYTES - place;
        add_part(sum, offset / WORD_BYTES, place, at, count);
        at += count;
        offset += count;
        bytes -= count;
    }
    size_t words = bytes / WORD_BYTES, rest = bytes % WORD_BYTES;
    if (words > 0) add_words(sum, offset / WORD_BYTES, at, words);
    if (rest > 0) add_part(sum, offset / WORD_BYTES + words, 0, at + words * WORD_BYTES, rest);
}

ls_hash128 ls_byte_sum_value(const ls_byte_sum *sum) { return (ls_hash128){.hi = sum->sum[0], .lo = sum->sum[1]}; }

void ls_byte_sum_join(ls_byte_sum *sum, const ls_byte_sum *other) {
    for (int s = 0; s < LS_BYTE_SUMS; s++) sum->sum[s] += other->sum[s];
    sum->bytes += other->bytes;
}
