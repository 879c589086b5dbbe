/* options.c: the table of options, and setting one of them. Every value, also a default, a minimum and a maximum, is a
 * text that parse_value() parses, so a limit means the same as a user's value. */
#include "config/options.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "config/suggest.h"
#include "config/value.h"

/* How many characters of a user's text a message repeats. */
enum { TEXT_SHOWN = 80, NAME_MAX_CHARS = 64 };

static const ls_command_info commands[LS_COMMAND_COUNT] = {
#define LS_COMMAND(id, function, command_name, command_summary, command_examples)                                      \
    [LS_COMMAND_##id] = {.name = command_name, .summary = command_summary, .examples = command_examples},
#include "config/commands.def"
#undef LS_COMMAND
};

static const ls_option_info table[LS_OPTION_COUNT] = {
#define LS_OPTION(field, option_kind, ...)                                                                             \
    [LS_OPT_##field] = {.kind = LS_OPTION_##option_kind, .offset = offsetof(ls_options, field), __VA_ARGS__},
#define LS_CHOICE(field, type, list, ...)                                                                              \
    [LS_OPT_##field] = {                                                                                               \
        .kind = LS_OPTION_CHOICE, .offset = offsetof(ls_options, field), .choices = LS_CHOICES(list), __VA_ARGS__},
#include "config/options.def"
#undef LS_CHOICE
#undef LS_OPTION
};

const ls_command_info *ls_command_info_get(ls_command command) { return &commands[command]; }

const ls_option_info *ls_option_info_get(ls_option_id id) { return &table[id]; }

const char *ls_option_group_name(ls_option_group group) {
    static const char *const names[LS_GROUP_COUNT] = {[LS_GROUP_NONE] = "Other",
#define LS_GROUP_NAME(id, heading) [LS_GROUP_##id] = heading,
                                                      LS_OPTION_GROUPS(LS_GROUP_NAME)
#undef LS_GROUP_NAME
    };
    return names[group];
}

/* Returns the default as help shows it ("on", "off" for a switch), or the row's words for what happens without a
 * value. */
static const char *default_text(const ls_option_info *info) {
    if (info->kind == LS_OPTION_BOOL && info->value) return strcmp(info->value, "true") == 0 ? "on" : "off";
    return info->value ? info->value : info->unset;
}

ls_option_words ls_option_words_of(ls_option_id id, ls_command command) {
    const ls_option_info *info = &table[id];
    ls_option_words words = {.help = info->help,
                             .more = info->more,
                             .choices = info->choices,
                             .metavar = info->metavar,
                             .group = info->group,
                             .without = default_text(info)};
    for (int i = 0; i < LS_OPTION_VARIANTS_MAX; i++) {
        const ls_option_variant *own = &info->in[i];
        if (!(own->commands & (1u << command))) continue;
        if (own->help) words.help = own->help;
        if (own->more) words.more = *own->more ? own->more : NULL;
        if (own->choices) words.choices = own->choices;
        if (own->metavar) words.metavar = own->metavar;
        if (own->group) words.group = own->group;
        if (own->unset) words.without = own->unset;
        words.is_own |= own->unset != NULL;
    }
    return words;
}

/* Returns whether this is the option's name or one of its aliases. */
static bool is_called(const ls_option_info *info, const char *name) {
    char alias[NAME_MAX_CHARS];
    if (strcmp(info->name, name) == 0) return true;
    for (const char *rest = info->aliases; ls_value_next_word(&rest, alias, sizeof alias);)
        if (strcmp(alias, name) == 0) return true;
    return false;
}

ls_option_id ls_option_find(const char *name) {
    ls_option_id id = 0;
    while (id < LS_OPTION_COUNT && !is_called(&table[id], name)) id++;
    return id;
}

ls_option_id ls_option_find_of(ls_command command, const char *name) {
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++)
        if (table[id].commands & (1u << command) && is_called(&table[id], name)) return id;
    return ls_option_find(name);
}

ls_option_id ls_option_operand(ls_command command, int n) {
    ls_option_id last = LS_OPTION_COUNT;
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        if (!(table[id].operand & (1u << command))) continue;
        if (n-- == 0) return id;
        last = id;
    }
    return last < LS_OPTION_COUNT && table[last].joins ? last : LS_OPTION_COUNT;
}

const char *ls_option_nearest(ls_command command, const char *word) {
    ls_suggest suggest;
    ls_suggest_init(&suggest, word);
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        if (table[id].commands & (1u << command)) ls_suggest_offer(&suggest, table[id].name);
    }
    return suggest.best;
}

