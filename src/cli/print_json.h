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

/* null where the number is not finite: JSON has none of these. */
json_t *ls_cli_json_number(double value);
/* A path, or "(not UTF-8)". */
json_t *ls_cli_json_path(const char *path);
/* item(ctx, 0) … item(ctx, count − 1). NULL when one of them is NULL: no memory. */
json_t *ls_cli_json_list(int count, json_t *(*item)(const void *ctx, int i), const void *ctx);

#endif
