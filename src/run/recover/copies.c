/* copies.c: chooses which worker keeps a copy of whose state, exchanges state and gradients, and updates the copies. */
#include "run/recover/copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "comm/movers/tensors.h"
#include "comm/world/world.h"
#include "numerics/state_sum.h"
#include "parallel/partition/state_sum.h"
#include "run/agree.h"

/* Messages between buddies; those between stages have other tags. */
enum { TAG_LIST = 32100, TAG_STATE, TAG_GRAD, ALIGN_BYTES = 256 };

/* ---- what is unique ---------------------------------------------------------------------------------------------- */

bool ls_copies_are_of(const ls_layout *layout, const ls_param *param) {
    bool sharded = layout->zero >= 1 && param->kind != LS_PARAM_VECTOR; /* as buckets are (partition/bucket.h) */
    if (!param->held || ls_param_range_elems(param->once) == 0) return false;
    return (layout->dp == 1 || sharded) && (layout->tp == 1 || param->split);
}

/* Returns whether replicas hold the fp32 weights that an update writes, so that a copy needs only moments. */
static bool shares_weights(const ls_layout *layout, const ls_policy *policy, const ls_param *param) {
    bool is_16 = ls_policy_is_16(policy) && (param->kind == LS_PARAM_MATRIX || param->kind == LS_PARAM_TOKENS);
    return layout->dp > 1 && layout->zero < 3 && !is_16;
}

