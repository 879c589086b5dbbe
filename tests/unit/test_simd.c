/* test_simd.c: the sixteen lanes in plain C. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/cpu/simd/portable.h"
#include "simd_checks.h"

int main(void) { return cmocka_run_group_tests(simd_tests, NULL, NULL); }
