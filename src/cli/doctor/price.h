/* price.h: which layout would spare a run the time that it loses, and how much of it.
 *
 * Plain figures, so that what reads runs (observe) and what makes them (run) need not know each other. */
#ifndef LS_CLI_DOCTOR_PRICE_H
#define LS_CLI_DOCTOR_PRICE_H

#include <stdbool.h>
#include <stddef.h>

/* Milliseconds of a step, mean of all workers. */
typedef struct ls_step_parts {
    int workers;
    double all, computing, network, bubble, imbalance, input, host;
} ls_step_parts;

/* The layout that the planner finds for the run in the folder `path`, with its price, as a text for people. False:
 * none is worth it, or the run cannot be priced, as where its model is gone. */
bool ls_doctor_price(const char *path, const ls_step_parts *parts, char *text, size_t capacity);

#endif
