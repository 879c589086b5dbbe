/* Checkpoints under layouts: workers write one file together and read what they need of it. Whatever layout wrote a
 * checkpoint, its files are the same bytes; whatever layout reads it, weights and optimizer state are equal and the run
 * goes on to the same bits. A worker that cannot write takes the checkpoint with it, and all workers leave.
 *
 * Workers are forked; what they find goes to a shared page. They make no assertions: those are the parent's. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "interop/hf.h"
#include "tiny_trainer.h"
#include "run/folder/run_start.h"
#include "run/agree.h"

enum { WORKERS_MAX = 8 };

typedef struct layout_case {
    int dp, tp, pp, zero;
} layout_case;

/* The plays that the workers of one run follow. */
typedef enum play {
    PLAY_SAVE,    /* CUT steps from the seed, saved in `dir` */
    PLAY_RESUME,  /* ls_run_start_resume in `dir`, what is then there, and STEPS steps */
    PLAY_FORK,    /* ls_run_start_fork from `model` */
    PLAY_WEIGHTS, /* ls_run_start_weights from `model` */
    PLAY_FULL,    /* as PLAY_SAVE, but worker `who` has no space; all fail */
} play;

typedef struct job {
    play play;
    layout_case layout;
    ls_settings settings;
    const char *dir, *model;
    int who;
} job;

/* Hashes of weights and of all moments. */
typedef struct state_hash {
    char weights[33], moments[33];
} state_hash;

typedef struct board {
    state_hash at_begin, at_end;
    int64_t step, samples;
    int64_t read_bytes; /* by the last worker, to begin */
    bool anew;
    ls_status status[WORKERS_MAX];
    char message[WORKERS_MAX][LS_MESSAGE_MAX];
} board;

static board *shared;

/* ---- the workers ------------------------------------------------------------------------------------------------- */

static ls_status hash_state(ls_trainer *t, state_hash *out) {
    ls_hash128 all[2 * 64];
    size_t count = 0;
    LS_TRY(ls_partition_hash(t->partition, out->weights));
    for (int i = 0; i < ls_model_params(t->model); i++)
        for (int m = 0; m < ls_optimizer_moments(&t->settings.optimizer); m++) {
            char text[33];
            LS_TRY(ls_partition_hash_tensor(t->partition, ls_model_param(t->model, i), LS_TENSOR_MOMENT0 + (unsigned)m,
                                            text));
            if (count < 2 * 64) all[count++] = ls_hash_bytes(text, 32);
        }
    ls_hash_text(ls_hash_combine(all, count), out->moments);
    return LS_OK;
}

static ls_status save_in(const char *dir, fixture *f, ls_trainer *t) {
    ls_store *store = NULL;
    if (t->rank == 0) LS_TRY(ls_store_open(in_folder(dir), LS_STORE_WRITE, &store));
    ls_status status = ls_save(store, t, t->rank == 0 ? f->identity : NULL, NULL);
    ls_store_close(store);
    return status;
}

static void limit_files(rlim_t bytes) {
    struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)setrlimit(RLIMIT_FSIZE, &limit);
}

static ls_status play_save(const job *j, fixture *f, ls_trainer *t) {
    LS_TRY(ls_run_start_seed(t));
    LS_TRY(trainer_run(t, CUT));
    if (j->play == PLAY_FULL && t->rank == j->who) limit_files(2000);
    LS_TRY(save_in(j->dir, f, t));
    state_hash saved;
    LS_TRY(hash_state(t, &saved));
    if (t->rank == 0) shared->at_begin = saved;
    return LS_OK;
}

static ls_status go_on(ls_trainer *t) {
    state_hash begin, end;
    LS_TRY(hash_state(t, &begin));
    int64_t step = t->step;
    LS_TRY(trainer_run(t, STEPS));
    LS_TRY(hash_state(t, &end));
    if (t->rank != 0) return LS_OK;
    shared->at_begin = begin;
    shared->at_end = end;
    shared->step = step;
    return LS_OK;
}

/* Bytes that this process has read so far. */
static int64_t bytes_read(void) {
    long long bytes = -1;
    FILE *file = fopen("/proc/self/io", "r");
    if (!file) return -1;
    if (fscanf(file, "rchar: %lld", &bytes) != 1) bytes = -1;
    (void)fclose(file);
    return bytes;
}

