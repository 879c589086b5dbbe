/* price.h: a device that computes nothing and adds up what computing would have cost on the measured machine.
 *
 * The blocks of a model run on it as on a CPU, so every matmul and every pass of a step is priced with its real shape,
 * and no second list of operations must be kept in step with the code (device/dry.h). */
#ifndef LS_PLAN_NATIVE_PRICE_H
#define LS_PLAN_NATIVE_PRICE_H

#include "device/ops.h"
#include "plan/native/machine.h"

typedef enum ls_price_kind {
    LS_PRICE_MATMULS,
    LS_PRICE_ATTENTION,
    LS_PRICE_PASSES,
    LS_PRICE_ENDS,      /* embedding, logits and loss */
    LS_PRICE_OPTIMIZER, /* norm and update */
    LS_PRICE_KINDS
} ls_price_kind;

enum { LS_PRICE_CACHE = 256 };

typedef struct ls_price {
    ls_device device;               /* what a partition is created on */
    ls_device_calls calls;          /* those of the dry device (device/dry.h), with prices for copies and fills */
    const ls_native_rates *rates;   /* borrowed */
    ls_device *dry;                 /* borrowed: a GPU without hardware, which knows what kernels do; or NULL */
    size_t vocabulary;              /* matmuls of this width are those of the head */
    double seconds[LS_PRICE_KINDS]; /* since they were cleared */
    ls_native_matmul cache[LS_PRICE_CACHE]; /* prices of shapes seen before, by hash; seconds 0: an empty place */
} ls_price;

/* Sets up the device, with all prices 0; it borrows rates and dry (NULL for a CPU), and there is nothing to close.
 * `vocabulary`: width of a worker's logits, by which matmuls of the head are recognised. */
void ls_price_open(ls_price *price, const ls_native_rates *rates, size_t vocabulary, ls_device *dry);
/* Sets all prices to 0; the cache stays. */
void ls_price_clear(ls_price *price);
/* Returns the seconds of all kinds since the last clear. */
double ls_price_sum(const ls_price *price);

#endif
