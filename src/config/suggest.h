/* suggest.h: finds suggestions for the error message about an unknown word: the nearest candidate by edit distance, or
 * lockstep's option for a name that another program uses (Megatron-LM, DeepSpeed …). Such names are not accepted as
 * options. The option parsers and commands call it. All returned texts are borrowed; the tables are static. */
#ifndef LS_CONFIG_SUGGEST_H
#define LS_CONFIG_SUGGEST_H

#include "config/options.h"

/* A search: offer every candidate, then read `best`. Word and candidates are borrowed. */
typedef struct ls_suggest {
    const char *word;
    const char *best; /* the nearest candidate so far; NULL: none was near enough */
    int distance;     /* of `best`, in edits */
} ls_suggest;

/* Begins the search for the candidate nearest to `word`. */
void ls_suggest_init(ls_suggest *suggest, const char *word);
/* Offers a candidate, which becomes `best` if it is near enough (1 edit for up to 3 letters, else a third of the
 * letters and 1) and nearer than those before. A candidate that begins with the word, of 2 letters or more, counts as 1
 * edit away. An empty word has no candidate. */
void ls_suggest_offer(ls_suggest *suggest, const char *candidate);

/* Counts the insertions, deletions, replacements and swaps of neighbours that turn a into b; 1000 if either is longer
 * than 48 bytes. */
int ls_suggest_distance(const char *a, const char *b);

/* ---- names of other programs ------------------------------------------------------------------------------------- */

/* Names that other programs use, and the option that does the same here. */
typedef struct ls_foreign {
    const char *names;  /* with dashes, separated by spaces */
    const char *option; /* lockstep's option */
    const char *advice; /* text to use instead of "lockstep calls it --option"; NULL: none */
} ls_foreign;

/* Returns the row for `name`, written like "batch-size", whose option `command` has; NULL: none. */
const ls_foreign *ls_foreign_find(ls_command command, const char *name);
/* Returns row i = 0, 1, …; NULL after the last. Tests use it to check every row. */
const ls_foreign *ls_foreign_get(size_t i);

enum { LS_FOREIGN_ANSWER_MAX = 256 };

/* Writes a hint for the unknown option `name` (in any case, with dashes or underscores) of `command`: "did you mean
 * --workers?", "lockstep calls it --lr" or the row's advice. Names are written in the form of `origin`: a flag, an
 * environment variable, a member of a file. Returns false, with nothing written, if there is no hint. */
bool ls_foreign_answer(ls_command command, const char *name, ls_option_origin origin,
                       char answer[LS_FOREIGN_ANSWER_MAX]);

#endif