static ls_status play_resume(const job *j, fixture *f, ls_trainer *t) {
    ls_store *store = NULL;
    ls_run_dir *dir = NULL;
    bool anew = false;
    ls_status status = LS_OK;
    if (t->rank == 0) status = ls_run_dir_open(in_folder(j->dir), LS_RUN_RESUME, &dir);
    if (t->rank == 0 && status == LS_OK) status = ls_store_open(in_folder(j->dir), LS_STORE_WRITE, &store);
    LS_TRY_OUT(ls_agree(t->world, status));
    int64_t before = bytes_read();
    LS_TRY_OUT(ls_run_start_resume(t, store, dir, NULL, f->identity, &anew));
    if (t->rank == 0) shared->anew = anew;
    if (t->rank == ls_layout_workers(&t->layout) - 1) shared->read_bytes = bytes_read() - before;
    status = go_on(t);
out:
    ls_store_close(store);
    ls_run_dir_close(dir);
    return status;
}

static ls_status play_model(const job *j, fixture *f, ls_trainer *t) {
    ls_weights *weights = NULL;
    ls_identity *parent = NULL;
    ls_shape shape;
    ls_status status;
    LS_TRY(ls_run_start_model(t->world, t->rank == 0 ? in_folder(j->model) : NULL, &shape, &weights));
    LS_TRY_OUT(j->play == PLAY_FORK ? ls_run_start_fork(t, weights, f->identity, &parent)
                                    : ls_run_start_weights(t, weights, f->identity));
    if (t->rank == 0) shared->samples = (int64_t)ls_trainer_samples(t);
    status = go_on(t);
out:
    ls_identity_destroy(parent);
    ls_weights_close(weights);
    return status;
}

/* Before anything is taken down: that makes messages of its own. */
static void note(const ls_world *world, ls_status status) {
    int rank = ls_world_rank(world);
    shared->status[rank] = status;
    snprintf(shared->message[rank], LS_MESSAGE_MAX, "%s", ls_status_message());
}

