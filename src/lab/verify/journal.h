/* journal.h: the results of `lockstep verify --out DIR`, so that `--resume` skips layouts that were equal.
 *
 * DIR/verify.jsonl has one JSON object per finished row, equal or not, on a line of its own. Each line is one appending
 * write, so several processes may share the file, and a killed process loses only the row in progress. */
#ifndef LS_LAB_VERIFY_JOURNAL_H
#define LS_LAB_VERIFY_JOURNAL_H

#include <jansson.h>
#include <stdbool.h>

#include "base/hash.h"

typedef struct ls_verify_journal {
    int fd; /* −1: there is no journal */
    char *path;
    ls_hash128 *done; /* keys of the rows that were equal */
    size_t count;     /* of `done` */
} ls_verify_journal;

/* Opens the journal in `dir`, which is created if it is missing. With `resume`, reads the rows of an earlier run;
 * without it, LS_ERR_INPUT if the folder has a journal already. `dir` NULL: there is no journal, and the calls below do
 * nothing. On failure there is nothing to close. */
ls_status ls_verify_journal_open(const char *dir, bool resume, ls_verify_journal *out);
/* Closes the journal and forgets its rows; does nothing if it is closed. */
void ls_verify_journal_close(ls_verify_journal *journal);

/* Returns whether an earlier run found this row equal. The key of a row is its model, its layout, and the hash of the
 * weights on one worker, which stands for everything else that can change the result. */
bool ls_verify_journal_has(const ls_verify_journal *journal, const char *model, const char *weights,
                           const char *layout);
/* Appends a row to the file; does not change what ls_verify_journal_has() returns. `row` has at least the members
 * model, reference (the hash on one worker), layout and equal. */
ls_status ls_verify_journal_add(ls_verify_journal *journal, const json_t *row);

#endif
