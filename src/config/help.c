/* help.c: --help and docs/options.md. Nothing about an option is said here that is not in its row of the table. */
#include "config/help.h"

#include <string.h>

#include "config/value.h"

enum { INDENT = 24, FACTS_MAX = 400, WORD_MAX = 64 };

#define FORMS                                                                                                          \
    "A flag is written --name value or --name=value; sizes as 4096, 64KiB, 16MiB or 1GiB, times as 5, 500ms, 5s or "   \
    "2min. A flag wins over the environment, and that over the file which --config names."

static void heading(FILE *out, bool colour, const char *text) {
    fprintf(out, colour ? "\n\033[1m%s\033[0m\n" : "\n%s\n", text);
}

/* Writes words from `column` on and begins new lines, indented, where one would be longer than the page. */
static void wrap(FILE *out, const char *text, int indent, int column) {
    char word[WORD_MAX];
    bool first = true;
    while (ls_value_next_word(&text, word, sizeof word)) {
        int length = (int)strlen(word);
        if (!first && column + 1 + length > LS_HELP_COLUMNS) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            first = true;
        }
        fprintf(out, "%s%s", first ? "" : " ", word);
        column += length + !first;
        first = false;
    }
    fputc('\n', out);
}

/* "--workers N", "--[no-]pin" */
static void flag_form(const ls_option_info *info, char *text, size_t room) {
    static const char *const metavars[] = {
        [LS_OPTION_BOOL] = "",     [LS_OPTION_INT] = "N",       [LS_OPTION_FLOAT] = "X",   [LS_OPTION_SIZE] = "SIZE",
        [LS_OPTION_TIME] = "TIME", [LS_OPTION_STRING] = "TEXT", [LS_OPTION_ENUM] = "NAME",
    };
    if (info->kind == LS_OPTION_BOOL) {
        snprintf(text, room, "--[no-]%s", info->name);
    } else {
        snprintf(text, room, "--%s %s", info->name, info->metavar ? info->metavar : metavars[info->kind]);
    }
}

/* "1 to 512 workers", "auto, portable or neon"; empty for a text or a switch */
static void range_form(const ls_option_info *info, char *text, size_t room) {
    char word[WORD_MAX];
    text[0] = '\0';
    if (info->min) {
        snprintf(text, room, "%s to %s%s%s", info->min, info->max, info->unit ? " " : "", info->unit ? info->unit : "");
    }
    for (const char *rest = info->choices; ls_value_next_word(&rest, word, sizeof word);) {
        size_t used = strlen(text);
        const char *comma = rest[strspn(rest, " ")] ? ", " : " or ";
        snprintf(text + used, room - used, "%s%s", used ? comma : "", word);
    }
}

static const char *default_form(const ls_option_info *info) {
    if (info->kind == LS_OPTION_BOOL && info->value) return strcmp(info->value, "true") == 0 ? "on" : "off";
    return info->value ? info->value : info->unset;
}

static void write_option(FILE *out, const ls_option_info *info) {
    char form[WORD_MAX], range[FACTS_MAX / 2], facts[FACTS_MAX], env[LS_OPTION_ENV_MAX];
    flag_form(info, form, sizeof form);
    range_form(info, range, sizeof range);
    ls_option_env_name(info, env);
    int used = fprintf(out, "  %-*s", INDENT - 3, form) + 1;
    fputc(' ', out);
    if (used > INDENT) used = fprintf(out, "\n%*s", INDENT, "") - 1;
    wrap(out, info->help, INDENT, used);
    snprintf(facts, sizeof facts, "%s%sdefault: %s; %s%s%s", range, *range ? "; " : "", default_form(info), env,
             info->aliases ? "; also --" : "", info->aliases ? info->aliases : "");
    fprintf(out, "%*s", INDENT, "");
    wrap(out, facts, INDENT, INDENT);
}

static void write_examples(FILE *out, const char *examples, const char *indent) {
    for (const char *at = examples, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        fprintf(out, "%s%.*s\n", indent, (int)(end - at), at);
    }
}

