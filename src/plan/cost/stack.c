/* stack.c: the table of training frameworks. Fields that no row sets are the same for all of them. */
#include "plan/cost/stack.h"

#include <string.h>

#include "plan/fitted/fitted.h"

/* Common fields: those of programs of 2020 to 2022, and those of FSDP, compiled or not. */
#define HABITS_OF_2021                                                                                                 \
    .dropout = true, .even_stages = true, .pass_factor = 1, .score_bytes = {8, 10}, .sends_block = true,               \
    .chunk_pause_seconds = .5e-3, .loss_bytes = 22, .layer_kernels = 18, .host = LS_HOST_INTERPRETS,                   \
    .selective_share = -1, .grad_bytes = 2, .reduce_bytes = 2, .optimizer_bytes = 34, .step_seconds = .005,            \
    .fragment_share = .05, .keeps_outputs = true, .logit_bytes = 10, .logit_bytes_split = 10, .bucket_elems = 5e8,     \
    .shard_copy_bytes = 6
#define HABITS_OF_FSDP                                                                                                 \
    .memory_source = "PyTorch FSDP documentation: shards in fp32 alone, gathered in 16 bits; gradients in fp32",       \
    .hybrid = true, .flash = true, .zero_bubble = true, .sharded_stages = true, .reduce_overlaps = true,               \
    .gather_overlaps = true, .selective_alternates = true, .micro_per_stage = true, .usual_virtual = 2,                \
    .grad_bytes = 4, .reduce_bytes = 4, .optimizer_bytes = 28, .step_seconds = .005, .keeps_gathered = true,           \
    .keeps_outputs = true, .keeps_logits = true, .whole_in_pipeline = true, .logit_bytes = 12, .logit_bytes_split = 16

static const ls_stack rows[] = {
    {.name = "megatron",
     .what = "Megatron-Core of 2024: flash attention, fused kernels, overlapped reduction and gathering",
     .source = "Megatron-Core documentation: --overlap-grad-reduce, --overlap-param-gather, --tp-comm-overlap",
     .memory_source = "Megatron-Core: bf16 sets --accumulate-allreduce-grads-in-fp32; NVIDIA's fp8 recipes (NeMo, "
                      "Megatron-Bridge) have grad_reduce_in_fp32 off, and Transformer Engine keeps fp8 inputs; "
                      "Megatron-FSDP keeps 16-bit shards beside the optimizer's fp32",
     .flash = true,
     .even_stages = true,
     .pass_factor = 1,
     .loss_bytes = 16,
     .layer_kernels = 14,
     .host = LS_HOST_INTERPRETS,
     .reduce_overlaps = true,
     .gather_overlaps = true,
     .context_balanced = true,
     .usual_sequence_parallel = true,
     .chunk_pause_seconds = .5e-3,
     .hides_tp = true,
     .selective_share = -1,
     .grad_bytes = 4,
     .reduce_bytes = 4,
     .grad_bytes_8bit = 2,
     .inputs_8bit = true,
     .weights_beside_shards = true,
     .hybrid = true,
     .optimizer_bytes = 44,
     .step_seconds = .005,
     .fragment_share = .05,
     .logit_bytes = 10,
     .logit_bytes_split = 10,
     .bucket_elems = 4e7},
    {.name = "megatron-2021",
     .what = "Megatron-LM and Megatron-DeepSpeed of 2020 to 2022: attention writes its scores, nothing overlaps",
     .source = "Narayanan et al. 2021; Korthikanti et al. 2022; DeepSpeed: reduce_bucket_size 5e8",
     .memory_source = "Megatron-LM: 16-bit gradients; with bf16 the DeepSpeed of BLOOM adds fp32 sums",
     HABITS_OF_2021,
     .reduce_whole = true},
    {.name = "deepspeed-2021",
     .what = "DeepSpeed ZeRO 3 of 2021: weights are all-gathered layer by layer in one ring, with little prefetching",
     .source = "Narayanan et al. 2021, table 2; Rajbhandari et al. 2021",
     .memory_source = "Rajbhandari et al. 2020 (ZeRO): 2 + 2 + 12 bytes, all sharded at stage 3",
     .weights_beside_shards = true,
     HABITS_OF_2021,
     .reduce_overlaps = true,
     .flat_gather = true,
     .prefetches = true},
    {.name = "fsdp",
     .what = "PyTorch FSDP without compilation: flash attention, other operations kernel by kernel",
     .source = "PyTorch FSDP documentation; torchtitan: as many micro-batches as stages by default, loss not compiled",
     HABITS_OF_FSDP,
     .is_eager = true,
     .loss_bytes = 23,
     .layer_kernels = 30,
     .host = LS_HOST_INTERPRETS,
     .fragment_share = .10},
    {.name = "fsdp-compile",
     .what = "PyTorch FSDP2 with torch.compile: operations are fused",
     .source = "torchtitan: as many micro-batches as stages by default, loss not compiled (compiled: 4 bytes a logit)",
     HABITS_OF_FSDP,
     .pass_factor = 1,
     .loss_bytes = 16,
     .layer_kernels = 16,
     .host = LS_HOST_COMPILES,
     .fragment_share = .05},
    {.name = "native",
     .what = "a compiled program without an interpreter, such as llm.c",
     .source = "llm.c",
     .memory_source = "llm.c: gradients in 16 bits; master weights and optimizer state in fp32",
     .flash = true,
     .even_stages = true,
     .pass_factor = 1,
     .loss_bytes = 10,
     .layer_kernels = 14,
     .layer_host_seconds = .1e-3,
     .reduce_overlaps = true,
     .gather_overlaps = true,
     .selective_share = .18,
     .grad_bytes = 2,
     .reduce_bytes = 2,
     .optimizer_bytes = 28,
     .fragment_share = 0,
     .logit_bytes = 2,
     .logit_bytes_split = 2},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

const ls_stack *ls_stack_row(int i) { return i >= 0 && i < ROWS ? &rows[i] : NULL; }

ls_status ls_stack_find(const char *name, ls_stack *out) {
    char list[256] = "";
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(name, rows[i].name) == 0) {
            *out = rows[i];
            ls_fitted_stack(ls_fitted_values(), out);
            return LS_OK;
        }
        ls_names_add(list, sizeof list, rows[i].name);
    }
    return ls_fail(LS_ERR_INPUT, "unknown training program \"%s\"; choose one of: %s", name, list);
}
