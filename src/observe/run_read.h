/* run_read.h: reads metrics, options, layout and trace of a run directory into plain structs.
 *
 * All input is untrusted: it may be torn, truncated, huge or forged. Lines that are not JSON objects, or of an unknown
 * kind, are counted and skipped; a member of a wrong type counts as absent. Memory
 * is bounded by the size of the files. Nothing is written.
 *
 * A number that is absent or not finite is NaN or an infinity; a worker, group, scale or position that is absent is
 * LS_RUN_NONE; a text that is absent is "". Texts have no control characters.
 *
 * Steps are counted like "step" of the metrics: steps done. A run that resumed from a checkpoint records steps twice;
 * the later line counts, as in observe/metrics.h. So steps ascend. They are long long, as they are printed. */
#ifndef LS_OBSERVE_RUN_READ_H
#define LS_OBSERVE_RUN_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/options.h"
#include "base/memory.h"
#include "base/status.h"
#include "observe/trace_read.h"

/* The reason of a stop is the message of a failure, which must fit whole. */
enum { LS_RUN_NONE = -1, LS_RUN_NAME_MAX = 96, LS_RUN_TEXT_MAX = LS_MESSAGE_MAX, LS_RUN_BLOCKS_MAX = 1024 };

typedef struct ls_run_log_step {
    long long step;
    double loss, norm, lr, ms;
    double tokens_s;         /* tokens, or images, a second */
    double mfu, gpu_wait_ms; /* NaN: not recorded; that the host waited for its GPU */
    double memory;           /* bytes of the workers of the first machine; told once a second, else NaN */
    double gpu_memory;       /* bytes in use on the first worker's GPU; likewise */
    long long unix_ms;       /* when it was done; LS_RUN_NONE: not recorded */
    int scale;               /* exponent of the loss scale of fp16; INT_MIN: none */
    int dropped;             /* gradient groups that were left out */
    int audited;             /* gradient groups that were computed twice */
    bool skipped;            /* no update: overflow */
    bool has_norm;
    char state_before[33]; /* hash of the state after the step before; "": not recorded */
} ls_run_log_step;

typedef struct ls_run_log_validation {
    long long step;
    double loss, ms;   /* ms: how long it took; NaN: not told */
    double accuracy;   /* NaN: not told */
    long long unix_ms; /* LS_RUN_NONE: not told */
} ls_run_log_validation;

/* A text that the model made. Its lines end with \n; no other control characters. */
typedef struct ls_run_log_sample {
    long long step;
    long long unix_ms; /* LS_RUN_NONE: not told */
    char *text;
} ls_run_log_sample;

/* A checkpoint. */
typedef struct ls_run_log_save {
    long long step;
    double ms; /* NaN: not told */
} ls_run_log_save;

/* A process that made steps of the run: where, and how it ended. */
typedef struct ls_run_log_start {
    long long step;     /* its first; LS_RUN_NONE: the run did not record it */
    int threads;        /* of a worker; 0: not told */
    bool crowded;       /* more threads than cores */
    bool watched;       /* outliers were looked for */
    double unigram;     /* entropy of single tokens of the data, nats; NaN: not told */
    long long unix_ms;  /* when; LS_RUN_NONE: not told */
    int restart;        /* new set of workers of the same command, from 1; 0: a command that was started */
    double recovery_ms; /* of a restart: from the loss of a worker to here; NaN: not told */
    bool taken;         /* of a restart: the workers before had made `step`, and these begin behind it */
    char version[32], model[LS_RUN_NAME_MAX], cpu[LS_RUN_NAME_MAX], device[LS_RUN_NAME_MAX];
} ls_run_log_start;

/* One block of the model, every --numerics steps. Shares are between 0 and 1. */
typedef struct ls_run_log_numerics {
    long long step;
    int block; /* in ls_run_log.blocks */
    float grad_norm, weight_norm, update_norm;
    float grad_flushed, grad_high, act_flushed, act_high, lost;
} ls_run_log_numerics;

typedef struct ls_run_log_noise {
    long long step; /* of the newest estimate; LS_RUN_NONE: there is none */
    double scale_tokens, scale_sequences;
} ls_run_log_noise;

typedef enum ls_run_log_event_kind {
    LS_EVENT_OVERFLOW,
    LS_EVENT_FLOOR,
    LS_EVENT_NON_FINITE,
    LS_EVENT_OUTLIER,
    LS_EVENT_REPLICA,
    LS_EVENT_STATE,
    LS_EVENT_AUDIT,
    LS_EVENT_STOPPED,
    LS_EVENT_KINDS
} ls_run_log_event_kind;

