/* test_options.c: the option table keeps its own rules, values are read as written, and each source beats the weaker
 * ones. Expected numbers are written out here, not taken from the code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/status.h"
#include "config/options.h"
#include "config/suggest.h"
#include "config/value.h"

enum { ARGS_MAX = 8 };

/* Parses flags given as one text, separated by spaces. */
static ls_status parse(ls_options *options, ls_command command, const char *flags) {
    static char words[ARGS_MAX][128];
    char *argv[ARGS_MAX];
    int argc = 0;
    while (argc < ARGS_MAX && ls_value_next_word(&flags, words[argc], sizeof words[argc])) {
        argv[argc] = words[argc];
        argc++;
    }
    return ls_options_parse(options, command, argc, argv);
}

static void assert_refused(ls_command command, const char *flags, const char *message) {
    ls_options options;
    ls_status status = parse(&options, command, flags);
    if (status != LS_ERR_INPUT) fail_msg("'%s' gave %s, not LS_ERR_INPUT", flags, ls_status_name(status));
    assert_string_equal(ls_status_message(), message);
}

/* ---- table ------------------------------------------------------------------------------------------------------- */

static bool has_range(ls_option_kind kind) {
    return kind == LS_OPTION_INT || kind == LS_OPTION_FLOAT || kind == LS_OPTION_SIZE || kind == LS_OPTION_TIME;
}

static void test_rows_are_complete(void **state) {
    (void)state;
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        const ls_option_info *info = ls_option_info_get(id);
        assert_non_null(info->name);
        assert_non_null(info->help);
        assert_true(info->help[0] < 'A' || info->help[0] > 'Z' || info->help[1] < 'a');
        assert_true(info->help[strlen(info->help) - 1] != '.');
        assert_true(info->commands != 0 && (info->commands & ~(unsigned)LS_CMD_ALL) == 0);
        assert_true((info->value != NULL) != (info->unset != NULL));
        assert_int_equal(has_range(info->kind), info->min != NULL);
        assert_int_equal(has_range(info->kind), info->max != NULL);
        assert_int_equal(info->kind == LS_OPTION_CHOICE, info->choices != NULL);
        ls_command first = 0;
        while (!(info->commands & (1u << first))) first++;
        assert_int_equal(ls_option_find_of(first, info->name), id);
    }
}

static void test_fields_are_named_as_options(void **state) {
    (void)state;
    static const char *const fields[] = {
#define LS_OPTION(field, kind, ...) #field,
#define LS_CHOICE(field, type, list, ...) #field,
#include "config/options.def"
#undef LS_CHOICE
#undef LS_OPTION
    };
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        const char *name = ls_option_info_get(id)->name;
        /* A list may have the name of the single value that other commands take. */
        size_t length = strlen(name);
        assert_true(!fields[id][length] || strcmp(fields[id] + length, "_list") == 0);
        for (size_t i = 0; name[i]; i++) assert_int_equal(name[i] == '-' ? '_' : name[i], fields[id][i]);
    }
}

/* A word gives its value, a value its word, and no two choices share either. */
static void test_choices_are_values(void **state) {
    (void)state;
    int lists = 0, value = 77;
    ls_options options;
    ls_options_defaults(&options);
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        const ls_option_info *info = ls_option_info_get(id);
        if (info->kind != LS_OPTION_CHOICE) continue;
        lists++;
        for (const ls_option_choice *c = info->choices; c->word; c++) {
            assert_int_equal(ls_options_put(&options, id, c->word, LS_ORIGIN_FLAG, 0), LS_OK);
            assert_int_equal(*(const int *)ls_options_field(&options, id), c->value);
            assert_string_equal(ls_choice_word(info->choices, c->value), c->word);
            assert_true(ls_choice_find(info->choices, c->word, &value) && value == c->value);
            assert_true(ls_options_is_value(&options, id, c->word));
            assert_int_equal(ls_options_is_value(&options, id, info->choices->word), c == info->choices);
        }
        assert_false(ls_choice_find(info->choices, "frobnicate", &value));
        assert_string_equal(ls_choice_word(info->choices, 77), "unknown");
    }
    assert_in_range(lists, 20, LS_OPTION_COUNT);
    ls_options_fini(&options);
    assert_string_equal(ls_lr_kind_name(LS_LR_WSD), "wsd");
    assert_string_equal(ls_dtype_word(LS_F16), "fp16");
    assert_string_equal(ls_plan_type_name(LS_PLAN_FP8), "fp8");
    assert_string_equal(ls_outlier_action_name(LS_OUTLIER_SKIP), "skip-group");
}

