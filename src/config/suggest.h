/* suggest.h: answers to a word that is not known: the candidate nearest to it, or, where it is what another program
 * calls an option of ours, that option. None of these names is accepted: they only make the error more useful. */
#ifndef LS_CONFIG_SUGGEST_H
#define LS_CONFIG_SUGGEST_H

#include "config/options.h"

/* Offer every candidate, then take the best. Candidates are borrowed. */
typedef struct ls_suggest {
    const char *word;
    const char *best; /* NULL: nothing near enough */
    int distance;
} ls_suggest;

void ls_suggest_init(ls_suggest *suggest, const char *word);
void ls_suggest_offer(ls_suggest *suggest, const char *candidate);

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b, or a large number for long words. */
int ls_suggest_distance(const char *a, const char *b);

/* ---- names of other programs ------------------------------------------------------------------------------------- */

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

/* The answer to an unknown option `name` of `command`: "did you mean --workers?",
 * "lockstep calls it --lr" or the row's advice. Names are written as `origin` has them: a flag, a variable of the
 * environment, a member of a file. False: nothing comes to mind. */
bool ls_foreign_answer(ls_command command, const char *name, ls_option_origin origin,
                       char answer[LS_FOREIGN_ANSWER_MAX]);

#endif
