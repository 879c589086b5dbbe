/* times.h: `lockstep doctor --times FILE`. */
#ifndef LS_CLI_DOCTOR_TIMES_H
#define LS_CLI_DOCTOR_TIMES_H

#include "config/options.h"
#include "plan/times/times.h"

/* All that is said about a table of times. */
typedef struct ls_times_case {
    ls_times times;
    ls_times_basis basis;
    ls_times_answer answer;
    ls_times_comparison comparison; /* where there are two labels */
    ls_times_deviations deviations; /* where predictions were made */
    double with_error;              /* of the best explanation by predictions */
    double without_error;           /* of the best explanation without predictions, where they were given up for it */
    bool node_assumed;
    char model[96]; /* what predictions were made for; empty: none */
} ls_times_case;

/* Whether a loss has a figure of its own, or what keeps it from having one. */
typedef enum ls_times_standing {
    LS_TIMES_KNOWN,
    LS_TIMES_NOT_TESTED, /* no term of these rows could have shown it */
    LS_TIMES_NO_LAYOUT,
    LS_TIMES_ALIKE, /* the rows cannot tell it from another */
} ls_times_standing;

ls_status ls_doctor_times(const ls_options *options);

/* times_text.c */
void ls_doctor_times_print(const char *path, const ls_times_case *c);
ls_times_standing ls_doctor_times_standing(const ls_times_case *c, ls_loss loss);
/* The first thing to change, one or two sentences. */
void ls_doctor_times_advice(const ls_times_case *c, char *text, size_t capacity);

#endif
