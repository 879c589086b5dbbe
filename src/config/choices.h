/* choices.h: the words that options choose among, with their values. One X-macro list generates the enum, the function
 * that names its values, and the choices of an option in options.def, so each word is written once:
 *
 *     LS_LR_KINDS(X)     X(LS_LR_CONSTANT, "constant") X(LS_LR_LINEAR, "linear") …
 *     ls_lr_kind         the enum; ls_options has a field of this type
 *     ls_lr_kind_name()  "linear"
 *
 * Enums of higher layers are defined here, because their options are; for enums of base and lockstep.h only the words
 * are listed. */
#ifndef LS_CONFIG_CHOICES_H
#define LS_CONFIG_CHOICES_H

#include <stdbool.h>

#include "base/cpu.h"
#include "base/log.h"
#include "lockstep.h"

typedef struct ls_option_choice {
    const char *word; /* as a user writes it; NULL: the end of the list */
    int value;        /* of the enum */
} ls_option_choice;

/* Returns the word of a value, a static text; "unknown" if no choice has it. */
const char *ls_choice_word(const ls_option_choice *choices, int value);
/* Finds the value of a word, in exact spelling, in a list that ends with a NULL word. Returns false, with *value
 * unchanged, if no choice has it. */
bool ls_choice_find(const ls_option_choice *choices, const char *word, int *value);

/* Writes all words as "auto, portable or neon" for help and error messages; cut off if `room` bytes are too few. */
void ls_choice_list(const ls_option_choice *choices, char *text, size_t room);

