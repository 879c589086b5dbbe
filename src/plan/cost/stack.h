/* stack.h: conventions of training frameworks (`--stack`) on which time and memory depend.
 *
 * The same model on the same chips takes a third longer with the programs of 2021 than with those of 2024: attention
 * wrote its scores to memory, collectives waited for matmuls. A stack names such a set of conventions. Costs of this
 * program itself on a measured machine come from plan/native/native.h instead. */
#ifndef LS_PLAN_COST_STACK_H
#define LS_PLAN_COST_STACK_H

#include <stdbool.h>

#include "base/status.h"

/* How the kernels of a layer are launched. */
typedef enum ls_host {
    LS_HOST_OWN,        /* by a compiled program: the row has its own time */
    LS_HOST_INTERPRETS, /* by Python, kernel by kernel */
    LS_HOST_COMPILES    /* by Python, compiled together (torch.compile) */
} ls_host;

typedef struct ls_stack {
    const char *name, *what, *source; /* of --stack; in words; where the figures come from */
    const char *memory_source;        /* where the memory figures come from; NULL: as `source` */
    /* Each of these four says that a fitted constant (plan/fitted) fills the field named here. */
    ls_host host;              /* fills layer_host_seconds; LS_HOST_OWN: the row's own */
    bool is_eager;             /* fills pass_factor: elementwise operations run kernel by kernel */
    bool hides_tp;             /* fills tp_hidden: tensor-parallel collectives overlap with matmuls */
    bool prefetches;           /* fills gather_hidden: sharded weights are prefetched a little */
    bool flash;                /* attention keeps its scores on the chip and leaves out what the mask hides */
    bool dropout;              /* masks are made and kept */
    bool even_stages;          /* layers in equal numbers, where they can be */
    bool zero_bubble;          /* has the schedule that puts gradients of weights apart */
    bool sharded_stages;       /* ZeRO 2 and 3 may be joined with a pipeline */
    double pass_factor;        /* of the bytes of element-wise passes; 1: fused by hand */
    double score_bytes[2];     /* without flash: moved for a score by softmax and dropout, forward and backward */
    double loss_bytes;         /* moved for a logit by the loss, both passes */
    double layer_kernels;      /* of a layer's forward pass; backward has twice as many */
    double layer_host_seconds; /* of the host to start them: a layer takes no less */
    bool reduce_overlaps;      /* gradients are reduced during the last backward pass */
    bool gather_overlaps;      /* sharded weights are fetched ahead */
    bool flat_gather;          /* sharded weights go round all chips in one ring, through one adapter of each node */
    double gather_hidden;      /* without overlap: share of the shorter of gathering and computing that is hidden */
    bool sends_block;          /* a stage waits while its activations go to the next */
    double
        chunk_pause_seconds; /* virtual stages: of the host, between a chunk's sends and receives and the next chunk */
    bool context_balanced;   /* chips that share a sequence have equal parts of the mask's triangle */
    double tp_hidden;        /* share of tensor-parallel collectives behind matmuls */
    double selective_share;  /* of a forward pass that selective recomputation repeats; −1: attention alone */
    bool selective_alternates;    /* selective recomputation repeats every other matmul and all passes instead */
    bool micro_per_stage;         /* as many micro-batches as stages, unless it is told otherwise */
    bool usual_sequence_parallel; /* with tensor parallelism, unless it is told otherwise */
    int usual_virtual;            /* virtual stages, unless it is told otherwise; 0: as many as can be */
    double grad_bytes;            /* of a gradient as kept, in 16-bit training */
    double reduce_bytes;          /* as sent */
    double grad_bytes_8bit;       /* both, where matmuls are in 8 bits; 0: the same */
    bool inputs_8bit;             /* matmuls in 8 bits keep their inputs as such for backward */
    bool reduce_whole;            /* all-reduce even where a shard would do (ZeRO 1) */
    double optimizer_bytes;       /* moved for an element by its update */
    double step_seconds;          /* of a step, whatever its size */
    double contention;            /* share of overlapped communication that slows matmuls down */
    double fragment_share;        /* of activations, which the allocator wastes */
    bool keeps_gathered;          /* with sequence parallelism: gathered inputs of matmuls, whole, for backward */
    bool keeps_outputs;           /* what a stage sent, until its backward pass */
    bool keeps_logits;            /* of all micro-batches, on the last of several stages */
    bool weights_beside_shards;   /* ZeRO 3: shards of the weights in 16 bits too, beside those in fp32 */
    bool hybrid;                  /* ZeRO 3 may shard among the chips of a node and keep copies between nodes */
    bool whole_in_pipeline;       /* ZeRO 2 and 3 with several stages: weights and gradients stay whole in a step */
    double logit_bytes;           /* of a logit with its copies, at the loss's worst moment */
    double logit_bytes_split;     /* the same with a vocabulary that is divided (tp) */
    double bucket_elems;          /* gradients that are copied into one message */
    double shard_copy_bytes;      /* ZeRO 1 and up: of an element of the own shard, copied for its update */
} ls_stack;

/* Copies the stack of that name ("megatron", "fsdp", …) with the fitted constants filled in. The message of
 * LS_ERR_INPUT lists the names. */
ls_status ls_stack_find(const char *name, ls_stack *out);
/* Returns row i of the table, without fitted constants (their fields are 0); NULL after the last. */
const ls_stack *ls_stack_row(int i);

#endif
