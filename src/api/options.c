/* options.c: sets and reads options by name, for programs that use the library. */
#include "api/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "config/suggest.h"

ls_status ls_options_create(const char *command, ls_options **out) {
    ls_suggest suggest;
    *out = NULL;
    ls_suggest_init(&suggest, command);
    for (ls_command c = 0; c < LS_COMMAND_COUNT; c++) {
        const char *name = ls_command_info_get(c)->name;
        ls_suggest_offer(&suggest, name);
        if (strcmp(name, command) != 0) continue;
        *out = malloc(sizeof **out);
        if (!*out) return ls_fail(LS_ERR_RESOURCE, "out of memory for options");
        ls_options_defaults(*out);
        (*out)->command = c;
        return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "there is no command '%.80s'%s%s%s", command, suggest.best ? "; did you mean '" : "",
                   suggest.best ? suggest.best : "", suggest.best ? "'?" : "");
}

void ls_options_destroy(ls_options *options) {
    if (!options) return;
    ls_options_fini(options);
    free(options);
}

/* Finds an option by name; returns whether the command of these options has it. */
static bool has_option(const ls_options *o, const char *name, ls_option_id *id) {
    *id = ls_option_find_of(o->command, name);
    return *id < LS_OPTION_COUNT && ls_option_info_get(*id)->commands & (1u << o->command);
}

ls_status ls_options_set(ls_options *o, const char *name, const char *value) {
    ls_option_id id;
    if (!has_option(o, name, &id)) {
        char answer[LS_FOREIGN_ANSWER_MAX];
        bool known = ls_foreign_answer(o->command, name, LS_ORIGIN_FILE, answer);
        return ls_fail(LS_ERR_INPUT, "'%s' has no option '%.80s'%s%s", ls_command_info_get(o->command)->name, name,
                       known ? "; " : "", known ? answer : "");
    }
    if (!value) ls_options_reset(o, id);
    if (!value) return LS_OK;
    LS_TRY(ls_options_put(o, id, value, LS_ORIGIN_FLAG, 0));
    return id == LS_OPT_config ? ls_options_read_file(o, o->command) : LS_OK;
}

const char *ls_options_get(const ls_options *o, const char *name) {
    ls_option_id id;
    if (!has_option(o, name, &id)) return NULL;
    return o->source[id].text ? o->source[id].text : ls_option_info_get(id)->value;
}

ls_status ls_options_expect(const ls_options *o, ls_command command, const char *function) {
    if (o->command == command) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "%s() takes the options of %s, not of %s", function,
                   ls_command_info_get(command)->name, ls_command_info_get(o->command)->name);
}