void ls_help_command(FILE *out, ls_command command, bool colour) {
    const ls_command_info *about = ls_command_info_get(command);
    fprintf(out, "lockstep %s: %s\n", about->name, about->summary);
    heading(out, colour, "Usage");
    ls_option_id operand = ls_option_operand(command);
    bool has_operand = operand < LS_OPTION_COUNT;
    fprintf(out, "  lockstep %s %s%s[flags]\n", about->name, has_operand ? ls_option_info_get(operand)->metavar : "",
            has_operand ? " " : "");
    heading(out, colour, "Flags");
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        const ls_option_info *info = ls_option_info_get(id);
        if (info->commands & (1u << command)) write_option(out, info);
    }
    fprintf(out, "  %-*s show this page\n\n  ", INDENT - 3, "--help");
    wrap(out, FORMS, 2, 2);
    heading(out, colour, "Examples");
    write_examples(out, about->examples, "  ");
}

static bool is_in_group(const char *name, const char *group) {
    size_t length = group ? strlen(group) : 0;
    return !group || (strncmp(name, group, length) == 0 && name[length] == ' ');
}

void ls_help_list(FILE *out, const char *group) {
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        const ls_command_info *about = ls_command_info_get(command);
        if (is_in_group(about->name, group)) fprintf(out, "  %-14s %s\n", about->name, about->summary);
    }
}

static void write_exit_codes(FILE *out, bool markdown) {
    static const struct {
        int code;
        const char *meaning;
    } codes[] = {
#define LS_STATUS_HELP(name, exit_code, text) {exit_code, text},
        LS_STATUS_LIST(LS_STATUS_HELP)
#undef LS_STATUS_HELP
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        fprintf(out, markdown ? "| %d | %s |\n" : "  %-4d %s\n", codes[i].code, codes[i].meaning);
    }
}

void ls_help_overview(FILE *out, bool colour) {
    fprintf(out, "lockstep %s: distributed training with the same bits on any number of workers\n", LS_VERSION);
    heading(out, colour, "Usage");
    fprintf(out, "  lockstep COMMAND [flags]\n"
                 "  lockstep help COMMAND\n"
                 "  lockstep --version\n");
    heading(out, colour, "Commands");
    ls_help_list(out, NULL);
    heading(out, colour, "Exit status");
    write_exit_codes(out, false);
}

static void write_row(FILE *out, const ls_option_info *info) {
    char form[WORD_MAX], range[FACTS_MAX / 2], env[LS_OPTION_ENV_MAX];
    flag_form(info, form, sizeof form);
    range_form(info, range, sizeof range);
    ls_option_env_name(info, env);
    fprintf(out, "| `%s` | `%s` | %s | %s | ", form, env, range, default_form(info));
    if (info->commands == LS_CMD_ALL) {
        fputs("all", out);
    } else {
        const char *comma = "";
        for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
            if (!(info->commands & (1u << command))) continue;
            fprintf(out, "%s%s", comma, ls_command_info_get(command)->name);
            comma = ", ";
        }
    }
    fprintf(out, " | %s |\n", info->help);
}

void ls_help_markdown(FILE *out) {
    fputs("# Commands and options\n\n"
          "This page is what `lockstep --help-markdown` prints; `src/config/options.def` is where to change it.\n\n"
          "## Commands\n",
          out);
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        const ls_command_info *about = ls_command_info_get(command);
        fprintf(out, "\n### lockstep %s\n\n%s\n\n", about->name, about->summary);
        write_examples(out, about->examples, "    ");
    }
    fputs("\n## Options\n\n", out);
    wrap(out, FORMS, 0, 0);
    fputs("\n| flag | environment | values | default | commands | what it does |\n|---|---|---|---|---|---|\n", out);
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) write_row(out, ls_option_info_get(id));
    fputs("\n## Exit status\n\n| status | meaning |\n|---|---|\n", out);
    write_exit_codes(out, true);
}
