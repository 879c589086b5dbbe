/* suggest.h: "did you mean …?": finds the candidate nearest to a word that is not known.
 *
 * Offer every candidate, then ask for the best. Candidates are borrowed. */
#ifndef LS_CONFIG_SUGGEST_H
#define LS_CONFIG_SUGGEST_H

typedef struct ls_suggest {
    const char *word;
    const char *best; /* NULL: nothing near enough */
    int distance;
} ls_suggest;

void ls_suggest_init(ls_suggest *suggest, const char *word);
void ls_suggest_offer(ls_suggest *suggest, const char *candidate);

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b, or a large number for long words. */
int ls_suggest_distance(const char *a, const char *b);

#endif
