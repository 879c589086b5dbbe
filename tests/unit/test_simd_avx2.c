/* test_simd_avx2.c: the sixteen lanes with AVX2, when this CPU has it.
 *
 * Only the checks are compiled for that ISA, not main: it must be able to say that the CPU lacks it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"

#ifdef __x86_64__
#    ifdef __clang__
#        define __AVX2__ 1
#        define __FMA__ 1
#        pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#    else
#        pragma GCC push_options
#        pragma GCC target("avx2,fma")
#    endif
#    include "device/cpu/simd/avx2.h"
#    include "simd_checks.h"
#    ifdef __clang__
#        pragma clang attribute pop
#    else
#        pragma GCC pop_options
#    endif
#endif

int main(void) {
#ifdef __x86_64__
    const ls_cpu *cpu = ls_cpu_detect();
    if (cpu->avx2 && cpu->fma) return cmocka_run_group_tests(simd_tests, NULL, NULL);
#endif
    printf("nothing to test: this machine has no AVX2\n");
    return 0;
}
