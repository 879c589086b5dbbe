/* test_api.c: the library trains as the program does, on files and on the caller's own data, and says nothing by
 * itself. */
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <setjmp.h>

#include <cmocka.h>

#include "lockstep.h"

enum { PATH_ROOM = 512 };

static char folder[] = "/tmp/lockstep-api.XXXXXX";
static char path[PATH_ROOM];

static const char *inside(const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* What workers, who may be other processes, tell the test. */
typedef struct told {
    char hash[LS_HASH_CHARS], text[256];
    int64_t step;
    double loss, evaluation;
    int workers, events;
} told;

static told *shared;

static ls_options *options_of(const char *command, const char *const (*set)[2], size_t count) {
    ls_options *o = NULL;
    assert_int_equal(ls_options_create(command, &o), LS_OK);
    for (size_t i = 0; i < count; i++)
        if (ls_options_set(o, set[i][0], set[i][1]) != LS_OK) fail_msg("%s", ls_status_message());
    return o;
}

static ls_options *tiny(const char *out) {
    const char *const set[][2] = {{"model", "tiny"}, {"steps", "3"},  {"seq", "16"},       {"global-batch", "4"},
                                  {"groups", "4"},   {"seed", "5"},   {"eval-every", "0"}, {"save-every", "0"},
                                  {"threads", "1"},  {"pin", "false"}};
    ls_options *o = options_of("train", set, sizeof set / sizeof *set);
    assert_int_equal(ls_options_set(o, "out", out), LS_OK);
    return o;
}

static ls_status squares(void *ctx, uint64_t first, size_t count, int32_t *out) {
    (void)ctx;
    for (size_t i = 0; i < count; i++) out[i] = (int32_t)((first + i) * (first + i) % 10);
    return LS_OK;
}

static const ls_source own = {.identity = "squares 1", .count = 2000, .tokens = squares};

static ls_status to_the_end(ls_run *run, void *arg) {
    ls_step step;
    ls_run_state state = ls_run_get_state(run);
    ls_status status = LS_OK;
    (void)arg;
    for (int64_t i = state.step; i < state.steps && status == LS_OK; i++) status = ls_run_step(run, &step);
    if (status == LS_OK) status = ls_run_save(run);
    if (status == LS_OK && state.rank == 0) {
        shared->step = step.step;
        shared->loss = step.loss;
        shared->workers = state.workers;
    }
    char hash[LS_HASH_CHARS];
    if (status == LS_OK) status = ls_run_hash(run, hash);
    if (status == LS_OK && state.rank == 0) memcpy(shared->hash, hash, sizeof hash);
    return status;
}

static ls_status two_steps(ls_run *run, void *arg) {
    ls_step step;
    ls_status status = ls_run_step(run, &step);
    (void)arg;
    if (status == LS_OK) status = ls_run_step(run, NULL);
    return status == LS_OK ? ls_run_save(run) : status;
}

static ls_status run_all(const ls_run_setup *setup, ls_run_fn fn) {
    ls_run *run = NULL;
    memset(shared, 0, sizeof *shared);
    ls_status status = ls_run_open(setup, &run);
    if (status == LS_OK) status = ls_run_workers(run, fn, NULL);
    ls_run_close(run);
    return status;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void options_go_by_name(void **state) {
    ls_options *o = NULL;
    (void)state;
    assert_int_equal(ls_options_create("trian", &o), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "did you mean 'train'"));
    assert_int_equal(ls_options_create("train", &o), LS_OK);
    assert_int_equal(ls_options_set(o, "step", "4"), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "did you mean 'steps'"));
    assert_int_equal(ls_options_set(o, "cluster", "H100"), LS_ERR_INPUT); /* plan's */
    assert_int_equal(ls_options_set(o, "steps", "0x"), LS_ERR_INPUT);
    assert_int_equal(ls_options_set(o, "steps", "7"), LS_OK);
    assert_string_equal(ls_options_get(o, "steps"), "7");
    assert_int_equal(ls_options_set(o, "steps", NULL), LS_OK);
    assert_string_not_equal(ls_options_get(o, "steps"), "7");
    assert_null(ls_options_get(o, "nothing"));
    ls_options_destroy(o);
    ls_options_destroy(NULL);
}

/* ---- the same as the program ------------------------------------------------------------------------------------- */

