/* block_defaults.c: what a block does that keeps nothing, or whose forward has done it all. */
#include "nn/block.h"

void ls_block_saves_nothing(const ls_block *block, ls_saved *saved, const ls_nn *nn, unsigned parts, ls_arena *arena) {
    (void)block;
    (void)saved;
    (void)nn;
    (void)parts;
    (void)arena;
}

void ls_block_keeps_nothing(const ls_block *block, ls_kept *kept, const ls_nn *nn, ls_arena *arena) {
    (void)block;
    (void)kept;
    (void)nn;
    (void)arena;
}

ls_status ls_block_recomputes_nothing(ls_block *block, ls_nn *nn, const float *x, unsigned parts) {
    (void)block;
    (void)nn;
    (void)x;
    (void)parts;
    return LS_OK;
}

ls_status ls_block_backward_is_done(ls_block *block, ls_nn *nn, const float *x, float *d, ls_backward_phase phase) {
    (void)block;
    (void)nn;
    (void)x;
    (void)d;
    (void)phase;
    return LS_OK;
}