void ls_option_env_name(const ls_option_info *info, char name[LS_OPTION_ENV_MAX]) {
    snprintf(name, LS_OPTION_ENV_MAX, "LS_%s", info->name);
    for (char *at = name; *at; at++) *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
}

/* ---- one value --------------------------------------------------------------------------------------------------- */

typedef union value {
    bool boolean;
    int64_t integer;
    double real;
    size_t bytes;
    const char *text;
    int choice; /* any enum has the size of an int */
} value;

/* Bytes of the field of each kind, and of the union's member. */
static const size_t field_bytes[] = {
    [LS_OPTION_BOOL] = sizeof(bool),          [LS_OPTION_INT] = sizeof(int64_t), [LS_OPTION_FLOAT] = sizeof(double),
    [LS_OPTION_SIZE] = sizeof(size_t),        [LS_OPTION_TIME] = sizeof(double), [LS_OPTION_CHOICE] = sizeof(int),
    [LS_OPTION_STRING] = sizeof(const char *)};

/* Parses a value. A STRING borrows `text`, which must then live as long as the value. */
static ls_status parse_value(const ls_option_info *info, const char *text, value *out) {
    switch (info->kind) {
    case LS_OPTION_BOOL: return ls_value_parse_bool(text, &out->boolean);
    case LS_OPTION_INT: return ls_value_parse_int(text, &out->integer);
    case LS_OPTION_FLOAT: return ls_value_parse_float(text, &out->real);
    case LS_OPTION_SIZE: return ls_value_parse_size(text, &out->bytes);
    case LS_OPTION_TIME: return ls_value_parse_time(text, &out->real);
    case LS_OPTION_CHOICE: return ls_value_parse_choice(text, info->choices, &out->choice);
    case LS_OPTION_STRING: break;
    }
    out->text = text;
    return *text ? LS_OK : ls_fail(LS_ERR_INPUT, "must not be empty");
}

/* Returns whether a < b, both values of this numeric kind. */
static bool is_below(ls_option_kind kind, const value *a, const value *b) {
    switch (kind) {
    case LS_OPTION_INT: return a->integer < b->integer;
    case LS_OPTION_SIZE: return a->bytes < b->bytes;
    default: return a->real < b->real;
    }
}

/* Fails if the value is outside the row's limits, both inclusive; a row without limits accepts every value. */
static ls_status check_range(const ls_option_info *info, const value *given) {
    value min, max;
    if (!info->min) return LS_OK;
    LS_TRY(parse_value(info, info->min, &min));
    LS_TRY(parse_value(info, info->max, &max));
    if (!is_below(info->kind, given, &min) && !is_below(info->kind, &max, given)) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "must be between %s and %s%s%s", info->min, info->max, info->unit ? " " : "",
                   info->unit ? info->unit : "");
}

/* Copies a parsed value into the option's field, without its source. Of a STRING only the pointer is copied, so its
 * text must outlive `options`. */
static void store_value(ls_options *options, const ls_option_info *info, const value *given) {
    memcpy((char *)options + info->offset, given, field_bytes[info->kind]);
}

const void *ls_options_field(const ls_options *options, ls_option_id id) {
    return (const char *)options + table[id].offset;
}

bool ls_options_hold(const ls_options *options, ls_option_with condition) {
    if (condition.values == 0) return true;
    return condition.values >> *(const int *)ls_options_field(options, condition.id) & 1u;
}

bool ls_options_is_value(const ls_options *options, ls_option_id id, const char *text) {
    ls_option_kind kind = table[id].kind;
    value own = {0}, other = {0};
    if (parse_value(&table[id], text, &other) != LS_OK) return false;
    memcpy(&own, ls_options_field(options, id), field_bytes[kind]);
    if (kind == LS_OPTION_STRING) return strcmp(own.text, text) == 0;
    if (kind == LS_OPTION_FLOAT || kind == LS_OPTION_TIME) return own.real == other.real;
    return memcmp(&own, &other, field_bytes[kind]) == 0;
}

/* ---- all values -------------------------------------------------------------------------------------------------- */

void ls_options_reset(ls_options *options, ls_option_id id) {
    value given = {0};
    free(options->source[id].text);
    options->source[id] = (ls_option_source){0};
    ls_status status = table[id].value ? parse_value(&table[id], table[id].value, &given) : LS_OK;
    assert(status == LS_OK);
    (void)status;
    store_value(options, &table[id], &given);
}

