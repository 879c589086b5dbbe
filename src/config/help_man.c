/* help_man.c: writes man pages from the tables of commands and options. */
#include <stdbool.h>
#include <string.h>

#include "config/help.h"

/* Writes the UTF-8 character of 2 to 4 bytes at `text` as \[uXXXX], which every roff understands; returns its bytes.
 * Does not check the text, because the tables are valid UTF-8. */
static size_t put_character(FILE *out, const unsigned char *text) {
    size_t bytes = text[0] >= 0xF0 ? 4 : text[0] >= 0xE0 ? 3 : 2;
    unsigned code = text[0] & (0xFFU >> (bytes + 1));
    for (size_t i = 1; i < bytes; i++) code = code << 6 | (text[i] & 0x3F);
    fprintf(out, "\\[u%04X]", code);
    return bytes;
}

/* Writes `bytes` bytes of text escaped for roff: a backslash becomes \e, a literal dash \-, and a dot or quote at the
 * start of a line must not become a request. */
static void put_text(FILE *out, const char *text, size_t bytes) {
    bool at_begin = true;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (at_begin && (c == '.' || c == '\'')) fputs("\\&", out);
        if (c == '\\')
            fputs("\\e", out);
        else if (c == '-')
            fputs("\\-", out);
        else if ((unsigned char)c >= 0x80)
            i += put_character(out, (const unsigned char *)text + i) - 1;
        else
            fputc(c, out);
        at_begin = c == '\n';
    }
}

/* Writes a text escaped for roff. */
static void put_string(FILE *out, const char *text) { put_text(out, text, strlen(text)); }

/* Writes the .TH line, as in LOCKSTEP-BENCH-COMM; name NULL: the page of the program itself. */
static void put_title(FILE *out, const char *name) {
    fputs(".TH LOCKSTEP", out);
    if (name) fputc('-', out);
    for (const char *c = name ? name : ""; *c; c++)
        fputc(*c == ' ' ? '-' : *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c, out);
    fprintf(out, " 1 \"\" \"lockstep %s\" \"User Commands\"\n", LS_VERSION);
}

/* Writes the name of a command's page, such as "lockstep-bench-comm", with its dashes escaped for roff. */
static void put_page_name(FILE *out, const char *name) {
    fputs("lockstep\\-", out);
    for (; *name; name++) fputs(*name == ' ' || *name == '-' ? "\\-" : (char[]){*name, '\0'}, out);
}

/* Writes the section EXIT STATUS. */
static void put_exit_status(FILE *out) {
    fputs(".SH EXIT STATUS\n", out);
    for (const ls_exit_code *e = ls_exit_codes; e->meaning; e++) {
        fprintf(out, ".TP\n.B %d\n", e->code);
        put_string(out, e->meaning);
        fputc('\n', out);
    }
}

/* Writes the page of the program itself: synopsis and commands. */
static void put_program(FILE *out) {
    put_title(out, NULL);
    fputs(".SH NAME\nlockstep \\- distributed training with the same bits on any number of workers\n"
          ".SH SYNOPSIS\n.B lockstep\n.I COMMAND\n.RI [ options ]\n.br\n.B lockstep \\-\\-version\n.RB [ \\-\\-json ]\n"
          ".SH COMMANDS\n",
          out);
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        const ls_command_info *about = ls_command_info_get(command);
        fputs(".TP\n.B ", out);
        put_string(out, about->name);
        fputc('\n', out);
        put_string(out, about->summary);
        fputc('\n', out);
    }
    fputs("\nEach has a page of its own, as in\n.BR lockstep\\-train (1).\n", out);
    put_exit_status(out);
}

/* Writes the entry of an option: flag, value, help and details, choices or range, default, variable. */
static void put_option(FILE *out, ls_option_id id, ls_command command) {
    const ls_option_info *info = ls_option_info_get(id);
    ls_option_words words = ls_option_words_of(id, command);
    char list[1024], env[LS_OPTION_ENV_MAX];
    fputs(".TP\n.B \\-\\-", out);
    put_string(out, info->name);
    if (info->kind == LS_OPTION_BOOL) {
        fputs(", \\-\\-no\\-", out);
        put_string(out, info->name);
    }
    fputc('\n', out);
    if (info->kind != LS_OPTION_BOOL) {
        fputs(".I ", out);
        put_string(out, words.metavar                  ? words.metavar
                        : words.choices                ? "WORD"
                        : info->kind == LS_OPTION_TIME ? "TIME"
                                                       : "N");
        fputc('\n', out);
    }
    put_string(out, words.help);
    if (words.more && *words.more) {
        fputs("; ", out);
        put_string(out, words.more);
    }
    fputs(".\n", out);
    if (words.choices) {
        ls_choice_list(words.choices, list, sizeof list);
        put_string(out, list);
        fputs(".\n", out);
    } else if (info->min) {
        put_string(out, info->min);
        fputs(" to ", out);
        put_string(out, info->max);
        if (info->unit) fputc(' ', out);
        if (info->unit) put_string(out, info->unit);
        fputs(".\n", out);
    }
    fputs("Default: ", out);
    put_string(out, words.without);
    ls_option_env_name(info, env);
    fprintf(out, ". Variable: %s.\n", env);
}

/* Writes the section EXAMPLES, one command line to a line, in a block without line filling. */
static void put_examples(FILE *out, const char *examples) {
    fputs(".SH EXAMPLES\n.nf\n", out);
    put_string(out, examples);
    fputs(".fi\n", out);
}

void ls_help_man(FILE *out, ls_command command) {
    if (command >= LS_COMMAND_COUNT) {
        put_program(out);
        return;
    }
    const ls_command_info *about = ls_command_info_get(command);
    ls_option_id operand = ls_option_operand(command, 0);
    put_title(out, about->name);
    fputs(".SH NAME\n", out);
    put_page_name(out, about->name);
    fputs(" \\- ", out);
    put_string(out, about->summary);
    fputs("\n.SH SYNOPSIS\n.B lockstep ", out);
    put_string(out, about->name);
    fputc('\n', out);
    if (operand < LS_OPTION_COUNT) {
        fputs(".I ", out);
        put_string(out, ls_option_info_get(operand)->metavar);
        fputc('\n', out);
    }
    fputs(".RI [ options ]\n.SH OPTIONS\n", out);
    for (ls_option_group group = 0; group < LS_GROUP_COUNT; group++) {
        bool headed = false;
        for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
            bool has = ls_option_info_get(id)->commands & (1u << command);
            if (!has || ls_option_words_of(id, command).group != group) continue;
            if (!headed) fprintf(out, ".SS %s\n", ls_option_group_name(group));
            headed = true;
            put_option(out, id, command);
        }
    }
    put_examples(out, about->examples);
    put_exit_status(out);
    fputs(".SH SEE ALSO\n.BR lockstep (1)\n", out);
}
