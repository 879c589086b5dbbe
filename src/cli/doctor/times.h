/* times.h: `lockstep doctor --times FILE`: explains a table of measured step times on several numbers of chips, which
 * any training program may have produced (plan/times): which losses grow with the number of chips. */
#ifndef LS_CLI_DOCTOR_TIMES_H
#define LS_CLI_DOCTOR_TIMES_H

#include "config/options.h"
#include "plan/times/times.h"

/* A table of times with all results about it. */
typedef struct ls_times_case {
    ls_times times;
    ls_times_basis basis;
    ls_times_answer answer;
    ls_times_comparison comparison; /* if there are two labels */
    ls_times_deviations deviations; /* if predictions were made */
    double with_error;              /* relative error of the best explanation, by predictions if these were made */
    double without_error;           /* that of the best one without predictions, if it replaced them */
    bool node_assumed;              /* --gpus-per-node was not given, so 8 chips per node are assumed */
    char model[96];                 /* model that predictions were made for; "": none were made */
} ls_times_case;

/* Whether the share of a loss (a cause of lost time) in the step is known, or why it is not. */
typedef enum ls_times_standing {
    LS_TIMES_KNOWN,
    LS_TIMES_NOT_TESTED, /* no term of these rows could have shown it */
    LS_TIMES_NO_LAYOUT,
    LS_TIMES_ALIKE, /* the rows cannot tell it from another */
} ls_times_standing;

/* Runs the command: reads the file, explains it and prints the result. */
ls_status ls_doctor_times(const ls_options *options);

/* Prints the result as text to standard output (times_text.c). path: the file, as the user named it. */
void ls_doctor_times_print(const char *path, const ls_times_case *c);
/* Returns whether the share of this loss in the measured time is known, or why not. A known share may be 0. */
ls_times_standing ls_doctor_times_standing(const ls_times_case *c, ls_loss loss);
/* Writes what to change first, one or two sentences, into `text`. */
void ls_doctor_times_advice(const ls_times_case *c, char *text, size_t capacity);

#endif
