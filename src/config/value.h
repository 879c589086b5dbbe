/* value.h: parses one value. The whole text must be the value, without blanks around it.
 *
 * On failure the message says what a value must look like ("must be a whole number"); the caller puts the place and the
 * text in front. */
#ifndef LS_CONFIG_VALUE_H
#define LS_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/choices.h"
#include "lockstep.h"

/* Parses true, yes, on, 1 or false, no, off, 0, in any case. */
ls_status ls_value_parse_bool(const char *text, bool *out);
/* Parses decimal digits, with a sign or without. */
ls_status ls_value_parse_int(const char *text, int64_t *out);
/* Parses a finite decimal number; an exponent is allowed. */
ls_status ls_value_parse_float(const char *text, double *out);
/* Parses bytes: 4096, 4096B, 64KiB, 16MiB, 1GiB, 2TiB. */
ls_status ls_value_parse_size(const char *text, size_t *out);
/* Parses a time into seconds: 5, 0.5, 500ms, 5s, 2min, 1h, 1day; may be negative. */
ls_status ls_value_parse_time(const char *text, double *seconds);
/* Parses the word of one of the choices. */
ls_status ls_value_parse_choice(const char *text, const ls_option_choice *choices, int *out);

enum { LS_VALUE_REAL_MAX = 40 };

/* Writes the shortest decimal number that reads back as `number`. */
void ls_value_format_real(double number, char text[LS_VALUE_REAL_MAX]);

/* Copies the next of *words, which are separated by spaces, cut to the room, and moves on; false at the end. */
bool ls_value_next_word(const char **words, char *word, size_t room);

#endif
