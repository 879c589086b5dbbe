/* param.c: where the rows of a parameter are. */
#include "nn/param.h"

#include <assert.h>
#include <stdio.h>

#include "nn/shape.h"

/* Returns the rows of one unit, over all parts. */
static size_t unit_rows(const ls_param *param) {
    size_t rows = 0;
    for (int p = 0; p < param->parts; p++) rows += param->part[p].unit_rows;
    return rows;
}

size_t ls_param_slice_row(const ls_param *param, int slices, int i) {
    return ls_slice_begin_at(param->units, param->grain, ls_param_slices(param, slices), i) * unit_rows(param);
}

void ls_param_take_slices(ls_param *param, int slices, int first, int count) {
    param->first_row = param->split ? ls_param_slice_row(param, slices, first) : 0;
    size_t end = param->split ? ls_param_slice_row(param, slices, first + count) : param->rows;
    param->local_rows = end - param->first_row;
    param->own = param->once = (ls_param_range){0, ls_param_local_elems(param)};
}

ls_grad_rows ls_param_grad_rows(const ls_param *param, int S, int first, int count, bool sequence_parallel) {
    ls_grad_rows rows = {.all = 1, .count = 1, .elems = ls_param_local_elems(param)};
    if (param->kind != LS_PARAM_VECTOR) return rows;
    rows.all = rows.count = (size_t)S;
    /* A worker sees every token, except of the residual stream under sequence parallelism. Vectors of the stream are
     * those that slices do not cut. It sees the heads of its own slices alone. */
    if (!param->of_slices && (param->split || !sequence_parallel)) return rows;
    rows.first = (size_t)first;
    rows.count = (size_t)count;
    return rows;
}

bool ls_param_run_get(const ls_param *param, int slices, int i, ls_param_run *run) {
    int count = ls_param_slices(param, slices), slice = i / param->parts, part = i % param->parts;
    if (slice >= count) return false;
    size_t begin = ls_slice_begin_at(param->units, param->grain, count, slice);
    size_t end = ls_slice_begin_at(param->units, param->grain, count, slice + 1);
    *run = (ls_param_run){.memory_row = begin * unit_rows(param),
                          .canonical_row = param->part[part].first_row + begin * param->part[part].unit_rows,
                          .rows = (end - begin) * param->part[part].unit_rows};
    for (int p = 0; p < part; p++) run->memory_row += (end - begin) * param->part[p].unit_rows;
    return true;
}

/* Returns a parameter of one part with a unit for each row, without initial values. */
static ls_param plain(const char *name, ls_param_kind kind, size_t rows, size_t columns) {
    ls_param param = {.kind = kind, .rows = rows, .columns = columns, .units = rows, .parts = 1};
    param.part[0].unit_rows = 1;
    int length = snprintf(param.name, sizeof param.name, "%s", name);
    assert(length > 0 && length < (int)sizeof param.name);
    (void)length;
    return param;
}

ls_param ls_param_matrix(const char *name, size_t rows, size_t columns, double init_std) {
    ls_param param = plain(name, LS_PARAM_MATRIX, rows, columns);
    param.positions = 1;
    param.decay = true;
    param.init = LS_INIT_NORMAL;
    param.init_std = init_std;
    return param;
}

ls_param ls_param_vector(const char *name, size_t elems, ls_param_init init) {
    ls_param param = plain(name, LS_PARAM_VECTOR, elems, 1);
    param.init = init;
    return param;
}
