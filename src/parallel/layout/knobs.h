/* knobs.h: the scalar knobs of a layout (numbers and switches such as dp, tp, ZeRO stage), from their table
 * (knobs.def).
 *
 * ls_knobs has a field for each. ls_layout adds what follows from them for a model (layout.h); a request says which of
 * them were given; the planner searches over ls_knobs. Some knobs are only for other training programs, whose speed the
 * planner predicts too. A new knob is a row of the table, an option where this program runs it, and the code that acts
 * on it. Functions without state; any thread. */
#ifndef LS_PARALLEL_LAYOUT_KNOBS_H
#define LS_PARALLEL_LAYOUT_KNOBS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "config/options.h"
#include "parallel/schedule/schedule.h"

/* The table's KINDs. */
#define LS_KNOB_TYPE_INT int
#define LS_KNOB_TYPE_SIZE size_t
#define LS_KNOB_TYPE_BOOL bool
#define LS_KNOB_TYPE_REAL double
#define LS_KNOB_TYPE_SCHEDULE ls_schedule_kind
#define LS_KNOB_TYPE_RECOMPUTE ls_recompute
#define LS_KNOB_TYPE_TYPE ls_plan_type
#define LS_KNOB_TYPE_SITES bool
#define LS_KNOB_FIELD(field, KIND, ...) LS_KNOB_TYPE_##KIND field;

/* Values by knob, so that code can loop over them; layout->dp is the same as knobs.dp.
 *
 *   dp, tp, pp          data, tensor and pipeline parallel: number of replicas, of workers per TP group, of stages
 *   virtual_stages      chunks (runs of blocks) of a stage
 *   zero                ZeRO stage, 0 … 3
 *   keep_activations    outputs of the MLP's activation function are kept for backward instead of recomputed
 *   loss_chunk          sequences of a micro-batch whose logits are in memory at once; 0: all
 *   micro               most sequences of a micro-batch; 0: not chosen yet
 *   context             chips that share a sequence (context parallelism)
 *   tp_overlap          tensor-parallel collectives are cut into pieces that overlap with matmuls
 *   gather_8bit         sharded weights travel in 8 bits
 *   pure_16bit          weights, gradients and moments in 16 bits, without fp32 beside them
 *   shard_group         ZeRO 3: replicas among which states are divided, with copies between such groups; 0: all
 *   state_bits          of each moment of the optimizer: 16 or 8; 0: 32
 *   offload             the optimizer's states and its update are on the host
 *   type_slowdown       of matmuls in that type, above what the chip's share says; 0: none
 *   stages_across       two sites: the stages are divided between them; otherwise the replicas are */
typedef struct ls_knobs {
#define LS_KNOB LS_KNOB_FIELD
#include "parallel/layout/knobs.def"
} ls_knobs;

typedef enum ls_knob {
#define LS_KNOB(field, ...) LS_KNOB_##field,
#include "parallel/layout/knobs.def"
    LS_KNOBS
} ls_knob;

/* Largest values of a search: LS_KNOB_LAST_zero is 3. */
enum {
#define LS_KNOB(field, KIND, name, neutral, last, ...) LS_KNOB_LAST_##field = last,
#include "parallel/layout/knobs.def"
};

/* This program runs the knob; only other programs do; it belongs to the run or cluster, not to its layout. */
typedef enum ls_knob_owner { LS_KNOB_OURS, LS_KNOB_OF_OTHERS, LS_KNOB_OF_TASK } ls_knob_owner;

/* The type of a knob's value. */
typedef enum ls_knob_kind {
    LS_KNOB_KIND_INT,
    LS_KNOB_KIND_SIZE,
    LS_KNOB_KIND_BOOL,
    LS_KNOB_KIND_REAL,
    LS_KNOB_KIND_SCHEDULE,
    LS_KNOB_KIND_RECOMPUTE,
    LS_KNOB_KIND_TYPE,
    LS_KNOB_KIND_SITES
} ls_knob_kind;

typedef struct ls_knob_info {
    ls_knob_kind kind;
    ls_knob_owner owner;
    ls_option_id option;       /* of ours */
    const char *member;        /* of the others: name in JSON; NULL: as the option is called */
    double neutral;            /* the value that changes nothing, such as 1 for tp */
    int last;                  /* largest value that a search tries; −1: it depends on model and machine */
    bool always;               /* words say it even where it is neutral */
    const char *words, *brief; /* text with % for the value: for people, and in a few letters */
} ls_knob_info;

/* Returns the knob's row of the table; borrowed. */
const ls_knob_info *ls_knob_info_get(ls_knob knob);
/* Returns the knob's name in JSON, which for knobs of this program is the option's. */
const char *ls_knob_name(ls_knob knob);
/* Returns a value by the knob's number; booleans are 0 or 1, enums their number. */
double ls_knob_get(const ls_knobs *knobs, ls_knob knob);
/* Sets a value by the knob's number, converted to the knob's type. */
void ls_knob_set(ls_knobs *knobs, ls_knob knob, double value);
/* Returns the name of a value of one of the enums; NULL: the knob is a number or a switch. */
const char *ls_knob_value_name(ls_knob knob, int value);

/* Returns knobs that all have their neutral values: one worker, no options. */
ls_knobs ls_knobs_neutral(void);
/* Returns whether all knobs have equal values. */
bool ls_knobs_equal(const ls_knobs *a, const ls_knobs *b);

/* Returns a new JSON object with the knobs in the table's order; the caller releases it, NULL: no memory. Omits rare
 * knobs (micro, keep_activations, loss_chunk, all of other programs) at their neutral values. shares, stages: lists as
 * text, NULL: none; `also`: bits (1 << knob) of knobs of the task that are wanted. */
json_t *ls_knobs_to_json(const ls_knobs *knobs, const char *shares, const char *stages, unsigned also);

typedef enum ls_words {
    LS_WORDS_LAYOUT, /* "dp 2 × tp 2 × pp 1, zero 1, micro-batch 4" */
    LS_WORDS_PLAN,   /* the micro-batch behind the mesh, and the type */
    LS_WORDS_BRIEF   /* "dp 2 tp 2 pp 4×2 mb 1 z1 full" */
} ls_words;
/* Writes the knobs in one line, in one of the styles; omits neutral ones that are not always written, the schedule
 * where pp is 1, and with LS_WORDS_LAYOUT those of the task. shares, stages: lists as text, NULL: omitted. A text that
 * does not fit is cut off. */
void ls_knobs_text(const ls_knobs *knobs, ls_words style, const char *shares, const char *stages, char *text,
                   size_t room);

#endif
