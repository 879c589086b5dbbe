/* cpu.c: detects CPU features and chooses the ISA. The number of cores is in cpu_count.c. */
#include "base/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static ls_cpu cpu_found;
static pthread_once_t cpu_once = PTHREAD_ONCE_INIT;
static pthread_once_t amx_once = PTHREAD_ONCE_INIT;
static bool amx_allowed;
static pthread_once_t isa_once = PTHREAD_ONCE_INIT;
static atomic_uint isa_mask;

#if defined(__x86_64__)
#    include <cpuid.h>
#    include <sys/syscall.h>
#    include <unistd.h>

/* Reads which registers the system saves: a CPU may have AVX under a system that does not support it. */
static uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Reads the brand string of the CPU; "x86-64" if it has none. */
static void read_model(char *model, size_t capacity) {
    unsigned text[13] = {0}, top, b, c, d;
    snprintf(model, capacity, "x86-64");
    if (!__get_cpuid(0x80000000u, &top, &b, &c, &d) || top < 0x80000004u) return;
    for (unsigned i = 0; i < 3; i++) {
        unsigned *r = text + 4 * i;
        if (!__get_cpuid(0x80000002u + i, r, r + 1, r + 2, r + 3)) return;
    }
    const char *start = (const char *)text;
    start += strspn(start, " ");
    if (*start != '\0') snprintf(model, capacity, "%s", start);
}

static bool bit(unsigned word, int position) { return (word >> position & 1u) != 0; }

/* Fills cpu_found. Widths that the system does not save count as absent. */
static void detect_features(void) {
    ls_cpu *cpu = &cpu_found;
    unsigned a, b, c, d;
    read_model(cpu->model, sizeof cpu->model);
    if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, 27)) return; /* no OSXSAVE: nothing wider than SSE */
    uint64_t xcr0 = read_xcr0();
    bool ymm = (xcr0 & 0x6) == 0x6, zmm = (xcr0 & 0xE6) == 0xE6, tile = (xcr0 & 0x60000) == 0x60000;
    cpu->fma = ymm && bit(c, 12);
    cpu->f16c = ymm && bit(c, 29);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    cpu->avx2 = ymm && bit(b, 5);
    cpu->avx512f = zmm && bit(b, 16);
    cpu->avx512dq = zmm && bit(b, 17);
    cpu->avx512bw = zmm && bit(b, 30);
    cpu->avx512vl = zmm && bit(b, 31);
    cpu->amx_bf16 = tile && bit(d, 22);
    cpu->amx_tile = tile && bit(d, 24);
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) cpu->avx512_bf16 = zmm && bit(a, 5);
}

/* Numbers for arch_prctl(), which older headers lack. The system saves tile registers only for processes that request
 * it. */
enum { REQUEST_STATE_PERMISSION = 0x1023, STATE_TILE_DATA = 18 };

/* Asks Linux to save tile registers for this process; sets amx_allowed. */
static void request_amx(void) {
    const ls_cpu *cpu = ls_cpu_detect();
    amx_allowed =
        cpu->amx_tile && cpu->amx_bf16 && syscall(SYS_arch_prctl, REQUEST_STATE_PERMISSION, STATE_TILE_DATA) == 0;
}

#elif defined(__aarch64__)
#    include <sys/auxv.h>

/* Bits of AT_HWCAP and AT_HWCAP2, some of which older headers lack. */
#    define CAP_ASIMD (1ul << 1)
#    define CAP_CPUID (1ul << 11)
#    define CAP_SVE (1ul << 22)
#    define CAP2_I8MM (1ul << 13)
#    define CAP2_BF16 (1ul << 14)

static const struct {
    unsigned implementer, part;
    const char *name;
} arm_cores[] = {
    {0x41, 0xD08, "Cortex-A72"},  {0x41, 0xD0B, "Cortex-A76"},  {0x41, 0xD0C, "Neoverse-N1"},
    {0x41, 0xD40, "Neoverse-V1"}, {0x41, 0xD49, "Neoverse-N2"}, {0x41, 0xD4F, "Neoverse-V2"},
    {0x41, 0xD8E, "Neoverse-N3"}, {0x41, 0xD84, "Neoverse-V3"}, {0x46, 0x001, "A64FX"},
    {0xC0, 0xAC3, "Ampere-1"},    {0xC0, 0xAC4, "Ampere-1A"},
};

/* Looks up the core's name by its implementer and part numbers; "ARM64" if the system hides them. */
static void read_model(char *model, size_t capacity, unsigned long cap) {
    snprintf(model, capacity, "ARM64");
    if ((cap & CAP_CPUID) == 0) return;
    uint64_t midr; /* with CAP_CPUID the system emulates this read */
    __asm__("mrs %0, midr_el1" : "=r"(midr));
    unsigned implementer = (unsigned)(midr >> 24 & 0xFF), part = (unsigned)(midr >> 4 & 0xFFF);
    for (size_t i = 0; i < sizeof arm_cores / sizeof arm_cores[0]; i++) {
        if (arm_cores[i].implementer == implementer && arm_cores[i].part == part) {
            snprintf(model, capacity, "%s", arm_cores[i].name);
            return;
        }
    }
    snprintf(model, capacity, "ARM64 (implementer 0x%02X, part 0x%03X)", implementer, part);
}