/* Returns the bytes that `elems` floats take in the copies' memory. */
static size_t aligned(size_t elems) { return (elems * sizeof(float) + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES; }

/* Returns the bytes of a copied parameter: gradient, moments, and weights unless shared. */
static size_t tensor_bytes(const ls_settings *s, bool shares_w, size_t elems) {
    size_t moments = (size_t)ls_optimizer_moments(&s->optimizer);
    return (1 + moments + (shares_w ? 0 : 1)) * aligned(elems);
}

size_t ls_copies_bytes(const ls_settings *s, const ls_layout *layout, const ls_model *model) {
    size_t bytes = 0;
    for (int i = 0; i < model->nparams; i++) {
        const ls_param *p = model->params[i];
        if (ls_copies_are_of(layout, p))
            bytes += tensor_bytes(s, shares_weights(layout, &s->policy, p), ls_param_range_elems(p->once));
    }
    return bytes;
}

/* ---- buddies ----------------------------------------------------------------------------------------------------- */

/* Returns the number of workers in a ring of buddies: one for each replica, or, with dp 1, all. */
static int ring_size(const ls_layout *layout) { return layout->dp > 1 ? layout->dp : ls_layout_workers(layout); }

/* Returns the worker `by` places back in the ring of workers that keep each other's state. */
static int behind(const ls_layout *layout, int rank, int by) {
    int size = ring_size(layout);
    ls_place_in_layout place = ls_layout_place(layout, rank);
    if (layout->dp == 1) return (rank + size - by) % size;
    place.dp = (place.dp + size - by) % size;
    return ls_layout_rank(layout, place);
}

int ls_copies_keeps(const ls_layout *layout, int rank, int shift) {
    return ring_size(layout) < 2 ? -1 : behind(layout, rank, shift);
}

/* Returns whether two workers are on different machines, or use different GPUs. Workers of one machine without GPUs are
 * not apart. */
static bool are_apart(const ls_recover *self, int a, int b) {
    if (self->world->machines.of[a] != self->world->machines.of[b]) return true;
    return self->room->known && memcmp(self->room->of[a].id, self->room->of[b].id, sizeof self->room->of[a].id) != 0;
}

/* Returns the smallest distance in the ring at which most pairs are on different machines or devices, so that one
 * failure does not destroy both; *all_apart: all are. The same on all workers. */
static int find_shift(const ls_recover *self, bool *all_apart) {
    int best = 1, most = -1, workers = ls_layout_workers(self->layout);
    for (int shift = 1; shift < ring_size(self->layout); shift++) {
        int apart = 0;
        for (int r = 0; r < workers; r++) apart += are_apart(self, r, behind(self->layout, r, shift));
        if (apart <= most) continue;
        most = apart;
        best = shift;
    }
    *all_apart = most == workers;
    return best;
}

/* ---- what a worker tells its buddy ------------------------------------------------------------------------------- */

/* What a worker tells its buddy of a parameter; a list of `pieces` ls_copy_piece follows it. */
typedef struct told {
    uint32_t number;
    bool decay, running, rounded;
    double follow;
    uint64_t begin, state_first, elems, pieces; /* in elements: of the own ones in the local weight, and as a sum of the
                                                   state counts them; how many; pieces that follow */
} told;

/* A growing list of bytes. */
typedef struct list {
    char *bytes;
    size_t size, capacity;
} list;

/* Appends bytes to the list, which grows as needed; LS_ERR_RESOURCE without memory. */
static ls_status append_to_list(list *l, const void *data, size_t bytes) {
    if (l->size + bytes > l->capacity) {
        size_t capacity = 2 * (l->size + bytes);
        char *grown = realloc(l->bytes, capacity);
        if (!grown) return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of tensors");
        l->bytes = grown;
        l->capacity = capacity;
    }
    memcpy(l->bytes + l->size, data, bytes);
    l->size += bytes;
    return LS_OK;
}

/* Copies `bytes` bytes of the list from *at on, and advances *at by as many. The caller guarantees that the list is
 * long enough. */
static void get(const list *l, size_t *at, void *data, size_t bytes) {
    memcpy(data, l->bytes + *at, bytes);
    *at += bytes;
}

/* Appends a parameter of this worker and its pieces to the list. */
static ls_status put_param(const ls_recover *self, const ls_param *param, list *l) {
    told of = {.number = param->number,
               .decay = param->decay,
               .running = param->running,
               .rounded = param->own_w16 && self->settings->policy.no_master,
               .follow = param->follow,
               .begin = param->own.begin,
               .state_first = param->first_row * param->columns + param->own.begin,
               .elems = ls_param_range_elems(param->own)};
    ls_partition_piece piece;
    const float *memory;
    for (int i = 0; ls_partition_reported_get(self->partition, param, LS_TENSOR_WEIGHT, i, &piece, &memory); i++)
        of.pieces += piece.count > 0;
    LS_TRY(append_to_list(l, &of, sizeof of));
    for (int i = 0; ls_partition_reported_get(self->partition, param, LS_TENSOR_WEIGHT, i, &piece, &memory); i++) {
        ls_copy_piece p = {piece.first, piece.count, piece.count > 0 ? (uint64_t)(memory - param->own_w) : 0};
        if (piece.count > 0) LS_TRY(append_to_list(l, &p, sizeof p));
    }
    return LS_OK;
}

/* Lists all parameters of this worker that need a copy, and allocates the lists of what is sent. */
static ls_status put_all(ls_recover *self, ls_copies *c, list *l) {
    int most = self->model->nparams;
    c->sent = calloc((size_t)most + 1, sizeof(ls_param *));
    c->request = calloc((size_t)most * 4 + 1, sizeof(ls_request *));
    if (!c->sent || !c->request) return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of %d tensors", most);
    for (int i = 0; i < most; i++) {
        const ls_param *param = ls_model_param(self->model, i);
        if (!ls_copies_are_of(self->layout, param)) continue;
        c->sent[c->sends++] = param;
        LS_TRY(put_param(self, param, l));
    }
    return LS_OK;
}

/* Sends `mine` to the keeper of this worker's state, and receives `theirs` from the worker whose state it keeps.
 * Collective. */
static ls_status swap(const ls_copies *c, const void *mine, size_t bytes, void *theirs, size_t their_bytes) {
    ls_request *request;
    LS_TRY(ls_comm_send_start(c->comm, c->to, TAG_LIST, mine, bytes, &request));
    ls_status status = ls_comm_recv(c->comm, c->from, TAG_LIST, theirs, their_bytes);
    ls_status sent = ls_request_wait(request);
    return status == LS_OK ? sent : status;
}

/* Exchanges the lists of parameters; theirs->bytes is the caller's to free, also on failure. Collective. */
static ls_status exchange_lists(ls_recover *self, ls_copies *c, list *theirs) {
    list mine = {.size = 0};
    uint64_t size, their_size = 0;
    ls_status status = ls_agree(self->world, put_all(self, c, &mine));
    size = mine.size;
    if (status == LS_OK) status = swap(c, &size, sizeof size, &their_size, sizeof their_size);
    if (status == LS_OK) {
        theirs->bytes = malloc(their_size + 1);
        theirs->size = their_size;
        status = ls_agree(self->world,
                          theirs->bytes ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for a list of tensors"));
    }
    if (status == LS_OK) status = swap(c, mine.bytes, mine.size, theirs->bytes, theirs->size);
    free(mine.bytes);
    return status;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Returns this worker's parameter of this number; NULL if it has none. */
static const ls_param *own_param(const ls_recover *self, uint32_t number) {
    for (int i = 0; i < self->model->nparams; i++)
        if (ls_model_param(self->model, i)->number == number) return ls_model_param(self->model, i);
    return NULL;
}

/* Fills c->copy from the buddy's list; allocates no tensors yet. */
static ls_status read_list(ls_recover *self, ls_copies *c, const list *l) {
    size_t at = 0, count = 0;
    for (told of; at < l->size; at += of.pieces * sizeof(ls_copy_piece), count++) get(l, &at, &of, sizeof of);
    c->copy = calloc(count + 1, sizeof *c->copy);
    if (!c->copy) return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of %zu tensors", count);
    c->count = count;
    at = 0;
    for (size_t i = 0; i < count; i++) {
        told of;
        ls_copy *copy = &c->copy[i];
        get(l, &at, &of, sizeof of);
        const ls_param *same = own_param(self, of.number);
        /* Only what an update and the sum of a state look at: elements count as those of a single column. */
        copy->param = (ls_param){.number = of.number,
                                 .columns = 1,
                                 .decay = of.decay,
                                 .running = of.running,
                                 .rounded = of.rounded,
                                 .follow = of.follow,
                                 .own = {of.state_first, of.state_first + of.elems}};
        copy->param.once = copy->param.own;
        copy->shares_w = same && shares_weights(self->layout, &self->settings->policy, same);
        if (copy->shares_w) copy->param.own_w = same->w + of.begin;
        copy->pieces = of.pieces;
        copy->piece = malloc((of.pieces + 1) * sizeof *copy->piece);
        if (!copy->piece) return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of pieces");
        get(l, &at, copy->piece, of.pieces * sizeof *copy->piece);
    }
    return LS_OK;
}

/* Returns the number of sums of the state that an update makes; 0 with --check off. */
static size_t sum_count(const ls_recover *self) {
    return ls_partition_sums_state(self->partition) ? (size_t)self->model->nparams * LS_PARAM_SUMS : 0;
}

/* Returns the bytes of the sums of the copied state; 0 with --check off. */
static size_t sum_bytes(const ls_recover *self) { return sum_count(self) * sizeof(ls_hash128); }

/* Returns the bytes of device memory for all copies and their sums. */
static size_t device_bytes(const ls_recover *self, const ls_copies *c) {
    size_t bytes = sum_bytes(self) + ALIGN_BYTES;
    for (size_t i = 0; i < c->count; i++)
        bytes += tensor_bytes(self->settings, c->copy[i].shares_w, ls_param_range_elems(c->copy[i].param.own));
    return bytes;
}

/* Sets *out to whether all workers have memory for their copies; if not, none allocates any. Collective. */
static ls_status find_room(ls_recover *self, size_t bytes, bool *out) {
    int64_t short_of = 0;
    ls_device_usage usage;
    if (self->room->known && ls_device_get_usage(self->device, &usage) == LS_OK) {
        int sharing = 0;
        for (int r = 0; r < self->room->workers; r++)
            sharing += memcmp(self->room->of[r].id, usage.id, sizeof usage.id) == 0;
        short_of = usage.free < (size_t)sharing * (bytes + bytes / 8);
    } else {
        short_of = ls_memory_check(bytes * (size_t)ls_layout_workers(self->layout)) != LS_OK;
    }
    if (ls_fault_snapshot >= 0) short_of = bytes > (size_t)ls_fault_snapshot;
    LS_TRY(ls_partition_sum(self->partition, &short_of, 1));
    *out = short_of == 0;
    return LS_OK;
}

/* Returns the next `elems` floats of the memory at *at, and moves *at behind them. */
static void *carve(char **at, size_t elems) {
    void *memory = *at;
    *at += aligned(elems);
    return memory;
}

/* Allocates zeroed device memory of `bytes` bytes and points the copies at it. */
static ls_status alloc_tensors(ls_recover *self, ls_copies *c, size_t bytes) {
    int moments = ls_optimizer_moments(&self->settings->optimizer);
    LS_TRY(ls_device_alloc(self->device, bytes, &c->memory));
    LS_TRY(ls_device_fill(self->device, c->memory, 0, bytes));
    char *at = c->memory;
    for (size_t i = 0; i < c->count; i++) {
        ls_param *p = &c->copy[i].param;
        size_t elems = ls_param_range_elems(p->own);
        if (!c->copy[i].shares_w) p->own_w = carve(&at, elems);
        p->own_grad = carve(&at, elems);
        for (int m = 0; m < moments; m++) p->moment[m] = carve(&at, elems);
    }
    if (sum_bytes(self) == 0) return LS_OK;
    c->sums = (ls_hash128 *)(void *)at;
    c->host_sums = malloc(sum_bytes(self));
    return c->host_sums ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for the sums of a state");
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* Chooses the communicator, and the two workers with which this one exchanges state. */
static ls_status open_comm(ls_recover *self, ls_copies *c) {
    int shift = find_shift(self, &c->is_apart);
    bool rows = self->layout->dp > 1;
    c->comm = rows ? ls_mesh_comm(self->mesh, LS_AXIS_DP) : ls_world_comm(self->world);
    c->keeps = behind(self->layout, self->rank, shift);
    c->kept_by = behind(self->layout, self->rank, ring_size(self->layout) - shift);
    c->from = rows ? ls_layout_place(self->layout, c->keeps).dp : c->keeps;
    c->to = rows ? ls_layout_place(self->layout, c->kept_by).dp : c->kept_by;
    return LS_OK;
}

/* Opens the copies; without memory on any worker closes them again and says so in self->no_copies. Collective. */
static ls_status open_all(ls_recover *self, ls_copies *c) {
    list theirs = {.size = 0};
    bool fits = false;
    LS_TRY(open_comm(self, c));
    ls_status status = exchange_lists(self, c, &theirs);
    if (status == LS_OK) status = ls_agree(self->world, read_list(self, c, &theirs));
    free(theirs.bytes);
    LS_TRY(status);
    c->bytes = device_bytes(self, c);
    LS_TRY(find_room(self, c->bytes, &fits));
    if (!fits) {
        self->no_copies = "there is too little memory for copies, so a lost state is read from the newest checkpoint";
        ls_copies_close(self);
        return LS_OK;
    }
    return ls_agree(self->world, alloc_tensors(self, c, c->bytes));
}

ls_status ls_copies_open(ls_recover *self, const ls_world *world) {
    if (self->settings->options.state_copies == 0) return LS_OK;
    if (!ls_world_attempt(world)) {
        self->no_copies =
            "without a supervisor (--restarts 0, mpirun, srun) copies would end with the job, so none are "
            "made, and a lost state is read from the newest checkpoint";
        return LS_OK;
    }
    if (ls_layout_workers(self->layout) == 1) {
        self->no_copies =
            "one worker has no other worker to keep a copy, so a lost state is read from the newest checkpoint";
        return LS_OK;
    }
    self->copies = calloc(1, sizeof *self->copies);
    LS_TRY(ls_agree(self->world,
                    self->copies ? LS_OK : ls_fail(LS_ERR_RESOURCE, "out of memory for copies of the state")));
    return open_all(self, self->copies);
}

void ls_copies_close(ls_recover *self) {
    ls_copies *c = self->copies;
    if (!c) return;
    for (size_t i = 0; c->copy && i < c->count; i++) free(c->copy[i].piece);
    if (c->memory) ls_device_free(self->device, c->memory);
    free(c->copy);
    free(c->host_sums);
    free(c->sent);
    free(c->request);
    free(c);
    self->copies = NULL;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Starts to send device memory to the keeper of this worker's state; *started counts the requests. */
static ls_status send(ls_recover *self, int tag, const float *memory, size_t elems, size_t *started) {
    ls_copies *c = self->copies;
    LS_TRY(
        ls_tensor_send_start(self->device, c->comm, c->to, tag, memory, elems * sizeof(float), &c->request[*started]));
    (*started)++;
    return LS_OK;
}

/* Receives device memory from the worker whose state this one keeps. */
static ls_status receive(ls_recover *self, int tag, float *memory, size_t elems) {
    return ls_tensor_recv(self->device, self->copies->comm, self->copies->from, tag, memory, elems * sizeof(float));
}

/* Waits for all sends, and returns `status`, or their first failure if that is LS_OK. */
static ls_status end_sends(ls_recover *self, ls_status status, size_t started) {
    for (size_t i = 0; i < started; i++) {
        ls_status sent = ls_request_wait(self->copies->request[i]);
        if (status == LS_OK) status = sent;
    }
    return status;
}

/* Sends this worker's weights and optimizer state, and receives those that it keeps. */
static ls_status fill_copies(ls_recover *self, size_t *started) {
    const ls_copies *c = self->copies;
    for (size_t i = 0; i < c->sends; i++) {
        const ls_param *p = c->sent[i];
        size_t own = ls_param_range_elems(p->own);
        if (!shares_weights(self->layout, &self->settings->policy, p))
            LS_TRY(send(self, TAG_STATE, p->own_w, own, started));
        for (int m = 0; m < 2 && p->moment[m]; m++) LS_TRY(send(self, TAG_STATE, p->moment[m], own, started));
    }
    for (size_t i = 0; i < c->count; i++) {
        const ls_param *p = &c->copy[i].param;
        size_t own = ls_param_range_elems(p->own);
        if (!c->copy[i].shares_w) LS_TRY(receive(self, TAG_STATE, p->own_w, own));
        for (int m = 0; m < 2 && p->moment[m]; m++) LS_TRY(receive(self, TAG_STATE, p->moment[m], own));
    }
    return LS_OK;
}

/* Sends this worker's gradients, and receives those of the worker whose state it keeps. */
static ls_status give(ls_recover *self, size_t *started) {
    const ls_copies *c = self->copies;
    for (size_t i = 0; i < c->sends; i++)
        LS_TRY(send(self, TAG_GRAD, c->sent[i]->own_grad, ls_param_range_elems(c->sent[i]->own), started));
    for (size_t i = 0; i < c->count; i++)
        LS_TRY(receive(self, TAG_GRAD, c->copy[i].param.own_grad, ls_param_range_elems(c->copy[i].param.own)));
    return LS_OK;
}

/* Calls `move`, and waits for the sends that it started, whatever came of the rest. Does nothing without copies. */
static ls_status exchange(ls_recover *self, ls_status (*move)(ls_recover *self, size_t *started)) {
    size_t started = 0;
    if (!self->copies) return LS_OK;
    ls_status status = move(self, &started);
    return end_sends(self, status, started);
}

ls_status ls_copies_fill(ls_recover *self) { return exchange(self, fill_copies); }

ls_status ls_copies_give(ls_recover *self) { return exchange(self, give); }

/* ---- updates ----------------------------------------------------------------------------------------------------- */

ls_status ls_copies_update(ls_recover *self, const ls_optimizer_update *given, int64_t updates) {
    ls_copies *c = self->copies;
    ls_optimizer_update by = *given;
    ls_status status = LS_OK;
    if (!c) return LS_OK;
    by.sums = c->sums;
    by.sums_rest = false;
    if (c->sums) LS_TRY(ls_device_fill(self->device, c->sums, 0, sum_bytes(self)));
    c->journal.number = (uint64_t)updates;
    if (c->journal.slot) ls_cpu_use_journal(self->device, &c->journal);
    for (size_t i = 0; i < c->count && status == LS_OK; i++)
        status = ls_optimizer_run(&by, self->device, &self->settings->policy, &c->copy[i].param, 0,
                                  ls_param_range_elems(c->copy[i].param.own));
    if (c->journal.slot) ls_cpu_use_journal(self->device, &self->journal);
    return status;
}

ls_status ls_copies_part(ls_recover *self, ls_hash128 *part) {
    const ls_copies *c = self->copies;
    LS_TRY(ls_device_copy_out(self->device, c->host_sums, c->sums, sum_bytes(self)));
    *part = (ls_hash128){0, 0};
    for (size_t i = 0; i < sum_count(self); i++) ls_state_add(part, c->host_sums[i]);
    return LS_OK;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Describes the tensors that only one worker holds, or returns NULL if there are none. */
static const char *unique_text(const ls_recover *self) {
    bool is_16 = ls_policy_is_16(&self->settings->policy);
    if (self->layout->dp == 1) return "weights and optimizer state";
    if (self->layout->zero == 0) return NULL;
    if (self->layout->zero == 3) return "shards of weights and optimizer state";
    return is_16 ? "shards of optimizer state and fp32 weights" : "shards of optimizer state";
}

void ls_copies_text(const ls_recover *self, char *text, size_t room) {
    const char *unique = unique_text(self);
    if (self->no_copies)
        (void)snprintf(text, room, "%s", self->no_copies);
    else if (!unique || !self->copies)
        (void)snprintf(text, room, "not needed: every replica has all weights and optimizer state");
    else
        (void)snprintf(text, room, "another worker%s also keeps %s (%.1f MiB on worker 0); %s",
                       self->copies->is_apart ? " on another machine or GPU" : "", unique,
                       (double)self->copies->bytes / 0x1p20,
                       self->layout->dp == 1    ? "nothing else is unique"
                       : self->layout->zero < 3 ? "every replica has all weights"
                                                : "every replica has all vectors");
}