static ls_status worker(ls_world *world, void *arg) {
    const job *j = arg;
    fixture f;
    ls_trainer *t = NULL;
    ls_layout_request request = ls_layout_request_none();
    ls_knob_give(&request, LS_KNOB_dp, j->layout.dp);
    ls_knob_give(&request, LS_KNOB_tp, j->layout.tp);
    ls_knob_give(&request, LS_KNOB_pp, j->layout.pp);
    ls_knob_give(&request, LS_KNOB_zero, j->layout.zero);
    ls_status status = fixture_open(&f, &j->settings);
    if (status == LS_OK) status = trainer_open(&f, world, &request, &t);
    if (status == LS_OK)
        status = j->play == PLAY_RESUME                         ? play_resume(j, &f, t)
                 : j->play == PLAY_SAVE || j->play == PLAY_FULL ? play_save(j, &f, t)
                                                                : play_model(j, &f, t);
    note(world, status);
    ls_trainer_destroy(t);
    fixture_close(&f);
    return status;
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */

static int workers_of(const job *j) { return j->layout.dp * j->layout.tp * j->layout.pp; }

static ls_status run_job(job *j) {
    memset(shared, 0, sizeof *shared);
    ls_workers_options options = {.workers = workers_of(j), .threads = 1, .timeout_s = 60, .no_pin = 1};
    return ls_workers_run(&options, worker, j);
}

static void expect_ok(job *j) {
    if (run_job(j) != LS_OK)
        fail_msg("dp %d tp %d pp %d zero %d: %s", j->layout.dp, j->layout.tp, j->layout.pp, j->layout.zero,
                 ls_status_message());
}

/* One worker tells what is wrong, all others that it was not they. */
static void expect_refused(job *j, ls_status status, int who, const char *part) {
    assert_int_equal(run_job(j), status);
    if (!strstr(ls_status_message(), part)) fail_msg("'%s' does not say '%s'", ls_status_message(), part);
    for (int rank = 0; rank < workers_of(j); rank++) {
        assert_int_equal(shared->status[rank], rank == who ? status : LS_ERR_PEER);
        if (!strstr(shared->message[rank], part)) fail_msg("worker %d: '%s'", rank, shared->message[rank]);
    }
}

static void same_file(const char *a, const char *b, const char *name) {
    char paths[2][512];
    char *data[2];
    size_t bytes[2];
    snprintf(paths[0], sizeof paths[0], "%s/%s", step_folder(a, CUT), name);
    snprintf(paths[1], sizeof paths[1], "%s/%s", step_folder(b, CUT), name);
    for (int i = 0; i < 2; i++) assert_int_equal(ls_file_read(paths[i], 1 << 24, &data[i], &bytes[i]), LS_OK);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(data[0], data[1], bytes[0]);
    free(data[0]);
    free(data[1]);
}

/* Wide enough that shards, which end at multiples of 1024 elements, cut rows. */
static ls_shape wide(ls_shape shape) {
    shape.V = 301;
    shape.hidden = 101;
    return shape;
}

static const layout_case one = {1, 1, 1, 0};
static const layout_case saving[] = {{2, 2, 1, 1}, {1, 1, 2, 0}, {2, 1, 1, 3},
                                     {3, 1, 1, 2}, {1, 2, 2, 0}, {2, 1, 2, 3}};
static const layout_case loading[] = {{1, 1, 1, 0}, {1, 2, 2, 0}, {2, 2, 1, 3}, {4, 1, 1, 1}, {2, 1, 2, 2}};

/* What one worker makes of it: the run that all others must equal. */
static state_hash at_cut, at_end;

static job begin_with(const ls_shape *shape, const char *dir) {
    job j = {.play = PLAY_SAVE, .layout = one, .settings = tiny_settings(shape, adamw), .dir = dir};
    put_tokens(shape->V);
    expect_ok(&j);
    at_cut = shared->at_begin;
    return j;
}

/* Every `stride`th of the layouts. */
static void all_layouts(const ls_shape *shape, const char *name, int stride) {
    char dirs[8][64];
    enum { SAVING = sizeof saving / sizeof *saving, LOADING = sizeof loading / sizeof *loading };
    snprintf(dirs[0], sizeof dirs[0], "%s-one", name);
    job j = begin_with(shape, dirs[0]);
    for (int i = 0; i < SAVING; i += stride) {
        snprintf(dirs[i + 1], sizeof dirs[0], "%s-%d", name, i);
        j.dir = dirs[i + 1];
        j.layout = saving[i];
        expect_ok(&j);
        assert_string_equal(shared->at_begin.weights, at_cut.weights);
        assert_string_equal(shared->at_begin.moments, at_cut.moments);
        same_file(dirs[0], j.dir, LS_CHECKPOINT_WEIGHTS);
        same_file(dirs[0], j.dir, LS_CHECKPOINT_OPTIMIZER);
        same_file(dirs[0], j.dir, LS_CHECKPOINT_STATE);
        same_file(dirs[0], j.dir, LS_CHECKPOINT_MARKER);
    }
    (void)put_text("identity.json", "{}");
    int64_t whole_bytes = 0;
    for (int i = 0; i < LOADING; i += stride) {
        char command[512];
        snprintf(command, sizeof command, "cp %s/identity.json %s/%s/", folder, folder, dirs[i + 1]);
        assert_int_equal(system(command), 0);
        j.play = PLAY_RESUME;
        j.dir = dirs[i + 1];
        j.layout = loading[i];
        expect_ok(&j);
        assert_int_equal(shared->step, CUT);
        assert_false(shared->anew);
        assert_string_equal(shared->at_begin.weights, at_cut.weights);
        assert_string_equal(shared->at_begin.moments, at_cut.moments);
        if (i == 0) at_end = shared->at_end;
        /* One worker reads all of it twice, for the checksums too. */
        if (i == 0) whole_bytes = shared->read_bytes;
        if (i > 0) assert_true(10 * shared->read_bytes <= 3 * whole_bytes);
        assert_string_equal(shared->at_end.weights, at_end.weights);
        assert_string_equal(shared->at_end.moments, at_end.moments);
        assert_string_not_equal(at_end.weights, at_cut.weights);
    }
}

static void any_layout_reads_what_any_wrote(void **state) {
    (void)state;
    ls_shape gpt2 = wide(tiny_gpt2()), llama = wide(tiny_llama());
    all_layouts(&gpt2, "gpt2", 1);
    all_layouts(&llama, "llama", 2);
}

/* ---- other beginnings -------------------------------------------------------------------------------------------- */

static void a_fork_takes_all_over(void **state) {
    (void)state;
    ls_shape shape = wide(tiny_gpt2());
    job j = begin_with(&shape, "parent");
    j.play = PLAY_FORK;
    j.model = "parent";
    for (int i = 0; i < 2; i++) {
        j.layout = i == 0 ? one : (layout_case){2, 1, 2, 3};
        expect_ok(&j);
        assert_int_equal(shared->step, CUT);
        assert_int_equal(shared->samples, CUT * 5);
        assert_string_equal(shared->at_begin.weights, at_cut.weights);
        assert_string_equal(shared->at_begin.moments, at_cut.moments);
        if (i == 0) at_end = shared->at_end;
        assert_string_equal(shared->at_end.weights, at_end.weights);
    }
    j.settings.options.steps = CUT;
    expect_refused(&j, LS_ERR_INPUT, 0, "is at step 3 already, and --steps 3 is the total");
}

static void export(const char *from, const char *to) {
    ls_weights *weights = NULL;
    ls_hf_export_options options = {.dtype = LS_F32};
    assert_int_equal(ls_weights_open(in_folder(from), &weights), LS_OK);
    assert_int_equal(ls_hf_export(in_folder(to), ls_weights_model(weights), &options, ls_weights_read, weights), LS_OK);
    ls_weights_close(weights);
}

static void workers_read_their_rows(void **state) {
    (void)state;
    ls_shape shapes[] = {wide(tiny_gpt2()), wide(tiny_llama())};
    for (int s = 0; s < 2; s++) {
        char made[32], hf[32];
        snprintf(made, sizeof made, "made-%d", s);
        snprintf(hf, sizeof hf, "hf-%d", s);
        job j = begin_with(&shapes[s], made);
        export(made, hf);
        j.play = PLAY_WEIGHTS;
        for (int i = 0; i < 6; i++) {
            j.layout = (const layout_case[]){{1, 1, 1, 0}, {1, 2, 2, 0}, {2, 2, 1, 3}}[i / 2];
            j.model = i % 2 ? hf : made;
            expect_ok(&j);
            assert_string_equal(shared->at_begin.weights, at_cut.weights);
            if (i == 0) at_end = shared->at_end;
            assert_string_equal(shared->at_end.weights, at_end.weights);
        }
    }
}

static void damage(const char *path, long at) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_END), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, at, SEEK_END), 0);
    assert_int_not_equal(fputc(byte ^ 1, file), EOF);
    assert_int_equal(fclose(file), 0);
}

