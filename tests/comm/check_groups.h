/* check_groups.h: communicators made by splitting, meshes, shared memory, the tree's cover, and bad arguments. */
#ifndef TESTS_COMM_CHECK_GROUPS_H
#define TESTS_COMM_CHECK_GROUPS_H

#include "check_send.h"
#include "check_sum.h"

/* ---- small pieces ------------------------------------------------------------------------------------------------ */

static inline ls_status check_tree(harness *h) {
    static const int counts[] = {1, 2, 3, 7, 8, 12, 13, 64, 100, 4096};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        for (int i = 0; i < 300; i++) {
            int lo = (int)draw_below(h, (size_t)counts[k] + 1),
                hi = lo + (int)draw_below(h, (size_t)(counts[k] - lo) + 1);
            ls_tree_node got[LS_TREE_COVER_MAX], wanted[LS_TREE_COVER_MAX * 2];
            int got_count = ls_tree_cover(counts[k], lo, hi, got),
                wanted_count = ref_cover(0, counts[k], lo, hi, wanted, 0);
            LS_TRY(same_words(h, "tree cover size", &got_count, &wanted_count, 1));
            for (int n = 0; n < got_count; n++) {
                LS_TRY(same_words(h, "tree cover", (int[]){got[n].first, got[n].count},
                                  (int[]){wanted[n].first, wanted[n].count}, 2));
            }
        }
    }
    return LS_OK;
}

static inline ls_status check_shards(harness *h) {
    static const size_t lengths[] = {0, 1, 1023, 1024, 1025, 5000, 65537, 1u << 20};
    size_t bounds[LS_WORKERS_MAX + 1];
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        for (int size = 1; size <= 17; size++) {
            ls_shard_bounds(lengths[k], size, bounds);
            LS_TRY(expect(h, bounds[0] == 0 && bounds[size] == lengths[k], "shards go from 0 to the length"));
            for (int r = 0; r < size; r++) {
                LS_TRY(expect(h, bounds[r] <= bounds[r + 1], "shards ascend"));
                LS_TRY(expect(h, bounds[r] % 1024 == 0 || bounds[r] == lengths[k], "shards end at multiples of 1024"));
            }
        }
    }
    return LS_OK;
}

static inline ls_status check_memory(harness *h) {
    for (int round = 0; round < 3; round++) {
        unsigned char *memory[40] = {NULL};
        for (int i = 0; i < 40; i++) {
            size_t bytes = (size_t)1 << (i % 18);
            void *made;
            LS_TRY(ls_world_alloc(h->world, bytes, &made));
            memory[i] = made;
            LS_TRY(expect(h, (uintptr_t)made % 64 == 0, "shared memory is aligned to 64 bytes"));
            for (size_t k = 0; k < bytes; k++) {
                if (memory[i][k] != 0) return expect(h, false, "shared memory is zeroed, also when used again");
            }
            memset(made, 0x5A + i, bytes);
        }
        for (int i = 0; i < 40; i++) {
            bool whole = memory[i][0] == 0x5A + i && memory[i][((size_t)1 << (i % 18)) - 1] == 0x5A + i;
            LS_TRY(expect(h, whole, "pieces of shared memory do not overlap"));
            ls_world_free(h->world, memory[i]);
        }
    }
    ls_world_free(h->world, NULL);
    return LS_OK;
}

/* ---- split ------------------------------------------------------------------------------------------------------- */

/* The world ranks of a communicator's members, in its order. */
static inline ls_status members_of(harness *sub, int world_rank, int *members) {
    size_t bytes[LS_WORKERS_MAX];
    for (int r = 0; r < sub->size; r++) bytes[r] = sizeof(int);
    return ls_comm_all_gather(sub->comm, &world_rank, members, bytes);
}

/* A little of everything on one communicator. */
static inline ls_status some_of_everything(harness *h) {
    size_t bytes[LS_WORKERS_MAX];
    for (int r = 0; r < h->size; r++) bytes[r] = draw_below(h, 3000);
    LS_TRY(barrier_once(h, h->size - 1, false));
    LS_TRY(broadcast_once(h, h->size - 1, 5001));
    LS_TRY(all_gather_once(h, bytes));
    LS_TRY(all_to_all_once(h, 333, true));
    LS_TRY(ring_started(h, 70001, true));
    LS_TRY(check_tags(h));
    for (int d = 0; d < SUM_DTYPES; d++) {
        ref_source source = ref_source_make(h->seed, draw(h), sum_dtypes[d], false);
        LS_TRY(sums_of(h, false, source, 13, 2500));
        LS_TRY(sums_of(h, true, source, h->size, 2500));
    }
    return LS_OK;
}

