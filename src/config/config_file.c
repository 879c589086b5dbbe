/* config_file.c: reads the file that --config names. The format goes by the name (.json, .yaml, .yml) or, for other
 * names, by the first character. */
#include "config/config_file.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/files.h"
#include "base/status.h"
#include "config/foreign.h"

enum { FILE_MAX = 1 << 20, KEY_MAX = 64, SHOWN = 80 };

ls_status ls_config_fail(const ls_config_reader *reader, int line, const char *format, ...) {
    char reason[LS_MESSAGE_MAX], number[16] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    if (line > 0) snprintf(number, sizeof number, ":%d", line);
    return ls_fail(LS_ERR_INPUT, "%.*s%s: %s", SHOWN, reader->path, number, reason);
}

ls_status ls_config_entry(ls_config_reader *reader, const char *key, const char *text, int line) {
    char name[KEY_MAX];
    snprintf(name, sizeof name, "%s", key);
    for (char *at = name; *at; at++) {
        if (*at == '_') *at = '-';
    }
    if (strcmp(name, LS_CONFIG_STARTED_IN) == 0) return LS_OK; /* of the config.json of a run: no option */
    ls_option_id id = strlen(key) < sizeof name ? ls_option_find_of(reader->command, name) : LS_OPTION_COUNT;
    if (id == LS_OPTION_COUNT) {
        char answer[LS_FOREIGN_ANSWER_MAX];
        bool known = ls_foreign_answer(reader->command, key, LS_ORIGIN_FILE, answer);
        return ls_config_fail(reader, line, "unknown option '%.*s'%s%s", SHOWN, key, known ? "; " : "",
                              known ? answer : "");
    }
    if (id == LS_OPT_config) return ls_config_fail(reader, line, "config: a config file cannot name another one");
    if (reader->seen[id]) return ls_config_fail(reader, line, "%s is given twice; keep one", name);
    reader->seen[id] = true;
    return ls_options_put(reader->options, id, text, LS_ORIGIN_FILE, line);
}

static bool has_suffix(const char *path, const char *suffix) {
    size_t length = strlen(path), tail = strlen(suffix);
    return length >= tail && strcasecmp(path + length - tail, suffix) == 0;
}

ls_status ls_options_read_file(ls_options *options, ls_command command) {
    char *text = NULL;
    size_t bytes = 0, blank = 0;
    ls_status status = ls_file_read(options->config, FILE_MAX, &text, &bytes);
    if (status != LS_OK) {
        char where[LS_OPTION_WHERE_MAX];
        ls_options_where(options, LS_OPT_config, where);
        return ls_fail_at(status, "%s: ", where);
    }
    ls_config_reader reader = {
        .path = options->config, .text = text, .bytes = bytes, .options = options, .command = command};
    while (blank < bytes && strchr(" \t\r\n", text[blank]) && text[blank]) blank++;
    bool named_yaml = has_suffix(reader.path, ".yaml") || has_suffix(reader.path, ".yml");
    if (blank < bytes) {
        bool is_json = has_suffix(reader.path, ".json") || (!named_yaml && text[blank] == '{');
        status = is_json ? ls_config_read_json(&reader) : ls_config_read_yaml(&reader);
    }
    free(text);
    return status;
}
