/* plain_loops.h: the plain loop, written once over a vector of PLAIN_BYTES.
 *
 * Included by plain_loop.c for each vector unit, with PLAIN_BYTES, PLAIN_TARGET (an attribute, or nothing) and
 * PLAIN_NAME(stem). Loads of an iteration come before its stores, so an output may be an input. */

typedef float PLAIN_NAME(lanes) __attribute__((vector_size(PLAIN_BYTES)));

/* Runs the loop. Compiled with constants for reads and writes, it has no branches. */
PLAIN_TARGET static inline __attribute__((always_inline)) void PLAIN_NAME(pass)(const ls_kbench_loop *loop, int reads,
                                                                                int writes, size_t begin, size_t end) {
    enum { LANES = PLAIN_BYTES / 4, UNROLL = 4 };
    const ls_kbench_loop p = *loop; /* nothing that is stored can change these pointers */
    PLAIN_NAME(lanes) kept[UNROLL] = {{0}}, sum[UNROLL], next;
    for (size_t i = begin; i + LANES * UNROLL <= end; i += LANES * UNROLL) {
        for (int u = 0; u < UNROLL; u++) {
            memcpy(&sum[u], p.in[0] + i + u * LANES, sizeof next);
            for (int r = 1; r < reads; r++) {
                memcpy(&next, p.in[r] + i + u * LANES, sizeof next);
                sum[u] += next;
            }
        }
        for (int w = 0; w < writes; w++)
            for (int u = 0; u < UNROLL; u++) memcpy(p.out[w] + i + u * LANES, &sum[u], sizeof next);
        for (int u = 0; u < UNROLL && writes == 0; u++) kept[u] += sum[u];
    }
    next = kept[0] + kept[1] + kept[2] + kept[3];
    if (writes == 0) __asm__ volatile("" : : "m"(next)); /* the sums are never read: keep them all the same */
}

/* Runs the loop with its reads and writes as constants; only the combinations that cases have. */
PLAIN_TARGET static void PLAIN_NAME(loop)(const ls_kbench_loop *p, size_t begin, size_t end) {
    switch (p->reads * 4 + p->writes) {
    case 1 * 4 + 0: PLAIN_NAME(pass)(p, 1, 0, begin, end); break;
    case 1 * 4 + 1: PLAIN_NAME(pass)(p, 1, 1, begin, end); break;
    case 1 * 4 + 2: PLAIN_NAME(pass)(p, 1, 2, begin, end); break;
    case 2 * 4 + 0: PLAIN_NAME(pass)(p, 2, 0, begin, end); break;
    case 2 * 4 + 1: PLAIN_NAME(pass)(p, 2, 1, begin, end); break;
    case 2 * 4 + 2: PLAIN_NAME(pass)(p, 2, 2, begin, end); break;
    case 3 * 4 + 2: PLAIN_NAME(pass)(p, 3, 2, begin, end); break;
    case 4 * 4 + 3: PLAIN_NAME(pass)(p, 4, 3, begin, end); break;
    default: assert(!"a loop that no case has"); break;
    }
}
