/* config_file.c: reads the file that --config names. The format goes by the name (.json, .yaml, .yml) or, for other
 * names, by the first character. */
#include "config/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

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
    ls_option_id id = strlen(key) < sizeof name ? ls_option_find(name) : LS_OPTION_COUNT;
    if (id == LS_OPTION_COUNT) {
        const char *near = ls_option_nearest(reader->command, name);
        if (!near) return ls_config_fail(reader, line, "unknown option '%.*s'", SHOWN, key);
        return ls_config_fail(reader, line, "unknown option '%.*s'; did you mean %s?", SHOWN, key, near);
    }
    if (id == LS_OPT_config) return ls_config_fail(reader, line, "config: a config file cannot name another one");
    if (reader->seen[id]) return ls_config_fail(reader, line, "%s is given twice; keep one", name);
    reader->seen[id] = true;
    return ls_options_set(reader->options, id, text, LS_ORIGIN_FILE, line);
}

/* Reads the file into *text, which the caller frees. */
static ls_status load(const ls_options *options, char **text, size_t *bytes) {
    ls_status status = LS_OK;
    struct stat about;
    size_t used = 0;
    char where[LS_OPTION_WHERE_MAX], *buffer = NULL;
    ls_options_where(options, LS_OPT_config, where);
    int fd = open(options->config, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        status = ls_fail_errno(LS_ERR_INPUT, "%s: cannot be opened", where);
        goto out;
    }
    if (S_ISDIR(about.st_mode)) {
        status = ls_fail(LS_ERR_INPUT, "%s: is a directory; give a YAML or JSON file", where);
        goto out;
    }
    buffer = malloc(FILE_MAX + 1);
    if (!buffer) {
        status = ls_fail_errno(LS_ERR_RESOURCE, "%s: no memory to read it", where);
        goto out;
    }
    while (used <= FILE_MAX) {
        ssize_t count = read(fd, buffer + used, FILE_MAX + 1 - used);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) {
            status = ls_fail_errno(LS_ERR_INPUT, "%s: cannot be read", where);
            goto out;
        }
        if (count == 0) break;
        used += (size_t)count;
    }
    if (used > FILE_MAX) {
        status = ls_fail(LS_ERR_INPUT, "%s: is larger than 1 MiB, so it can hardly be a config file", where);
        goto out;
    }
    *text = buffer;
    *bytes = used;
    buffer = NULL;
out:
    free(buffer);
    if (fd >= 0) close(fd);
    return status;
}

static bool has_suffix(const char *path, const char *suffix) {
    size_t length = strlen(path), tail = strlen(suffix);
    return length >= tail && strcasecmp(path + length - tail, suffix) == 0;
}

ls_status ls_options_read_file(ls_options *options, ls_command command) {
    char *text = NULL;
    size_t bytes = 0, blank = 0;
    LS_TRY(load(options, &text, &bytes));
    ls_config_reader reader = {
        .path = options->config, .text = text, .bytes = bytes, .options = options, .command = command};
    while (blank < bytes && strchr(" \t\r\n", text[blank]) && text[blank]) blank++;
    ls_status status = LS_OK;
    bool named_yaml = has_suffix(reader.path, ".yaml") || has_suffix(reader.path, ".yml");
    if (blank < bytes) {
        bool is_json = has_suffix(reader.path, ".json") || (!named_yaml && text[blank] == '{');
        status = is_json ? ls_config_read_json(&reader) : ls_config_read_yaml(&reader);
    }
    free(text);
    return status;
}
