/* memo.h: writes the answer of `lockstep plan` as a memo (--memo): which layout to run, why it fits, what it costs,
 * what limits its scaling, and what to try first. Every number in it comes from predictions for the question that was
 * asked. */
#ifndef LS_REPORT_MEMO_MEMO_H
#define LS_REPORT_MEMO_MEMO_H

#include "plan/answer.h"

/* Writes memo.md with its drawings (*.svg) and memo.html, which needs no other file, into `dir`, which is created if
 * needed. If nothing fits, the memo is about the nearest layout and what would fit. Each file is replaced atomically;
 * after a failure some may be old. LS_ERR_INPUT if no layout fits or comes close. */
ls_status ls_plan_memo_write(const char *dir, const ls_plan_answer *answer);

#endif
