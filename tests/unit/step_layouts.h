/* step_layouts.h: steps of a tiny trainer under layouts, in forked workers that leave what they saw in shared memory.
 * They make no assertions: the parent asserts: it compares what every worker of every layout saw. */
#ifndef STEP_LAYOUTS_H
#define STEP_LAYOUTS_H

#include <sys/mman.h>

#include "ask.h"
#include "tiny_trainer.h"
#include "run/folder/run_start.h"
#include "run/state_hash.h"

enum { RUN_STEPS_MAX = 40, RUN_GROUPS_MAX = 8, RUN_BLOCKS_MAX = 4, RUN_WORKERS_MAX = 8 };

typedef struct layout_case {
    int dp, tp, pp, zero;
    size_t micro;
    bool sequence_parallel;
    const char *schedule;
} layout_case;

/* One worker; every kind of sharding; a TP group, also with divided tokens; stages; all together. */
static const layout_case layout_cases[] = {
    {.dp = 1, .tp = 1, .pp = 1, .micro = 5},
    {.dp = 1, .tp = 1, .pp = 1, .micro = 1},
    {.dp = 2, .tp = 1, .pp = 1, .zero = 0, .micro = 2},
    {.dp = 3, .tp = 1, .pp = 1, .zero = 1, .micro = 1},
    {.dp = 4, .tp = 1, .pp = 1, .zero = 2, .micro = 2},
    {.dp = 2, .tp = 1, .pp = 1, .zero = 3, .micro = 1},
    {.dp = 1, .tp = 2, .pp = 1, .micro = 3},
    {.dp = 1, .tp = 2, .pp = 1, .micro = 2, .sequence_parallel = true},
    {.dp = 1, .tp = 1, .pp = 3, .micro = 1, .schedule = "zero-bubble"},
    {.dp = 2, .tp = 2, .pp = 2, .zero = 1, .micro = 1},
    {.dp = 2, .tp = 1, .pp = 2, .zero = 3, .micro = 2},
};
enum { LAYOUT_CASES = sizeof layout_cases / sizeof *layout_cases };

/* What a block's numbers are, with sums as one double: exact sums are equal when their words are settled alike. */
typedef struct block_numbers {
    int64_t grads[LS_COUNTS], acts[LS_COUNTS], acts_elems, elems, lost;
    double grad_squares, weight_squares, update_squares;
} block_numbers;

/* Of one step, as a worker saw it. */
typedef struct step_seen {
    double loss, norm;
    float factor;
    bool finite, skipped;
    int scale, dropped;
    unsigned absent; /* bit by group */
    ls_loss_scale after;
    ls_hash128 state; /* before the step */
    double squares[RUN_GROUPS_MAX], losses[RUN_GROUPS_MAX], whole_squares;
    block_numbers blocks[RUN_BLOCKS_MAX];
} step_seen;

typedef struct run_seen {
    step_seen step[RUN_STEPS_MAX];
    int events;
    ls_train_event event[RUN_STEPS_MAX]; /* texts in it that are pointers are constants of the program */
    char weights[33], moments[33];
    ls_hash128 state, state_now; /* at the end: as written, and as it is */
    int64_t updates;
} run_seen;

typedef struct play play;
struct play {
    ls_settings settings;
    layout_case layout;
    int64_t steps;
    const char *save;                                  /* folder for a checkpoint of the end */
    const char *load;                                  /* checkpoint to go on with */
    ls_status (*before)(const play *p, ls_trainer *t); /* the first step; may be NULL */
    const void *ctx;
    run_seen *seen; /* by worker, shared */
};

/* ---- a worker ---------------------------------------------------------------------------------------------------- */

static inline void see_numerics(const ls_trainer *t, step_seen *s) {
    for (int b = 0; t->guard.numerics && b < t->model->nblocks && b < RUN_BLOCKS_MAX; b++) {
        ls_block_numerics *n = &t->guard.numerics[b];
        block_numbers *out = &s->blocks[b];
        memcpy(out->grads, n->grads, sizeof out->grads);
        memcpy(out->acts, n->acts, sizeof out->acts);
        out->acts_elems = n->acts_elems;
        out->elems = n->elems;
        out->lost = n->lost;
        out->grad_squares = ls_exact_sum_value(&n->grad_squares);
        out->weight_squares = ls_exact_sum_value(&n->weight_squares);
        out->update_squares = ls_exact_sum_value(&n->update_squares);
    }
}

static inline void see_step(const ls_trainer *t, const ls_step_result *result, step_seen *s) {
    s->loss = result->loss;
    s->norm = result->norm;
    s->factor = t->clip.factor;
    s->finite = result->finite;
    s->skipped = result->skipped;
    s->scale = result->scale;
    s->dropped = result->dropped;
    s->after = t->scale;
    s->state = t->state.hash;
    for (int g = 0; g < t->guard.groups && g < RUN_GROUPS_MAX; g++) {
        if (t->guard.absent[g]) s->absent |= 1U << g;
        if (t->guard.squares) s->squares[g] = t->guard.squares[g];
        if (t->guard.losses) s->losses[g] = t->guard.losses[g];
    }
    s->whole_squares = t->guard.whole_squares;
    see_numerics(t, s);
}

static inline ls_status see_event(void *ctx, const ls_train_event *event) {
    run_seen *seen = ctx;
    if (seen->events < RUN_STEPS_MAX) seen->event[seen->events++] = *event;
    return LS_OK;
}

