/* value.h: parses the text of one option's value. The whole text must be the value, without blanks around it. Files and
 * tables with the same notation (sizes, times) use it too.
 *
 * A failure is LS_ERR_INPUT with *out unchanged. Its message says what a value must look like ("must be a whole
 * number"); the caller puts the place and the text in front. */
#ifndef LS_CONFIG_VALUE_H
#define LS_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/choices.h"
#include "lockstep.h"

/* Parses true, yes, on or 1, and false, no, off or 0, in upper or lower case. */
ls_status ls_value_parse_bool(const char *text, bool *out);
/* Parses decimal digits, with a sign or without. */
ls_status ls_value_parse_int(const char *text, int64_t *out);
/* Parses a finite decimal number of at most 63 characters; an exponent is allowed. */
ls_status ls_value_parse_float(const char *text, double *out);
/* Parses a number of bytes: 4096, 4096B, 64KiB, 16MiB, 1GiB, 2TiB; no fractions. */
ls_status ls_value_parse_size(const char *text, size_t *out);
/* Parses a time into seconds: 5, 0.5, 500ms, 5s, 2min, 1h, 1day; may be negative. */
ls_status ls_value_parse_time(const char *text, double *seconds);
/* Parses the word of one of the choices into its value; the message of a failure lists the words. */
ls_status ls_value_parse_choice(const char *text, const ls_option_choice *choices, int *out);

enum { LS_VALUE_REAL_MAX = 40 };

/* Writes the shortest decimal number that reads back as exactly `number`. */
void ls_value_format_real(double number, char text[LS_VALUE_REAL_MAX]);

/* Copies the next word of *words, a text separated by spaces, cut to the room, and moves *words behind it. Returns
 * false at the end, or if *words is NULL. */
bool ls_value_next_word(const char **words, char *word, size_t room);

#endif
