/* fitted.c: the table of constants, and how fields of chips, links and stacks follow from them. */
#include "plan/fitted/fitted.h"

#include <stddef.h>
#include <string.h>

/* Usual values come from measurements of single operations, never from the runs that the constants are fitted to. */
static const ls_fitted_row rows[LS_FITTED_ALL] = {
    [LS_FITTED_MATMUL_AMPERE] = {"matmul_ampere", "share of the 16-bit peak that large matmuls reach on Ampere", .80,
                                 .5, .95, "large matmuls alone: 247 to 271 of 312 TFLOP/s (MAMF, torch test data)"},
    [LS_FITTED_MATMUL_HOPPER] = {"matmul_hopper", "the same on Hopper", .68, .4, .95,
                                 "cuBLASLt on an H200, products of models one after the other: 0.70 to 0.77 "
                                 "(bench/gpu_products); less in hours at the power limit, which is not verified"},
    [LS_FITTED_VOLTA] = {"volta", "Volta's share over Ampere's", 1, .6, 1.18, "the next generation's; not verified"},
    [LS_FITTED_BLACKWELL] = {"blackwell", "Blackwell's share over Hopper's", 1, .6, 1.4,
                             "the last generation's; B200 alone: 1628 to 1696 of 2250 TFLOP/s (torch test data)"},
    [LS_FITTED_EIGHT_BIT] = {"eight_bit", "share that matmuls in 8 bits reach, over that in 16", .95, .5, 1.3,
                             "H100 alone: 0.71 of the peak in 8 bits, 0.80 in 16 (MAMF)"},
    [LS_FITTED_POWER] =
        {"power", "part of a lower power limit that the rate of matmuls loses", .75, 0, 1,
         "A100 PCIe, 300 of 400 W: 0.93 of the rate of short matmuls (MAMF); of long ones not verified"},
    [LS_FITTED_ATTENTION] = {"attention", "flash attention's share of the peak over that of matmuls, forward", .65, .3,
                             1, "Dao 2023, FlashAttention-2: 50 to 73 % of an A100's peak forward"},
    [LS_FITTED_ATTENTION_BACK] = {"attention_back", "the same, backward", .50, .2, 1,
                                  "Dao 2023, FlashAttention-2: up to 63 % of an A100's peak backward"},
    [LS_FITTED_BANDWIDTH] = {"bandwidth", "share of the memory's bandwidth that passes over arrays reach", .85, .6, .95,
                             "copies of large arrays on an H200 (bench/gpu_memory); on A100 not verified"},
    [LS_FITTED_HOST] = {"host", "milliseconds of an interpreter to start the kernels of a layer's forward pass", .8, .1,
                        3, "20 to 30 kernels of PyTorch at 25 to 40 us; not verified"},
    [LS_FITTED_HOST_COMPILED] = {"host_compiled", "the same where operations are compiled together", .4, .05, 2,
                                 "half as many kernels; not verified"},
    [LS_FITTED_PASSES_EAGER] = {"passes_eager", "bytes of element-wise passes, kernel by kernel, over fused ones", 1.8,
                                1, 3, "arrays counted in PyTorch's own operations"},
    [LS_FITTED_TP_HIDDEN] = {"tp_hidden", "share of tensor-parallel collectives that current Megatron hides", .6, 0,
                             .95,
                             "Megatron-Core documentation has --tp-comm-overlap; how much it hides is not verified"},
    [LS_FITTED_GATHER_HIDDEN] = {"gather_hidden", "share of gathering behind computing in DeepSpeed of 2021", .5, 0, .9,
                                 "a prefetch of one layer; not verified"},
    [LS_FITTED_NETWORK] = {"network", "share of a network's rate that large collectives reach", .82, .5, .97,
                           "NCCL's maintainers on nccl-tests: the protocol takes about 20 % of the line rate"},
    [LS_FITTED_CONTENTION] = {"contention", "share of overlapped communication that slows compute down", .19, 0, .5,
                              "Lee et al. 2025, Characterizing Compute-Communication Overlap: computing is "
                              "slowed down by 18.9 % on average where it is overlapped"},
};

static const double values[LS_FITTED_ALL] = {
#include "plan/fitted/constants.inc"
};

const ls_fitted_row *ls_fitted_row_get(ls_fitted constant) { return &rows[constant]; }
const double *ls_fitted_values(void) { return values; }

/* Returns the share of the 16-bit peak that large matmuls reach on a generation, before power limits. */
static double matmul_share(const double *v, ls_generation generation) {
    switch (generation) {
    case LS_GENERATION_VOLTA: return v[LS_FITTED_VOLTA] * v[LS_FITTED_MATMUL_AMPERE];
    case LS_GENERATION_AMPERE: return v[LS_FITTED_MATMUL_AMPERE];
    case LS_GENERATION_BLACKWELL: return v[LS_FITTED_BLACKWELL] * v[LS_FITTED_MATMUL_HOPPER];
    default: return v[LS_FITTED_MATMUL_HOPPER];
    }
}

/* Returns the smaller number. */
static double at_most(double x, double most) { return x < most ? x : most; }

void ls_fitted_chip(const double *v, ls_chip *chip) {
    if (chip->generation == LS_GENERATION_NONE) return;
    double share = matmul_share(v, chip->generation) * (1 - v[LS_FITTED_POWER] * (1 - chip->power_share));
    for (int type = 0; type < LS_PLAN_TYPES; type++)
        chip->share[type] = at_most(share * (type >= LS_PLAN_FP8 ? v[LS_FITTED_EIGHT_BIT] : 1), .98);
    chip->attention_share = v[LS_FITTED_ATTENTION] * share;
    chip->attention_back_share = v[LS_FITTED_ATTENTION_BACK] * share;
    chip->bandwidth_share = v[LS_FITTED_BANDWIDTH];
}

void ls_fitted_stack(const double *v, ls_stack *stack) {
    switch (stack->host) {
    case LS_HOST_INTERPRETS: stack->layer_host_seconds = v[LS_FITTED_HOST] * 1e-3; break;
    case LS_HOST_COMPILES: stack->layer_host_seconds = v[LS_FITTED_HOST_COMPILED] * 1e-3; break;
    default: break;
    }
    stack->contention = v[LS_FITTED_CONTENTION];
    if (stack->is_eager) stack->pass_factor = v[LS_FITTED_PASSES_EAGER];
    if (stack->hides_tp) stack->tp_hidden = v[LS_FITTED_TP_HIDDEN];
    if (stack->prefetches) stack->gather_hidden = v[LS_FITTED_GATHER_HIDDEN];
}

void ls_fitted_link(const double *v, ls_link *link) {
    if (link->is_network) link->share = v[LS_FITTED_NETWORK];
}

typedef struct best_mfu {
    const char *chip;
    ls_plan_type type;
    double mfu;
} best_mfu;

static const best_mfu best[] = {
#include "plan/fitted/best_mfu.inc"
    {NULL, LS_PLAN_FP32, 0}};

double ls_fitted_best_mfu(const char *chip, ls_plan_type type) {
    for (int i = 0; best[i].chip; i++)
        if (best[i].type == type && strcmp(best[i].chip, chip) == 0) return best[i].mfu;
    return 0;
}
