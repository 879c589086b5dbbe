/* micro_batches.c: cutting a replica's part of the batch into micro-batches.
 *
 *   B = 8, G = 8, dp = 3 (shares 2, 3, 3), micro 2
 *
 *   zero < 2   row 0: 01          row 1: 23 4         row 2: 56 7        one round
 *   zero ≥ 2   row 0: 0 | 3 | –   row 1: 1 | 4 | 6    row 2: 2 | 5 | 7   a round behind each |, – is empty */
#include "parallel/layout/micro_batches.h"

#include <limits.h>
#include <stdlib.h>

#include "base/status.h"

/* ---- whose group ------------------------------------------------------------------------------------------------- */

int ls_layout_first_group(const ls_layout *layout, int replica) {
    int first = 0;
    for (int d = 0; d < replica; d++) first += layout->share[d];
    return first;
}

/* Counts the groups of earlier rounds, and in this round those of the replicas before it. */
int ls_layout_group(const ls_layout *layout, int replica, int round) {
    int group = 0;
    if (round < 0 || round >= layout->share[replica]) return -1;
    for (int d = 0; d < layout->dp; d++) {
        int share = layout->share[d];
        group += (share < round ? share : round) + (d < replica && share > round);
    }
    return group;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* Returns how many micro-batches so many sequences need. */
static size_t pieces(size_t sequences, size_t micro) { return sequences / micro + (sequences % micro != 0); }

/* Returns the sequences of group g of a batch of B in G groups. */
static size_t group_size(size_t B, int G, int g) { return ls_slice_begin(B, G, g + 1) - ls_slice_begin(B, G, g); }

/* Returns the micro-batches of a round, in every replica: as many as its largest group needs. */
static size_t round_pieces(const ls_layout *layout, size_t B, int G, int round) {
    size_t most = 0;
    for (int d = 0; d < layout->dp; d++) {
        int g = ls_layout_group(layout, d, round);
        size_t count = g < 0 ? 0 : pieces(group_size(B, G, g), layout->micro);
        if (count > most) most = count;
    }
    return most;
}

/* Allocates the list for `count` micro-batches. */
static ls_status reserve(ls_micro_list *list, size_t count) {
    list->micro = count <= INT_MAX ? calloc(count, sizeof *list->micro) : NULL;
    if (list->micro) return LS_OK;
    return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of %zu micro-batches; use a larger --micro-batch", count);
}

/* Appends sequences [begin, end) as `count` micro-batches, those after the last sequence empty; the last one ends the
 * round. */
static void add_round(ls_micro_list *list, size_t micro, size_t begin, size_t end, size_t count, int round) {
    for (size_t i = 0; i < count; i++) {
        size_t size = end - begin < micro ? end - begin : micro;
        list->micro[list->count++] =
            (ls_micro){.begin = begin, .end = begin + size, .round = round, .ends_round = i + 1 == count};
        if (size > list->most) list->most = size;
        begin += size;
    }
}

/* Lists all sequences of a replica as one round: zero < 2. */
static ls_status add_one_round(const ls_layout *layout, size_t B, int G, int replica, ls_micro_list *list) {
    size_t begin = ls_slice_begin(B, G, ls_layout_first_group(layout, replica));
    size_t end = ls_slice_begin(B, G, ls_layout_first_group(layout, replica + 1));
    size_t count = pieces(end - begin, layout->micro);
    LS_TRY(reserve(list, count));
    list->rounds = 1;
    add_round(list, layout->micro, begin, end, count, 0);
    return LS_OK;
}

/* Lists one group in each round: zero ≥ 2. */
static ls_status add_rounds(const ls_layout *layout, size_t B, int G, int replica, ls_micro_list *list) {
    size_t count = 0;
    for (int d = 0; d < layout->dp; d++)
        if (layout->share[d] > list->rounds) list->rounds = layout->share[d];
    for (int r = 0; r < list->rounds; r++) count += round_pieces(layout, B, G, r);
    LS_TRY(reserve(list, count));
    for (int r = 0; r < list->rounds; r++) {
        int g = ls_layout_group(layout, replica, r);
        size_t begin = g < 0 ? 0 : ls_slice_begin(B, G, g), end = g < 0 ? 0 : ls_slice_begin(B, G, g + 1);
        add_round(list, layout->micro, begin, end, round_pieces(layout, B, G, r), r);
    }
    return LS_OK;
}

ls_status ls_micro_list_make(const ls_layout *layout, size_t B, int G, int replica, ls_micro_list *out) {
    *out = (ls_micro_list){0};
    if (layout->micro == 0) return ls_fail(LS_ERR_FAILED, "the micro-batch size has not been chosen");
    if (replica < 0 || replica >= layout->dp || G < 1 || (size_t)G > B ||
        ls_layout_first_group(layout, layout->dp) != G)
        return ls_fail(
            LS_ERR_FAILED,
            "data-parallel replica %d of %d with %d of %d groups in %zu sequences: the layout was not checked", replica,
            layout->dp, ls_layout_first_group(layout, layout->dp), G, B);
    return layout->zero < 2 ? add_one_round(layout, B, G, replica, out) : add_rounds(layout, B, G, replica, out);
}

void ls_micro_list_free(ls_micro_list *list) {
    free(list->micro);
    *list = (ls_micro_list){0};
}

ls_status ls_micro_counts(const ls_layout *layout, size_t B, int G, int *micros, int *busiest) {
    ls_layout alike = *layout;
    size_t most = 0;
    if (layout->dp == 1) alike.zero = 0; /* a single replica has no other to stay in step with */
    for (int d = 0; d < layout->dp; d++) {
        ls_micro_list list;
        size_t sequences = 0;
        LS_TRY(ls_micro_list_make(&alike, B, G, d, &list));
        for (int m = 0; m < list.count; m++) sequences += list.micro[m].end - list.micro[m].begin;
        micros[d] = list.count;
        if (sequences > most) *busiest = d;
        if (sequences > most) most = sequences;
        ls_micro_list_free(&list);
    }
    return LS_OK;
}
