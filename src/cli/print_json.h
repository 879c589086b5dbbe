/* print_json.h: results for a program to read, on standard output. */
#ifndef LS_CLI_PRINT_JSON_H
#define LS_CLI_PRINT_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "lockstep.h"

/* Both end the value. NULL, which is what jansson makes without memory, is LS_ERR_RESOURCE. */
/* In one line, numbers to the last bit. */
ls_status ls_cli_print_json(json_t *value);
/* In many lines, numbers with six digits: for measurements. */
ls_status ls_cli_print_json_lines(json_t *value);

/* For the format "o*" of json_pack(), which leaves a member out where its value is NULL. */
json_t *ls_cli_json_real_if(bool there, double value);
json_t *ls_cli_json_text_if(const char *text); /* NULL: not there */

#endif
