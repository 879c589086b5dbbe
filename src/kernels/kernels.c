/* kernels.c: chooses the kernels for this CPU, once. */
#include "kernels/kernels.h"

#include <pthread.h>

#include "base/cpu.h"

static ls_kernels table;
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void) {
    ls_kernels_fill_portable(&table);
#ifdef __x86_64__
    if (ls_cpu_use(LS_ISA_AVX2)) ls_kernels_fill_avx2(&table);
    if (ls_cpu_use(LS_ISA_AVX512)) ls_kernels_fill_avx512(&table);
#endif
}

const ls_kernels *ls_kernels_get(void) {
    pthread_once(&table_once, fill_table);
    return &table;
}