enum { LS_RUN_SUSPECTS_MAX = 8, LS_RUN_EVENTS_MAX = 8192 }; /* the latter: of each kind */

typedef struct ls_run_log_event {
    long long step;
    ls_run_log_event_kind kind;
    int worker; /* of an audit: the one that was wrong; of a replica check: the first suspect */
    int suspects[LS_RUN_SUSPECTS_MAX], suspect_count;
    int owner, auditor, group;
    int scale, next_scale; /* INT_MIN: none */
    long long micro, index, first_sample, samples;
    double norm, median, spread, score, angle_deg, length_with, length_without;
    double group_loss, peers_loss, loss_score; /* of an outlier; older runs have none */
    bool recurs, persistent, has_recurs, has_persistent;
    bool left_out;                      /* the run went on without the worker's place, */
    long long found_step;               /* which was seen in this step; LS_RUN_NONE: the run ended there */
    long long suspect_from, suspect_to; /* steps since the last clean audit or check; LS_RUN_NONE: none */
    char block[LS_RUN_NAME_MAX], tensor[LS_RUN_NAME_MAX];
    char what[LS_RUN_TEXT_MAX]; /* phase of non-finite, action of outlier, what of state, reason of stopped */
    char value[16];             /* of non-finite: "nan", "inf" or "overflow" */
} ls_run_log_event;

/* How all workers spent one step: lists of a line of the metrics, or a step of the trace, which has the first two. */
typedef enum ls_usage_kind {
    LS_USAGE_BUSY,
    LS_USAGE_WAIT,
    LS_USAGE_NET,    /* of waiting: bytes were under way */
    LS_USAGE_INPUT,  /* of busy: reading the batch */
    LS_USAGE_QUEUED, /* without a core to run on */
    LS_USAGE_CPU,    /* on a core */
    LS_USAGE_KINDS
} ls_usage_kind;

typedef struct ls_run_log_usage {
    long long step;
    int workers;
    size_t at; /* ls_run_log.usage_ms[at …]: `workers` times each kind (NaN: not told) */
} ls_run_log_usage;

/* device.json: what the run computed on last. */
typedef struct ls_run_log_device {
    bool is_gpu; /* false: a CPU, or nothing is said */
    char gpu[LS_RUN_NAME_MAX], unit[LS_RUN_NAME_MAX], precision[LS_RUN_NAME_MAX];
    int gpus;            /* 0: not known */
    double peak_flops_s; /* that the unit reached on all of them; 0: not known */
    /* Of the trace: time in which compute queues had nothing to do inside a step, and all time of those steps. */
    double idle_us, traced_us;
} ls_run_log_device;

typedef struct ls_run_log_option {
    char name[LS_RUN_NAME_MAX], value[LS_RUN_TEXT_MAX];
} ls_run_log_option;

typedef struct ls_run_log {
    ls_run_log_step *steps;
    size_t step_count;
    ls_run_log_validation *validations;
    size_t validation_count;
    ls_run_log_save *saves;
    size_t save_count;
    ls_run_log_start start;   /* of the last process */
    ls_run_log_start *starts; /* of all */
    size_t start_count;
    ls_run_log_sample *samples;
    size_t sample_count;
    bool is_open; /* a process is at work in the folder */
    bool stopped; /* the last process told why it ended before the last step: `stop` */
    char stop[LS_RUN_TEXT_MAX];
    ls_run_log_numerics *numerics;
    size_t numerics_count;
    char (*blocks)[LS_RUN_NAME_MAX];
    int block_count;
    ls_run_log_noise noise;
    ls_run_log_noise *noises; /* all of them */
    size_t noise_count;
    ls_run_log_event *events;
    size_t event_count;
    size_t of_kind[LS_EVENT_KINDS]; /* events, those beyond LS_RUN_EVENTS_MAX among them */
    ls_run_log_usage *usage;
    size_t usage_count;
    float *usage_ms;
    size_t usage_ms_count;
    bool usage_of_trace;
    /* options as resolved (config.json), then fields of the identity that are not among them */
    ls_run_log_option *options;
    size_t option_count;
    ls_run_log_device device;
    int dp, tp, pp;            /* 0: not known */
    int share[LS_WORKERS_MAX]; /* groups of each replica (dp); 0: not known */
    int micro;                 /* sequences of a micro-batch; 0: not known */
    char schedule[32];
    /* lines of the metrics */
    long long lines, damaged_lines, unknown_lines;
    bool ends_torn;                     /* the last line lacks its end */
    char trace_problem[LS_MESSAGE_MAX]; /* why a trace that is there could not be used */
    long long limit_step;               /* later lines are passed over */
    bool has_folder;                    /* and `checkpoints` are the complete ones in it, steps ascending */
    long long *checkpoints;
    size_t checkpoint_count;
    size_t cuts; /* how often records were dropped for a step that was told again */
} ls_run_log;

