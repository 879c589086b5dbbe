/* fpenv.h: the floating-point environment of a thread (rule 17 of docs/reference/arithmetic.md, which fixes every
 * operation to the bit).
 *
 * Every thread that computes calls ls_fpenv_set() first, because a library may have changed the control register. It
 * sets: round to nearest even, subnormals kept as inputs and results, no traps; on ARM also NaN payloads kept, IEEE
 * half precision and no alternative bf16 behaviour. */
#ifndef LS_BASE_FPENV_H
#define LS_BASE_FPENV_H

#include <stdbool.h>

/* Sets the control register of the calling thread. */
void ls_fpenv_set(void);
/* Returns whether the calling thread's register still has these settings. */
bool ls_fpenv_is_set(void);

#endif