static void program_hash(char hash[LS_HASH_CHARS]) {
    const char *program = getenv("LOCKSTEP");
    char command[4 * PATH_ROOM], line[4096];
    snprintf(
        command, sizeof command,
        "%s train --model tiny --steps 3 --seq 16 --global-batch 4 --groups 4 --seed 5 --eval-every 0 --save-every "
        "0 --threads 1 --no-pin --data %s/text --out %s/program --json 2>/dev/null",
        program ? program : "build/lockstep", folder, folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    const char *at = fgets(line, sizeof line, pipe) ? strstr(line, "\"weights_xxh128\":") : NULL;
    assert_int_equal(pclose(pipe), 0);
    assert_non_null(at);
    at = strchr(at + strlen("\"weights_xxh128\":"), '"') + 1;
    memcpy(hash, at, LS_HASH_CHARS - 1);
    hash[LS_HASH_CHARS - 1] = '\0';
}

static void same_weights_as_the_program(void **state) {
    static const char *const layouts[][3] = {{"1", "1", "1"}, {"2", "1", "1"}, {"1", "2", "2"}};
    char expected[LS_HASH_CHARS], name[32], data[PATH_ROOM];
    (void)state;
    program_hash(expected);
    snprintf(data, sizeof data, "%s", inside("text"));
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "layout-%d", i);
        ls_options *o = tiny(inside(name));
        assert_int_equal(ls_options_set(o, "data", data), LS_OK);
        assert_int_equal(ls_options_set(o, "dp", layouts[i][0]), LS_OK);
        assert_int_equal(ls_options_set(o, "tp", layouts[i][1]), LS_OK);
        assert_int_equal(ls_options_set(o, "pp", layouts[i][2]), LS_OK);
        assert_int_equal(run_all(&(ls_run_setup){.options = o}, to_the_end), LS_OK);
        assert_string_equal(shared->hash, expected);
        assert_int_equal(shared->workers, i == 0 ? 1 : i == 1 ? 2 : 4);
        ls_options_destroy(o);
    }
}

/* ---- own data ---------------------------------------------------------------------------------------------------- */

static void own_data_and_who_resumes(void **state) {
    ls_options *o = tiny(inside("own"));
    ls_source other = own;
    char whole[LS_HASH_CHARS];
    (void)state;
    assert_int_equal(run_all(&(ls_run_setup){.options = o, .data = &own}, to_the_end), LS_OK);
    assert_int_equal(shared->step, 3);
    memcpy(whole, shared->hash, sizeof whole);
    ls_options_destroy(o);
    o = tiny(inside("cut"));
    assert_int_equal(run_all(&(ls_run_setup){.options = o, .data = &own}, two_steps), LS_OK);
    assert_int_equal(ls_options_set(o, "resume", "true"), LS_OK);
    other.identity = "squares 2";
    assert_int_equal(run_all(&(ls_run_setup){.options = o, .data = &other}, to_the_end), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "squares 2"));
    assert_int_equal(ls_options_set(o, "dp", "2"), LS_OK);
    assert_int_equal(run_all(&(ls_run_setup){.options = o, .data = &own}, to_the_end), LS_OK);
    assert_int_equal(shared->step, 3);
    assert_string_equal(shared->hash, whole);
    ls_options_destroy(o);
    other.identity = NULL;
    o = tiny(inside("nameless"));
    assert_int_equal(run_all(&(ls_run_setup){.options = o, .data = &other}, to_the_end), LS_ERR_INPUT);
    assert_int_not_equal(access(inside("nameless"), F_OK), 0);
    ls_options_destroy(o);
}

/* ---- everything a run can do ------------------------------------------------------------------------------------- */

static ls_status count_events(void *ctx, const ls_run_event *event) {
    (void)ctx;
    (void)event;
    shared->events++;
    return LS_OK;
}

static ls_status keep_text(void *ctx, const char *text, size_t bytes, int *stop) {
    size_t used = strlen(shared->text);
    (void)ctx;
    *stop = used + bytes >= 8;
    snprintf(shared->text + used, sizeof shared->text - used, "%.*s", (int)bytes, text);
    return LS_OK;
}

static ls_status round_trip(ls_run *run, void *arg) {
    ls_evaluation evaluation;
    int64_t tokens;
    ls_status status = to_the_end(run, arg);
    if (status == LS_OK) status = ls_run_evaluate(run, &evaluation);
    if (status == LS_OK) status = ls_run_generate(run, "ab", keep_text, NULL, &tokens);
    if (status == LS_OK && ls_run_get_state(run).rank == 0) shared->evaluation = evaluation.loss;
    return status;
}

