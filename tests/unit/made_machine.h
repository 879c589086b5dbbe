/* made_machine.h: the figures of a machine of two cores that were made up, so that every time can be counted by hand.
 */
#ifndef LS_TESTS_MADE_MACHINE_H
#define LS_TESTS_MADE_MACHINE_H

#include "plan/native/machine.h"

static const double FLOP = 1e-10, NEXT_TO_NOTHING = 1e-15;

static inline void add_product(ls_native_rates *r, ls_gemm_form form, size_t m, size_t n, size_t k, int slices,
                               double law[4]) {
    double M = (double)m, N = (double)n, K = (double)k;
    double seconds = law[0] * 2 * M * N * K + law[1] * M * K + law[2] * N * K + law[3] * M * N * slices;
    r->matmul[r->matmuls++] = (ls_native_matmul){form, 0, m, n, k, slices, seconds};
}

static inline void fill_products(ls_native_rates *r, double law[4]) {
    static const size_t sizes[][3] = {{64, 64, 64},    {64, 256, 128}, {256, 64, 128},  {128, 128, 512},
                                      {512, 128, 128}, {16, 768, 768}, {1024, 96, 256}, {256, 512, 64}};
    r->matmuls = 0;
    for (int form = 0; form < 3; form++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            add_product(r, (ls_gemm_form)form, sizes[i][0], sizes[i][1], sizes[i][2], i % 2 ? 8 : 1, law);
    ls_native_rates_fit(r);
}

/* Products alone cost anything; a worker of two has half of the cores. */
static inline void make_machine(ls_native_machine *m) {
    *m = (ls_native_machine){.cpu = "made up", .version = LS_VERSION, .isa = "none", .transport = "shm", .cores = 2};
    m->memory_bytes = 1e12;
    m->counts = 2;
    for (int i = 0; i < 2; i++) {
        ls_native_rates *r = &m->rates[i];
        double law[4] = {i == 0 ? FLOP / 2 : FLOP, 0, 0, 0};
        r->workers = i + 1;
        r->threads = 2 - i;
        r->launch_seconds = NEXT_TO_NOTHING;
        r->copy_bytes_per_second = 1e10;
        fill_products(r, law);
        for (int back = 0; back < 2; back++)
            for (int d = 0; d < LS_NATIVE_HEADS; d++)
                for (int t = 0; t < LS_NATIVE_LENGTHS; t++) r->attention[back][0][d][t] = NEXT_TO_NOTHING;
        for (int p = 0; p < LS_NATIVE_PASSES; p++)
            for (int type = 0; type < 2; type++) r->pass[p][type][0] = r->pass[p][type][1] = NEXT_TO_NOTHING;
    }
    for (int op = 0; op < LS_NATIVE_OPS; op++)
        m->link[m->links++] = (ls_native_link){2, 2, (ls_native_op)op, {1e-15, 1e-15, 1e-15, 1e-15}};
}

#endif
