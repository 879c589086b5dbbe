/* journal.h: the rows of `lockstep verify --out DIR` that were found equal: DIR/verify.jsonl, one JSON object a
 * line, each written at once. A process that is killed loses the row it was at, nothing else; several may write. */
#ifndef LS_LAB_VERIFY_JOURNAL_H
#define LS_LAB_VERIFY_JOURNAL_H

#include <jansson.h>
#include <stdbool.h>

#include "base/hash.h"

typedef struct ls_verify_journal {
    int fd; /* −1: none is kept */
    char *path;
    ls_hash128 *done; /* keys of the rows that need not run again */
    size_t count;
} ls_verify_journal;

/* `dir` NULL: none is kept. Without `resume` a folder that has rows already is refused; with it they are read. */
ls_status ls_verify_journal_open(const char *dir, bool resume, ls_verify_journal *out);
void ls_verify_journal_close(ls_verify_journal *journal);

/* A row by its model, the hash of its weights on one worker, which follows from everything that matters, and its
 * layout. */
bool ls_verify_journal_has(const ls_verify_journal *journal, const char *model, const char *weights,
                           const char *layout);
/* `row` has the members model, reference, layout, equal and whatever else. */
ls_status ls_verify_journal_add(ls_verify_journal *journal, const json_t *row);

#endif
