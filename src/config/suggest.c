/* suggest.c: the nearest of several words, by the number of typing slips between them. */
#include "config/suggest.h"

#include <stddef.h>
#include <string.h>

enum { WORD_MAX = 48, FAR = 1000 };

static int smaller(int a, int b) { return a < b ? a : b; }

int ls_suggest_distance(const char *a, const char *b) {
    size_t rows = strlen(a), columns = strlen(b);
    if (rows > WORD_MAX || columns > WORD_MAX) return FAR;
    int table[3][WORD_MAX + 1]; /* the row being filled and the two before it, in turn */
    for (size_t j = 0; j <= columns; j++) table[0][j] = (int)j;
    for (size_t i = 1; i <= rows; i++) {
        int *now = table[i % 3];
        const int *before = table[(i + 2) % 3], *earlier = table[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= columns; j++) {
            int replaced = before[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = smaller(replaced, smaller(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                now[j] = smaller(now[j], earlier[j - 2] + 1);
            }
        }
    }
    return table[rows % 3][columns];
}

void ls_suggest_init(ls_suggest *suggest, const char *word) {
    *suggest = (ls_suggest){.word = word, .best = NULL, .distance = FAR};
}

void ls_suggest_offer(ls_suggest *suggest, const char *candidate) {
    size_t length = strlen(suggest->word);
    if (!length) return;
    int distance = ls_suggest_distance(suggest->word, candidate);
    int allowed = length < 4 ? 1 : (int)(length / 3) + 1;
    /* An unfinished word is a better guess than a word with slips. */
    if (length >= 2 && strncmp(suggest->word, candidate, length) == 0) distance = allowed = 1;
    if (distance <= allowed && distance < suggest->distance) {
        suggest->best = candidate;
        suggest->distance = distance;
    }
}
