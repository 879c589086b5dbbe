/* print.c: --print-config. What it prints is a YAML config file: reading it back gives the same values. */
#include "config/options.h"

#include <string.h>

/* Always in quotes, so that no text can be taken for anything else. */
static void write_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f) {
            fprintf(out, "\\x%02x", byte);
        } else {
            fprintf(out, "%s%c", byte == '"' || byte == '\\' ? "\\" : "", byte);
        }
    }
    fputc('"', out);
}

static void write_origin(FILE *out, const ls_options *options, ls_option_id id) {
    const ls_option_source *source = &options->source[id];
    char env[LS_OPTION_ENV_MAX];
    ls_option_env_name(ls_option_info_get(id), env);
    switch (source->origin) {
    case LS_ORIGIN_DEFAULT: fputs("  # default\n", out); break;
    case LS_ORIGIN_FILE: fprintf(out, "  # line %d of the config file\n", source->line); break;
    case LS_ORIGIN_ENV: fprintf(out, "  # %s\n", env); break;
    case LS_ORIGIN_FLAG: fputs("  # flag\n", out); break;
    }
}

/* A default that is a command's own stays a comment as well: the row's value, read back, would be taken for the user's.
 */
static void write_option(FILE *out, const ls_options *options, ls_option_id id, ls_command command) {
    const ls_option_info *info = ls_option_info_get(id);
    const char *text = options->source[id].text ? options->source[id].text : info->value;
    ls_option_words words = ls_option_words_of(id, command);
    if (!text || (!options->source[id].text && words.is_own)) {
        fprintf(out, "# %s: %s\n", info->name, words.without);
        return;
    }
    /* These two are about this very print, so they stay comments. */
    bool is_comment = id == LS_OPT_config || id == LS_OPT_print_config;
    fprintf(out, "%s%s: ", is_comment ? "# " : "", info->name);
    if (info->kind == LS_OPTION_STRING) {
        write_text(out, text);
    } else {
        fputs(text, out);
    }
    write_origin(out, options, id);
}

void ls_options_print(const ls_options *options, ls_command command, FILE *out) {
    fprintf(out, "# lockstep %s\n", ls_command_info_get(command)->name);
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        if (ls_option_info_get(id)->commands & (1u << command)) write_option(out, options, id, command);
    }
}
