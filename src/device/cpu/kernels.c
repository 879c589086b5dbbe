/* kernels.c: chooses the kernels for this CPU, once. */
#include "device/cpu/kernels.h"

#include <pthread.h>

#include "base/cpu.h"

static void fill_portable(ls_kernels *t) {
    t->isa = ls_isa_name(LS_ISA_PORTABLE);
    ls_add_kernels_fill_portable(&t->add);
    ls_gemm_kernels_fill_portable(&t->gemm);
    ls_math_kernels_fill_portable(&t->math);
    ls_norm_kernels_fill_portable(&t->norm);
    ls_batch_norm_kernels_fill_portable(&t->batch_norm);
    ls_act_kernels_fill_portable(&t->act);
    ls_pooling_kernels_fill_portable(&t->pooling);
    ls_rope_kernels_fill_portable(&t->rope);
    ls_dropout_kernels_fill_portable(&t->dropout);
    ls_embed_kernels_fill_portable(&t->embed);
    ls_loss_kernels_fill_portable(&t->loss);
    ls_attention_kernels_fill_portable(&t->attention);
    t->attention_bfmmla = (ls_attention_kernels){.forward = NULL};
    ls_optim_kernels_fill_portable(&t->optim);
    ls_convert_kernels_fill_portable(&t->convert);
}

#ifdef __aarch64__
/* The adding kernels of portable C are NEON already. */
static void fill_neon(ls_kernels *t) {
    t->isa = ls_isa_name(LS_ISA_NEON);
    ls_gemm_kernels_fill_neon(&t->gemm);
    ls_math_kernels_fill_neon(&t->math);
    ls_norm_kernels_fill_neon(&t->norm);
    ls_batch_norm_kernels_fill_neon(&t->batch_norm);
    ls_act_kernels_fill_neon(&t->act);
    ls_pooling_kernels_fill_neon(&t->pooling);
    ls_rope_kernels_fill_neon(&t->rope);
    ls_dropout_kernels_fill_neon(&t->dropout);
    ls_embed_kernels_fill_neon(&t->embed);
    ls_loss_kernels_fill_neon(&t->loss);
    ls_attention_kernels_fill_neon(&t->attention);
    ls_optim_kernels_fill_neon(&t->optim);
    ls_convert_kernels_fill_neon(&t->convert);
}
#endif

#ifdef __x86_64__
static void fill_avx2(ls_kernels *t) {
    t->isa = ls_isa_name(LS_ISA_AVX2);
    ls_add_kernels_fill_avx2(&t->add);
    ls_gemm_kernels_fill_avx2(&t->gemm);
    ls_math_kernels_fill_avx2(&t->math);
    ls_norm_kernels_fill_avx2(&t->norm);
    ls_batch_norm_kernels_fill_avx2(&t->batch_norm);
    ls_act_kernels_fill_avx2(&t->act);
    ls_pooling_kernels_fill_avx2(&t->pooling);
    ls_rope_kernels_fill_avx2(&t->rope);
    ls_dropout_kernels_fill_avx2(&t->dropout);
    ls_embed_kernels_fill_avx2(&t->embed);
    ls_loss_kernels_fill_avx2(&t->loss);
    ls_attention_kernels_fill_avx2(&t->attention);
    ls_optim_kernels_fill_avx2(&t->optim);
    ls_convert_kernels_fill_avx2(&t->convert);
}

static void fill_avx512(ls_kernels *t) {
    t->isa = ls_isa_name(LS_ISA_AVX512);
    ls_add_kernels_fill_avx512(&t->add);
    ls_gemm_kernels_fill_avx512(&t->gemm);
    ls_math_kernels_fill_avx512(&t->math);
    ls_norm_kernels_fill_avx512(&t->norm);
    ls_batch_norm_kernels_fill_avx512(&t->batch_norm);
    ls_act_kernels_fill_avx512(&t->act);
    ls_pooling_kernels_fill_avx512(&t->pooling);
    ls_rope_kernels_fill_avx512(&t->rope);
    ls_dropout_kernels_fill_avx512(&t->dropout);
    ls_embed_kernels_fill_avx512(&t->embed);
    ls_loss_kernels_fill_avx512(&t->loss);
    ls_attention_kernels_fill_avx512(&t->attention);
    ls_optim_kernels_fill_avx512(&t->optim);
    ls_convert_kernels_fill_avx512(&t->convert);
}
#endif

void ls_kernels_fill(ls_kernels *table, unsigned isa_mask) {
    fill_portable(table);
#ifdef __aarch64__
    if (isa_mask >> LS_ISA_NEON & 1) fill_neon(table);
    if (ls_cpu_detect()->bf16) ls_attention_kernels_fill_bfmmla(&table->attention_bfmmla);
#endif
#ifdef __x86_64__
    if (isa_mask >> LS_ISA_AVX2 & 1) fill_avx2(table);
    if (isa_mask >> LS_ISA_AVX512 & 1) fill_avx512(table);
#endif
}

static ls_kernels chosen;
static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;

static void choose(void) { ls_kernels_fill(&chosen, ls_cpu_isa_mask()); }

const ls_kernels *ls_kernels_get(void) {
    pthread_once(&chosen_once, choose);
    return &chosen;
}
