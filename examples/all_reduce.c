/* all_reduce.c: the same sum, to the last bit, from 1, 2 and 3 workers.
 *
 * Eight groups each contribute a vector; each worker holds a contiguous run of them. Floating-point addition depends on
 * its order, so most systems give slightly different sums for different numbers of workers. Here the sum follows one
 * fixed tree over the groups, whoever holds them:
 *
 *                     ·                  groups   0 1 2 3 4 5 6 7
 *               ┌─────┴─────┐            worker   0 0 1 1 1 2 2 2
 *               ·           ·
 *            ┌──┴──┐     ┌──┴──┐         A worker adds up the subtrees that it holds whole and hands those over,
 *            ·     ·     ·     ·         here (0 1) from worker 0; (2 3) and 4 from worker 1; 5 and (6 7) from
 *           0 1   2 3   4 5   6 7        worker 2. The library finishes the tree.
 *
 *   cc all_reduce.c $(pkg-config --cflags --libs lockstep) -o all_reduce && ./all_reduce
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <lockstep.h>

enum { GROUPS = 8, ELEMS = 1000 };

/* What group g contributes: numbers of very different sizes, so that the order of the sum matters. */
static float contribution(int g, int i) {
    float sign = (g + i) % 2 ? -1.0f : 1.0f;
    return sign * (float)(1 << (3 * g)) / (float)(i + 3);
}

/* The sum of one subtree, halves first. Every node of a tree over eight groups has 1, 2, 4 or 8 of them. */
static float subtree(int first, int count, int i) {
    if (count == 1) return contribution(first, i);
    return subtree(first, count / 2, i) + subtree(first + count / 2, count / 2, i);
}

/* Of all the bits of the sum. */
static uint32_t fingerprint(const float *sum) {
    uint32_t hash = 2166136261u;
    for (int i = 0; i < ELEMS; i++) {
        uint32_t bits;
        memcpy(&bits, &sum[i], sizeof bits);
        hash = (hash ^ bits) * 16777619u;
    }
    return hash;
}

/* Every worker runs this. An error returned by any of them ends all of them. */
static ls_status work(ls_world *world, void *arg) {
    (void)arg;
    static float parts[LS_TREE_COVER_MAX][ELEMS], sum[ELEMS];
    const void *handed_over[LS_TREE_COVER_MAX];
    ls_tree_node nodes[LS_TREE_COVER_MAX];
    int rank = ls_world_rank(world), size = ls_world_size(world);

    ls_runs runs = {.groups = GROUPS}; /* split evenly; the worker's subtrees lie inside its run */
    int count = ls_tree_cover(GROUPS, GROUPS * rank / size, GROUPS * (rank + 1) / size, nodes);
    for (int p = 0; p < count; p++) {
        for (int i = 0; i < ELEMS; i++) parts[p][i] = subtree(nodes[p].first, nodes[p].count, i);
        handed_over[p] = parts[p];
    }
    ls_status status = ls_comm_all_reduce(ls_world_comm(world), &runs, LS_F32, handed_over, sum, ELEMS);
    if (status != LS_OK) return status;
    if (rank == 0) {
        printf("%d worker%s: sum[0] = %.9g, all %d sums have fingerprint %08x\n", size, size == 1 ? "" : "s",
               (double)sum[0], ELEMS, fingerprint(sum));
        fflush(stdout);
    }
    return LS_OK;
}

int main(void) {
    for (int workers = 1; workers <= 3; workers++) {
        ls_workers_options options = {.workers = workers};
        ls_status status = ls_workers_run(&options, work, NULL);
        if (status != LS_OK) fprintf(stderr, "error: %s\n", ls_status_message());
        if (status != LS_OK) return ls_status_exit_code(status);
    }
    return 0;
}