/* Options that change the result have places 1, 2, 3 … in the identity of a run; conditions are on choices. */
static void test_places_in_the_identity(void **state) {
    (void)state;
    bool taken[LS_OPTION_COUNT + 1] = {true};
    int last = 0;
    ls_options options;
    ls_options_defaults(&options);
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        const ls_option_info *info = ls_option_info_get(id);
        const ls_option_identity *as = &info->identity;
        assert_in_range(as->place, 0, LS_OPTION_COUNT);
        if (as->place && taken[as->place]) fail_msg("--%s has the place of another option", info->name);
        taken[as->place] = true;
        if (as->place > last) last = as->place;
        if (as->place == 0) assert_true(!as->absent && !as->rule && !as->free.values);
        if (info->with.values) assert_int_equal(ls_option_info_get(info->with.id)->kind, LS_OPTION_CHOICE);
        if (as->free.values) assert_int_equal(ls_option_info_get(as->free.id)->kind, LS_OPTION_CHOICE);
        if (as->as == LS_AS_YES_NO) assert_int_equal(info->kind, LS_OPTION_BOOL);
        if (as->as == LS_AS_EXPONENT) assert_int_equal(info->kind, LS_OPTION_FLOAT);
        if (as->rule) assert_non_null(info->value);
    }
    for (int place = 1; place <= last; place++) assert_true(taken[place]);
    assert_true(last >= 40);
    ls_options_fini(&options);
}

/* Setting a default or a limit through the front door checks that it can be read and lies inside the range. */
static void test_defaults_and_limits_are_legal(void **state) {
    (void)state;
    ls_options options;
    ls_options_defaults(&options);
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        const ls_option_info *info = ls_option_info_get(id);
        const char *const texts[] = {info->value, info->min, info->max};
        for (int i = 0; i < 3; i++) {
            if (texts[i] && ls_options_put(&options, id, texts[i], LS_ORIGIN_FLAG, 0) != LS_OK) {
                fail_msg("%s", ls_status_message());
            }
        }
    }
    ls_options_fini(&options);
}

static void test_workers_limit_is_that_of_the_library(void **state) {
    (void)state;
    int64_t max = 0;
    assert_int_equal(ls_value_parse_int(ls_option_info_get(LS_OPT_workers)->max, &max), LS_OK);
    assert_int_equal(max, LS_WORKERS_MAX);
}

static void test_defaults(void **state) {
    (void)state;
    ls_options options;
    assert_int_equal(parse(&options, LS_COMMAND_BENCH_COMM, ""), LS_OK);
    assert_int_equal(options.workers, 0);
    assert_int_equal(options.threads, 0);
    assert_true(options.pin);
    assert_true(options.timeout == 300.0);
    assert_int_equal(options.shm_heap, 0);
    assert_int_equal(options.min_size, 4096);
    assert_int_equal(options.max_size, 268435456);
    assert_int_equal(options.rounds, 3);
    assert_int_equal(options.buffers, LS_BUFFERS_SHARED);
    assert_int_equal(options.isa, LS_ISA_AUTO);
    assert_null(options.trace);
    assert_false(options.json);
    ls_options_fini(&options);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void test_int(void **state) {
    (void)state;
    int64_t out = 77;
    assert_int_equal(ls_value_parse_int("-12", &out), LS_OK);
    assert_true(out == -12);
    assert_int_equal(ls_value_parse_int("9223372036854775807", &out), LS_OK);
    assert_true(out == INT64_MAX);
    assert_int_equal(ls_value_parse_int("-9223372036854775808", &out), LS_OK);
    assert_true(out == INT64_MIN);
    out = 77;
    static const char *const bad[] = {"",
                                      "-",
                                      "4x",
                                      " 4",
                                      "4 ",
                                      "1e3",
                                      "0x10",
                                      "4.0",
                                      "+-3",
                                      "٣",
                                      "1,000",
                                      "nan",
                                      "--4",
                                      "9223372036854775808",
                                      "-9223372036854775809"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (ls_value_parse_int(bad[i], &out) != LS_ERR_INPUT) fail_msg("'%s' was taken for a whole number", bad[i]);
    }
    assert_true(out == 77);
}

static void test_float(void **state) {
    (void)state;
    double out = 77;
    assert_int_equal(ls_value_parse_float("3e-4", &out), LS_OK);
    assert_true(out == 0.0003);
    assert_int_equal(ls_value_parse_float("-.5", &out), LS_OK);
    assert_true(out == -0.5);
    out = 77;
    static const char *const bad[] = {"", ".", "nan", "inf", "-inf", "1e999", "0x1p3", "1e", "1.2.3", " 1", "1 ", "1f"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (ls_value_parse_float(bad[i], &out) != LS_ERR_INPUT) fail_msg("'%s' was taken for a number", bad[i]);
    }
    assert_true(out == 77);
}

static void test_size(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"7B", 7},
                {"64KiB", 65536},
                {"16MiB", 16777216},
                {"1GiB", 1073741824},
                {"2TiB", 2199023255552},
                {"18446744073709551615", SIZE_MAX}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        size_t out = 77;
        assert_int_equal(ls_value_parse_size(good[i].text, &out), LS_OK);
        assert_true(out == good[i].bytes);
    }
    static const char *const bad[] = {
        "", "-1", "KiB", "64KB", "64 KiB", "1.5GiB", "4k", "64KiBs", "18446744073709551616", "16777216TiB"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t out;
        if (ls_value_parse_size(bad[i], &out) != LS_ERR_INPUT) fail_msg("'%s' was taken for a size", bad[i]);
    }
}

