/* unit.c: names, granules and presence of the matrix units. */
#include "device/unit.h"

#include <stdio.h>

#include "base/cpu.h"
#include "base/fault.h"

size_t ls_unit_granule(ls_unit unit) {
    static const size_t granules[LS_UNITS] = {
        [LS_UNIT_CHAIN] = 1,  [LS_UNIT_BFMMLA] = 4, [LS_UNIT_AVX512_BF16] = 2, [LS_UNIT_AMX] = 32,
        [LS_UNIT_HGMMA] = 16, [LS_UNIT_AMPERE] = 8, [LS_UNIT_ADA] = 8,         [LS_UNIT_BLACKWELL] = 16};
    return (unsigned)unit < LS_UNITS ? granules[unit] : 1;
}

bool ls_unit_is_tensor_core(ls_unit unit) {
    return unit == LS_UNIT_HGMMA || unit == LS_UNIT_AMPERE || unit == LS_UNIT_ADA || unit == LS_UNIT_BLACKWELL;
}

bool ls_unit_takes(ls_unit unit, ls_dtype dtype) {
    return unit == LS_UNIT_CHAIN || dtype == LS_BF16 || (dtype == LS_F16 && ls_unit_is_tensor_core(unit));
}

bool ls_unit_is_here(ls_unit unit) {
    const ls_cpu *cpu = ls_cpu_detect();
    bool avx512 = cpu->avx512f && cpu->avx512bw && cpu->avx512dq && cpu->avx512vl && cpu->avx2 && cpu->fma;
    if (ls_fault_no_unit && unit != LS_UNIT_CHAIN) return false;
    if (ls_unit_is_tensor_core(unit)) return true;
    switch (unit) {
    case LS_UNIT_CHAIN: return true;
    case LS_UNIT_BFMMLA: return cpu->neon && cpu->bf16;
    case LS_UNIT_AVX512_BF16: return avx512 && cpu->avx512_bf16;
    case LS_UNIT_AMX: return avx512 && ls_cpu_allow_amx();
    default: return false;
    }
}

bool ls_unit_is_fast_here(ls_unit unit) { return !ls_unit_is_tensor_core(unit) && ls_unit_is_here(unit); }

/* Writes the names of all units, or with here_only of those that are here, such as "chain, bfmmla"; what exceeds the
 * capacity is cut off. */
static void list_units(char *text, size_t capacity, bool here_only) {
    size_t used = 0;
    for (int u = 0; u < LS_UNITS && used < capacity; u++)
        if (!here_only || ls_unit_is_here((ls_unit)u))
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used ? ", " : "", ls_unit_name((ls_unit)u));
}

ls_status ls_unit_parse(const char *name, ls_unit *out) {
    int unit;
    if (ls_choice_find(LS_CHOICES(LS_UNIT_LIST), name, &unit)) {
        *out = (ls_unit)unit;
        return LS_OK;
    }
    char all[96];
    list_units(all, sizeof all, false);
    return ls_fail(LS_ERR_INPUT, "unknown matrix unit '%s'; choose one of: %s", name, all);
}

ls_status ls_unit_check(ls_unit unit) {
    if (ls_unit_is_here(unit)) return LS_OK;
    char here[96];
    list_units(here, sizeof here, true);
    return ls_fail_here(LS_ERR_INPUT, "this CPU (%s) has no matrix unit %s; it has: %s", ls_cpu_detect()->model,
                        ls_unit_name(unit), here);
}
