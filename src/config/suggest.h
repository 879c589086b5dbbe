/* suggest.h: finds suggestions for an unknown word: the nearest candidate, or lockstep's option for a name that another
 * program uses. Such names are not accepted; they only improve the error message. */
#ifndef LS_CONFIG_SUGGEST_H
#define LS_CONFIG_SUGGEST_H

#include "config/options.h"

/* Offer every candidate, then read `best`. Candidates are borrowed. */
typedef struct ls_suggest {
    const char *word;
    const char *best; /* NULL: nothing near enough */
    int distance;
} ls_suggest;

/* Begins the search for the candidate nearest to `word`. */
void ls_suggest_init(ls_suggest *suggest, const char *word);
/* Offers a candidate, which becomes `best` if it is near enough and nearer than those before. */
void ls_suggest_offer(ls_suggest *suggest, const char *candidate);

/* Counts the insertions, deletions, replacements and swaps of neighbours that turn a into b; 1000 above 48 bytes. */
int ls_suggest_distance(const char *a, const char *b);

/* ---- names of other programs ------------------------------------------------------------------------------------- */

typedef struct ls_foreign {
    const char *names;  /* with dashes, separated by spaces */
    const char *option; /* lockstep's option */
    const char *advice; /* text to use instead of "lockstep calls it --option"; NULL: none */
} ls_foreign;

/* Finds the row for `name`, written with dashes, whose option `command` has; NULL: none. */
const ls_foreign *ls_foreign_find(ls_command command, const char *name);
/* Returns row i = 0, 1, …; NULL behind the last. */
const ls_foreign *ls_foreign_get(size_t i);

enum { LS_FOREIGN_ANSWER_MAX = 256 };

/* Writes a hint for the unknown option `name` of `command`: "did you mean --workers?", "lockstep calls it --lr" or the
 * row's advice. Names are written in the form of `origin`: a flag, an environment variable, a member of a file. Returns
 * false if there is no hint. */
bool ls_foreign_answer(ls_command command, const char *name, ls_option_origin origin,
                       char answer[LS_FOREIGN_ANSWER_MAX]);

#endif
