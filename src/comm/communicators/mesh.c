/* mesh.c: workers arranged as dp × tp × pp, with a communicator for the row along each axis. */
#include <stdio.h>
#include <stdlib.h>

#include "comm/communicators/communicators.h"
#include "comm/links/links.h"

struct ls_mesh {
    int size[LS_AXIS_COUNT], index[LS_AXIS_COUNT];
    ls_comm *comm[LS_AXIS_COUNT];
};

const char *ls_mesh_axis_name(ls_axis axis) {
    static const char *const names[LS_AXIS_COUNT] = {[LS_AXIS_DP] = "dp", [LS_AXIS_TP] = "tp", [LS_AXIS_PP] = "pp"};
    return names[axis];
}

/* Writes the hint of an error message: a mesh that fits. dp takes what tp and pp leave; if tp × pp does not divide the
 * workers, dp alone. */
static void suggest_mesh(int world, int tp, int pp, char *text, size_t capacity) {
    int64_t row = (int64_t)tp * pp;
    if (row <= world && world % row == 0)
        snprintf(text, capacity, "use --dp %d, or a multiple of %lld workers", world / (int)row, (long long)row);
    else
        snprintf(text, capacity, "tp × pp = %lld must divide the number of workers: --dp %d --tp 1 --pp 1 would fit",
                 (long long)row, world);
}

/* Returns LS_ERR_INPUT unless dp·tp·pp is the number of workers. */
static ls_status check_mesh(int world, int dp, int tp, int pp) {
    if (dp < 1 || tp < 1 || pp < 1)
        return ls_fail(LS_ERR_INPUT, "dp %d × tp %d × pp %d: each must be at least 1", dp, tp, pp);
    if ((int64_t)dp * tp <= world && (int64_t)dp * tp * pp == world) return LS_OK;
    char hint[160];
    suggest_mesh(world, tp, pp, hint, sizeof hint);
    return ls_fail(LS_ERR_INPUT, "dp %d × tp %d × pp %d needs %lld workers, but there are %d: %s", dp, tp, pp,
                   (long long)dp * tp * pp, world, hint);
}

ls_status ls_mesh_create(ls_world *world, int dp, int tp, int pp, ls_mesh **out) {
    *out = NULL;
    LS_TRY(check_mesh(world->size, dp, tp, pp));
    ls_mesh *mesh = calloc(1, sizeof *mesh);
    if (!mesh) return ls_fail(LS_ERR_RESOURCE, "out of memory for a mesh");
    int rank = world->rank;
    mesh->size[LS_AXIS_DP] = dp;
    mesh->size[LS_AXIS_TP] = tp;
    mesh->size[LS_AXIS_PP] = pp;
    mesh->index[LS_AXIS_TP] = rank % tp;
    mesh->index[LS_AXIS_DP] = rank / tp % dp;
    mesh->index[LS_AXIS_PP] = rank / tp / dp;
    const int stride[LS_AXIS_COUNT] = {[LS_AXIS_TP] = 1, [LS_AXIS_DP] = tp, [LS_AXIS_PP] = tp * dp};
    for (int axis = 0; axis < LS_AXIS_COUNT; axis++) {
        /* The rank of the row's first member. */
        int color = rank - mesh->index[axis] * stride[axis];
        unsigned links = axis == LS_AXIS_PP ? LS_LINKS_MESSAGES : LS_LINKS_COLLECTIVES;
        ls_status status =
            ls_comm_split_linked(world->comm, color, mesh->index[axis], LS_QUEUE_COMM + axis, links, &mesh->comm[axis]);
        if (status != LS_OK) {
            ls_mesh_destroy(mesh);
            return status;
        }
        mesh->comm[axis]->axis = ls_mesh_axis_name((ls_axis)axis);
    }
    *out = mesh;
    return LS_OK;
}

void ls_mesh_destroy(ls_mesh *mesh) {
    if (!mesh) return;
    for (int axis = 0; axis < LS_AXIS_COUNT; axis++) ls_comm_destroy(mesh->comm[axis]);
    free(mesh);
}

int ls_mesh_size(const ls_mesh *mesh, ls_axis axis) { return mesh->size[axis]; }
int ls_mesh_index(const ls_mesh *mesh, ls_axis axis) { return mesh->index[axis]; }
ls_comm *ls_mesh_comm(ls_mesh *mesh, ls_axis axis) { return mesh->comm[axis]; }