static inline ls_status see_state(ls_trainer *t, run_seen *seen) {
    ls_hash128 all[2 * 64];
    size_t count = 0;
    LS_TRY(ls_partition_hash(t->partition, seen->weights));
    for (int i = 0; i < ls_model_params(t->model); i++)
        for (int m = 0; m < ls_optimizer_moments(&t->settings.optimizer) && count < 2 * 64; m++) {
            char text[33];
            LS_TRY(ls_partition_hash_tensor(t->partition, ls_model_param(t->model, i), LS_TENSOR_MOMENT0 + (unsigned)m,
                                            text));
            all[count++] = ls_hash_bytes(text, 32);
        }
    ls_hash_text(ls_hash_combine(all, count), seen->moments);
    seen->updates = t->updates;
    if (!ls_trainer_has_state_hash(t)) return LS_OK;
    LS_TRY(ls_trainer_state_hash(t, &seen->state));
    return ls_trainer_state_hash_now(t, &seen->state_now);
}

static inline ls_status play_begin(const play *p, ls_trainer *t) {
    ls_checkpoint *checkpoint = NULL;
    if (!p->load) return ls_run_start_seed(t);
    LS_TRY(ls_checkpoint_open(p->load, &checkpoint));
    ls_status status = ls_load(t, checkpoint);
    ls_checkpoint_close(checkpoint);
    return status == LS_OK ? ls_partition_settle(t->partition) : status;
}

static inline ls_status play_save(const play *p, const fixture *f, ls_trainer *t) {
    ls_store *store = NULL;
    if (!p->save) return LS_OK;
    if (t->rank == 0) LS_TRY(ls_store_open(p->save, LS_STORE_WRITE, &store));
    ls_status status = ls_save(store, t, t->rank == 0 ? f->identity : NULL, NULL);
    ls_store_close(store);
    return status;
}

static inline ls_status play_steps(const play *p, const fixture *f, ls_trainer *t) {
    run_seen *seen = &p->seen[t->rank];
    LS_TRY(play_begin(p, t));
    t->events = (ls_event_sink){.take = see_event, .ctx = seen};
    if (p->before) LS_TRY(p->before(p, t));
    while (t->step < p->steps) {
        ls_step_result result;
        int64_t number = t->step;
        LS_TRY(ls_trainer_step(t, 0, &result));
        if (number < RUN_STEPS_MAX) see_step(t, &result, &seen->step[number]);
    }
    LS_TRY(see_state(t, seen));
    return play_save(p, f, t);
}

static inline ls_layout_request request_of(const layout_case *c) {
    ls_layout_request request = ls_layout_request_none();
    int kind;
    ask(&request, LS_KNOB_dp, c->dp);
    ask(&request, LS_KNOB_tp, c->tp);
    ask(&request, LS_KNOB_pp, c->pp);
    ask(&request, LS_KNOB_zero, c->zero);
    ask(&request, LS_KNOB_micro, c->micro);
    ask(&request, LS_KNOB_sequence_parallel, c->sequence_parallel);
    if (c->schedule && ls_choice_find(LS_CHOICES(LS_SCHEDULE_LIST), c->schedule, &kind))
        ls_knob_give(&request, LS_KNOB_schedule, kind);
    return request;
}

static inline ls_status play_worker(ls_world *world, void *arg) {
    const play *p = arg;
    ls_layout_request request = request_of(&p->layout);
    ls_trainer *t = NULL;
    fixture f;
    ls_status status = fixture_open(&f, &p->settings);
    if (status == LS_OK) status = trainer_open(&f, world, &request, &t);
    if (status == LS_OK) status = play_steps(p, &f, t);
    ls_trainer_destroy(t);
    fixture_close(&f);
    return status;
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */

static inline run_seen *seen_open(void) {
    run_seen *seen =
        mmap(NULL, RUN_WORKERS_MAX * sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED);
    return seen;
}

static inline void seen_close(run_seen *seen) { munmap(seen, RUN_WORKERS_MAX * sizeof *seen); }

static inline int play_workers(const play *p) { return p->layout.dp * p->layout.tp * p->layout.pp; }

static inline ls_status play_run(play *p) {
    ls_workers_options options = {.workers = play_workers(p), .threads = 1, .timeout_s = 60, .no_pin = 1};
    assert_in_range(options.workers, 1, RUN_WORKERS_MAX);
    memset(p->seen, 0, RUN_WORKERS_MAX * sizeof *p->seen);
    return ls_workers_run(&options, play_worker, p);
}

static inline const char *play_name(const play *p) {
    static char text[128];
    snprintf(text, sizeof text, "dp %d tp %d pp %d zero %d micro %zu", p->layout.dp, p->layout.tp, p->layout.pp,
             p->layout.zero, p->layout.micro);
    return text;
}

static inline void play_ok(play *p) {
    if (play_run(p) != LS_OK) fail_msg("%s: %s", play_name(p), ls_status_message());
}

/* Every worker saw what `one` saw. Events are equal except for worker and place. */
static inline void expect_seen(const play *p, const run_seen *one, int64_t from) {
    for (int r = 0; r < play_workers(p); r++) {
        const run_seen *seen = &p->seen[r];
        for (int64_t i = from; i < p->steps; i++)
            if (memcmp(&seen->step[i], &one->step[i], sizeof one->step[i]) != 0)
                fail_msg("%s, worker %d: step %lld differs (loss %a, one worker %a)", play_name(p), r, (long long)i + 1,
                         seen->step[i].loss, one->step[i].loss);
        if (strcmp(seen->weights, one->weights) != 0 || strcmp(seen->moments, one->moments) != 0)
            fail_msg("%s, worker %d: weights or moments differ", play_name(p), r);
        if (!ls_hash_equal(seen->state, one->state) || !ls_hash_equal(seen->state, seen->state_now))
            fail_msg("%s, worker %d: the hash of the state differs", play_name(p), r);
        assert_int_equal(seen->updates, one->updates);
    }
}

#endif
