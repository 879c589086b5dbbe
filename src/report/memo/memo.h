/* memo.h: the answer of a search as a memo for people: what to run, why it fits, what it costs, what stops it from
 * scaling, and what to try first. Every number in it comes from predictions of this task. */
#ifndef LS_REPORT_MEMO_MEMO_H
#define LS_REPORT_MEMO_MEMO_H

#include "plan/search.h"

/* Mean absolute error of predicted step times on published runs; docs/planner.md has the table that it is read from. */
#define LS_PLAN_ERROR_SHARE 0.08

/* Writes memo.md with its drawings (*.svg) and memo.html, which needs no other file, into `dir`, which is made where it
 * is not there. tokens and price: 0 where nothing was said. Where nothing fits the memo is about the nearest layout and
 * what would fit. Each file is put in place whole; after a failure some may be old. */
ls_status ls_plan_memo_write(const char *dir, const ls_plan_task *task, const ls_layout_request *request,
                             const ls_plan_found *found, double tokens, double price);

#endif
