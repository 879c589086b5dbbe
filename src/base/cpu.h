/* cpu.h: features of this CPU, which of them to use, and the number of cores.
 *
 * An ISA here is a set of kernels, not a single instruction set: LS_ISA_AVX2 needs AVX2 and FMA, LS_ISA_AVX512 needs
 * the F, BW, DQ and VL parts. The choice changes only the speed, never a result. It is made before threads start: by
 * ls_cpu_set_isa(), else at first use by the variable LS_ISA (a wrong value only logs a warning), else all that the CPU
 * has. */
#ifndef LS_BASE_CPU_H
#define LS_BASE_CPU_H

#include <stdbool.h>

#include "base/status.h"

/* X(value, "name"), from the least to the most capable. */
#define LS_ISAS(X)                                                                                                     \
    X(LS_ISA_PORTABLE, "portable") X(LS_ISA_NEON, "neon") X(LS_ISA_AVX2, "avx2") X(LS_ISA_AVX512, "avx512")

typedef enum ls_isa {
#define LS_ISA_VALUE(value, name) value,
    LS_ISAS(LS_ISA_VALUE)
#undef LS_ISA_VALUE
        LS_ISA_COUNT,
    LS_ISA_AUTO /* all that the CPU has */
} ls_isa;

/* Features that both the CPU and the operating system support. */
typedef struct ls_cpu {
    bool neon, bf16, i8mm, sve;
    bool avx2, fma, f16c;
    bool avx512f, avx512bw, avx512dq, avx512vl, avx512_bf16;
    bool amx_tile, amx_bf16; /* a process needs permission before it uses them: ls_cpu_allow_amx() */
    char model[64];
} ls_cpu;

/* Returns the features, detected once; valid for the life of the process. */
const ls_cpu *ls_cpu_detect(void);

/* Returns whether this process may use AMX with bf16. The first call asks the system for permission, for all threads.
 */
bool ls_cpu_allow_amx(void);

/* Returns a static text: "avx2"; "unknown" for LS_ISA_AUTO and other values that are no ISA. */
const char *ls_isa_name(ls_isa isa);
/* Parses a name, or "auto". LS_ERR_INPUT, and *out unchanged, for any other text. Accepts ISAs that this CPU lacks. */
ls_status ls_isa_parse(const char *text, ls_isa *out);
/* Allows an ISA and those it builds on; or all that the CPU has, for LS_ISA_AUTO. LS_ERR_INPUT, and no change, if the
 * CPU does not have it. LS_ISA in the environment no longer counts. */
ls_status ls_cpu_set_isa(ls_isa isa);
/* Returns the usable ISAs: bit i for ISA i. Bit LS_ISA_PORTABLE is always set. */
unsigned ls_cpu_isa_mask(void);
/* Returns whether kernels of this ISA may run: the CPU has it and the choice allows it. */
bool ls_cpu_use(ls_isa isa);

/* Returns the number of cores that this process may use now: those of its affinity mask, but at most the CPU quota of
 * its control group, rounded up; at least 1. Not cached, because pinning changes it; reads a few small files. */
int ls_cpu_count(void);
/* Returns the smallest CPU quota, in cores rounded up, of the control groups (of both versions) from those named in
 * `membership` (a file like /proc/self/cgroup) up to `root` (like /sys/fs/cgroup); 0: none has one. */
int ls_cpu_quota(const char *root, const char *membership);

#endif
