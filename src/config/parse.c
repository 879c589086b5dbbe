/* parse.c: collects the values of one run, from weakest to strongest: table, config file, environment, flags.
 *
 * The flags are read twice: first to check their names and to find --config, whose values are weaker, then to set them.
 * Of a repeated flag the last value counts, unless the table says that its values are joined. */
#include "config/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "config/suggest.h"

enum { FLAG_MAX = 64, SHOWN = 80 };

typedef struct flag {
    ls_option_id id;
    const char *text; /* its value; borrowed from argv, or static */
    int more;         /* number of further values of this flag */
    int operands;     /* number of values without a flag so far */
} flag;

/* Returns LS_ERR_INPUT for a flag that no command has, with a suggestion if one is near. `name`: without the dashes. */
static ls_status fail_unknown(ls_command command, const char *name) {
    const char *own = ls_command_info_get(command)->name;
    char answer[LS_FOREIGN_ANSWER_MAX];
    bool known = ls_foreign_answer(command, name, LS_ORIGIN_FLAG, answer);
    return ls_fail(LS_ERR_INPUT, "unknown flag --%.*s for '%s'%s%s (lockstep %s --help-all lists them)", SHOWN, name,
                   own, known ? "; " : "", known ? answer : "", own);
}

/* Returns LS_ERR_INPUT for a flag that only other commands have, and names the first of those. */
static ls_status fail_other_command(ls_command command, const ls_option_info *info) {
    const char *own = ls_command_info_get(command)->name;
    const ls_foreign *foreign = ls_foreign_find(command, info->name);
    ls_command other = 0;
    while (!(info->commands & (1u << other))) other++;
    return ls_fail(LS_ERR_INPUT, "--%s is a flag of '%s', not of '%s'%s%s (lockstep %s --help-all lists them)",
                   info->name, ls_command_info_get(other)->name, own, foreign && foreign->advice ? "; " : "",
                   foreign && foreign->advice ? foreign->advice : "", own);
}

/* Returns the name of the switch (a BOOL) that the flag `word`, --name or --no-name, sets; NULL if `word` is NULL or
 * not such a flag. Used to explain a value after a switch, as in "--pin yes". */
static const char *find_switch(const char *word) {
    if (!word || strncmp(word, "--", 2) != 0) return NULL;
    const char *name = strncmp(word, "--no-", 5) == 0 ? word + 5 : word + 2;
    ls_option_id id = ls_option_find(name);
    return id < LS_OPTION_COUNT && ls_option_info_get(id)->kind == LS_OPTION_BOOL ? name : NULL;
}

/* Returns LS_ERR_INPUT for a word that is neither a flag nor an operand, with advice by its form and by the word before
 * it (NULL: none). */
static ls_status fail_no_flag(ls_command command, const char *before, const char *word) {
    const char *own = ls_command_info_get(command)->name;
    char given[FLAG_MAX];
    snprintf(given, sizeof given, "%.*s", (int)strcspn(word, "="), word);
    if (word[0] == '-' && given[1] && ls_option_find(given + 1) < LS_OPTION_COUNT)
        return ls_fail(LS_ERR_INPUT, "unknown flag %s for '%s'; flags begin with two dashes: -%s", given, own, given);
    if (word[0] == '-' && word[1] && word[1] != '-') {
        return ls_fail(LS_ERR_INPUT,
                       "unknown flag %.*s for '%s'; flags begin with two dashes (lockstep %s --help-all lists them)",
                       SHOWN, word, own, own);
    }
    const char *name = find_switch(before);
    if (name)
        return ls_fail(LS_ERR_INPUT, "unexpected '%.*s' after %s; write --%s or --no-%s", SHOWN, word, before, name,
                       name);
    ls_option_id operand = ls_option_operand(command, 0);
    if (operand < LS_OPTION_COUNT)
        return ls_fail(LS_ERR_INPUT, "unexpected '%.*s': '%s' takes %s %s", SHOWN, word, own,
                       ls_option_operand(command, 1) < LS_OPTION_COUNT ? "at most two of" : "one",
                       ls_option_info_get(operand)->name);
    return ls_fail(LS_ERR_INPUT,
                   "unexpected '%.*s' for '%s', which takes flags only (lockstep %s --help-all lists them)", SHOWN,
                   word, own, own);
}

