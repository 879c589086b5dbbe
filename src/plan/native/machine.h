/* machine.h: measurements by `lockstep probe` of this program's own operations on a machine, and the times of
 * operations interpolated from them. All structs are plain values; times are seconds.
 *
 * Rates are those of one worker while `workers` of them work at the same time, each with its share of the cores, so
 * they contain the memory bandwidth and clock frequency that workers take from each other. For more workers than cores
 * the planner scales the rates of as many workers as there are cores. A matrix unit is an instruction set for 16-bit
 * matmuls (device/unit.h); a slice is a part of a sum that is added up by itself. */
#ifndef LS_PLAN_NATIVE_MACHINE_H
#define LS_PLAN_NATIVE_MACHINE_H

#include <jansson.h>

#include "device/cpu/gemm/gemm.h"
#include "device/mask.h"
#include "device/unit.h"
#include "lockstep.h"

enum {
    LS_NATIVE_COUNTS_MAX = 10,   /* numbers of workers that are measured */
    LS_NATIVE_MATMULS_MAX = 192, /* measured with one number of workers */
    LS_NATIVE_LINKS_MAX = 256,
    LS_NATIVE_LINK_SIZES = 4,
    LS_NATIVE_HEADS = 2,           /* sizes of heads */
    LS_NATIVE_LENGTHS = 3,         /* of sequences */
    LS_NATIVE_TYPES = 1 + LS_UNITS /* fp32, then bf16 by each unit */
};

/* Passes over arrays: their cost depends on the number of elements alone. */
#define LS_NATIVE_PASS_LIST(X)                                                                                         \
    X(LS_PASS_NORM, "layer_norm")                                                                                      \
    X(LS_PASS_NORM_BACK, "layer_norm_backward")                                                                        \
    X(LS_PASS_NORM_PARAMS, "layer_norm_params")                                                                        \
    X(LS_PASS_RMS, "rms_norm")                                                                                         \
    X(LS_PASS_RMS_BACK, "rms_norm_backward")                                                                           \
    X(LS_PASS_RMS_PARAMS, "rms_norm_params")                                                                           \
    X(LS_PASS_GELU, "gelu")                                                                                            \
    X(LS_PASS_GELU_BACK, "gelu_backward")                                                                              \
    X(LS_PASS_GATED, "gated")                                                                                          \
    X(LS_PASS_GATED_BACK, "gated_backward")                                                                            \
    X(LS_PASS_BIAS_GRAD, "bias_grad")                                                                                  \
    X(LS_PASS_BIAS_ADD, "bias_add")                                                                                    \
    X(LS_PASS_ROPE, "rope")                                                                                            \
    X(LS_PASS_DROPOUT, "dropout")                                                                                      \
    X(LS_PASS_EMBED, "embed")                                                                                          \
    X(LS_PASS_EMBED_GRAD, "embed_grad")                                                                                \
    X(LS_PASS_LOSS, "loss")                                                                                            \
    X(LS_PASS_LOSS_MAX, "loss_max")                                                                                    \
    X(LS_PASS_LOSS_SUMS, "loss_sums")                                                                                  \
    X(LS_PASS_LOSS_GRAD, "loss_grad")                                                                                  \
    X(LS_PASS_ADAMW, "adamw")                                                                                          \
    X(LS_PASS_SGD, "sgd")                                                                                              \
    X(LS_PASS_SQUARES, "square_sums")                                                                                  \
    X(LS_PASS_ADD, "add")                                                                                              \
    X(LS_PASS_SET, "set")                                                                                              \
    X(LS_PASS_CONVERT, "convert")                                                                                      \
    X(LS_PASS_HASH, "hash")                                                                                            \
    /* What a GPU does in one pass; a CPU has no figures of these, and pays for the parts. */                          \
    X(LS_PASS_NORM_SUM, "layer_norm_sum")                                                                              \
    X(LS_PASS_RMS_SUM, "rms_norm_sum")                                                                                 \
    X(LS_PASS_NORM_BACK_COPY, "layer_norm_backward_copy")                                                              \
    X(LS_PASS_RMS_BACK_COPY, "rms_norm_backward_copy")                                                                 \
    X(LS_PASS_BIAS_GELU, "bias_gelu")                                                                                  \
    /* By how much an epilogue prolongs a matmul. */                                                                   \
    X(LS_PASS_MATMUL_GELU, "matmul_gelu")                                                                              \
    X(LS_PASS_MATMUL_GELU_GRAD, "matmul_gelu_grad")

