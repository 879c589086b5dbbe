/* memory.c: what the workers of a layout hold, from the functions that carve it. */
#include "device/cpu/kernels.h"
#include "model/model.h"
#include "parallel/schedule/predict.h"
#include "plan/native/native.h"

ls_native_task ls_native_task_plain(const ls_shape *shape, int slices, size_t B, size_t T, int G, ls_policy policy) {
    return (ls_native_task){.shape = *shape,
                            .slices = slices,
                            .setup = {.train = true, .policy = policy, .B = B, .T = T, .G = G, .moments = 2},
                            .checks_replicas = true};
}

ls_layout_task ls_native_layout_task(const ls_native_task *task, const ls_model *model) {
    const ls_partition_setup *s = &task->setup;
    return (ls_layout_task){
        .model = model, .B = s->B, .T = s->T, .G = s->G, .policy = s->policy, .checks_replicas = task->checks_replicas};
}

ls_partition_setup ls_native_setup(const ls_native_task *task, const ls_layout *layout, ls_place_in_layout place) {
    ls_partition_setup setup = task->setup;
    setup.layout = *layout;
    setup.place = place;
    setup.world = NULL;
    setup.mesh = NULL;
    return setup;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void add_kinds(const ls_arena *arena, ls_native_memory *out) {
    static const struct {
        const char *name;
        ls_memory_kind kind;
    } kinds[] = {{"parameters", LS_MEMORY_WEIGHTS},
                 {"16-bit parameters", LS_MEMORY_WEIGHTS},
                 {"gathered parameters", LS_MEMORY_BUFFERS},
                 {"gradients", LS_MEMORY_GRADIENTS},
                 {"optimizer state", LS_MEMORY_OPTIMIZER},
                 {"activations", LS_MEMORY_ACTIVATIONS},
                 {"communication", LS_MEMORY_BUFFERS},
                 {"scratch", LS_MEMORY_WORK},
                 {"logits", LS_MEMORY_WORK},
                 {"tokens", LS_MEMORY_WORK},
                 {"tables", LS_MEMORY_WORK}};
    double rest = (double)arena->peak;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        double bytes = (double)ls_arena_kind_bytes(arena, kinds[i].name);
        out->kind[kinds[i].kind] += bytes;
        rest -= bytes;
    }
    out->kind[LS_MEMORY_WASTE] = rest > 0 ? rest : 0;
    out->kind[LS_MEMORY_RESERVED] = (double)out->outside_bytes;
}

ls_status ls_native_measure(const ls_native_task *task, const ls_layout *layout, int rank, ls_native_memory *out) {
    ls_model *model = NULL;
    ls_arena arena;
    ls_place_in_layout place = ls_layout_place(layout, rank);
    LS_TRY(ls_model_create(&task->shape, task->slices, &model));
    ls_partition_setup setup = ls_native_setup(task, layout, place);
    ls_layout_task of = ls_native_layout_task(task, model);
    ls_status status = ls_partition_measure(model, &setup, &arena);
    *out = (ls_native_memory){0};
    if (status == LS_OK) {
        out->arena_bytes = arena.peak;
        out->outside_bytes = ls_predict_outside_bytes(&of, layout, place, &ls_kernels_get()->gemm);
        add_kinds(&arena, out);
    }
    ls_model_destroy(model);
    return status;
}
