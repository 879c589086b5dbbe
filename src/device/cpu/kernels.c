/* kernels.c: chooses the kernels for this CPU, once. */
#include "device/cpu/kernels.h"

#include <pthread.h>

#include "base/cpu.h"

void ls_kernels_fill(ls_kernels *table, unsigned isa_mask) {
    ls_kernels_fill_portable(table);
#ifdef __aarch64__
    if (isa_mask >> LS_ISA_NEON & 1) ls_kernels_fill_neon(table);
    if (ls_cpu_detect()->bf16) ls_attention_kernels_fill_bfmmla(&table->attention_bfmmla);
#endif
#ifdef __x86_64__
    if (isa_mask >> LS_ISA_AVX2 & 1) ls_kernels_fill_avx2(table);
    if (isa_mask >> LS_ISA_AVX512 & 1) ls_kernels_fill_avx512(table);
#endif
    table->attention_hgmma = table->attention; /* its dots are those of chains */
    ls_attention_kernels_fill_hgmma(&table->attention_hgmma);
    ls_loss_kernels_fill_hgmma(&table->loss_hgmma);
}

static ls_kernels chosen;
static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;

/* Fills the table of this CPU; called once. */
static void choose(void) { ls_kernels_fill(&chosen, ls_cpu_isa_mask()); }

const ls_kernels *ls_kernels_get(void) {
    pthread_once(&chosen_once, choose);
    return &chosen;
}