static void test_time(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double seconds;
    } good[] = {{"5", 5},      {"0.25", 0.25}, {"500ms", 0.5},  {"5s", 5},
                {"2min", 120}, {"1.5h", 5400}, {"1day", 86400}, {"1e2s", 100}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double out = 77;
        assert_int_equal(ls_value_parse_time(good[i].text, &out), LS_OK);
        assert_true(out == good[i].seconds);
    }
    static const char *const bad[] = {"", "s", "5 s", "5sec", "nan", "inf", "1e999", "5m", "5ss"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double out;
        if (ls_value_parse_time(bad[i], &out) != LS_ERR_INPUT) fail_msg("'%s' was taken for a time", bad[i]);
    }
}

static void test_bool(void **state) {
    (void)state;
    bool out = false;
    assert_int_equal(ls_value_parse_bool("Yes", &out), LS_OK);
    assert_true(out);
    assert_int_equal(ls_value_parse_bool("off", &out), LS_OK);
    assert_false(out);
    assert_int_equal(ls_value_parse_bool("2", &out), LS_ERR_INPUT);
    assert_int_equal(ls_value_parse_bool("", &out), LS_ERR_INPUT);
}

static void test_distance(void **state) {
    (void)state;
    assert_int_equal(ls_suggest_distance("workers", "workers"), 0);
    assert_int_equal(ls_suggest_distance("wrokers", "workers"), 1);
    assert_int_equal(ls_suggest_distance("kitten", "sitting"), 3);
    assert_int_equal(ls_suggest_distance("", "abc"), 3);
    assert_null(ls_option_nearest(LS_COMMAND_VERIFY, "frobnicate"));
    assert_string_equal(ls_option_nearest(LS_COMMAND_VERIFY, "thread"), "threads");
}