/* Fills cpu_found from the kernel's capability bits. */
static void detect_features(void) {
    unsigned long cap = getauxval(AT_HWCAP), cap2 = getauxval(AT_HWCAP2);
    cpu_found.neon = (cap & CAP_ASIMD) != 0;
    cpu_found.sve = (cap & CAP_SVE) != 0;
    cpu_found.i8mm = (cap2 & CAP2_I8MM) != 0;
    cpu_found.bf16 = (cap2 & CAP2_BF16) != 0;
    read_model(cpu_found.model, sizeof cpu_found.model, cap);
}

/* ARM64 has no AMX. */
static void request_amx(void) { amx_allowed = false; }

#else
#    error "lockstep runs on x86-64 and ARM64 only"
#endif

const ls_cpu *ls_cpu_detect(void) {
    (void)pthread_once(&cpu_once, detect_features); /* fails only for a broken once variable */
    return &cpu_found;
}

bool ls_cpu_allow_amx(void) {
    (void)pthread_once(&amx_once, request_amx);
    return amx_allowed;
}

const char *ls_isa_name(ls_isa isa) {
#define LS_ISA_NAME(value, name) [value] = name,
    static const char *const names[LS_ISA_COUNT] = {LS_ISAS(LS_ISA_NAME)};
#undef LS_ISA_NAME
    return (unsigned)isa < LS_ISA_COUNT ? names[isa] : "unknown";
}

/* Each ISA with those it builds on. */
static const unsigned isa_closure[LS_ISA_COUNT] = {
    [LS_ISA_PORTABLE] = 1u << LS_ISA_PORTABLE,
    [LS_ISA_NEON] = 1u << LS_ISA_PORTABLE | 1u << LS_ISA_NEON,
    [LS_ISA_AVX2] = 1u << LS_ISA_PORTABLE | 1u << LS_ISA_AVX2,
    [LS_ISA_AVX512] = 1u << LS_ISA_PORTABLE | 1u << LS_ISA_AVX2 | 1u << LS_ISA_AVX512,
};

/* Returns the ISAs that this CPU can run, whatever the choice. */
static unsigned available_mask(void) {
    const ls_cpu *cpu = ls_cpu_detect();
    bool avx2 = cpu->avx2 && cpu->fma;
    bool avx512 = avx2 && cpu->avx512f && cpu->avx512bw && cpu->avx512dq && cpu->avx512vl;
    return 1u << LS_ISA_PORTABLE | (unsigned)cpu->neon << LS_ISA_NEON | (unsigned)avx2 << LS_ISA_AVX2 |
           (unsigned)avx512 << LS_ISA_AVX512;
}

/* Writes "auto, portable, …": every choice that this CPU has. */
static void list_available(char *text, size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, "auto");
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if ((available_mask() >> isa & 1u) == 0) continue;
        used += (size_t)snprintf(text + used, capacity - used, ", %s", ls_isa_name((ls_isa)isa));
    }
}

ls_status ls_isa_parse(const char *text, ls_isa *out) {
    char have[64];
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (strcmp(text, ls_isa_name((ls_isa)isa)) != 0) continue;
        *out = (ls_isa)isa;
        return LS_OK;
    }
    if (strcmp(text, "auto") == 0) {
        *out = LS_ISA_AUTO;
        return LS_OK;
    }
    list_available(have, sizeof have);
    return ls_fail(LS_ERR_INPUT, "unknown ISA '%s'; choose one of: %s", text, have);
}

/* Computes which ISAs a choice allows. LS_ERR_INPUT if the CPU lacks it. */
static ls_status compute_isa_mask(ls_isa isa, unsigned *mask) {
    char have[64];
    if (isa == LS_ISA_AUTO || (available_mask() >> isa & 1u)) {
        *mask = isa == LS_ISA_AUTO ? available_mask() : isa_closure[isa];
        return LS_OK;
    }
    list_available(have, sizeof have);
    return ls_fail(LS_ERR_INPUT, "this CPU (%s) has no %s; choose one of: %s", ls_cpu_detect()->model, ls_isa_name(isa),
                   have);
}

/* Sets the mask from LS_ISA, else to all of the CPU. A wrong name only warns: the choice changes no result. */
static void isa_from_environment(void) {
    const char *spec = getenv("LS_ISA");
    unsigned mask = available_mask();
    ls_isa isa = LS_ISA_AUTO;

    if (spec && *spec != '\0' && (ls_isa_parse(spec, &isa) != LS_OK || compute_isa_mask(isa, &mask) != LS_OK))
        ls_log_warn("ignoring LS_ISA: %s", ls_status_message());
    atomic_store(&isa_mask, mask);
}

/* For pthread_once() in place of isa_from_environment(), so that LS_ISA is never read afterwards. */
static void skip_environment(void) {}

ls_status ls_cpu_set_isa(ls_isa isa) {
    unsigned mask;
    LS_TRY(compute_isa_mask(isa, &mask));
    (void)pthread_once(&isa_once, skip_environment); /* the environment no longer applies */
    atomic_store(&isa_mask, mask);
    return LS_OK;
}

unsigned ls_cpu_isa_mask(void) {
    (void)pthread_once(&isa_once, isa_from_environment);
    return atomic_load_explicit(&isa_mask, memory_order_relaxed);
}

bool ls_cpu_use(ls_isa isa) { return (ls_cpu_isa_mask() >> isa & 1u) != 0; }
