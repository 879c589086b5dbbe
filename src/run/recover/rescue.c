/* rescue.c: copies tensors from device memory to the shared segment before a worker exits.
 *
 * The worker exits because another one was lost, at any point of a step, or because all leave. Its state is that of the
 * last update that it launched, which waits for no other worker (step.c); the event after the update shows when it is
 * complete. After that nothing changes the state. The gradient may be incomplete, but then no worker has decided the
 * step, so it is not used; if a worker has decided, the gradient was complete, because all workers read its squares
 * first. So the segment gets what a worker on a CPU leaves: tensors, gradients, and the progress of updates. */
#include <stdlib.h>

#include "comm/world/world.h"
#include "numerics/state_sum.h"
#include "parallel/partition/state_sum.h"
#include "run/recover/copies.h"
#include "run/recover/left_state.h"

/* A rescue under way: the ranges of device memory that are in the segment already. */
typedef struct boat {
    ls_recover *self;
    ls_world *world;
    ls_left_places places;
} boat;

/* Copies device memory to the segment and notes where it is; NULL or no elements: does nothing. */
static ls_status bring(boat *b, const void *memory, size_t elems) {
    void *here;
    if (!memory || elems == 0) return LS_OK;
    size_t bytes = elems * sizeof(float);
    LS_TRY(ls_world_alloc(b->world, bytes, &here));
    LS_TRY(ls_device_rescue(b->self->device, here, memory, bytes));
    ls_world_rescuing(b->world);
    b->places.range[b->places.count++] = (ls_left_range){memory, bytes, ls_segment_offset(&b->world->segment, here)};
    return LS_OK;
}

/* Copies the elements of a parameter that this worker updates: weights, gradient and moments. */
static ls_status bring_param(boat *b, const ls_param *p) {
    size_t own = ls_param_range_elems(p->own);
    LS_TRY(bring(b, p->own_w, own));
    LS_TRY(bring(b, p->own_grad, own));
    for (int m = 0; m < 2; m++) LS_TRY(bring(b, p->moment[m], own));
    return LS_OK;
}

/* Copies all own tensors, and the copies of another worker's. */
static ls_status bring_all(boat *b) {
    const ls_recover *self = b->self;
    size_t params = (size_t)ls_model_params(self->model), copies = self->copies ? self->copies->count : 0;
    b->places.range = calloc(4 * (params + copies) + 1, sizeof *b->places.range);
    if (!b->places.range) return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of tensors");
    for (size_t i = 0; i < params; i++) LS_TRY(bring_param(b, ls_model_param(self->model, (int)i)));
    for (size_t i = 0; i < copies; i++) LS_TRY(bring_param(b, &self->copies->copy[i].param));
    return LS_OK;
}

/* Marks the last update that the device has finished as complete in all journal cells of a part, as a CPU leaves
 * them. */
static void note_done(const boat *b, const ls_left_part *part) {
    const ls_left_tensor *tensor = ls_segment_at(&b->world->segment, part->tensors_at);
    for (uint64_t i = 0; i < part->tensors; i++) {
        ls_update_piece piece = {.cells = ls_segment_at(&b->world->segment, tensor[i].cells)};
        for (uint64_t end = 0; end < tensor[i].elems;) {
            end = end + LS_JOURNAL_GRAIN < tensor[i].elems ? end + LS_JOURNAL_GRAIN : tensor[i].elems;
            ls_journal_note(&piece, end, (uint64_t)b->self->marked);
        }
    }
}

/* Copies the sums that the update made of its results to shared memory; kept->summed stays −1 without them. */
static ls_status bring_sums(const boat *b) {
    ls_recover *self = b->self;
    ls_left *kept = self->kept;
    size_t count = (size_t)self->model->nparams * LS_PARAM_SUMS;
    kept->summed = -1;
    if (!ls_partition_sums_state(self->partition)) return LS_OK;
    ls_hash128 *sums = calloc(count, sizeof *sums);
    ls_status status = sums ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for the sums of a state");
    if (status == LS_OK) status = ls_partition_rescue_state(self->partition, sums);
    for (size_t i = 0; status == LS_OK && i < count; i++)
        ls_state_add(&kept->kind_sum[ls_left_kind_of(self, ls_model_param(self->model, (int)(i / LS_PARAM_SUMS)))],
                     sums[i]);
    if (status == LS_OK && self->copies)
        status = ls_device_rescue(self->device, sums, self->copies->sums, count * sizeof *sums);
    for (size_t i = 0; status == LS_OK && self->copies && i < count; i++) ls_state_add(&kept->copies_sum, sums[i]);
    if (status == LS_OK) kept->summed = self->marked;
    free(sums);
    return status;
}

/* Copies everything and lists it; only at the end it counts as there (is_here). */
static ls_status rescue(boat *b) {
    ls_left *kept = b->self->kept;
    LS_TRY(bring_all(b));
    LS_TRY(ls_left_list_own(b->self, b->world, &b->places, &kept->own));
    LS_TRY(ls_left_list_copies(b->self, b->world, &b->places, kept));
    note_done(b, &kept->own);
    note_done(b, &kept->copies);
    LS_TRY(bring_sums(b));
    atomic_store(&kept->is_here, true);
    return LS_OK;
}

ls_status ls_left_rescue(ls_recover *self, ls_world *world) {
    boat b = {.self = self, .world = world, .places = {.world = world}};
    if (!self->kept || self->marked < 0 || atomic_load(&self->kept->is_here) || !ls_device_rescues(self->device))
        return LS_OK;
    ls_status status = rescue(&b);
    free(b.places.range);
    return status;
}
