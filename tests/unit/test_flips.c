/* test_flips.c: single bits that flip in live memory, in weights, optimizer state and the copies that matmuls read, on
 * any worker of many layouts and in every precision, under --check state: each is found before it is trained on, and
 * named by worker and tensor. The bit is put back then, and the run ends on the state of one in which nothing flipped.
 * TIER=long flips ten thousand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "step_layouts.h"

enum { FLIP_WEIGHT, FLIP_MOMENT, FLIP_COPY, FLIP_KINDS, FLIP_STEPS = 5 };

typedef struct flip_tally {
    _Atomic int made[FLIP_KINDS], missed[FLIP_KINDS], misnamed[FLIP_KINDS];
} flip_tally;

typedef struct flips {
    int count;
    uint64_t seed;
    flip_tally *tally; /* shared */
} flips;

/* One that a worker has flipped. */
typedef struct flipped {
    uint8_t *byte;
    uint8_t bit;
    int kind;
    char tensor[LS_PARAM_NAME_MAX];
} flipped;

typedef struct told {
    int events;
    ls_train_event last;
} told;

static ls_status take_event(void *ctx, const ls_train_event *event) {
    told *t = ctx;
    t->events++;
    t->last = *event;
    return LS_OK;
}

/* ---- what to flip ------------------------------------------------------------------------------------------------ */

/* Matrices are gathered again in every step. */
static bool is_gathered(const ls_trainer *t, const ls_param *p) {
    return t->layout.zero == 3 && t->layout.dp > 1 && p->rows > 1 && strcmp(p->name, "positions.weight") != 0;
}

/* The n-th place of this worker that has numbers of the kind; NULL: there is none. */
static void *place_of(const ls_trainer *t, int kind, uint64_t n, size_t *bytes, const char **name) {
    uint64_t count = 0;
    for (int turn = 0; turn < 2; turn++) {
        uint64_t at = 0;
        if (turn == 1 && count == 0) return NULL;
        for (int i = 0; i < ls_model_params(t->model); i++) {
            const ls_param *p = ls_model_param(t->model, i);
            size_t own = ls_param_range_elems(p->own), local = ls_param_local_elems(p);
            void *memory[2] = {NULL, NULL};
            size_t each = own * sizeof(float);
            if (kind == FLIP_WEIGHT && own > 0) memory[0] = p->own_w;
            if (kind == FLIP_MOMENT && own > 0) memory[0] = p->moment[0], memory[1] = p->moment[1];
            if (kind == FLIP_COPY && p->held && !is_gathered(t, p)) {
                memory[0] = p->w16 ? (void *)p->w16 : (void *)p->w;
                each = local * (p->w16 ? 2 : sizeof(float));
            }
            for (int m = 0; m < 2; m++) {
                if (!memory[m] || each == 0) continue;
                if (turn == 1 && at == n % count) {
                    *bytes = each;
                    *name = p->name;
                    return memory[m];
                }
                at++;
            }
        }
        count = at;
    }
    return NULL;
}

static bool flip(const ls_trainer *t, uint64_t seed, int number, flipped *out) {
    ls_rng_key key = ls_rng_key_make(seed, 7, (uint32_t)number);
    size_t bytes;
    const char *name;
    out->kind = (int)ls_rng_below(key, 1, FLIP_KINDS);
    uint8_t *memory = place_of(t, out->kind, ls_rng_below(key, 2, 1000), &bytes, &name);
    if (!memory) memory = place_of(t, out->kind = FLIP_WEIGHT, ls_rng_below(key, 2, 1000), &bytes, &name);
    if (!memory) return false;
    out->byte = memory + ls_rng_below(key, 3, bytes);
    out->bit = (uint8_t)(1U << ls_rng_below(key, 4, 8));
    snprintf(out->tensor, sizeof out->tensor, "%s", name);
    *out->byte ^= out->bit;
    return true;
}

/* ---- a worker ---------------------------------------------------------------------------------------------------- */