/* An error is reported once, by worker 0, and no worker waits. */
static void mistakes_are_told_once(void **state) {
    (void)state;
    ls_shape shape = tiny_llama();
    job j = begin_with(&shape, "wrong");
    (void)put_text("wrong/identity.json", "{}");
    j.play = PLAY_RESUME;
    j.layout = (layout_case){2, 2, 1, 1};
    j.settings.lr.peak = 0.02;
    expect_refused(&j, LS_ERR_INPUT, 0, "not the same experiment");
    j.settings.lr.peak = 0.01;
    j.settings.options.steps = CUT - 1;
    expect_refused(&j, LS_ERR_INPUT, 0, "--steps 2 is the total");
    j.settings.options.steps = STEPS;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", step_folder("wrong", CUT), LS_CHECKPOINT_OPTIMIZER);
    damage(path, -5);
    expect_refused(&j, LS_ERR_INPUT, 0, "is damaged");
    j.play = PLAY_WEIGHTS;
    j.model = "wrong";
    expect_refused(&j, LS_ERR_INPUT, 0, "is damaged");
    j.model = "nothing";
    expect_refused(&j, LS_ERR_INPUT, 0, "there is no file or folder");
}

/* Files that are what was written, but of weights that the workers never had: state.json tells another hash. */
static void put_lie(const char *dir, int64_t step) {
    ls_store *store = NULL;
    ls_store_save *save = NULL;
    char command[1024], path[512], *text;
    size_t bytes;
    assert_int_equal(ls_store_open(in_folder(dir), LS_STORE_WRITE, &store), LS_OK);
    assert_int_equal(ls_store_begin(store, step, &save), LS_OK);
    snprintf(command, sizeof command, "cp %s/*.safetensors %s", step_folder(dir, CUT), ls_store_save_folder(save));
    assert_int_equal(system(command), 0);
    assert_int_equal(ls_store_add_file(save, LS_CHECKPOINT_WEIGHTS), LS_OK);
    assert_int_equal(ls_store_add_file(save, LS_CHECKPOINT_OPTIMIZER), LS_OK);
    snprintf(path, sizeof path, "%s/%s", step_folder(dir, CUT), LS_CHECKPOINT_STATE);
    assert_int_equal(ls_file_read(path, 1 << 20, &text, &bytes), LS_OK);
    char *hash = strstr(text, at_cut.weights);
    assert_non_null(hash);
    *hash = *hash == '0' ? '1' : '0';
    assert_int_equal(ls_store_put_bytes(save, LS_CHECKPOINT_STATE, text, bytes), LS_OK);
    assert_int_equal(ls_store_commit(save), LS_OK);
    ls_store_close(store);
    free(text);
}