void ls_options_defaults(ls_options *options) {
    memset(options, 0, sizeof *options);
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) ls_options_reset(options, id);
}

void ls_options_fini(ls_options *options) {
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) free(options->source[id].text);
    memset(options, 0, sizeof *options);
}

/* Writes the place and the value of `source` for a message. `source` need not be the option's present one: a value that
 * is refused is not stored. */
static void describe_source(const ls_options *options, ls_option_id id, const ls_option_source *source,
                            char where[LS_OPTION_WHERE_MAX]) {
    const ls_option_info *info = &table[id];
    const char *file = options->config;
    const char *text = source->text && !*source->text ? "''" : source->text;
    char env[LS_OPTION_ENV_MAX], line[16] = "";
    ls_option_env_name(info, env);
    if (source->line > 0) snprintf(line, sizeof line, ":%d", source->line);
    switch (source->origin) {
    case LS_ORIGIN_DEFAULT:
        snprintf(where, LS_OPTION_WHERE_MAX, "--%s (default %s)", info->name,
                 ls_option_words_of(id, options->command).without);
        break;
    case LS_ORIGIN_FILE:
        snprintf(where, LS_OPTION_WHERE_MAX, "%.*s%s: %s: %.*s", TEXT_SHOWN, file, line, info->name, TEXT_SHOWN, text);
        break;
    case LS_ORIGIN_ENV: snprintf(where, LS_OPTION_WHERE_MAX, "%s=%.*s", env, TEXT_SHOWN, text); break;
    case LS_ORIGIN_FLAG: snprintf(where, LS_OPTION_WHERE_MAX, "--%s %.*s", info->name, TEXT_SHOWN, text); break;
    }
}

void ls_options_where(const ls_options *options, ls_option_id id, char where[LS_OPTION_WHERE_MAX]) {
    describe_source(options, id, &options->source[id], where);
}

ls_status ls_options_fail(const ls_options *options, ls_option_id id, const char *format, ...) {
    char where[LS_OPTION_WHERE_MAX], reason[LS_MESSAGE_MAX];
    ls_options_where(options, id, where);
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return ls_fail(LS_ERR_INPUT, "%s: %s", where, reason);
}

ls_status ls_options_blame(const ls_options *options, ls_option_id id, ls_status status) {
    char where[LS_OPTION_WHERE_MAX];
    if (status == LS_OK) return LS_OK;
    ls_options_where(options, id, where);
    return ls_fail_at(status, "%s: ", where);
}

ls_status ls_options_put(ls_options *options, ls_option_id id, const char *text, ls_option_origin origin, int line) {
    value given = {0};
    ls_option_source source = {.origin = origin, .line = line, .text = strdup(text)};
    if (!source.text) return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for the value of --%s", table[id].name);
    ls_status status = parse_value(&table[id], source.text, &given);
    if (status != LS_OK && table[id].kind == LS_OPTION_CHOICE) /* again, for a message with this command's words */
        status = ls_value_parse_choice(source.text, ls_option_words_of(id, options->command).choices, &given.choice);
    if (status == LS_OK) status = check_range(&table[id], &given);
    if (status != LS_OK) {
        char where[LS_OPTION_WHERE_MAX];
        describe_source(options, id, &source, where);
        free(source.text);
        return ls_fail_at(status, "%s: ", where);
    }
    free(options->source[id].text);
    options->source[id] = source;
    store_value(options, &table[id], &given);
    return LS_OK;
}

/* ---- --print-config: a YAML file with the same values ------------------------------------------------------------ */

/* Writes a text in double quotes, so that YAML cannot read it as another type; escapes quotes, backslashes and control
 * characters. */
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

/* Writes a comment that says where the value came from, and ends the line. */
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

/* Writes a line of the config file. An option without a value becomes a comment, and so does a default of the command's
 * own, because the row's value would be read back as the user's. */
static void write_option(FILE *out, const ls_options *options, ls_option_id id, ls_command command) {
    const ls_option_info *info = ls_option_info_get(id);
    const char *text = options->source[id].text ? options->source[id].text : info->value;
    ls_option_words words = ls_option_words_of(id, command);
    if (!text || (!options->source[id].text && words.is_own)) {
        fprintf(out, "# %s: %s\n", info->name, words.without);
        return;
    }
    /* These two are about this output itself, so they stay comments. */
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
