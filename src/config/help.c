/* help.c: writes --help, --help-all and docs/reference/options.md. All facts about an option come from its row of the
 * table.
 *
 *     --help          the options of .common under the headings of their groups, a line or two each: what and default
 *     --help-all      all options, with details, range, variable in the environment and aliases */
#include "config/help.h"

#include <string.h>

#include "config/value.h"

/* A limit with so many digits is not worth printing. */
enum { INDENT = 24, FACTS_MAX = 700, TEXT_MAX = 1400, WORD_MAX = 64, NO_LIMIT_DIGITS = 15, MARKDOWN_COLUMNS = 100 };

#define FORMS                                                                                                          \
    "Write --name value or --name=value; sizes as 4096, 64KiB, 16MiB or 1GiB, times as 5, 500ms, 5s or 2min. Options " \
    "can also come from the environment, as LS_ and the name in capitals, or from the file that --config names; "      \
    "flags override the environment, and the environment overrides the file."

/* Writes an empty line and a heading, bold with escape codes if `colour`. */
static void write_heading(FILE *out, bool colour, const char *text) {
    fprintf(out, colour ? "\n\033[1m%s\033[0m\n" : "\n%s\n", text);
}

/* Counts the characters of UTF-8 text. */
static int count_columns(const char *text) {
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

/* Writes words, the first at `column`, where the line already is, in lines of at most `columns` characters; further
 * lines begin with `indent` blanks. Ends with a newline. */
static void write_wrapped(FILE *out, const char *text, int indent, int column, int columns) {
    char word[WORD_MAX];
    bool first = true;
    while (ls_value_next_word(&text, word, sizeof word)) {
        int length = count_columns(word);
        if (!first && column + 1 + length > columns) {
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

/* Writes an option as help shows it, "--workers N" or "--[no-]pin"; brief: a switch only in the form that changes its
 * default, "--json" or "--no-pin". */
static void flag_form(const ls_option_info *info, const char *metavar, bool brief, char *text, size_t room) {
    static const char *const metavars[] = {
        [LS_OPTION_BOOL] = "",     [LS_OPTION_INT] = "N",       [LS_OPTION_FLOAT] = "X",     [LS_OPTION_SIZE] = "SIZE",
        [LS_OPTION_TIME] = "TIME", [LS_OPTION_STRING] = "TEXT", [LS_OPTION_CHOICE] = "NAME",
    };
    if (info->kind == LS_OPTION_BOOL) {
        bool is_on = info->value && strcmp(info->value, "true") == 0;
        snprintf(text, room, "--%s%s", brief ? (is_on ? "no-" : "") : "[no-]", info->name);
    } else {
        snprintf(text, room, "--%s %s", info->name, metavar ? metavar : metavars[info->kind]);
    }
}

/* Writes "1 to 512 workers", "0 or more steps" (where the maximum has 15 digits or more) or "auto, portable or neon";
 * "" for a text or a switch. */
static void range_form(const ls_option_info *info, const ls_option_choice *choices, char *text, size_t room) {
    text[0] = '\0';
    if (info->min) {
        bool open = info->kind == LS_OPTION_INT && strlen(info->max) >= NO_LIMIT_DIGITS;
        snprintf(text, room, "%s %s%s%s%s", info->min, open ? "or more" : "to ", open ? "" : info->max,
                 info->unit ? " " : "", info->unit ? info->unit : "");
    }
    if (choices) ls_choice_list(choices, text, room);
}

/* Returns what help puts in front of a default: "default: ", or "" if `without` begins with "required". */
static const char *default_label(const char *without) {
    return strncmp(without, "required", strlen("required")) == 0 ? "" : "default: ";
}

/* ---- one command ------------------------------------------------------------------------------------------------- */

/* Writes a flag and its text, wrapped, from column INDENT on; a long flag has a line of its own. */
static void write_flag(FILE *out, const ls_option_info *info, const char *metavar, bool brief, const char *text) {
    char form[WORD_MAX];
    flag_form(info, metavar, brief, form, sizeof form);
    int used = fprintf(out, "  %s", form);
    if (used < INDENT - 1)
        fprintf(out, "%*s", INDENT - used, "");
    else
        fprintf(out, "\n%*s", INDENT, "");
    write_wrapped(out, text, INDENT, INDENT, LS_HELP_COLUMNS);
}

/* Writes the line or two of --help for an option: what it sets, choices, default. */
static void write_short(FILE *out, ls_option_id id, ls_command command) {
    const ls_option_info *info = ls_option_info_get(id);
    ls_option_words words = ls_option_words_of(id, command);
    char text[TEXT_MAX], range[FACTS_MAX] = "";
    if (words.choices) range_form(info, words.choices, range, sizeof range);
    /* The default of a switch that is off, and of a text that is not given, needs no mention. */
    bool is_plain = info->kind == LS_OPTION_BOOL || strcmp(words.without, "none") == 0;
    if (is_plain)
        snprintf(text, sizeof text, "%s", words.help);
    else
        snprintf(text, sizeof text, "%s (%s%s%s%s)", words.help, range, *range ? "; " : "",
                 default_label(words.without), words.without);
    write_flag(out, info, words.metavar, true, text);
}

/* Writes the entry of --help-all for an option, with details, range, variable and aliases. */
static void write_full(FILE *out, ls_option_id id, ls_command command) {
    const ls_option_info *info = ls_option_info_get(id);
    ls_option_words words = ls_option_words_of(id, command);
    char text[TEXT_MAX], range[FACTS_MAX], env[LS_OPTION_ENV_MAX];
    range_form(info, words.choices, range, sizeof range);
    ls_option_env_name(info, env);
    snprintf(text, sizeof text, "%s%s%s", words.help, words.more ? "; " : "", words.more ? words.more : "");
    write_flag(out, info, words.metavar, false, text);
    snprintf(text, sizeof text, "%s%s%s%s; %s%s%s", range, *range ? "; " : "", default_label(words.without),
             words.without, env, info->aliases ? "; also --" : "", info->aliases ? info->aliases : "");
    fprintf(out, "%*s", INDENT, "");
    write_wrapped(out, text, INDENT, INDENT, LS_HELP_COLUMNS);
}

/* Returns whether a command's help lists the option under `group`, among its common options (`common`) or among the
 * others. */
static bool is_on_page(ls_option_id id, ls_command command, ls_option_group group, bool common) {
    const ls_option_info *info = ls_option_info_get(id);
    unsigned bit = 1u << command;
    return (info->commands & bit) && !!(info->common & bit) == common && ls_option_words_of(id, command).group == group;
}

/* Writes the options of a group under its heading, common ones first and others only if `all`. Returns their number; 0
 * writes no heading. */
static int write_group(FILE *out, ls_command command, ls_option_group group, bool all, bool colour) {
    int count = 0;
    for (int common = 1; common >= !all; common--) {
        for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
            if (!is_on_page(id, command, group, common)) continue;
            if (count++ == 0) write_heading(out, colour, ls_option_group_name(group));
            (all ? write_full : write_short)(out, id, command);
        }
    }
    return count;
}

/* Writes each line of `examples` behind `indent`. */
static void write_examples(FILE *out, const char *examples, const char *indent) {
    for (const char *at = examples, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        fprintf(out, "%s%.*s\n", indent, (int)(end - at), at);
    }
}

void ls_help_command(FILE *out, ls_command command, bool all, bool colour) {
    const ls_command_info *about = ls_command_info_get(command);
    fprintf(out, "lockstep %s: %s\n", about->name, about->summary);
    write_heading(out, colour, "Usage");
    ls_option_id operand = ls_option_operand(command, 0);
    bool has_operand = operand < LS_OPTION_COUNT;
    fprintf(out, "  lockstep %s %s%s[options]\n", about->name, has_operand ? ls_option_info_get(operand)->metavar : "",
            has_operand ? " " : "");
    int shown = 0, options = 0;
    for (ls_option_group group = 0; group < LS_GROUP_COUNT; group++)
        shown += write_group(out, command, group, all, colour);
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++)
        options += (ls_option_info_get(id)->commands & (1u << command)) != 0;
    if (all) {
        fputs("\n  ", out);
        write_wrapped(out, FORMS, 2, 2, LS_HELP_COLUMNS);
    }
    write_heading(out, colour, "Examples");
    write_examples(out, about->examples, "  ");
    if (shown < options) fprintf(out, "\nlockstep %s --help-all lists all %d options\n", about->name, options);
}

/* ---- all commands ------------------------------------------------------------------------------------------------ */

/* Returns whether the command's name is "GROUP something"; group NULL: true. */
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

const ls_exit_code ls_exit_codes[] = {
#define LS_STATUS_HELP(name, exit_code, text) {exit_code, text},
    LS_STATUS_LIST(LS_STATUS_HELP)
#undef LS_STATUS_HELP
        {0, NULL}};

/* Writes the exit statuses with their meanings, one a line, as rows of a Markdown table or of plain text. */
static void write_exit_codes(FILE *out, bool markdown) {
    for (const ls_exit_code *e = ls_exit_codes; e->meaning; e++)
        fprintf(out, markdown ? "| %d | %s |\n" : "  %-4d %s\n", e->code, e->meaning);
}

void ls_help_overview(FILE *out, bool colour) {
    fprintf(out, "lockstep %s: distributed training with the same bits on any number of workers\n", LS_VERSION);
    write_heading(out, colour, "Usage");
    fprintf(out, "  lockstep COMMAND [options]\n"
                 "  lockstep COMMAND --help       common options of a command; --help-all lists all\n"
                 "  lockstep --version [--json]\n"
                 "  lockstep --completion SHELL   completions for bash, zsh or fish\n");
    write_heading(out, colour, "Commands");
    ls_help_list(out, NULL);
    write_heading(out, colour, "Exit status");
    write_exit_codes(out, false);
}

/* ---- docs/reference/options.md ----------------------------------------------------------------------------------- */

/* Writes the text of a Markdown table cell, with `|` escaped. */
static void write_cell(FILE *out, const char *text) {
    for (; *text; text++) fprintf(out, "%s%c", *text == '|' ? "\\" : "", *text);
}

/* Writes the names of a set of commands (LS_CMD_* bits), separated by commas. */
static void write_names(FILE *out, unsigned commands) {
    const char *comma = "";
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        if (!(commands & (1u << command))) continue;
        fprintf(out, "%s%s", comma, ls_command_info_get(command)->name);
        comma = ", ";
    }
}

/* Writes the default of the row, unless every command has its own; then those of the commands with their own. */
static void write_defaults(FILE *out, ls_option_id id) {
    const ls_option_info *info = ls_option_info_get(id);
    unsigned own = 0;
    for (int i = 0; i < LS_OPTION_VARIANTS_MAX; i++)
        if (info->in[i].unset) own |= info->in[i].commands;
    ls_command other = 0;
    while (other < LS_COMMAND_COUNT && !(info->commands & ~own & (1u << other))) other++;
    const char *semicolon = "";
    if (other < LS_COMMAND_COUNT) {
        write_cell(out, ls_option_words_of(id, other).without);
        semicolon = "; ";
    }
    for (int i = 0; i < LS_OPTION_VARIANTS_MAX; i++) {
        if (!info->in[i].unset) continue;
        fprintf(out, "%s*", semicolon);
        write_names(out, info->in[i].commands);
        fputs(":* ", out);
        write_cell(out, info->in[i].unset);
        semicolon = "; ";
    }
}

/* Writes the cell that describes an option: the row's help and details, then those of commands with their own. */
static void write_about(FILE *out, const ls_option_info *info) {
    write_cell(out, info->help);
    if (info->more) fprintf(out, "; ");
    if (info->more) write_cell(out, info->more);
    for (int i = 0; i < LS_OPTION_VARIANTS_MAX; i++) {
        const ls_option_variant *own = &info->in[i];
        bool has_more = own->more && *own->more;
        if (!own->help && !has_more) continue;
        fputs("; *", out);
        write_names(out, own->commands);
        fputs(":* ", out);
        if (own->help) write_cell(out, own->help);
        if (own->help && has_more) fputs("; ", out);
        if (has_more) write_cell(out, own->more);
    }
}

/* Writes an option's row of the Markdown table: flag, variable, values, default, commands, description. */
static void write_row(FILE *out, ls_option_id id) {
    const ls_option_info *info = ls_option_info_get(id);
    char form[WORD_MAX], range[FACTS_MAX], env[LS_OPTION_ENV_MAX];
    flag_form(info, info->metavar, false, form, sizeof form);
    range_form(info, info->choices, range, sizeof range);
    ls_option_env_name(info, env);
    fputs("| `", out);
    write_cell(out, form);
    fprintf(out, "` | `%s` | %s | ", env, range);
    write_defaults(out, id);
    fputs(" | ", out);
    if (info->commands == LS_CMD_ALL)
        fputs("all", out);
    else
        write_names(out, info->commands);
    fputs(" | ", out);
    write_about(out, info);
    fputs(" |\n", out);
}

/* Writes the heading and the Markdown table of a group's options; nothing for a group without any. */
static void write_table(FILE *out, ls_option_group group) {
    int count = 0;
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        if (ls_option_info_get(id)->group != group) continue;
        if (count++ == 0)
            fprintf(out,
                    "\n### %s\n\n| flag | environment | values | default | commands | what it does |\n"
                    "|---|---|---|---|---|---|\n",
                    ls_option_group_name(group));
        write_row(out, id);
    }
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
    write_wrapped(out, FORMS, 0, 0, MARKDOWN_COLUMNS);
    fputs("\nA default or a meaning that differs in some commands stands behind their names, *in italics*.\n", out);
    for (ls_option_group group = 0; group < LS_GROUP_COUNT; group++) write_table(out, group);
    fputs("\n## Exit status\n\n| status | meaning |\n|---|---|\n", out);
    write_exit_codes(out, true);
}
