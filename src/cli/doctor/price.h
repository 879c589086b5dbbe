/* price.h: which layout would save the time that a run loses, and how much of it.
 *
 * It takes plain figures, so that the modules that read runs (observe) and that make them (run) stay independent. */
#ifndef LS_CLI_DOCTOR_PRICE_H
#define LS_CLI_DOCTOR_PRICE_H

#include <stdbool.h>
#include <stddef.h>

/* Milliseconds of a step, mean of all workers. */
typedef struct ls_step_parts {
    int workers;
    double all, computing, network, bubble, imbalance, input, host;
} ls_step_parts;

/* Searches a layout for the run in the folder `path` and prints it with its predicted gain into `text`. Returns false
 * if none is clearly better, or if the run cannot be priced, for example because its model file is gone. */
bool ls_doctor_price(const char *path, const ls_step_parts *parts, char *text, size_t capacity);

#endif