/* Every row of the table of other programs' names leads to an option, by names that are not that option's own. */
static void test_foreign_names(void **state) {
    (void)state;
    char answer[LS_FOREIGN_ANSWER_MAX];
    for (size_t i = 0; ls_foreign_get(i); i++) {
        const ls_foreign *row = ls_foreign_get(i);
        ls_option_id id = ls_option_find(row->option);
        assert_true(id < LS_OPTION_COUNT);
        for (const char *at = row->names; *at;) {
            char name[64];
            size_t length = strcspn(at, " ");
            assert_in_range(length, 1, sizeof name - 1);
            snprintf(name, sizeof name, "%.*s", (int)length, at);
            for (ls_command command = 0; command < LS_COMMAND_COUNT; command++)
                if (ls_option_info_get(id)->commands & (1u << command)) {
                    ls_option_id own = ls_option_find_of(command, name);
                    assert_true(own == LS_OPTION_COUNT || !(ls_option_info_get(own)->commands & (1u << command)));
                    assert_true(ls_foreign_answer(command, name, LS_ORIGIN_FLAG, answer));
                }
            at += length + strspn(at + length, " ");
        }
    }
    static const struct {
        ls_command command;
        const char *name;
        ls_option_origin origin;
        const char *answer;
    } cases[] = {
        {LS_COMMAND_TRAIN, "learning-rate", LS_ORIGIN_FLAG, "lockstep calls it --lr"},
        {LS_COMMAND_TRAIN, "learning_rate", LS_ORIGIN_FILE, "lockstep calls it lr"},
        {LS_COMMAND_TRAIN, "learning-rate", LS_ORIGIN_ENV, "lockstep calls it LS_LR"},
        {LS_COMMAND_EVAL, "batch_size", LS_ORIGIN_FLAG, "lockstep calls it --micro-batch"},
        {LS_COMMAND_TRAIN, "Global_Batch", LS_ORIGIN_FLAG, "did you mean --global-batch?"},
        {LS_COMMAND_TRAIN, "seq_length", LS_ORIGIN_FLAG, "did you mean --seq?"},
        {LS_COMMAND_TRAIN, "no_master_weights", LS_ORIGIN_FLAG, "did you mean --no-master-weights?"},
        {LS_COMMAND_TRAIN, "glboal_batch", LS_ORIGIN_FLAG, "did you mean --global-batch?"},
        {LS_COMMAND_PLAN, "num-gpus", LS_ORIGIN_FLAG, "lockstep calls it --gpus"},
        {LS_COMMAND_TRAIN, "bf16", LS_ORIGIN_FLAG, "use --precision bf16"},
        {LS_COMMAND_GENERATE, "max_new_tokens", LS_ORIGIN_FLAG, "lockstep calls it --max-tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(ls_foreign_answer(cases[i].command, cases[i].name, cases[i].origin, answer));
        assert_string_equal(answer, cases[i].answer);
    }
    assert_false(ls_foreign_answer(LS_COMMAND_VERIFY, "frobnicate", LS_ORIGIN_FLAG, answer));
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static void test_forms_of_flags(void **state) {
    (void)state;
    ls_options options;
    assert_int_equal(parse(&options, LS_COMMAND_BENCH_COMM, "--workers 3 --min-size=8KiB --no-pin --json --ops a=b"),
                     LS_OK);
    assert_int_equal(options.workers, 3);
    assert_int_equal(options.min_size, 8192);
    assert_false(options.pin);
    assert_true(options.json);
    assert_string_equal(options.ops, "a=b");
    assert_int_equal(options.source[LS_OPT_workers].origin, LS_ORIGIN_FLAG);
    assert_int_equal(options.source[LS_OPT_threads].origin, LS_ORIGIN_DEFAULT);
    ls_options_fini(&options);
    assert_int_equal(parse(&options, LS_COMMAND_VERIFY, "--workers 3 --nproc-per-node 5 --pin=false"), LS_OK);
    assert_int_equal(options.workers, 5);
    assert_false(options.pin);
    ls_options_fini(&options);
}

static void test_values_that_are_joined(void **state) {
    (void)state;
    ls_options options;
    assert_int_equal(parse(&options, LS_COMMAND_PLAN, "--cluster A100 --link 10gbe --cluster=b.json --link hdr"),
                     LS_OK);
    assert_string_equal(options.cluster, "A100,b.json");
    assert_string_equal(options.link, "hdr");
    ls_options_fini(&options);
    assert_int_equal(setenv("LS_CLUSTER", "V100", 1), 0);
    assert_int_equal(parse(&options, LS_COMMAND_PLAN, "--cluster A100"), LS_OK);
    assert_string_equal(options.cluster, "A100");
    ls_options_fini(&options);
    assert_int_equal(unsetenv("LS_CLUSTER"), 0);
    assert_refused(LS_COMMAND_PLAN, "--cluster A100 --cluster=", "--cluster '': must not be empty");
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++)
        if (ls_option_info_get(id)->joins) assert_int_equal(ls_option_info_get(id)->kind, LS_OPTION_STRING);
}

static void test_refusals(void **state) {
    (void)state;
    assert_refused(LS_COMMAND_VERIFY, "--workers 0", "--workers 0: must be between 1 and 512");
    assert_refused(LS_COMMAND_VERIFY, "--workers 513", "--workers 513: must be between 1 and 512");
    assert_refused(LS_COMMAND_VERIFY, "--workers -1", "--workers -1: must be between 1 and 512");
    assert_refused(LS_COMMAND_VERIFY, "--workers 4x", "--workers 4x: must be a whole number, such as 4");
    assert_refused(LS_COMMAND_VERIFY, "--workers=", "--workers '': must not be empty");
    assert_refused(LS_COMMAND_VERIFY, "--isa sse", "--isa sse: must be auto, portable, neon, avx2 or avx512");
    assert_refused(LS_COMMAND_VERIFY, "--timeout 10ms", "--timeout 10ms: must be between 0.1s and 1day");
    assert_refused(LS_COMMAND_VERIFY, "--workers", "--workers needs a value (lockstep verify --help says which)");
    assert_refused(LS_COMMAND_VERIFY, "--workers --json",
                   "--workers needs a value (lockstep verify --help says which)");
    assert_refused(
        LS_COMMAND_BENCH_COMM, "--wrokers 2",
        "unknown flag --wrokers for 'bench comm'; did you mean --workers? (lockstep bench comm --help-all lists them)");
    assert_refused(LS_COMMAND_VERIFY, "--min-size 4KiB",
                   "--min-size is a flag of 'bench comm', not of 'verify' (lockstep verify --help-all lists them)");
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_precedence(void **state) {
    (void)state;
    char folder[] = "/tmp/test_options.XXXXXX", path[64], flags[128], where[LS_OPTION_WHERE_MAX], expected[128];
    ls_options options;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/run.json", folder);
    write_file(path, "{\"workers\": 2,\n \"threads\": 3,\n \"min_size\": \"8KiB\",\n \"timeout\": 0.5}\n");
    assert_int_equal(setenv("LS_WORKERS", "5", 1), 0);
    assert_int_equal(setenv("LS_THREADS", "6", 1), 0);
    snprintf(flags, sizeof flags, "--workers 7 --config %s", path);
    ls_status status = parse(&options, LS_COMMAND_BENCH_COMM, flags);
    unsetenv("LS_WORKERS");
    unsetenv("LS_THREADS");
    unlink(path);
    rmdir(folder);
    assert_int_equal(status, LS_OK);
    assert_int_equal(options.workers, 7);
    assert_int_equal(options.threads, 6);
    assert_int_equal(options.min_size, 8192);
    assert_true(options.timeout == 0.5);
    assert_int_equal(options.rounds, 3);
    ls_options_where(&options, LS_OPT_workers, where);
    assert_string_equal(where, "--workers 7");
    ls_options_where(&options, LS_OPT_threads, where);
    assert_string_equal(where, "LS_THREADS=6");
    ls_options_where(&options, LS_OPT_min_size, where);
    snprintf(expected, sizeof expected, "%s:3: min-size: 8KiB", path);
    assert_string_equal(where, expected);
    ls_options_where(&options, LS_OPT_rounds, where);
    assert_string_equal(where, "--rounds (default 3)");
    ls_options_fini(&options);
}

static void count_line(void *ctx, ls_log_level level, const char *line, size_t bytes) {
    (void)bytes;
    assert_int_equal(level, LS_LOG_WARN);
    assert_non_null(strstr(line, "LS_WROKERS"));
    assert_non_null(strstr(line, "LS_WORKERS"));
    ++*(int *)ctx;
}

static void test_slip_in_the_environment(void **state) {
    (void)state;
    int lines = 0;
    assert_int_equal(setenv("LS_WROKERS", "5", 1), 0);
    assert_int_equal(setenv("LS_COLORS", "rs=0", 1), 0);
    ls_log_set_sink(count_line, &lines);
    ls_options_warn_env(LS_COMMAND_VERIFY);
    ls_log_set_sink(NULL, NULL);
    unsetenv("LS_WROKERS");
    assert_int_equal(lines, 1);
}

int main(void) {
    /* LS_* variables that the developer has exported must not change the tests. */
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        char env[LS_OPTION_ENV_MAX];
        ls_option_env_name(ls_option_info_get(id), env);
        unsetenv(env);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_complete),
        cmocka_unit_test(test_fields_are_named_as_options),
        cmocka_unit_test(test_choices_are_values),
        cmocka_unit_test(test_places_in_the_identity),
        cmocka_unit_test(test_defaults_and_limits_are_legal),
        cmocka_unit_test(test_workers_limit_is_that_of_the_library),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_int),
        cmocka_unit_test(test_float),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_bool),
        cmocka_unit_test(test_distance),
        cmocka_unit_test(test_foreign_names),
        cmocka_unit_test(test_forms_of_flags),
        cmocka_unit_test(test_values_that_are_joined),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_slip_in_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