typedef enum ls_native_pass {
#define LS_NATIVE_PASS_ENUM(id, name) id,
    LS_NATIVE_PASS_LIST(LS_NATIVE_PASS_ENUM)
#undef LS_NATIVE_PASS_ENUM
        LS_NATIVE_PASSES,
    LS_PASS_FUSED = LS_PASS_NORM_SUM /* from here on: of GPUs alone */
} ls_native_pass;

/* Elements of the two sizes at which passes are measured: in the nearest caches, and beyond them. */
enum { LS_NATIVE_PASS_SMALL = 1 << 14, LS_NATIVE_PASS_LARGE = 1 << 20 };

typedef struct ls_native_matmul {
    ls_gemm_form form;
    int type; /* 0: fp32; 1 + unit: bf16 */
    size_t m, n, k;
    int slices; /* partial sums that are added to the result */
    double seconds;
} ls_native_matmul;

/* Cost of a matmul: launch + flop·2mnk + a·mk + b·nk + c·mn·slices seconds. Fitted to the points of one form and type.
 */
typedef struct ls_native_law {
    double flop, a, b, c;
    bool known; /* false: nothing of that form and type was measured */
} ls_native_law;

/* Sizes at which passes and attention were measured. */
typedef struct ls_native_sizes {
    size_t pass[2]; /* elements, small and large; both 0: the constants of CPUs apply */
    size_t head[LS_NATIVE_HEADS], length[LS_NATIVE_LENGTHS];
} ls_native_sizes;

typedef struct ls_native_rates {
    int workers, threads; /* threads of each */
    ls_native_sizes sizes;
    int matmuls; /* entries of `matmul` */
    ls_native_matmul matmul[LS_NATIVE_MATMULS_MAX];
    ls_native_law law[3][LS_NATIVE_TYPES]; /* by form and type; not in the file: ls_native_rates_fit() makes them */
    double attention[2][LS_NATIVE_TYPES][LS_NATIVE_HEADS]
                    [LS_NATIVE_LENGTHS]; /* forward, backward: of one head; 0: not there */
    double dropped[2][LS_NATIVE_TYPES];  /* added by dropout, for a query-key pair of a head; 0: not there */
    double pass[LS_NATIVE_PASSES][2][2]; /* fp32 and 16-bit; small and large: of the whole pass; 0: not there */
    double launch_seconds;               /* of a parallel loop with nothing to do */
    double copy_bytes_per_second;        /* of this worker: read and written bytes, far beyond the caches */
} ls_native_rates;

typedef enum ls_native_op {
    LS_NATIVE_ALL_REDUCE,
    LS_NATIVE_REDUCE_SCATTER,
    LS_NATIVE_ALL_GATHER,
    LS_NATIVE_SEND,
    LS_NATIVE_OPS
} ls_native_op;

/* Seconds of a collective of `workers` workers in groups of `group`, all groups at the same time. */
typedef struct ls_native_link {
    int workers, group;
    ls_native_op op;
    double seconds[LS_NATIVE_LINK_SIZES]; /* by size of the vector: link_bytes */
} ls_native_link;

enum { LS_NATIVE_GPU_LINKS_MAX = 32 };

/* One of the GPUs of the machine, by itself, and workers that each have one, or that share it. Rates are bytes or
 * operations a second. */
typedef struct ls_native_gpu {
    int count; /* of GPUs; 0: none was measured */
    char name[96];
    int capability; /* 90 is 9.0 */
    double memory_bytes;
    double free_bytes;                                     /* left by the context of one worker and other programs */
    double matmul_flops_per_second, peak_flops_per_second; /* fp32: of a large GEMM; of multiply-adds alone */
    double unit_flops_per_second;                          /* of the GPU's matrix unit alone; 0: it has none */
    double copy_bytes_per_second;                          /* inside: read and written bytes */
    double to_bytes_per_second, from_bytes_per_second;     /* from the host, to the host: through pinned memory */
    double open_seconds;                                   /* until a worker can use it */
    double read_seconds;                                   /* until the host has a number that was just computed */
    ls_native_rates rates; /* of one worker: launches, matmuls, attention, passes; workers 0: an older version's file */
    int links;
    size_t link_bytes[LS_NATIVE_LINK_SIZES];
    ls_native_link link[LS_NATIVE_GPU_LINKS_MAX];
} ls_native_gpu;

