/* state_sum.c: the factors, and the sum by its formula. Devices have their own kernels. */
#include "numerics/state_sum.h"

#include <pthread.h>
#include <string.h>

static uint32_t places[LS_STATE_BLOCK];
static pthread_once_t places_are_filled = PTHREAD_ONCE_INIT;

/* Fills the factors a: odd 32-bit numbers, by hashing their place. */
static void fill_places(void) {
    for (uint32_t i = 0; i < LS_STATE_BLOCK; i++) {
        uint32_t z = (i + 1) * 0x9e3779b1u;
        z = (z ^ (z >> 15)) * 0x85ebca77u;
        z = (z ^ (z >> 13)) * 0xc2b2ae3du;
        places[i] = (z ^ (z >> 16)) | 1;
    }
}

const uint32_t *ls_state_places(void) {
    pthread_once(&places_are_filled, fill_places);
    return places;
}

void ls_state_add_elems(ls_hash128 *sum, uint64_t tensor, uint64_t first, const float *x, size_t n) {
    const uint32_t *by = ls_state_places();
    for (size_t i = 0; i < n; i++) {
        uint64_t at = first + i;
        uint32_t word;
        memcpy(&word, x + i, sizeof word);
        ls_state_add_block(sum, tensor, at / LS_STATE_BLOCK, (uint64_t)word * by[at % LS_STATE_BLOCK]);
    }
}
