/* unit_hint.h: whether a run with the portable matrix unit leaves speed on the table, in one sentence.
 *
 * Only units that were measured to be faster than chain in whole steps are named (docs/performance.md, "16 bit"):
 * bfmmla, 2.9 times with GPT-2 124M, and amx, 2.4 times; small models gain less. avx512-bf16 was slower there, and is
 * not. */
#ifndef LS_RUN_PROGRESS_UNIT_HINT_H
#define LS_RUN_PROGRESS_UNIT_HINT_H

#include <stdbool.h>
#include <stdint.h>

#include "device/unit.h"
#include "nn/policy.h"

enum { LS_UNIT_HINT_MAX = 160 };

/* A run of this policy could be faster on some CPUs. The same in all workers. */
bool ls_unit_hint_is_of_use(const ls_policy *policy);
/* 1 for each unit that this worker has; summed over the workers it is what ls_unit_hint_text() takes. */
void ls_unit_hint_count(int64_t having[LS_UNITS]);
/* Empty where not all workers have a faster unit. */
void ls_unit_hint_text(const int64_t having[LS_UNITS], int workers, char text[LS_UNIT_HINT_MAX]);

#endif
