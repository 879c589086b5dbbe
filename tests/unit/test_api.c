/* test_api.c: the library trains as the program does, on files and on the caller's own data, and says nothing by
 * itself. */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <setjmp.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "comm/world/status_page.h"
#include "comm/launch/placement.h"
#include "device/cpu/kernels.h"
#include "lab/probe/probe.h"
#include "lockstep.h"
#include "made_machine.h"

enum { PATH_ROOM = 512 };

static char folder[] = "/tmp/lockstep-api.XXXXXX";
static char path[PATH_ROOM];

static const char *inside(const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* What workers, which may be other processes, report to the test. */
typedef struct told {
    char hash[LS_HASH_CHARS], text[256];
    int64_t step;
    double loss, evaluation;
    int workers, events;
    atomic_int reads; /* of images */
} told;

static told *shared;

static ls_options *options_of(const char *command, const char *const (*set)[2], size_t count) {
    ls_options *o = NULL;
    assert_int_equal(ls_options_create(command, &o), LS_OK);
    /* One process holds every run, and a process that has started a GPU's driver cannot fork workers. */
    if (strcmp(command, "plan") != 0) (void)ls_options_set(o, "device", "cpu"); /* that of plan needs a probe */
    for (size_t i = 0; i < count; i++)
        if (ls_options_set(o, set[i][0], set[i][1]) != LS_OK) fail_msg("%s", ls_status_message());
    return o;
}

static void set(ls_options *o, const char *name, const char *value) {
    if (ls_options_set(o, name, value) != LS_OK) fail_msg("%s", ls_status_message());
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

/* Asks for another number of workers, and makes its steps once the supervisor has taken the note. */
static ls_status resized_in_vain(ls_run *run, void *arg) {
    char note[PATH_ROOM];
    const char *out = ls_run_get_state(run).folder;
    if (ls_run_get_state(run).rank > 0) return to_the_end(run, arg);
    snprintf(note, sizeof note, "%s/resize", out);
    FILE *file = fopen(note, "w");
    if (!file) return LS_ERR_FAILED;
    (void)fputs("4\n", file);
    (void)fclose(file);
    for (int i = 0; i < 3000 && access(note, F_OK) == 0; i++) (void)usleep(10000);
    ls_status status = to_the_end(run, arg);
    const ls_status_page *page = ls_status_page_open(out);
    shared->events = page ? atomic_load(&page->resizes) : -1;
    ls_status_page_close(page);
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
    assert_non_null(strstr(ls_status_message(), "did you mean steps?"));
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
    const char *const eval[][2] = {{"model", inside("all")}, {"seq", "16"}, {"threads", "1"}, {"pin", "false"}};
    o = options_of("eval", eval, 4);
    ls_run *run = NULL;
    ls_evaluation evaluation;
    assert_int_equal(ls_run_open(&(ls_run_setup){.options = o, .data = &held}, &run), LS_OK);
    assert_int_equal(ls_run_evaluate(run, &evaluation), LS_OK);
    assert_true(evaluation.loss > 0 && evaluation.samples == 199);
    assert_int_equal(ls_run_step(run, NULL), LS_ERR_INPUT);
    ls_run_close(run);
    ls_options_destroy(o);
}

/* ---- own images -------------------------------------------------------------------------------------------------- */

/* A bar whose place is the class, over a noise that the number gives. */
static ls_status bars(void *ctx, uint64_t index, uint8_t *pixels, int32_t *label) {
    if (ctx) atomic_fetch_add(&shared->reads, 1);
    *label = (int32_t)(index % 10);
    for (uint64_t i = 0; i < 28 * 28; i++) {
        bool inside_bar = (int32_t)(i % 28 / 3) == *label;
        pixels[i] = (uint8_t)(inside_bar ? 255 : (index * 2654435761u + i * 40503u) >> 7 & 31);
    }
    return LS_OK;
}

static ls_status images_to_the_end(ls_run *run, void *arg) {
    ls_evaluation evaluation;
    ls_status status = to_the_end(run, arg);
    if (status == LS_OK) status = ls_run_evaluate(run, &evaluation);
    if (status == LS_OK && ls_run_get_state(run).rank == 0) shared->evaluation = evaluation.accuracy;
    return status;
}

static void own_images_on_any_layout(void **state) {
    const ls_source source = {.identity = "bars 1", .count = 200, .image = bars, .ctx = shared};
    static const ls_source held = {.identity = "bars, held back", .count = 40, .image = bars};
    const char *const settings[][2] = {{"model", "lenet"},  {"steps", "8"},  {"global-batch", "16"}, {"groups", "4"},
                                       {"eval-every", "0"}, {"warmup", "0"}, {"threads", "1"},       {"pin", "false"},
                                       {"save-every", "0"}, {"lr", "0.004"}, {"augment", "none"}};
    char one[LS_HASH_CHARS] = "";
    (void)state;
    for (int dp = 1; dp <= 2; dp++) {
        ls_options *o = options_of("train", settings, sizeof settings / sizeof *settings);
        set(o, "out", inside(dp == 1 ? "images-1" : "images-2"));
        set(o, "dp", dp == 1 ? "1" : "2");
        ls_run_setup setup = {.options = o, .data = &source, .validation = &held};
        if (run_all(&setup, images_to_the_end) != LS_OK) fail_msg("%s", ls_status_message());
        assert_int_equal(shared->workers, dp);
        assert_int_equal(shared->reads, 8 * 16); /* each once, and none behind the last step */
        assert_true(shared->evaluation > 0.5);   /* it has seen where the bars are */
        if (dp == 1) memcpy(one, shared->hash, sizeof one);
        assert_string_equal(shared->hash, one);
        set(o, "resume", "true");
        ls_source other = source;
        other.identity = "bars 2";
        setup.data = &other;
        assert_int_equal(run_all(&setup, images_to_the_end), LS_ERR_INPUT);
        ls_options_destroy(o);
    }

    const char *const eval[][2] = {{"model", inside("images-2")}, {"threads", "1"}, {"pin", "false"}};
    ls_options *o = options_of("eval", eval, 3);
    ls_run *run = NULL;
    ls_evaluation evaluation;
    assert_int_equal(ls_run_open(&(ls_run_setup){.options = o, .data = &held}, &run), LS_OK);
    assert_int_equal(ls_run_evaluate(run, &evaluation), LS_OK);
    assert_int_equal(evaluation.samples, 40);
    assert_true(evaluation.accuracy > 0.5);
    ls_run_close(run);
    ls_options_destroy(o);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static ls_status keep_all(void *ctx, const char *text, size_t bytes, int *stop) {
    size_t used = strlen(shared->text);
    (void)ctx;
    (void)stop;
    snprintf(shared->text + used, sizeof shared->text - used, "%.*s", (int)bytes, text);
    return LS_OK;
}

static ls_status learn_and_write(ls_run *run, void *arg) {
    int64_t tokens;
    ls_status status = to_the_end(run, arg);
    if (status == LS_OK) status = ls_run_generate(run, "line 1", keep_all, NULL, &tokens);
    if (status == LS_OK && ls_run_get_state(run).rank == 0) shared->events = (int)tokens;
    return status;
}

/* What a run writes in two workers, a model of its folder writes in this process. */
static void a_run_writes_as_its_model_does(void **state) {
    static const char *const sampling[][2] = {
        {"max-tokens", "9"}, {"temperature", "0.7"}, {"seed", "5"}, {"pin", "false"}};
    ls_options *o = tiny(inside("writer"));
    char data[PATH_ROOM], text[sizeof shared->text];
    int64_t tokens;
    ls_run *run = NULL;
    (void)state;
    snprintf(data, sizeof data, "%s", inside("text"));
    set(o, "data", data);
    set(o, "tp", "2");
    for (int i = 0; i < 4; i++) set(o, sampling[i][0], sampling[i][1]);
    if (run_all(&(ls_run_setup){.options = o}, learn_and_write) != LS_OK) fail_msg("%s", ls_status_message());
    assert_int_equal(shared->events, 9);
    assert_int_equal(strncmp(shared->text, "line 1", 6), 0);
    assert_int_equal(strlen(shared->text), 15);
    memcpy(text, shared->text, sizeof text);
    ls_options_destroy(o);

    o = options_of("generate", sampling, 4);
    set(o, "model", inside("writer"));
    memset(shared, 0, sizeof *shared);
    assert_int_equal(ls_run_open(&(ls_run_setup){.options = o}, &run), LS_OK);
    assert_int_equal(ls_run_generate(run, "line 1", keep_all, NULL, &tokens), LS_OK);
    assert_string_equal(shared->text, text);
    assert_int_equal(tokens, 9);
    ls_run_close(run);
    ls_options_destroy(o);
}

static void tokenizers_encode_and_decode(void **state) {
    static const char text[] = "a\0b\xff<|endoftext|>";
    ls_tokenizer *tokenizer = NULL;
    ls_tokens tokens = {0};
    char *back = NULL, identity[LS_HASH_CHARS];
    size_t bytes;
    (void)state;
    assert_int_equal(ls_tokenizer_open(inside("nothing"), &tokenizer), LS_ERR_INPUT);
    assert_int_equal(ls_tokenizer_open("bytes", &tokenizer), LS_OK);
    assert_int_equal(ls_tokenizer_vocab(tokenizer), 256);
    assert_int_equal(ls_tokenizer_encode(tokenizer, text, sizeof text - 1, LS_ENCODE_SPECIAL, &tokens), LS_OK);
    assert_int_equal(tokens.count, sizeof text - 1);
    assert_int_equal(tokens.ids[3], 0xff);
    assert_int_equal(ls_tokenizer_decode(tokenizer, tokens.ids, tokens.count, &back, &bytes), LS_OK);
    assert_int_equal(bytes, sizeof text - 1);
    assert_memory_equal(back, text, bytes);
    ls_tokenizer_identity(tokenizer, identity);
    assert_int_equal(strlen(identity), LS_HASH_CHARS - 1);
    free(back);
    ls_tokens_fini(&tokens);
    ls_tokenizer_close(tokenizer);
}

static void count_files(void *ctx, const ls_tokenized *so_far) {
    int *files = ctx;
    if (!so_far->file) ++*files;
}

static void text_becomes_token_files(void **state) {
    char data[PATH_ROOM], out[PATH_ROOM];
    snprintf(data, sizeof data, "%s", inside("text"));
    snprintf(out, sizeof out, "%s", inside("tokens"));
    const char *const given[][2] = {{"tokenizer", "bytes"}, {"data", data}, {"out", out}, {"val-fraction", "0.1"}};
    ls_options *o = options_of("tokenize", given, 4);
    ls_tokenized done;
    struct stat about;
    int files = 0;
    (void)state;
    assert_int_equal(stat(data, &about), 0);
    if (ls_tokenize(o, count_files, &files, &done) != LS_OK) fail_msg("%s", ls_status_message());
    assert_int_equal(files, 1);
    assert_int_equal(done.tokens, about.st_size);
    assert_int_equal(done.bytes, about.st_size);
    assert_true(done.val_tokens > 0 && done.val_tokens < done.tokens && done.shards == 2 && done.vocab == 256);
    assert_string_equal(done.val_out, inside("tokens_val"));
    assert_int_equal(access(inside("tokens_train_000001.bin"), R_OK), 0);
    assert_int_equal(ls_tokenize(o, NULL, NULL, &done), LS_ERR_INPUT); /* they exist */
    ls_options_destroy(o);
}

/* ---- models of others -------------------------------------------------------------------------------------------- */

static void model_hash(const char *model, char hash[LS_HASH_CHARS]) {
    const char *const given[][2] = {{"model", model}, {"threads", "1"}, {"tokenizer", "bytes"}, {"pin", "false"}};
    ls_options *o = options_of("generate", given, 4);
    ls_run *run = NULL;
    if (ls_run_open(&(ls_run_setup){.options = o}, &run) != LS_OK) fail_msg("%s", ls_status_message());
    assert_int_equal(ls_run_hash(run, hash), LS_OK);
    ls_run_close(run);
    ls_options_destroy(o);
}

/* There and back: the weights keep every bit. */
static void models_go_to_others_and_come_back(void **state) {
    static const char *const formats[] = {"hf", "llmc"};
    char run[PATH_ROOM], there[2 * PATH_ROOM], back[2 * PATH_ROOM], expected[LS_HASH_CHARS], found[LS_HASH_CHARS];
    ls_options *o = tiny(inside("exported"));
    ls_exchanged model;
    ls_tokenizer *tokenizer = NULL;
    (void)state;
    snprintf(run, sizeof run, "%s", inside("exported"));
    assert_int_equal(run_all(&(ls_run_setup){.options = o, .data = &own}, to_the_end), LS_OK);
    ls_options_destroy(o);
    memcpy(expected, shared->hash, sizeof expected);
    for (int i = 0; i < 2; i++) {
        snprintf(there, sizeof there, "%s-%s", run, formats[i]);
        snprintf(back, sizeof back, "%s-%s-back", run, formats[i]);
        const char *const away[][2] = {{"model", run}, {"out", there}, {"format", formats[i]}, {"tokenizer", "bytes"}};
        o = options_of("export", away, 4);
        if (ls_export(o, &model) != LS_OK) fail_msg("%s", ls_status_message());
        assert_string_equal(model.name, "tiny");
        assert_int_equal(ls_export(o, &model), LS_ERR_INPUT); /* it is there */
        assert_int_equal(ls_import(o, &model), LS_ERR_INPUT); /* of another command */
        ls_options_destroy(o);
        const char *const home[][2] = {{"model", there}, {"out", back}};
        o = options_of("import", home, 2);
        if (ls_import(o, &model) != LS_OK) fail_msg("%s", ls_status_message());
        assert_string_equal(model.from, i == 0 ? "Hugging Face" : "llm.c");
        assert_true(model.parameters > 0);
        ls_options_destroy(o);
        model_hash(back, found);
        assert_string_equal(found, expected);
    }
    snprintf(there, sizeof there, "%s-hf", run);
    assert_int_equal(ls_tokenizer_open(there, &tokenizer), LS_OK);
    assert_int_equal(ls_tokenizer_vocab(tokenizer), 256);
    ls_tokenizer_close(tokenizer);
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
    assert_non_null(strstr(ls_plan_json(plan), "\"runners_up\""));
    assert_int_equal(ls_plan_apply(plan, 0, train), LS_OK);
    assert_int_equal(ls_plan_apply(plan, 99, train), LS_ERR_INPUT);
    assert_int_equal(ls_verify(&(ls_run_setup){.options = train, .data = &own}, 2), LS_OK);
    assert_int_not_equal(access(inside("planned"), F_OK), 0);
    ls_plan_destroy(plan);
    ls_options_destroy(question);
    ls_options_destroy(train);
}

/* In the place where a run looks for the figures of this machine. */
static void write_machine(void) {
    static ls_native_machine machine;
    ls_placement placement;
    char path_of_it[PATH_MAX];
    make_machine(&machine);
    for (int i = 0; i < machine.links; i++)
        for (int k = 0; k < LS_NATIVE_LINK_SIZES; k++) machine.link[i].seconds[k] = 1e-3; /* as a file may have it */
    assert_int_equal(ls_placement_make(1, 0, false, &placement), LS_OK);
    machine.cores = placement.cores;
    if (machine.cores == 1) machine.rates[0].threads = 1;
    ls_placement_free(&placement);
    snprintf(machine.cpu, sizeof machine.cpu, "%s", ls_cpu_detect()->model);
    snprintf(machine.isa, sizeof machine.isa, "%s", ls_kernels_get()->isa);
    assert_true(ls_probe_is_current(&machine));
    assert_int_equal(ls_probe_file_path(path_of_it), LS_OK);
    assert_int_equal(ls_probe_file_write(path_of_it, &machine), LS_OK);
    if (ls_probe_file_read(path_of_it, &machine) != LS_OK) fail_msg("%s", ls_status_message());
}

typedef struct chosen {
    int measures, plans, layouts;
    double workers, seconds;
    ls_options *same; /* gets the layout by name */
} chosen;

static ls_status note_plan(void *ctx, const ls_run_event *event) {
    chosen *c = ctx;
    c->measures += event->kind == LS_RUN_MEASURES;
    if (event->kind != LS_RUN_PLANNED) return LS_OK;
    c->plans++;
    c->layouts = ls_plan_count(event->plan);
    c->workers = ls_plan_number(event->plan, 0, "dp") * ls_plan_number(event->plan, 0, "tp") *
                 ls_plan_number(event->plan, 0, "pp");
    c->seconds = ls_plan_number(event->plan, 0, "seconds");
    return ls_plan_apply(event->plan, 0, c->same);
}

static void a_run_chooses_its_layout(void **state) {
    ls_options *o = tiny(inside("chosen")), *plain = tiny(inside("plain"));
    chosen c = {.same = tiny(inside("same"))};
    char expected[LS_HASH_CHARS];
    off_t written;
    (void)state;
    write_machine();
    assert_int_equal(run_all(&(ls_run_setup){.options = plain, .data = &own}, to_the_end), LS_OK);
    memcpy(expected, shared->hash, sizeof expected);
    set(o, "auto-layout", "true");
    set(o, "dp", "2");
    set(o, "tp", "1");
    set(o, "pp", "1");
    ls_run_setup setup = {.options = o, .data = &own, .event = note_plan, .event_ctx = &c};
    if (run_silently(&setup, to_the_end, &written) != LS_OK) fail_msg("%s", ls_status_message());
    assert_int_equal(written, 0);
    assert_true(c.measures == 0 && c.plans == 1 && c.layouts > 1 && c.workers == 2 && c.seconds > 0);
    assert_int_equal(shared->workers, 2);
    assert_string_equal(shared->hash, expected);
    assert_int_equal(run_all(&(ls_run_setup){.options = c.same, .data = &own}, to_the_end), LS_OK);
    assert_int_equal(shared->workers, 2);
    assert_string_equal(shared->hash, expected);
    ls_options_destroy(o);
    ls_options_destroy(plain);
    ls_options_destroy(c.same);
}

static ls_status count_layouts(void *ctx, const ls_run_event *event) {
    int *layouts = ctx;
    *layouts += event->kind == LS_RUN_VERIFIED && strstr(event->text, ": the same bits") != NULL;
    return LS_OK;
}

static void the_options_of_verify(void **state) {
    const char *const given[][2] = {{"model", "tiny"}, {"seq", "8"},     {"steps", "1"},
                                    {"dp", "2"},       {"threads", "1"}, {"pin", "false"}};
    ls_options *o = options_of("verify", given, 6);
    int layouts = 0;
    (void)state;
    ls_run_setup setup = {.options = o, .event = count_layouts, .event_ctx = &layouts};
    if (ls_verify(&setup, 0) != LS_OK) fail_msg("%s", ls_status_message());
    assert_int_equal(layouts, 1);
    setenv("LS_FAULT_BITS", "1:1:blocks.3.mlp.in.weight", 1);
    ls_status status = ls_verify(&setup, 0);
    unsetenv("LS_FAULT_BITS");
    assert_int_equal(status, LS_ERR_FAILED);
    assert_non_null(strstr(ls_status_message(), "element"));
    assert_int_equal(layouts, 1);
    ls_options_destroy(o);
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

/* The layout does not change under a program that makes the steps itself; `lockstep resize` gets an error. */
static void own_steps_are_not_resized(void **state) {
    (void)state;
    ls_options *options = tiny(inside("resized"));
    set(options, "restarts", "2");
    set(options, "workers", "2");
    assert_int_equal(run_all(&(ls_run_setup){.options = options, .data = &own}, resized_in_vain), LS_OK);
    assert_int_equal(shared->step, 3);
    assert_int_equal(shared->workers, 2);
    assert_int_equal(shared->events, LS_RESIZES_OWN_STEPS);
    ls_options_destroy(options);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_go_by_name),
        cmocka_unit_test(same_weights_as_the_program),
        cmocka_unit_test(own_data_and_who_resumes),
        cmocka_unit_test(a_run_does_it_all_and_is_silent),
        cmocka_unit_test(own_images_on_any_layout),
        cmocka_unit_test(a_run_writes_as_its_model_does),
        cmocka_unit_test(tokenizers_encode_and_decode),
        cmocka_unit_test(text_becomes_token_files),
        cmocka_unit_test(models_go_to_others_and_come_back),
        cmocka_unit_test(a_layout_is_planned_and_verified),
        cmocka_unit_test(a_run_chooses_its_layout),
        cmocka_unit_test(the_options_of_verify),
        cmocka_unit_test(own_steps_are_not_resized),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
