/* foreign.h: answers to names that are no options of ours: slips, underscores, and what other programs call our
 * options. None of these names is accepted: they only make the error more useful. */
#ifndef LS_CONFIG_FOREIGN_H
#define LS_CONFIG_FOREIGN_H

#include "config/options.h"

typedef struct ls_foreign {
    const char *names;  /* with dashes, separated by spaces */
    const char *option; /* ours */
    const char *advice; /* where "lockstep calls it --option" would not be the whole answer; else NULL */
} ls_foreign;

/* The row for `name`, written with dashes, whose option `command` has; NULL: there is none. */
const ls_foreign *ls_foreign_find(ls_command command, const char *name);
/* Row i = 0, 1, …; NULL behind the last. */
const ls_foreign *ls_foreign_get(size_t i);

enum { LS_FOREIGN_ANSWER_MAX = 256 };

/* What to tell somebody who gave `command` an option called `name`, which it has not: "did you mean --workers?",
 * "lockstep calls it --lr" or the row's advice. Names are written as `origin` has them: a flag, a variable of the
 * environment, a member of a file. False: nothing comes to mind. */
bool ls_foreign_answer(ls_command command, const char *name, ls_option_origin origin,
                       char answer[LS_FOREIGN_ANSWER_MAX]);

#endif
