/* fpenv.c: MXCSR on x86-64, FPCR on ARM64. x87 does not matter: lockstep does not use it. */
#include "base/fpenv.h"

#include <stdint.h>

#if defined(__x86_64__)
#    include <xmmintrin.h>

/* All exceptions masked; rounding, flush-to-zero (15) and denormals-are-zero (6) all 0. */
#    define MXCSR_DEFAULT 0x1F80u
/* Bits 0 to 5 are exception flags, which control nothing. */
#    define MXCSR_CONTROL 0xFFC0u

void ls_fpenv_set(void) { _mm_setcsr(MXCSR_DEFAULT); }

bool ls_fpenv_is_set(void) { return (_mm_getcsr() & MXCSR_CONTROL) == MXCSR_DEFAULT; }

#elif defined(__aarch64__)

/* Clears FPCR, because every bit of it selects a deviation from the default: AHP 26, DN 25, FZ 24, RMode 23:22, FZ16
 * 19, traps 15 and 12:8, EBF 13, NEP 2, AH 1, FIZ 0. */
void ls_fpenv_set(void) {
    uint64_t zero = 0;
    __asm__ volatile("msr fpcr, %0\n\tisb" : : "r"(zero) : "memory");
}

bool ls_fpenv_is_set(void) {
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr) : : "memory");
    return fpcr == 0;
}

#else
#    error "lockstep knows the floating-point control register of x86-64 and ARM64 only"
#endif
