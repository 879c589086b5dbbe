/* unit.h: matrix units: which instructions multiply matrices of 16-bit numbers, and therefore in which order products
 * are added (docs/reference/arithmetic.md, "Matrix units").
 *
 * `chain` adds as fp32 does, one fma after another, with the same bits on every device. A hardware unit is faster: it
 * adds a granule of several products at once, with bits of its own. The unit is part of the identity. */
#ifndef LS_DEVICE_UNIT_H
#define LS_DEVICE_UNIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "config/choices.h"
#include "lockstep.h"

/* Parses the name of a unit, such as "hgmma". LS_ERR_INPUT for an unknown name. */
ls_status ls_unit_parse(const char *name, ls_unit *out);
/* Returns the granule of the unit, the number of products that it adds at once; 1 for chain and for no valid unit. */
size_t ls_unit_granule(ls_unit unit);
/* Returns whether the unit is one of NVIDIA's tensor cores. A CPU emulates it by its formula, slowly. With such a unit,
 * attention, loss and norms add in an order of their own. */
bool ls_unit_is_tensor_core(ls_unit unit);
/* Returns whether the unit multiplies this type: chain any, tensor cores bf16 and fp16, the units of CPUs bf16. */
bool ls_unit_takes(ls_unit unit, ls_dtype dtype);
/* Returns whether this CPU can compute the unit, whatever LS_ISA and --isa say: by instructions that the CPU and its
 * operating system support or, for tensor cores, always, by emulation. A planted fault (ls_fault_no_unit) leaves chain
 * alone. */
bool ls_unit_is_here(ls_unit unit);
/* Returns whether this CPU computes the unit faster than chains. False for tensor cores, which a CPU emulates. */
bool ls_unit_is_fast_here(ls_unit unit);
/* Checks that ls_unit_is_here(). If not, LS_ERR_INPUT of this machine (ls_fail_here), naming the units it has. */
ls_status ls_unit_check(ls_unit unit);

#endif
