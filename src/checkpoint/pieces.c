/* pieces.c: runs of elements, joined. */
#include "checkpoint/pieces.h"

#include <stdlib.h>

#include "base/status.h"

static ls_status add(ls_pieces *pieces, ls_partition_piece piece) {
    if (piece.count == 0) return LS_OK;
    if (pieces->count == pieces->capacity) {
        int capacity = 2 * pieces->capacity + 8;
        ls_partition_piece *more = realloc(pieces->piece, (size_t)capacity * sizeof *more);
        if (!more) return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of %d pieces of a parameter", capacity);
        pieces->piece = more;
        pieces->capacity = capacity;
    }
    pieces->piece[pieces->count++] = piece;
    return LS_OK;
}

static int compare_first(const void *a, const void *b) {
    size_t x = ((const ls_partition_piece *)a)->first, y = ((const ls_partition_piece *)b)->first;
    return x == y ? 0 : x < y ? -1 : 1;
}

static void join(ls_pieces *pieces) {
    int kept = 0;
    if (pieces->count == 0) return;
    qsort(pieces->piece, (size_t)pieces->count, sizeof *pieces->piece, compare_first);
    for (int i = 1; i < pieces->count; i++) {
        ls_partition_piece *last = &pieces->piece[kept];
        if (last->first + last->count == pieces->piece[i].first)
            last->count += pieces->piece[i].count;
        else
            pieces->piece[++kept] = pieces->piece[i];
    }
    pieces->count = kept + 1;
}

ls_status ls_pieces_once(const ls_partition *partition, const ls_param *param, ls_pieces *pieces) {
    ls_partition_piece piece;
    pieces->count = 0;
    for (int i = 0; ls_partition_piece_once(partition, param, i, &piece); i++) LS_TRY(add(pieces, piece));
    join(pieces);
    return LS_OK;
}

ls_status ls_pieces_needed(const ls_partition *partition, const ls_param *param, ls_partition_tensor which,
                           ls_pieces *pieces) {
    ls_partition_piece piece;
    pieces->count = 0;
    for (int i = 0; ls_partition_piece_needed(partition, param, which, i, &piece); i++) LS_TRY(add(pieces, piece));
    join(pieces);
    return LS_OK;
}

void ls_pieces_fini(ls_pieces *pieces) {
    free(pieces->piece);
    *pieces = (ls_pieces){.count = 0};
}