typedef struct ls_native_machine {
    char cpu[64], version[32], isa[16], transport[16]; /* version: of the program that measured */
    int cores;
    double memory_bytes;
    int counts;                                  /* of rates, one for each number of workers */
    ls_native_rates rates[LS_NATIVE_COUNTS_MAX]; /* by workers, ascending; the first is one worker */
    int links;
    ls_native_link link[LS_NATIVE_LINKS_MAX];
    ls_native_gpu gpu;
    /* What ls_native_on_gpus() makes: `cores` are GPUs, and memory, rates and links are theirs. */
    bool is_gpus;
    size_t link_bytes[LS_NATIVE_LINK_SIZES]; /* 0: those of CPUs */
} ls_native_machine;

/* Sizes that are measured on CPUs: bytes of whole vectors, columns of a head, tokens of a sequence. */
extern const size_t ls_native_link_bytes[LS_NATIVE_LINK_SIZES];
extern const size_t ls_native_heads[LS_NATIVE_HEADS], ls_native_lengths[LS_NATIVE_LENGTHS];
/* Returns "all-reduce" and so on, as in the file. */
const char *ls_native_op_name(ls_native_op op);
/* Returns "fp32", "bf16", "bf16/amx", … */
const char *ls_native_type_name(int type);
/* Returns the index of a type in the tables of rates: 0 for fp32, 1 + unit for 16 bits; fp16 counts as bf16 with the
 * chain, except on hgmma. */
static inline int ls_native_type_of(ls_dtype dtype, ls_unit unit) {
    return dtype == LS_F32 ? 0 : 1 + (dtype == LS_BF16 || ls_unit_is_tensor_core(unit) ? (int)unit : 0);
}

/* Makes a machine whose `cores` are the GPUs, with their rates, links and memory. LS_ERR_INPUT if it has none. */
ls_status ls_native_on_gpus(const ls_native_machine *machine, ls_native_machine *out);
/* Returns the bytes of a GPU that `workers` workers on it can use for tensors together, after their contexts and
 * kernels; negative if those alone do not fit. */
double ls_native_gpu_room(const ls_native_gpu *gpu, int workers);

/* Returns the member `measured` of a cluster file, a new reference; NULL: out of memory. */
json_t *ls_native_machine_to_json(const ls_native_machine *machine);
/* Parses that member, checks every number and fits the laws. LS_ERR_INPUT names `source` and the member. */
ls_status ls_native_machine_from_json(const char *source, const json_t *json, ls_native_machine *out);

/* ---- times of operations (rates.c) ------------------------------------------------------------------------------- */

/* Fits `law` to the measured matmuls; call it after filling `matmul`. */
void ls_native_rates_fit(ls_native_rates *rates);
/* Returns the seconds of a matmul by the law of its form and type, corrected by near measurements; a type that was not
 * measured costs as bf16 or fp32. slices: partial sums that are added to the result. */
double ls_native_matmul_seconds(const ls_native_rates *rates, ls_gemm_form form, int type, size_t m, size_t n, size_t k,
                                int slices);
/* Returns the seconds of attention for `heads` (heads times sequences) of T tokens each. */
double ls_native_attention_seconds(const ls_native_rates *rates, bool backward, int type, size_t head_size, size_t T,
                                   double heads);
/* Returns the seconds that dropout of attention weights adds; 0 if that was not measured. */
double ls_native_dropped_seconds(const ls_native_rates *rates, bool backward, int type, size_t T, double heads);
/* Returns the seconds of a pass over `elems` elements, with its launch; 0 for no elements. If the pass was not measured
 * with a 16-bit type, the fp32 measurement is used; the caller checks that there is one (ls_native_has_pass()). */
double ls_native_pass_seconds(const ls_native_rates *rates, ls_native_pass pass, bool is_16, double elems);
/* Returns whether the pass was measured. */
static inline bool ls_native_has_pass(const ls_native_rates *rates, ls_native_pass pass, bool is_16) {
    return rates->pass[pass][is_16][0] > 0;
}
/* Returns the seconds of a collective of a whole vector of `bytes`, or of a message, among a group of the workers; 0 if
 * that operation was not measured, else at least the time of the smallest size. */
double ls_native_link_seconds(const ls_native_machine *machine, ls_native_op op, int workers, int group, double bytes);
/* Returns the rates measured with the most workers that do not exceed `workers` and the cores. *slower: factor for
 * their seconds: threads of a measured worker over those of one of `workers`; 1 on GPUs. */
const ls_native_rates *ls_native_rates_of(const ls_native_machine *machine, int workers, double *slower);

#endif