/* Returns the option called `name`; LS_OPTION_COUNT if there is none. Sets *negated if it was written as no-NAME, which
 * only a switch can be. */
static ls_option_id find_flag(ls_command command, const char *name, bool *negated) {
    ls_option_id id = ls_option_find_of(command, name);
    *negated = false;
    if (id == LS_OPTION_COUNT && strncmp(name, "no-", 3) == 0) {
        id = ls_option_find_of(command, name + 3);
        if (id < LS_OPTION_COUNT && ls_option_info_get(id)->kind != LS_OPTION_BOOL) id = LS_OPTION_COUNT;
        *negated = id < LS_OPTION_COUNT;
    }
    return id;
}

/* Reads "--resume auto" as the switch --resume-auto, if the command has it. Returns whether it did. */
static bool takes_auto(ls_command command, const char *name, const char *word, flag *out) {
    char with_auto[FLAG_MAX + sizeof "-auto"];
    if (!word || strcmp(word, "auto") != 0) return false;
    (void)snprintf(with_auto, sizeof with_auto, "%s-auto", name);
    ls_option_id id = ls_option_find_of(command, with_auto);
    if (id == LS_OPTION_COUNT || !(ls_option_info_get(id)->commands & (1u << command))) return false;
    out->id = id;
    out->text = "true";
    return true;
}

/* Reads the flag or operand at argv[*at] with its value, and advances *at behind them. `out` holds the previous flag
 * when called, because a flag with several values continues, and this one on return. */
static ls_status next_flag(ls_command command, int argc, char *const argv[], int *at, flag *out) {
    const char *word = argv[*at], *equals = strchr(word, '=');
    char name[FLAG_MAX];
    bool negated;
    ls_option_id operand = ls_option_operand(command, out->operands);
    if (word[0] != '-' && operand < LS_OPTION_COUNT && out->more == 0) {
        *out = (flag){.id = operand, .text = word, .operands = out->operands + 1};
        (*at)++;
        return LS_OK;
    }
    if (out->more > 0 && strncmp(word, "--", 2) != 0) {
        out->text = word;
        out->more--;
        (*at)++;
        return LS_OK;
    }
    if (strncmp(word, "--", 2) != 0 || !word[2]) return fail_no_flag(command, *at ? argv[*at - 1] : NULL, word);
    size_t length = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
    if (length >= sizeof name) return fail_unknown(command, word + 2);
    memcpy(name, word + 2, length);
    name[length] = '\0';

    out->id = find_flag(command, name, &negated);
    if (out->id == LS_OPTION_COUNT) return fail_unknown(command, name);
    const ls_option_info *info = ls_option_info_get(out->id);
    if (!(info->commands & (1u << command))) return fail_other_command(command, info);
    if (negated && equals)
        return ls_fail(LS_ERR_INPUT, "--%s takes no value; write --%s=false or --%s", name, info->name, name);
    (*at)++;
    out->more = info->words > 1 ? info->words - 1 : 0;
    bool may_be_auto = info->kind == LS_OPTION_BOOL && !negated;
    if (may_be_auto && takes_auto(command, name, equals ? equals + 1 : *at < argc ? argv[*at] : NULL, out)) {
        *at += !equals;
    } else if (equals) {
        out->text = equals + 1;
    } else if (info->kind == LS_OPTION_BOOL) {
        out->text = negated ? "false" : "true";
    } else if (*at < argc && strncmp(argv[*at], "--", 2) != 0) {
        out->text = argv[(*at)++];
    } else if (info->bare) {
        out->text = info->bare;
    } else {
        return ls_fail(LS_ERR_INPUT, "--%s needs a value (lockstep %s --help says which)", name,
                       ls_command_info_get(command)->name);
    }
    return LS_OK;
}

