/* print.h: what commands print with: JSON on standard output, progress on standard error, names for a shell. */
#ifndef LS_CLI_PRINT_H
#define LS_CLI_PRINT_H

#include <jansson.h>
#include <stdbool.h>

#include "device/unit.h"
#include "lockstep.h"

/* ---- results for a program to read ------------------------------------------------------------------------------- */

/* Both end the value. NULL, which is what jansson makes without memory, is LS_ERR_RESOURCE. */
/* In one line, numbers to the last bit. */
ls_status ls_cli_print_json(json_t *value);
/* In many lines, numbers with six digits: for measurements. */
ls_status ls_cli_print_json_lines(json_t *value);

/* For the format "o*" of json_pack(), which leaves a member out where its value is NULL. */
json_t *ls_cli_json_real_if(bool there, double value);
json_t *ls_cli_json_text_if(const char *text); /* NULL: not there */

/* null where the number is not finite: JSON has none of these. */
json_t *ls_cli_json_number(double value);
/* A path, or "(not UTF-8)". */
json_t *ls_cli_json_path(const char *path);
/* item(ctx, 0) … item(ctx, count − 1). NULL when one of them is NULL: no memory. */
json_t *ls_cli_json_list(int count, json_t *(*item)(const void *ctx, int i), const void *ctx);

/* Whether standard output is a pipe or a socket whose other end was closed, as by `| head -1`. Writing there fails, and
 * that is no error: its reader has what it wanted. */
bool ls_cli_reader_is_gone(void);

/* ---- how far a long command is ----------------------------------------------------------------------------------- */

/* A line on standard error that the next one replaces, and one that takes it away. Nothing where it is no terminal. */
void ls_cli_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ls_cli_progress_end(void);
/* What of this machine is being measured; NULL: it is done. */
void ls_cli_progress_probe(void *ctx, const char *what);

/* ---- for people -------------------------------------------------------------------------------------------------- */

/* "device: " and what --device auto takes here, in a line; nothing where there is nothing to be said. */
void ls_cli_print_device(const char *name, ls_unit unit);

/* "512 B", "1.5 MiB": ls_cli_bytes(x).text lives as long as the expression it is in. */
typedef struct ls_cli_text {
    char text[24];
} ls_cli_text;
ls_cli_text ls_cli_bytes(uint64_t bytes);

/* ---- names in commands that a user is told to type --------------------------------------------------------------- */

/* A name as it can be shown: what a terminal would obey is '?'. Returns `out`. */
const char *ls_cli_visible(const char *text, char *out, size_t room);
/* `text` as one word of a POSIX shell: as it is where that is safe, else in single quotes. Cut where there is no room.
 * Returns `word`. */
const char *ls_shell_word(const char *text, char *word, size_t room);
/* The name under which this program was started, as such a word: what a user typed works again. */
const char *ls_shell_program(char *word, size_t room);

#endif