/* Splits, compares members with the definition, runs collectives, destroys. */
static inline ls_status split_once(harness *h, const int *colors, const int *keys, bool work) {
    int wanted[LS_WORKERS_MAX], members[LS_WORKERS_MAX], count = 0;
    ls_comm *comm = NULL;
    LS_TRY(ls_comm_split(h->comm, colors[h->rank], keys[h->rank], &comm));
    LS_TRY(expect(h, (comm == NULL) == (colors[h->rank] < 0), "only a negative color gets no communicator"));
    if (comm == NULL) return LS_OK;
    for (int r = 0; r < h->size; r++) {
        if (colors[r] != colors[h->rank]) continue;
        int at = count++;
        for (; at > 0 && keys[wanted[at - 1]] > keys[r]; at--) wanted[at] = wanted[at - 1];
        wanted[at] = r;
    }
    harness sub = harness_on(h, comm, (uint64_t)colors[h->rank] + 77);
    ls_status status = LS_OK;
    LS_TRY_OUT(same_words(h, "split size", &sub.size, &count, 1));
    LS_TRY_OUT(same_words(h, "split rank", &wanted[sub.rank], &h->rank, 1));
    LS_TRY_OUT(members_of(&sub, h->rank, members));
    LS_TRY_OUT(same_words(h, "split members", members, wanted, count));
    if (work) LS_TRY_OUT(some_of_everything(&sub));
out:
    h->checks += sub.checks;
    areas_free(&sub);
    ls_comm_destroy(comm);
    return status;
}

static inline ls_status check_split(harness *h) {
    int colors[LS_WORKERS_MAX], keys[LS_WORKERS_MAX];
    for (int way = 0; way < 6; way++) {
        for (int r = 0; r < h->size; r++) {
            colors[r] = way == 0 || way == 4 ? r % 2 : way == 2 ? (r == 0 ? -1 : 5) : way == 3 ? r : 0;
            keys[r] = way == 1 || way == 4 ? -r : 0;
            if (way == 5) colors[r] = -1 - r;
        }
        LS_TRY(split_once(h, colors, keys, true));
    }
    for (int i = 0; i < 200; i++) {
        for (int r = 0; r < h->size; r++) {
            colors[r] = (int)draw_below(h, 4) - 1;
            keys[r] = (int)draw_below(h, 3) - 1;
        }
        LS_TRY(split_once(h, colors, keys, false));
    }
    ls_comm_destroy(NULL);
    return some_of_everything(h);
}

/* ---- mesh -------------------------------------------------------------------------------------------------------- */

static inline ls_status mesh_once(harness *h, int dp, int tp, int pp) {
    const int sizes[LS_AXIS_COUNT] = {dp, tp, pp}, strides[LS_AXIS_COUNT] = {tp, 1, dp * tp};
    const int index[LS_AXIS_COUNT] = {h->rank / tp % dp, h->rank % tp, h->rank / tp / dp};
    ls_mesh *mesh = NULL;
    ls_status status = LS_OK;
    LS_TRY(ls_mesh_create(h->world, dp, tp, pp, &mesh));
    for (int a = 0; a < LS_AXIS_COUNT; a++) {
        ls_axis axis = (ls_axis)a;
        ls_comm *row = ls_mesh_comm(mesh, axis);
        LS_TRY_OUT(same_words(h, "mesh size and index", (int[]){ls_mesh_size(mesh, axis), ls_mesh_index(mesh, axis)},
                              (int[]){sizes[a], index[a]}, 2));
        LS_TRY_OUT(same_words(h, "mesh row size and rank", (int[]){ls_comm_size(row), ls_comm_rank(row)},
                              (int[]){sizes[a], index[a]}, 2));
        int64_t mine = (int64_t)h->rank * h->rank + 1, sum = 0, wanted = 0;
        int members[LS_WORKERS_MAX], should[LS_WORKERS_MAX];
        for (int i = 0; i < sizes[a]; i++) {
            should[i] = h->rank + (i - index[a]) * strides[a];
            wanted += (int64_t)should[i] * should[i] + 1;
        }
        harness sub = harness_on(h, row, 1);
        LS_TRY_OUT(members_of(&sub, h->rank, members));
        LS_TRY_OUT(same_words(h, "mesh row members", members, should, sizes[a]));
        const void *parts[1] = {&mine};
        LS_TRY_OUT(ls_comm_all_reduce(row, NULL, LS_I64, parts, &sum, 1));
        LS_TRY_OUT(expect(h, sum == wanted, "the sum over a row of the mesh"));
        status = sizes[a] > 1 ? some_of_everything(&sub) : LS_OK;
        h->checks += sub.checks;
        areas_free(&sub);
        if (status != LS_OK) goto out;
    }
out:
    ls_mesh_destroy(mesh);
    return status;
}

static inline ls_status check_mesh(harness *h) {
    for (int dp = 1; dp <= h->size; dp++) {
        for (int tp = 1; dp * tp <= h->size; tp++) {
            if (h->size % (dp * tp) == 0) LS_TRY(mesh_once(h, dp, tp, h->size / (dp * tp)));
        }
    }
    const int wrong[][3] = {{h->size + 1, 1, 1},
                            {1, h->size, 2},
                            {0, 1, 1},
                            {-1, -h->size, 1},
                            {h->size, 1, 0},
                            {1, 1, -1},
                            {1 << 16, 1 << 16, 1},
                            {h->size, 1 << 16, 1 << 16}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ls_mesh *mesh = NULL;
        ls_status status = ls_mesh_create(h->world, wrong[i][0], wrong[i][1], wrong[i][2], &mesh);
        LS_TRY(expect(h, status == LS_ERR_INPUT && mesh == NULL, "a wrong mesh shape is LS_ERR_INPUT"));
        LS_TRY(expect(h, strlen(ls_status_message()) > 10, "a wrong mesh shape has a message"));
    }
    ls_mesh_destroy(NULL);
    return LS_OK;
}

#endif