/* Reads RUN. LS_ERR_INPUT where that is no run directory, or its metrics cannot be read as such; a configuration,
 * layout or trace that is damaged is passed over. After a failure there is nothing to free. */
ls_status ls_run_log_open(const char *path, ls_run_log *out);
void ls_run_log_free(ls_run_log *run);

/* Parts of ls_run_log_open(), for texts that are in memory. A run to add to begins as ls_run_log_init() leaves it. */
void ls_run_log_init(ls_run_log *run);
/* One line, without its newline (run_lines.c). Fails for want of memory alone. */
ls_status ls_run_log_add_line(ls_run_log *run, const char *line, size_t bytes);
/* All lines of a text. Those of files: series.h. */
ls_status ls_run_log_add_metrics(ls_run_log *run, const char *text, size_t bytes);
/* config.json, identity.json or layout.json; what is none of them has no effect. */
ls_status ls_run_log_add_options(ls_run_log *run, const char *text, size_t bytes);
ls_status ls_run_log_add_layout(ls_run_log *run, const char *text, size_t bytes);
ls_status ls_run_log_add_device(ls_run_log *run, const char *text, size_t bytes);
/* Some steps of a trace, where the metrics tell nothing of the workers. `source` names it. */
ls_status ls_run_log_add_trace(ls_run_log *run, const char *source, const ls_trace *trace);
/* ms: by kind, a list of the workers each; NULL: not told. */
ls_status ls_run_log_add_usage(ls_run_log *run, long long step, int workers, const float *const ms[LS_USAGE_KINDS]);

/* Of the files beside the metrics: LS_ERR_INPUT where the folder is no run. */
ls_status ls_run_log_add_folder(ls_run_log *run, const char *path);
/* Lists the checkpoints in the folder again. A folder that cannot be read has none. */
ls_status ls_run_log_add_checkpoints(ls_run_log *run, const char *path);
/* The newest checkpoint of an earlier step than `step`, in the folder or, without one, among the saves; LS_RUN_NONE:
 * there is none. */
long long ls_run_log_checkpoint_before(const ls_run_log *run, long long step);
/* As metrics.jsonl has it: "overflow". */
const char *ls_run_log_event_name(ls_run_log_event_kind kind);
/* Whether a process is at work in the folder. */
bool ls_run_folder_is_open(const char *path);
/* A step without any number. */
void ls_run_log_step_init(ls_run_log_step *step);

/* How far a log has come, to go back to. */
typedef struct ls_run_log_mark {
    size_t steps, validations, saves, numerics, noises, events, of_kind[LS_EVENT_KINDS], usage, usage_ms, starts,
        samples;
    size_t cuts;
    long long lines, damaged_lines, unknown_lines;
    ls_run_log_start start;
    ls_run_log_noise noise;
    bool stopped;
    char stop[LS_RUN_TEXT_MAX];
} ls_run_log_mark;
void ls_run_log_mark_make(const ls_run_log *run, ls_run_log_mark *out);
/* False, and nothing is done: records that were there at the mark have been dropped since. */
bool ls_run_log_go_back(ls_run_log *run, const ls_run_log_mark *mark);

/* Space for one more record of an array of the run. */
static inline ls_status ls_run_log_grow(void *array, size_t count, size_t record_bytes) {
    return ls_array_grow(array, count, record_bytes, "records of a run");
}
/* Text of at most `capacity` bytes with its NUL: no control characters, and no half of a character at the end. */
void ls_run_log_copy_text(char *out, size_t capacity, const char *from);

/* The value of an option, or NULL; as a number, or NaN. */
const char *ls_run_log_option_get(const ls_run_log *run, const char *name);
/* The value of an option with choices; false, and *value unchanged: it was not recorded. */
bool ls_run_option_choice(const ls_run_log *run, ls_option_id id, int *value);
double ls_run_log_option_number(const ls_run_log *run, const char *name);

static inline const float *ls_run_log_times(const ls_run_log *run, const ls_run_log_usage *u, ls_usage_kind kind) {
    return run->usage_ms + u->at + (size_t)kind * (size_t)u->workers;
}
static inline const float *ls_run_log_busy(const ls_run_log *run, const ls_run_log_usage *u) {
    return ls_run_log_times(run, u, LS_USAGE_BUSY);
}
static inline const float *ls_run_log_wait(const ls_run_log *run, const ls_run_log_usage *u) {
    return ls_run_log_times(run, u, LS_USAGE_WAIT);
}

#endif
