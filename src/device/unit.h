/* unit.h: who multiplies matrices of 16-bit numbers, and so in which order (docs/reference/arithmetic.md, "Matrix
 * units").
 *
 * `chain` is the order of fp32, one fma after another, and has the same bits on every CPU. A hardware unit adds several
 * products at once, a granule of K, in its own way: faster, with bits of its own. The unit is part of the identity. */
#ifndef LS_DEVICE_UNIT_H
#define LS_DEVICE_UNIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "config/choices.h"
#include "lockstep.h"

ls_status ls_unit_parse(const char *name, ls_unit *out);
/* Products that the unit adds at once; 1 for chain. */
size_t ls_unit_granule(ls_unit unit);
/* Whether it multiplies numbers of this type: chain any, hgmma both of 16 bits, the units of CPUs bf16. */
bool ls_unit_takes(ls_unit unit, ls_dtype dtype);
/* Whether this CPU (and its system) has the unit; LS_ISA and --isa have no say in it. */
bool ls_unit_is_here(ls_unit unit);
/* The same, and faster than chains: hgmma, a unit of GPUs, is computed by its formula on a CPU, slowly. */
bool ls_unit_is_fast_here(ls_unit unit);
/* LS_ERR_INPUT of this machine (ls_fail_here), naming the units that this CPU has, where it lacks this one. */
ls_status ls_unit_check(ls_unit unit);

#endif