static ls_status try_flip(const flips *f, ls_trainer *t, told *heard, int number) {
    int workers = t->world ? ls_world_size(t->world) : 1;
    int victim = (int)ls_rng_below(ls_rng_key_make(f->seed, 6, (uint32_t)number), 0, (uint64_t)workers);
    flipped mine = {.byte = NULL};
    bool is_mine = t->rank == victim && flip(t, f->seed, number, &mine);
    int64_t step = t->step, any = is_mine;
    ls_step_result result;
    LS_TRY(ls_partition_sum(t->partition, &any, 1));
    if (any == 0) return LS_OK; /* the worker has no numbers of its own */
    heard->events = 0;
    ls_status status = ls_trainer_step(t, 0, &result);
    bool is_found =
        status == LS_ERR_FAILED && t->step == step && heard->events == 1 && heard->last.kind == LS_EVENT_STATE;
    if (is_mine) {
        flip_tally *tally = f->tally;
        *mine.byte ^= mine.bit;
        bool is_named = is_found && heard->last.worker == t->rank && strcmp(heard->last.tensor, mine.tensor) == 0;
        atomic_fetch_add(&tally->made[mine.kind], 1);
        atomic_fetch_add(&tally->missed[mine.kind], !is_found);
        atomic_fetch_add(&tally->misnamed[mine.kind], is_found && !is_named);
        if (!is_named)
            fprintf(stderr, "flip %d of %s, kind %d, worker %d: %s\n", number, mine.tensor, mine.kind, victim,
                    status == LS_OK ? "nothing was noticed" : ls_status_message());
    }
    t->failure.is_damaged = false;
    LS_TRY(ls_partition_publish(t->partition)); /* nothing that was gathered with it is used again */
    return is_found ? LS_OK
                    : ls_fail(LS_ERR_FAILED, "flip %d was not found: %s", number,
                              status == LS_OK ? "the step was done" : ls_status_message());
}

static ls_status flip_all(const play *p, ls_trainer *t) {
    const flips *f = p->ctx;
    told heard = {0};
    ls_event_sink before = t->events;
    ls_step_result result;
    t->events = (ls_event_sink){.take = take_event, .ctx = &heard};
    for (int s = 0; s < FLIP_STEPS - 1; s++) {
        LS_TRY(ls_trainer_step(t, 0, &result));
        int first = f->count * s / (FLIP_STEPS - 1), end = f->count * (s + 1) / (FLIP_STEPS - 1);
        for (int i = first; i < end; i++) LS_TRY(try_flip(f, t, &heard, i));
    }
    t->events = before;
    return LS_OK;
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */

typedef struct flip_policy {
    ls_policy policy;
    bool sgd;
} flip_policy;

static void every_flip_is_found(void **state) {
    (void)state;
    static const flip_policy policies[] = {{.policy = {.act = LS_F32}},
                                           {.policy = {.act = LS_BF16}},
                                           {.policy = {.act = LS_F16}},
                                           {.policy = {.act = LS_BF16, .no_master = true}},
                                           {.policy = {.act = LS_F32}, .sgd = true}};
    enum { POLICIES = sizeof policies / sizeof *policies };
    const char *tier = getenv("TIER");
    bool is_long = tier && strcmp(tier, "long") == 0;
    int all = is_long ? 10000 : 300, made = 0, every = is_long ? 1 : 3; /* layouts of each policy; others each time */
    int cases = 0;
    for (int i = 0; i < POLICIES; i++) cases += (LAYOUT_CASES - i % every + every - 1) / every;
    int each = (all + cases - 1) / cases;
    flip_tally *tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(tally != MAP_FAILED);
    run_seen *one = seen_open(), *seen = seen_open();
    for (int i = 0; i < POLICIES; i++) {
        ls_shape shape = tiny_gpt2();
        ls_optimizer sgd = {.kind = LS_OPTIMIZER_SGD, .sgd = {.momentum = 0.9}};
        play p = {.settings = tiny_settings(&shape, policies[i].sgd ? sgd : adamw), .steps = FLIP_STEPS, .seen = one};
        p.settings.policy = policies[i].policy;
        p.settings.loss_scale = (ls_loss_scale_settings){.constant = true, .hysteresis = 1};
        p.settings.options.check = LS_CHECK_STATE;
        p.layout = layout_cases[0];
        play_ok(&p);
        p.seen = seen;
        for (int k = i % every; k < LAYOUT_CASES; k += every) {
            flips f = {.count = each, .seed = (uint64_t)(i * LAYOUT_CASES + k), .tally = tally};
            p.layout = layout_cases[k];
            p.before = flip_all;
            p.ctx = &f;
            play_ok(&p);
            expect_seen(&p, one, FLIP_STEPS - 1);
        }
    }
    static const char *const kinds[FLIP_KINDS] = {"weights", "moments", "copies"};
    for (int k = 0; k < FLIP_KINDS; k++) {
        printf("%s: %d flips, %d missed, %d misnamed\n", kinds[k], tally->made[k], tally->missed[k],
               tally->misnamed[k]);
        assert_int_equal(tally->missed[k], 0);
        assert_int_equal(tally->misnamed[k], 0);
        assert_true(tally->made[k] >= all / 10);
        made += tally->made[k];
    }
    assert_true(made >= all * 9 / 10);
    seen_close(one);
    seen_close(seen);
    munmap(tally, sizeof *tally);
}

static int setup(void **state) {
    if (make_folder(state) != 0) return -1;
    put_tokens(tiny_gpt2().V);
    return 0;
}

int main(void) {
    ls_log_set_level(LS_LOG_ERROR); /* more workers than cores are meant */
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_flip_is_found)};
    return cmocka_run_group_tests(tests, setup, remove_folder);
}
