/* commands.c: from the words of the command line to a command, or to an answer: help in its forms and the version. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "config/help.h"
#include "config/suggest.h"

enum { SHOWN = 80 };

static ls_status (*const functions[LS_COMMAND_COUNT])(const ls_options *) = {
#define LS_COMMAND(id, function, name, summary, examples) [LS_COMMAND_##id] = function,
#include "config/commands.def"
#undef LS_COMMAND
};

ls_status ls_cli_run_command(ls_command command, const ls_options *options) { return functions[command](options); }

static bool is_help_all(const char *word) { return strcmp(word, "--help-all") == 0; }

/* Returns whether the word is --help, -h or --help-all. */
static bool is_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || is_help_all(word);
}

/* Fails if the word is "--help=…" or "-h=…": help takes no value. `command` is named in the message's suggestion. */
static ls_status check_help(const char *word, const char *command) {
    if (strncmp(word, "--help=", 7) != 0 && strncmp(word, "-h=", 3) != 0) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%.*s takes no value; use: lockstep help %s", (int)strcspn(word, "="), word, command);
}

/* Returns how many words the name of the command takes, 1 or 2, if argv begins with it; else 0. */
static int match(ls_command command, int argc, char *const argv[]) {
    const char *name = ls_command_info_get(command)->name, *space = strchr(name, ' ');
    if (!space) return strcmp(argv[0], name) == 0;
    size_t length = (size_t)(space - name);
    bool both =
        argc > 1 && strlen(argv[0]) == length && strncmp(argv[0], name, length) == 0 && strcmp(argv[1], space + 1) == 0;
    return both ? 2 : 0;
}

/* Returns whether the word is the first word of commands of two words, such as "bench". */
static bool is_group(const char *word) {
    size_t length = strlen(word);
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        const char *name = ls_command_info_get(command)->name;
        if (strncmp(name, word, length) == 0 && name[length] == ' ') return true;
    }
    return false;
}

/* Returns LS_ERR_INPUT for words that begin no command, with the nearest command if there is one. */
static ls_status fail_unknown(int argc, char *const argv[]) {
    char words[SHOWN + 1];
    ls_suggest suggest;
    bool both = is_group(argv[0]) && argc > 1;
    snprintf(words, sizeof words, "%s%s%s", argv[0], both ? " " : "", both ? argv[1] : "");
    ls_suggest_init(&suggest, words);
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        ls_suggest_offer(&suggest, ls_command_info_get(command)->name);
    }
    if (words[0] == '-') {
        return ls_fail(LS_ERR_INPUT,
                       "unknown flag %s; a command comes first, then its flags (lockstep --help lists the commands)",
                       words);
    }
    if (strcmp(words, "demo") == 0) {
        return ls_fail(LS_ERR_INPUT,
                       "the command 'demo' was removed; 'lockstep verify --quick' compares the bits of many "
                       "layouts, and 'make demo' trains a small model");
    }
    if (!suggest.best) return ls_fail(LS_ERR_INPUT, "unknown command '%s' (lockstep --help lists them)", words);
    return ls_fail(LS_ERR_INPUT, "unknown command '%s'; did you mean '%s'? (lockstep --help lists them)", words,
                   suggest.best);
}

/* Finds the command that argv begins with; fails if there is none. *count: the words of its name. */
static ls_status find_command(int argc, char *const argv[], ls_command *out, int *count) {
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        *count = match(command, argc, argv);
        *out = command;
        if (*count) return LS_OK;
    }
    return fail_unknown(argc, argv);
}

/* Parses the words after `help` or `--help`: none, a group, or a command, then perhaps --all. */
static ls_status read_help(ls_cli_request *request, int argc, char *const argv[]) {
    int count;
    request->task = LS_CLI_HELP_OVERVIEW;
    if (argc == 0 || is_help(argv[0])) return LS_OK;
    if (argc == 1 && is_group(argv[0])) {
        request->task = LS_CLI_HELP_GROUP;
        request->group = argv[0];
        return LS_OK;
    }
    request->task = LS_CLI_HELP_COMMAND;
    LS_TRY(find_command(argc, argv, &request->command, &count));
    request->all = count < argc && (is_help_all(argv[count]) || strcmp(argv[count], "--all") == 0);
    count += request->all;
    return count == argc ? LS_OK : ls_fail(LS_ERR_INPUT, "unexpected '%.*s' after the command", SHOWN, argv[count]);
}