#define LS_CHOICE_VALUE(value, word) value,
#define LS_CHOICE_ROW(value, word) {word, value},
#define LS_CHOICES(LIST) ((const ls_option_choice[]){LIST(LS_CHOICE_ROW){NULL, 0}})
/* The enum of a list, and the name of a value. */
#define LS_CHOICE_ENUM(type, LIST)                                                                                     \
    typedef enum type { LIST(LS_CHOICE_VALUE) } type;                                                                  \
    LS_CHOICE_NAME(type, type##_name, LIST)
#define LS_CHOICE_NAME(type, name, LIST)                                                                               \
    static inline const char *name(type value) { return ls_choice_word(LS_CHOICES(LIST), (int)value); }

/* ---- machine ----------------------------------------------------------------------------------------------------- */

#define LS_ISA_CHOICES(X) X(LS_ISA_AUTO, "auto") LS_ISAS(X)

#define LS_TRANSPORTS(X)                                                                                               \
    X(LS_TRANSPORT_AUTO, "auto") /* MPI under a launcher, else shared memory */                                        \
    X(LS_TRANSPORT_SHM, "shm")                                                                                         \
    X(LS_TRANSPORT_MPI, "mpi")
LS_CHOICE_ENUM(ls_transport_choice, LS_TRANSPORTS)

/* CUDA graphs, which launch the many kernels of a step with one call. */
#define LS_GRAPHS_LIST(X) X(LS_GRAPHS_ON, "on") X(LS_GRAPHS_OFF, "off")
LS_CHOICE_ENUM(ls_graphs, LS_GRAPHS_LIST)

/* Buffers of `bench comm`: in memory that the workers share, or private to each worker, so that data must be copied. */
#define LS_BENCH_BUFFERS(X) X(LS_BUFFERS_SHARED, "shared") X(LS_BUFFERS_PRIVATE, "private")
LS_CHOICE_ENUM(ls_bench_buffers, LS_BENCH_BUFFERS)

/* ---- layout ------------------------------------------------------------------------------------------------------ */

/* interleaved is 1f1b with several chunks per stage. zero-bubble is 1f1b with separate input and weight gradients,
 * where the weight gradients fill the bubbles; on every stage at most `stages` micro-batches hold activations, as on
 * the first stage of 1f1b. */
#define LS_SCHEDULE_LIST(X)                                                                                            \
    X(LS_SCHEDULE_NAIVE, "naive") /* one micro-batch at a time is in the pipeline */                                   \
    X(LS_SCHEDULE_GPIPE, "gpipe") /* all forward, then all backward */                                                 \
    X(LS_SCHEDULE_1F1B, "1f1b")   /* backward as soon as possible: stage s has at most stages − s micro-batches */   \
    X(LS_SCHEDULE_INTERLEAVED, "interleaved")                                                                          \
    X(LS_SCHEDULE_ZERO_BUBBLE, "zero-bubble")
typedef enum ls_schedule_kind { LS_SCHEDULE_LIST(LS_CHOICE_VALUE) LS_SCHEDULE_KINDS } ls_schedule_kind;
LS_CHOICE_NAME(ls_schedule_kind, ls_schedule_kind_name, LS_SCHEDULE_LIST)

#define LS_RECOMPUTE_LIST(X)                                                                                           \
    X(LS_RECOMPUTE_NONE, "none")                                                                                       \
    X(LS_RECOMPUTE_SELECTIVE, "selective") /* backward recomputes the MLP before its activation */                     \
    X(LS_RECOMPUTE_FULL, "full")           /* backward recomputes all but the input of each block */
typedef enum ls_recompute { LS_RECOMPUTE_LIST(LS_CHOICE_VALUE) LS_RECOMPUTE_KINDS } ls_recompute;
LS_CHOICE_NAME(ls_recompute, ls_recompute_name, LS_RECOMPUTE_LIST)

/* ---- precision --------------------------------------------------------------------------------------------------- */

/* Names of element types in options and in a run's identity (its recorded options that change results); device/dtype.h
 * has the names that the library uses. LS_SUM_DTYPES: types in which gradients are accumulated and reduced. */
#define LS_DTYPES(X) X(LS_F32, "fp32") X(LS_BF16, "bf16") X(LS_F16, "fp16")
#define LS_SUM_DTYPES(X) X(LS_F32, "fp32") X(LS_BF16, "bf16")
LS_CHOICE_NAME(ls_dtype, ls_dtype_word, LS_DTYPES)

/* Types of the operands of matmuls. The planner knows all of them; this program trains with LS_RUN_TYPES, those of 16
 * bits and more. mxfp8: fp8 with a scale for every 32 numbers. */
typedef enum ls_plan_type {
    LS_PLAN_FP32,
    LS_PLAN_FP16,
    LS_PLAN_BF16,
    LS_PLAN_FP8,
    LS_PLAN_MXFP8,
    LS_PLAN_TYPES
} ls_plan_type;
#define LS_RUN_TYPES(X) X(LS_PLAN_FP32, "fp32") X(LS_PLAN_BF16, "bf16") X(LS_PLAN_FP16, "fp16")
#define LS_PLAN_TYPE_LIST(X) LS_RUN_TYPES(X) X(LS_PLAN_FP8, "fp8") X(LS_PLAN_MXFP8, "mxfp8")
LS_CHOICE_NAME(ls_plan_type, ls_plan_type_name, LS_PLAN_TYPE_LIST)

/* The matrix units: instructions that multiply 16-bit matrices, each with rounding of its own (device/unit.h). chain:
 * no such instruction, but one fused multiply-add after another in ascending order. auto, a choice but no unit: the
 * unit of this machine's device. */
#define LS_HARDWARE_UNITS(X)                                                                                           \
    X(LS_UNIT_BFMMLA, "bfmmla")                                                                                        \
    X(LS_UNIT_AVX512_BF16, "avx512-bf16")                                                                              \
    X(LS_UNIT_AMX, "amx")                                                                                              \
    X(LS_UNIT_HGMMA, "hgmma") X(LS_UNIT_AMPERE, "ampere") X(LS_UNIT_ADA, "ada") X(LS_UNIT_BLACKWELL, "blackwell")
#define LS_UNIT_LIST(X) X(LS_UNIT_CHAIN, "chain") LS_HARDWARE_UNITS(X)
#define LS_UNIT_CHOICES(X) X(LS_UNIT_CHAIN, "chain") X(LS_UNIT_AUTO, "auto") LS_HARDWARE_UNITS(X)
typedef enum ls_unit { LS_UNIT_LIST(LS_CHOICE_VALUE) LS_UNITS, LS_UNIT_AUTO } ls_unit;
LS_CHOICE_NAME(ls_unit, ls_unit_name, LS_UNIT_LIST)

/* ---- model and data ---------------------------------------------------------------------------------------------- */

/* Batch norm statistics: over each group of --ghost images, or over the whole batch, with communication. */
#define LS_BN_KINDS(X) X(LS_BN_GHOST, "ghost") X(LS_BN_SYNC, "sync")
LS_CHOICE_ENUM(ls_bn, LS_BN_KINDS)

/* Whether a token that marks the beginning of a text (BOS) stands in front of each text. */
#define LS_BOS_KINDS(X)                                                                                                \
    X(LS_BOS_AUTO, "auto") /* as the tokenizer says */                                                                 \
    X(LS_BOS_YES, "yes")   /* the same, or a BOS if it says nothing; LS_ERR_INPUT if it has none */                    \
    X(LS_BOS_NO, "no")     /* no BOS */
LS_CHOICE_ENUM(ls_bos, LS_BOS_KINDS)

/* ---- optimizer --------------------------------------------------------------------------------------------------- */

#define LS_OPTIMIZER_KINDS(X) X(LS_OPTIMIZER_ADAMW, "adamw") X(LS_OPTIMIZER_SGD, "sgd")
LS_CHOICE_ENUM(ls_optimizer_kind, LS_OPTIMIZER_KINDS)

#define LS_LR_KINDS(X)                                                                                                 \
    X(LS_LR_CONSTANT, "constant")                                                                                      \
    X(LS_LR_LINEAR, "linear")                                                                                          \
    X(LS_LR_COSINE, "cosine")                                                                                          \
    X(LS_LR_WSD, "wsd") /* warm-up, stable, decay */                                                                   \
    X(LS_LR_STEP, "step")
typedef enum ls_lr_kind { LS_LR_KINDS(LS_CHOICE_VALUE) LS_LR_KIND_COUNT } ls_lr_kind;
LS_CHOICE_NAME(ls_lr_kind, ls_lr_kind_name, LS_LR_KINDS)

/* Factor on the learning rate for a batch k times as large as the one it was tuned for: 1, k or the root of k. */
#define LS_LR_SCALINGS(X) X(LS_LR_SCALING_NONE, "none") X(LS_LR_SCALING_LINEAR, "linear") X(LS_LR_SCALING_SQRT, "sqrt")
LS_CHOICE_ENUM(ls_lr_scaling, LS_LR_SCALINGS)

/* ---- guards ------------------------------------------------------------------------------------------------------ */

/* Hashes that guard against wrong numbers: replicas compare the hashes of their weights after each update; state, in
 * addition, verifies weights and optimizer state in memory before they are used again. auto is resolved to one of the
 * three when a run starts. */
#define LS_CHECKS(X)                                                                                                   \
    X(LS_CHECK_OFF, "off") X(LS_CHECK_REPLICAS, "replicas") X(LS_CHECK_STATE, "state") X(LS_CHECK_AUTO, "auto")
LS_CHOICE_ENUM(ls_check, LS_CHECKS)

#define LS_SAVE_MODES(X)                                                                                               \
    X(LS_SAVE_AUTO, "auto")         /* a snapshot, if it fits into memory */                                           \
    X(LS_SAVE_SNAPSHOT, "snapshot") /* copied; written while training continues */                                     \
    X(LS_SAVE_STREAM, "stream")     /* written while training waits */
LS_CHOICE_ENUM(ls_save_mode, LS_SAVE_MODES)

/* What to do when the gradient of one part of the batch (a group) is far from the others'. */
#define LS_OUTLIER_ACTIONS(X)                                                                                          \
    X(LS_OUTLIER_OFF, "off")                                                                                           \
    X(LS_OUTLIER_AUTO, "auto") /* warn, if detection costs next to nothing */                                          \
    X(LS_OUTLIER_WARN, "warn")                                                                                         \
    X(LS_OUTLIER_SKIP, "skip-group") /* repeat the step without the group */                                           \
    X(LS_OUTLIER_STOP, "stop")
LS_CHOICE_ENUM(ls_outlier_action, LS_OUTLIER_ACTIONS)

/* ---- output ------------------------------------------------------------------------------------------------------ */

/* Formats of `lockstep export`: a Hugging Face folder, or a model file of llm.c. */
#define LS_EXPORT_FORMATS(X) X(LS_EXPORT_HF, "hf") X(LS_EXPORT_LLMC, "llmc")
LS_CHOICE_ENUM(ls_export_format, LS_EXPORT_FORMATS)

/* What `lockstep doctor` prints: its diagnosis, or the recorded statistics of one step for each block of the model. */
#define LS_DOCTOR_PAGES(X) X(LS_DOCTOR_VERDICT, "verdict") X(LS_DOCTOR_NUMERICS, "numerics")
LS_CHOICE_ENUM(ls_doctor_page, LS_DOCTOR_PAGES)

#endif
