/* advice.h: what to change after a failure that both the run and the doctor give advice on. */
#ifndef LS_OBSERVE_ADVICE_H
#define LS_OBSERVE_ADVICE_H

#include <stdbool.h>

/* fp16 overflows at the lowest loss scale allowed; `is_constant`: --loss-scale is a number. */
static inline const char *ls_advice_at_floor(bool is_constant) {
    return is_constant ? "use --loss-scale dynamic, a lower --loss-scale, or --precision bf16"
                       : "use a lower --lr, a lower --loss-scale-min, or --precision bf16";
}

#endif
