/* print.c: what commands print with. */
#include "cli/print.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "device/choose.h"

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Prints a value with jansson's flags and releases it. Leaves write errors to main(), which checks standard output at
 * the end. */
static ls_status print(json_t *value, size_t flags) {
    char *text = value ? json_dumps(value, flags) : NULL;
    json_decref(value);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for the JSON of the results");
    puts(text);
    free(text);
    return LS_OK;
}

ls_status ls_cli_print_json(json_t *value) { return print(value, JSON_COMPACT); }
ls_status ls_cli_print_json_lines(json_t *value) { return print(value, JSON_INDENT(1) | JSON_REAL_PRECISION(6)); }

json_t *ls_cli_json_real_if(bool there, double value) { return there ? json_real(value) : NULL; }
json_t *ls_cli_json_text_if(const char *text) { return text ? json_string(text) : NULL; }
json_t *ls_cli_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *ls_cli_json_path(const char *path) {
    json_t *text = json_string(path);
    return text ? text : json_string("(not UTF-8)");
}

json_t *ls_cli_json_list(int count, json_t *(*item)(const void *ctx, int i), const void *ctx) {
    json_t *list = json_array();
    for (int i = 0; list && i < count; i++)
        if (json_array_append_new(list, item(ctx, i)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

bool ls_cli_reader_is_gone(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

void ls_cli_progress_end(void) {
    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r\033[K");
    fflush(stderr);
}

void ls_cli_progress(const char *format, ...) {
    va_list args;
    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r\033[K");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}

void ls_cli_progress_probe(void *ctx, const char *what) {
    (void)ctx;
    if (what)
        ls_cli_progress("measuring this machine: %s", what);
    else
        ls_cli_progress_end();
}

ls_cli_text ls_cli_bytes(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    ls_cli_text out;
    int u = 0;
    for (; value >= 1024 && u < 4; u++) value /= 1024;
    snprintf(out.text, sizeof out.text, "%.*f %s", u == 0 ? 0 : 1, value, units[u]);
    return out;
}

/* ---- quoting ----------------------------------------------------------------------------------------------------- */

/* Characters that need no quotes in a shell. */
static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:=+@%-";

/* Appends a text to `word` from position `used` on, cut to the room with its NUL; returns the new length. */
static size_t append(char *word, size_t used, size_t room, const char *text) {
    for (; *text && used + 1 < room; text++) word[used++] = *text;
    word[used] = '\0';
    return used;
}

const char *ls_cli_visible(const char *text, char *out, size_t room) {
    size_t used = 0;
    for (; *text && used + 1 < room; text++)
        out[used++] = (char)((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
    out[used] = '\0';
    return out;
}

const char *ls_shell_word(const char *text, char *word, size_t room) {
    size_t used = 0;
    if (*text && text[strspn(text, plain)] == '\0') {
        (void)append(word, used, room, text);
        return word;
    }
    used = append(word, used, room, "'");
    for (; *text; text++) {
        char one[16] = {*text, '\0'};
        /* What a terminal would obey is spelled, as bash and zsh read it. */
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            snprintf(one, sizeof one, "'$'\\%03o''", (unsigned)(unsigned char)*text);
        used = append(word, used, room, *text == '\'' ? "'\\''" : one);
    }
    (void)append(word, used, room, "'");
    return word;
}

const char *ls_shell_program(char *word, size_t room) { return ls_shell_word(program_invocation_name, word, room); }

void ls_cli_print_device(const char *name, ls_unit unit) {
    ls_device_choice chosen;
    if (ls_device_choose(name, 1, unit, &chosen) == LS_OK && *chosen.about) printf("device: %s\n", chosen.about);
}
