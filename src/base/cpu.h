/* cpu.h: what this CPU can do, which of it to use, and how many cores there are.
 *
 * An ISA here is a set of kernels, not a single instruction set: LS_ISA_AVX2 needs AVX2 and FMA, LS_ISA_AVX512 needs
 * the F, BW, DQ and VL parts. The choice never changes a result, only its speed. It is made before threads start: by
 * ls_cpu_set_isa(), else by the variable LS_ISA at first use, else everything the CPU has. */
#ifndef LS_BASE_CPU_H
#define LS_BASE_CPU_H

#include <stdbool.h>

#include "base/status.h"

/* X(value, "name"), from the least to the most that they can do. */
#define LS_ISAS(X)                                                                                                     \
    X(LS_ISA_PORTABLE, "portable") X(LS_ISA_NEON, "neon") X(LS_ISA_AVX2, "avx2") X(LS_ISA_AVX512, "avx512")

typedef enum ls_isa {
#define LS_ISA_VALUE(value, name) value,
    LS_ISAS(LS_ISA_VALUE)
#undef LS_ISA_VALUE
        LS_ISA_COUNT,
    LS_ISA_AUTO /* all that the CPU has */
} ls_isa;

/* Features that both the CPU and the kernel of the system offer. */
typedef struct ls_cpu {
    bool neon, bf16, i8mm, sve;
    bool avx2, fma, f16c;
    bool avx512f, avx512bw, avx512dq, avx512vl, avx512_bf16;
    bool amx_tile, amx_bf16; /* a process must still ask the system before it uses them: ls_cpu_allow_amx() */
    char model[64];
} ls_cpu;

/* Looked up once; borrowed, lives for ever. */
const ls_cpu *ls_cpu_detect(void);

/* Whether this process may use AMX with bf16. The first call asks the system, for all threads. */
bool ls_cpu_allow_amx(void);

const char *ls_isa_name(ls_isa isa);
/* A name, or "auto". LS_ERR_INPUT, and *out unchanged, for another text. */
ls_status ls_isa_parse(const char *text, ls_isa *out);
/* Allows an ISA and what it builds on, or LS_ISA_AUTO. LS_ERR_INPUT, and no change, when the CPU does not have it. */
ls_status ls_cpu_set_isa(ls_isa isa);
/* Bit i is set when ISA i may be used; bit LS_ISA_PORTABLE always is. */
unsigned ls_cpu_isa_mask(void);
bool ls_cpu_use(ls_isa isa);

/* Cores this process may use now: its affinity mask, cut down to the CPU quota of its control group, rounded up. At
 * least 1. Not remembered, as pinning changes it; reads a few small files. */
int ls_cpu_count(void);
/* The quota in cores, rounded up, or 0 for none. Takes the smallest one on the way from the group named in `membership`
 * (a file like /proc/self/cgroup) up to `root` (like /sys/fs/cgroup), for both versions of control groups. */
int ls_cpu_quota(const char *root, const char *membership);

#endif