/* Appends the value to that of earlier flags of the same option, with the option's separator; an empty value is refused
 * as for one flag. */
static ls_status join_flag(ls_options *options, const flag *given) {
    const char *before = options->source[given->id].text;
    char *text, joint = ls_option_info_get(given->id)->joint;
    if (!*given->text) return ls_options_put(options, given->id, given->text, LS_ORIGIN_FLAG, 0);
    if (asprintf(&text, "%s%c%s", before, joint ? joint : ',', given->text) < 0)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for the values of --%s", ls_option_info_get(given->id)->name);
    ls_status status = ls_options_put(options, given->id, text, LS_ORIGIN_FLAG, 0);
    free(text);
    return status;
}

/* Sets the options that flags give. only_config: the first pass, which checks all names but sets only --config. */
static ls_status read_flags(ls_options *options, ls_command command, int argc, char *const argv[], bool only_config) {
    flag given = {.id = LS_OPTION_COUNT};
    for (int at = 0; at < argc;) {
        LS_TRY(next_flag(command, argc, argv, &at, &given));
        if (only_config && given.id != LS_OPT_config) continue;
        bool again = options->source[given.id].origin == LS_ORIGIN_FLAG && ls_option_info_get(given.id)->joins;
        LS_TRY(again ? join_flag(options, &given) : ls_options_put(options, given.id, given.text, LS_ORIGIN_FLAG, 0));
    }
    return LS_OK;
}

/* Sets an option from its LS_* variable, if the command has the option and the variable is set, also if it is empty. */
static ls_status read_env(ls_options *options, ls_command command, ls_option_id id) {
    const ls_option_info *info = ls_option_info_get(id);
    char name[LS_OPTION_ENV_MAX];
    ls_option_env_name(info, name);
    const char *text = info->commands & (1u << command) ? getenv(name) : NULL;
    return text ? ls_options_put(options, id, text, LS_ORIGIN_ENV, 0) : LS_OK;
}

ls_status ls_options_parse(ls_options *options, ls_command command, int argc, char *const argv[]) {
    ls_status status;
    ls_options_defaults(options);
    options->command = command;
    LS_TRY_OUT(read_env(options, command, LS_OPT_config));
    LS_TRY_OUT(read_flags(options, command, argc, argv, true));
    if (options->config) LS_TRY_OUT(ls_options_read_file(options, command));
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        if (id != LS_OPT_config) LS_TRY_OUT(read_env(options, command, id));
    }
    LS_TRY_OUT(read_flags(options, command, argc, argv, false));
out:
    if (status != LS_OK) ls_options_fini(options);
    return status;
}

/* Turns LS_MIN_SIZE=4 into the option's name "min-size". Returns false for a variable without LS_ in front, or with a
 * name of 64 bytes or more. */
static bool name_from_variable(const char *variable, char name[FLAG_MAX]) {
    size_t length = strcspn(variable, "=");
    if (strncmp(variable, "LS_", 3) != 0 || length - 3 >= FLAG_MAX) return false;
    for (size_t i = 3; i < length; i++) {
        name[i - 3] = variable[i] == '_' ? '-' : (char)tolower((unsigned char)variable[i]);
    }
    name[length - 3] = '\0';
    return true;
}

void ls_options_warn_env(ls_command command) {
    char name[FLAG_MAX], answer[LS_FOREIGN_ANSWER_MAX];
    for (char **variable = environ; *variable; variable++) {
        if (!name_from_variable(*variable, name) || ls_option_find(name) < LS_OPTION_COUNT) continue;
        const char *near = ls_option_nearest(command, name);
        /* Many variables are not lockstep's, so only an obvious typo is worth a warning. */
        bool is_slip = near && ls_suggest_distance(name, near) <= 2;
        if (!is_slip && !ls_foreign_find(command, name)) continue;
        if (ls_foreign_answer(command, name, LS_ORIGIN_ENV, answer))
            ls_log_warn("%.*s in the environment is not an option; %s", (int)strcspn(*variable, "="), *variable,
                        answer);
    }
}