static void weights_that_nobody_had_are_not_used(void **state) {
    (void)state;
    ls_shape shape = tiny_llama();
    for (int i = 0; i < 2; i++) {
        char name[32], identity[64], aside[600];
        snprintf(name, sizeof name, "lie-%d", i);
        snprintf(identity, sizeof identity, "%s/identity.json", name);
        job j = begin_with(&shape, name);
        (void)put_text(identity, "{}");
        put_lie(name, CUT + 1);
        j.play = PLAY_RESUME;
        j.layout = i == 0 ? one : (layout_case){2, 2, 1, 3};
        expect_ok(&j);
        assert_int_equal(shared->step, CUT);
        assert_string_equal(shared->at_begin.weights, at_cut.weights);
        assert_string_equal(shared->at_begin.moments, at_cut.moments);
        snprintf(aside, sizeof aside, "%s.aside", step_folder(name, CUT + 1));
        assert_true(ls_file_exists(aside));
        /* Without an older one, and for a fork, there is nothing to go on from; it stays where it is. */
        put_lie(name, CUT);
        expect_refused(&j, LS_ERR_INPUT, 0, "as recorded in state.json");
        assert_true(ls_file_exists(step_folder(name, CUT)));
    }
}

/* A run that was stopped before its first checkpoint. */
static void nothing_saved_begins_anew(void **state) {
    (void)state;
    ls_shape shape = tiny_gpt2();
    job j = {.play = PLAY_RESUME, .layout = one, .settings = tiny_settings(&shape, adamw), .dir = "anew"};
    ls_identity *identity = NULL;
    char *text;
    size_t bytes;
    put_tokens(shape.V);
    assert_int_equal(ls_identity_create(&identity), LS_OK);
    assert_int_equal(ls_settings_identity(&j.settings, identity), LS_OK);
    assert_int_equal(ls_identity_to_text(identity, &text, &bytes), LS_OK);
    assert_int_equal(ls_dir_make(in_folder("anew")), LS_OK);
    (void)put_file("anew/identity.json", text, bytes);
    free(text);
    ls_identity_destroy(identity);
    for (int i = 0; i < 2; i++) {
        j.layout = i == 0 ? one : (layout_case){2, 2, 1, 2};
        expect_ok(&j);
        assert_true(shared->anew);
        assert_int_equal(shared->step, 0);
        if (i == 0) at_end = shared->at_end;
        assert_string_equal(shared->at_end.weights, at_end.weights);
    }
    j.settings.options.seed++;
    expect_refused(&j, LS_ERR_INPUT, 0, "not the same experiment: seed is 12 here and 11 in the run");
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static void a_full_disk_leaves_nothing(void **state) {
    (void)state;
    ls_shape shape = tiny_gpt2();
    job j = begin_with(&shape, "full");
    j.play = PLAY_FULL;
    j.layout = (layout_case){2, 2, 1, 1};
    for (j.who = 0; j.who < 4; j.who += 3) {
        expect_refused(&j, LS_ERR_RESOURCE, j.who, "File too large");
        assert_int_equal(count_entries(in_folder("full/checkpoints")), 2); /* step-…3 of before, latest */
        same_file("full", "full", LS_CHECKPOINT_MARKER);
        ls_checkpoint *checkpoint = NULL;
        assert_int_equal(ls_checkpoint_open(step_folder("full", CUT), &checkpoint), LS_OK);
        assert_int_equal(ls_checkpoint_verify(checkpoint, NULL, NULL), LS_OK);
        ls_checkpoint_close(checkpoint);
    }
    j.dir = "full-new";
    j.who = 1;
    expect_refused(&j, LS_ERR_RESOURCE, 1, "File too large");
    assert_int_equal(count_entries(in_folder("full-new/checkpoints")), 0);
    j.play = PLAY_SAVE;
    expect_ok(&j);
    same_file("full", "full-new", LS_CHECKPOINT_WEIGHTS);
}

/* In memory, where nothing waits for a disk. */
static int set_up(void **state) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return -1;
    return make_folder_in_memory(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_layout_reads_what_any_wrote),
        cmocka_unit_test(a_fork_takes_all_over),
        cmocka_unit_test(workers_read_their_rows),
        cmocka_unit_test(mistakes_are_told_once),
        cmocka_unit_test(weights_that_nobody_had_are_not_used),
        cmocka_unit_test(a_full_disk_leaves_nothing),
        cmocka_unit_test(nothing_saved_begins_anew),
    };
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}
