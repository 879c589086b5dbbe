/* price.h: finds the layout (the division of work among workers) that would save the time that a run loses, and
 * predicts how much it saves. `lockstep doctor` adds it to its advice.
 *
 * It takes plain figures, so that the modules that read runs (observe) and that make them (run) stay independent. */
#ifndef LS_CLI_DOCTOR_PRICE_H
#define LS_CLI_DOCTOR_PRICE_H

#include <stdbool.h>
#include <stddef.h>

/* Milliseconds of a step, mean of all workers, by what they were spent on: network is exposed communication, bubble
 * idle time that the pipeline schedule causes, imbalance and input are waits for slower workers and for data, and host
 * is time without a core to run on, between steps, or waiting for a GPU that workers share. */
typedef struct ls_step_parts {
    int workers;
    double all, computing, network, bubble, imbalance, input, host;
} ls_step_parts;

/* Searches a layout for the run in the folder `path` and writes a sentence with its predicted gain into `text`. Returns
 * false if none takes less than 95 % of the present time, or if the run cannot be priced: its model file no longer
 * exists, or its layout has another number of workers than `parts`. */
bool ls_doctor_price(const char *path, const ls_step_parts *parts, char *text, size_t capacity);

#endif
