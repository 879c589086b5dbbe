/* print.h: helpers that the commands print with: JSON on standard output, progress on standard error, names for a
 * shell. */
#ifndef LS_CLI_PRINT_H
#define LS_CLI_PRINT_H

#include <jansson.h>
#include <stdbool.h>

#include "device/unit.h"
#include "lockstep.h"

/* ---- results for a program to read ------------------------------------------------------------------------------- */

/* Prints a value as one line with exact numbers to standard output, and releases the caller's reference to it. NULL,
 * which jansson returns when it is out of memory, fails with LS_ERR_RESOURCE. Write errors are left to main(), which
 * checks standard output at the end. */
ls_status ls_cli_print_json(json_t *value);
/* Prints a value to standard output on many lines, numbers with six digits, for measurements; otherwise as
 * ls_cli_print_json(): releases the value, fails for NULL. */
ls_status ls_cli_print_json_lines(json_t *value);

/* Returns a new reference to the number, or NULL unless `there`: the format "o*" of json_pack() then leaves the member
 * out. */
json_t *ls_cli_json_real_if(bool there, double value);
/* Returns a new reference to the text, or NULL for NULL: the format "o*" of json_pack() then leaves the member out. */
json_t *ls_cli_json_text_if(const char *text);

/* Returns a new reference to the number, or to null if it is not finite, which JSON cannot express. */
json_t *ls_cli_json_number(double value);
/* Returns a new reference to the path as text, or to the text "(not UTF-8)", because JSON must be UTF-8. */
json_t *ls_cli_json_path(const char *path);
/* Returns a new list of item(ctx, 0) … item(ctx, count − 1), whose references it takes; NULL if memory ran out or an
 * item is NULL. */
json_t *ls_cli_json_list(int count, json_t *(*item)(const void *ctx, int i), const void *ctx);

/* Returns whether standard output is a pipe or socket whose reader has closed it, as `| head -1` does. Commands then
 * treat failing writes as success. */
bool ls_cli_reader_is_gone(void);

/* ---- progress ---------------------------------------------------------------------------------------------------- */

/* Prints a line to standard error that the next one replaces; does nothing unless standard error is a terminal. */
void ls_cli_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Removes the line of ls_cli_progress() from standard error, if that is a terminal. */
void ls_cli_progress_end(void);
/* Shows what is being measured while this machine is probed; NULL: done, so the line is removed. A callback; ctx is not
 * used. */
void ls_cli_progress_probe(void *ctx, const char *what);

/* ---- for people -------------------------------------------------------------------------------------------------- */

/* Prints a line "device: …" that explains which device `name` (--device) stands for on this machine; nothing if that is
 * plain or it cannot be chosen. */
void ls_cli_print_device(const char *name, ls_unit unit);

/* A formatted text: "512 B" or "1.5 MiB"; ls_cli_bytes(x).text is valid until the end of the full expression. */
typedef struct ls_cli_text {
    char text[24];
} ls_cli_text;
/* Formats a number of bytes with a unit of 1024 to its power, B to TiB. */
ls_cli_text ls_cli_bytes(uint64_t bytes);

/* ---- names in commands that a user is told to type --------------------------------------------------------------- */

/* Copies a name into `out`, cut to the room, with '?' for each control character, which a terminal would obey. Returns
 * `out`. */
const char *ls_cli_visible(const char *text, char *out, size_t room);
/* Writes a text as one word of a shell, in single quotes if necessary; cut off if there is no room. Returns `word`. */
const char *ls_shell_word(const char *text, char *word, size_t room);
/* Writes the name under which this program was started, quoted for a shell, so that a printed command works as typed.
 * Returns `word`. */
const char *ls_shell_program(char *word, size_t room);

#endif
