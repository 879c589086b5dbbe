/* k.c: maps the contraction dimension K to padded positions. */
#include "device/cpu/gemm/k.h"

#include <assert.h>

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
/* Returns x rounded up to a multiple of `to`. */
static size_t up(size_t x, size_t to) { return (x + to - 1) / to * to; }

/* Returns how many positions `values` values take, the first of which begins a sequence. */
static size_t positions_of(size_t values, size_t granule, size_t period) {
    if (period == 0) return up(values, granule);
    return values / period * up(period, granule) + up(values % period, granule);
}

/* Returns the period of the padding: 0 if sequences are whole granules, because they then need none. */
static size_t period_of(const ls_gemm *g, size_t granule) { return g->period % granule == 0 ? 0 : g->period; }

void ls_gemm_k_open(ls_gemm_k *x, const ls_gemm *g, size_t granule) {
    x->granule = granule;
    x->period = period_of(g, granule);
    x->slices = g->slices > 1 ? g->slices : 1;
    x->is_dense = true;
    x->from[0] = x->bounds[0] = 0;
    for (int s = 0; s < x->slices; s++) {
        size_t end = x->slices > 1 ? g->bounds[s + 1] : g->k, values = end - x->from[s];
        assert(x->period == 0 || s == 0 || x->from[s] % x->period == 0);
        x->from[s + 1] = end;
        x->bounds[s + 1] = x->bounds[s] + positions_of(values, granule, x->period);
        x->is_dense = x->is_dense && x->bounds[s + 1] == end;
    }
}

size_t ls_gemm_k_most(const ls_gemm *g, size_t granule) {
    size_t period = period_of(g, granule), positions = positions_of(g->k, granule, period);
    if (g->slices <= 1 || granule == 1 || period > 0) return positions;
    return up(g->k + (size_t)g->slices * (granule - 1), granule);
}

ls_gemm_stretch ls_gemm_k_stretch(const ls_gemm_k *x, size_t at, size_t end) {
    size_t most = end - at;
    if (x->is_dense) return (ls_gemm_stretch){at, most, most};
    int s = 0;
    while (at >= x->bounds[s + 1]) s++;
    size_t inside = at - x->bounds[s], k = x->from[s] + inside, values = x->from[s + 1] - k;
    if (x->period > 0) {
        size_t padded = up(x->period, x->granule), sequence = inside / padded, offset = inside % padded;
        k = x->from[s] + sequence * x->period + offset;
        values = min_size(x->period - offset, x->from[s + 1] - k);
    }
    size_t positions = min_size(up(values, x->granule), most);
    return (ls_gemm_stretch){k, min_size(values, positions), positions};
}