/* Runs it with standard output and error in a file. */
static ls_status run_silently(const ls_run_setup *setup, ls_run_fn fn, off_t *written) {
    int file = open(inside("said"), O_RDWR | O_CREAT | O_TRUNC, 0600), out = dup(1), err = dup(2);
    fflush(stdout);
    dup2(file, 1);
    dup2(file, 2);
    ls_status status = run_all(setup, fn);
    fflush(stdout);
    dup2(out, 1);
    dup2(err, 2);
    *written = lseek(file, 0, SEEK_END);
    close(file);
    close(out);
    close(err);
    return status;
}

static void a_run_does_it_all_and_is_silent(void **state) {
    static const ls_source held = {.identity = "squares", .count = 200, .tokens = squares};
    ls_options *o = tiny(inside("all"));
    off_t written;
    (void)state;
    assert_int_equal(ls_options_set(o, "dp", "2"), LS_OK);
    ls_run_setup setup = {.options = o, .data = &own, .validation = &held, .event = count_events};
    assert_int_equal(run_silently(&setup, round_trip, &written), LS_OK);
    assert_int_equal(written, 0);
    assert_true(shared->evaluation > 0 && shared->events >= 5);
    assert_int_equal(strncmp(shared->text, "ab", 2), 0);
    ls_options_destroy(o);

    /* What was saved is a model to evaluate; another process would find the same. */
    const char *const eval[][2] = {{"model", inside("all")}, {"seq", "16"}, {"threads", "1"}};
    o = options_of("eval", eval, 3);
    ls_run *run = NULL;
    ls_evaluation evaluation;
    assert_int_equal(ls_run_open(&(ls_run_setup){.options = o, .data = &held}, &run), LS_OK);
    assert_int_equal(ls_run_evaluate(run, &evaluation), LS_OK);
    assert_true(evaluation.loss > 0 && evaluation.samples == 199);
    assert_int_equal(ls_run_step(run, NULL), LS_ERR_INPUT);
    ls_run_close(run);
    ls_options_destroy(o);
}

/* ---- plans and layouts ------------------------------------------------------------------------------------------- */

static void a_layout_is_planned_and_verified(void **state) {
    const char *const asked[][2] = {
        {"model", "tiny"}, {"cluster", "A100"}, {"gpus", "2"}, {"seq", "16"}, {"global-batch", "4"}};
    ls_options *question = options_of("plan", asked, 5), *train = tiny(inside("planned"));
    ls_plan *plan = NULL;
    (void)state;
    assert_int_equal(ls_plan_make(question, &plan), LS_OK);
    assert_true(ls_plan_count(plan) > 0 && ls_plan_number(plan, 0, "seconds") > 0);
    assert_true(ls_plan_number(plan, 0, "memory_bytes") <= ls_plan_number(plan, 0, "capacity_bytes"));
    assert_true(ls_plan_number(plan, 0, "dp") * ls_plan_number(plan, 0, "tp") * ls_plan_number(plan, 0, "pp") == 2);
    assert_true(ls_plan_number(plan, 0, "nothing") == -1 && ls_plan_number(plan, 99, "dp") == -1);
    assert_int_equal(ls_plan_json(plan)[0], '[');
    assert_int_equal(ls_plan_apply(plan, 0, train), LS_OK);
    assert_int_equal(ls_plan_apply(plan, 99, train), LS_ERR_INPUT);
    assert_int_equal(ls_verify(&(ls_run_setup){.options = train, .data = &own}, 2), LS_OK);
    assert_int_not_equal(access(inside("planned"), F_OK), 0);
    ls_plan_destroy(plan);
    ls_options_destroy(question);
    ls_options_destroy(train);
}

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    setenv("XDG_CACHE_HOME", folder, 1);
    FILE *text = fopen(inside("text"), "w");
    if (shared == MAP_FAILED || !text) return -1;
    for (int i = 0; i < 400; i++) fprintf(text, "line %d of a text to learn from\n", i);
    return fclose(text);
}

static int clean_up(void **state) {
    char command[PATH_ROOM];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_go_by_name),
        cmocka_unit_test(same_weights_as_the_program),
        cmocka_unit_test(own_data_and_who_resumes),
        cmocka_unit_test(a_run_does_it_all_and_is_silent),
        cmocka_unit_test(a_layout_is_planned_and_verified),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
