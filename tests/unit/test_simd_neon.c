/* test_simd_neon.c: the sixteen lanes with NEON. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#ifdef __aarch64__
#    include "device/cpu/simd/neon.h"
#    include "simd_checks.h"

int main(void) { return cmocka_run_group_tests(simd_tests, NULL, NULL); }
#else
int main(void) {
    printf("nothing to test: this machine has no NEON\n");
    return 0;
}
#endif
