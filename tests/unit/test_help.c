/* test_help.c: every option stands under a heading of --help-all, the short page is short, and what a command says of
 * its defaults is its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/help.h"
#include "config/options.h"
#include "config/value.h"

enum { SHORT_MAX = 40, ENTRY_LINES_MAX = 3, INDENT = 24 };

static bool is_of(ls_option_id id, ls_command command) { return ls_option_info_get(id)->commands >> command & 1; }

/* Valid until the next call. */
static const char *page_of(ls_command command, bool all) {
    static char text[1 << 16];
    memset(text, 0, sizeof text);
    FILE *out = fmemopen(text, sizeof text - 1, "w");
    assert_non_null(out);
    ls_help_command(out, command, all, false);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void test_every_option_has_a_group(void **state) {
    (void)state;
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        const ls_option_info *info = ls_option_info_get(id);
        if (info->group == LS_GROUP_NONE || info->group >= LS_GROUP_COUNT)
            fail_msg("--%s needs a .group (config/options.h), the heading under which --help lists it", info->name);
    }
    for (ls_option_group group = 0; group < LS_GROUP_COUNT; group++) assert_non_null(ls_option_group_name(group));
}

static void assert_choices(ls_option_id id, ls_command command, const char *expected) {
    char list[64];
    ls_choice_list(ls_option_words_of(id, command).choices, list, sizeof list);
    assert_string_equal(list, expected);
}

/* What a command says differently is about commands that have the option, once, and says something. */
static void test_words_of_commands(void **state) {
    (void)state;
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        const ls_option_info *info = ls_option_info_get(id);
        unsigned seen = 0;
        for (int i = 0; i < LS_OPTION_VARIANTS_MAX; i++) {
            const ls_option_variant *own = &info->in[i];
            if (own->commands == 0) continue;
            if (own->commands & ~info->commands) fail_msg("--%s: .in names a command that has it not", info->name);
            if (own->commands & seen) fail_msg("--%s: .in names a command twice", info->name);
            seen |= own->commands;
            assert_true(own->unset || own->help || own->more || own->choices || own->metavar || own->group);
            if (own->help) assert_true(own->help[strlen(own->help) - 1] != '.');
            int value;
            for (const ls_option_choice *c = own->choices; c && c->word; c++)
                assert_true(ls_choice_find(info->choices, c->word, &value) && value == c->value);
        }
    }
}

static void test_defaults_are_of_the_command(void **state) {
    (void)state;
    assert_string_equal(ls_option_words_of(LS_OPT_tp, LS_COMMAND_TRAIN).without, "1");
    assert_string_equal(ls_option_words_of(LS_OPT_tp, LS_COMMAND_PLAN).without, "searched");
    assert_string_equal(ls_option_words_of(LS_OPT_precision, LS_COMMAND_TRAIN).without, "fp32");
    assert_choices(LS_OPT_precision, LS_COMMAND_TRAIN, "fp32, bf16 or fp16");
    assert_choices(LS_OPT_precision, LS_COMMAND_PLAN, "fp32, bf16, fp16, fp8 or mxfp8");
    assert_string_equal(ls_option_words_of(LS_OPT_steps, LS_COMMAND_VERIFY).without,
                        "10; 3 with --quick, 40 with --order");
    assert_string_equal(ls_option_words_of(LS_OPT_log_level, LS_COMMAND_VERIFY).without, "error");
    assert_string_equal(ls_option_words_of(LS_OPT_pin, LS_COMMAND_TRAIN).without, "on");
    /* No page speaks of another command's default: "verify: 13". */
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
            const char *without = ls_option_words_of(id, command).without;
            for (ls_command other = 0; is_of(id, command) && other < LS_COMMAND_COUNT; other++) {
                char label[64];
                snprintf(label, sizeof label, "%s: ", ls_command_info_get(other)->name);
                if (strstr(without, label)) fail_msg("--%s: %s", ls_option_info_get(id)->name, without);
            }
        }
    }
}

/* An error and --print-config name the default that the command uses. */
static void test_default_in_messages(void **state) {
    (void)state;
    ls_options options;
    char where[LS_OPTION_WHERE_MAX], text[8192] = "";
    assert_int_equal(ls_options_parse(&options, LS_COMMAND_PLAN, 0, NULL), LS_OK);
    ls_options_where(&options, LS_OPT_tp, where);
    assert_string_equal(where, "--tp (default searched)");
    FILE *out = fmemopen(text, sizeof text - 1, "w");
    assert_non_null(out);
    ls_options_print(&options, LS_COMMAND_PLAN, out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "\n# tp: searched\n"));
    /* Read back, a value would count as given: plan would no longer choose the type for the chip. */
    assert_non_null(strstr(text, "\n# precision: bf16, "));
    assert_null(strstr(text, "\nprecision:"));
    ls_options_fini(&options);
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

/* LS_STEP is not in "LS_STEPS". */
static bool has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", at[length]) || at[length] == '\0') return true;
    return false;
}

static bool is_variable_of(ls_command command, const char *variable) {
    char env[LS_OPTION_ENV_MAX];
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        ls_option_env_name(ls_option_info_get(id), env);
        if (is_of(id, command) && strcmp(env, variable) == 0) return true;
    }
    return false;
}

static void check_lines(const char *text) {
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        int length = (int)strcspn(line, "\n");
        if (length > LS_HELP_LINE_MAX) fail_msg("too long: %.*s", length, line);
        if (length > 0 && line[length - 1] == ' ') fail_msg("a space at the end: %.*s", length, line);
    }
    assert_null(strchr(text, '\033'));
}

static void test_all_options_are_on_the_full_page(void **state) {
    (void)state;
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        const char *text = page_of(command, true);
        char env[LS_OPTION_ENV_MAX];
        check_lines(text);
        for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
            ls_option_env_name(ls_option_info_get(id), env);
            assert_int_equal(has_word(text, env), is_variable_of(command, env));
        }
        assert_null(strstr(text, "--help-all lists"));
    }
}

/* The short page holds the common options in a few lines each, and says where the others are. */
static void test_the_short_page_is_short(void **state) {
    (void)state;
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        const char *text = page_of(command, false);
        char last[128];
        int options = 0, common = 0, entries = 0, lines = 0;
        check_lines(text);
        for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
            options += is_of(id, command);
            common += is_of(id, command) && (ls_option_info_get(id)->common >> command & 1);
        }
        for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
            bool is_entry = strncmp(line, "  --", 4) == 0, goes_on = strspn(line, " ") == INDENT;
            entries += is_entry;
            lines = is_entry ? 1 : goes_on ? lines + 1 : 0;
            if (lines > ENTRY_LINES_MAX) fail_msg("too many lines for --help: %.*s", (int)strcspn(line, "\n"), line);
        }
        assert_int_equal(entries, common);
        assert_in_range(common, 1, SHORT_MAX);
        assert_true(common < options);
        snprintf(last, sizeof last, "\nlockstep %s --help-all lists all %d options\n",
                 ls_command_info_get(command)->name, options);
        size_t length = strlen(text), tail = strlen(last);
        assert_true(length > tail);
        assert_string_equal(text + length - tail, last);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_option_has_a_group),         cmocka_unit_test(test_words_of_commands),
        cmocka_unit_test(test_defaults_are_of_the_command),      cmocka_unit_test(test_default_in_messages),
        cmocka_unit_test(test_all_options_are_on_the_full_page), cmocka_unit_test(test_the_short_page_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