/* Parses `--help-man [COMMAND]`, which prints a page of the manual. */
static ls_status read_man(ls_cli_request *request, int argc, char *const argv[]) {
    int count = 0;
    request->task = LS_CLI_HELP_MAN;
    request->command = LS_COMMAND_COUNT;
    if (argc > 0) LS_TRY(find_command(argc, argv, &request->command, &count));
    return count == argc ? LS_OK : ls_fail(LS_ERR_INPUT, "unexpected '%.*s' after the command", SHOWN, argv[count]);
}

/* Parses the word after --completion, the name of a shell. */
static ls_status read_completion(ls_cli_request *request, int argc, char *const argv[]) {
    request->task = LS_CLI_COMPLETION;
    for (int shell = 0; argc == 1 && shell < LS_SHELLS; shell++) {
        request->shell = (ls_shell)shell;
        if (strcmp(argv[0], ls_shell_names[shell]) == 0) return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "--completion needs the name of a shell: bash, zsh or fish");
}

ls_status ls_cli_request_read(ls_cli_request *request, int argc, char *const argv[]) {
    int count;
    *request = (ls_cli_request){.task = LS_CLI_USAGE};
    if (argc == 0) return LS_OK;
    LS_TRY(check_help(argv[0], "COMMAND"));
    if (is_help(argv[0]) || strcmp(argv[0], "help") == 0) return read_help(request, argc - 1, argv + 1);
    if (strcmp(argv[0], "--version") == 0 && argc == 2 && strcmp(argv[1], "--json") == 0) {
        request->task = LS_CLI_VERSION_JSON;
        return LS_OK;
    }
    if (strcmp(argv[0], "--help-man") == 0) return read_man(request, argc - 1, argv + 1);
    if (strcmp(argv[0], "--completion") == 0) return read_completion(request, argc - 1, argv + 1);
    if (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "--help-markdown") == 0) {
        request->task = strcmp(argv[0], "--version") == 0 ? LS_CLI_VERSION : LS_CLI_HELP_MARKDOWN;
        return argc == 1 ? LS_OK : ls_fail(LS_ERR_INPUT, "unexpected '%.*s' after %s", SHOWN, argv[1], argv[0]);
    }
    if (is_group(argv[0]) && (argc == 1 || is_help(argv[1]))) {
        request->task = argc == 1 ? LS_CLI_USAGE : LS_CLI_HELP_GROUP;
        request->group = argv[0];
        return LS_OK;
    }
    LS_TRY(find_command(argc, argv, &request->command, &count));
    request->task = LS_CLI_RUN;
    request->argc = argc - count;
    request->argv = argv + count;
    for (int i = 0; i < request->argc; i++) {
        LS_TRY(check_help(request->argv[i], ls_command_info_get(request->command)->name));
        if (is_help(request->argv[i])) request->task = LS_CLI_HELP_COMMAND;
        request->all |= is_help_all(request->argv[i]);
    }
    return LS_OK;
}

/* Returns whether `out` is a terminal with colours and NO_COLOR is not set (no-color.org). */
static bool wants_colour(FILE *out) {
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    bool dumb = !term || !*term || (term[0] == 'd' && term[1] == 'u');
    return isatty(fileno(out)) && !dumb && !(no && *no);
}

/* Writes usage and the commands of a group; NULL: all commands. */
static void write_group(const char *group, FILE *out) {
    fprintf(out, "usage: lockstep %s%s [options]\n\ncommands:\n", group ? group : "COMMAND", group ? " NAME" : "");
    ls_help_list(out, group);
    fprintf(out, "\nlockstep COMMAND --help shows the options of a command\n");
}

void ls_cli_answer(const ls_cli_request *request, FILE *out) {
    switch (request->task) {
    case LS_CLI_HELP_COMMAND: ls_help_command(out, request->command, request->all, wants_colour(out)); break;
    case LS_CLI_HELP_OVERVIEW: ls_help_overview(out, wants_colour(out)); break;
    case LS_CLI_HELP_MARKDOWN: ls_help_markdown(out); break;
    case LS_CLI_HELP_MAN: ls_help_man(out, request->command); break;
    case LS_CLI_COMPLETION: ls_help_completion(out, request->shell); break;
    case LS_CLI_VERSION: ls_cli_write_version(out); break;
    case LS_CLI_VERSION_JSON: ls_cli_write_version_json(out); break;
    case LS_CLI_HELP_GROUP:
    case LS_CLI_USAGE:
    case LS_CLI_RUN: write_group(request->group, out); break;
    }
}
