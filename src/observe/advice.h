/* advice.h: advice to the user that the run (when it stops) and the doctor (the command that diagnoses a run
 * afterwards) give in the same words. */
#ifndef LS_OBSERVE_ADVICE_H
#define LS_OBSERVE_ADVICE_H

#include <stdbool.h>

/* Returns the advice for fp16 gradients that overflow at the lowest loss scale allowed, as a static text without a
 * period. `is_constant`: --loss-scale is a number, not "dynamic". */
static inline const char *ls_advice_at_floor(bool is_constant) {
    return is_constant ? "use --loss-scale dynamic, a lower --loss-scale, or --precision bf16"
                       : "use a lower --lr, a lower --loss-scale-min, or --precision bf16";
}

#endif
