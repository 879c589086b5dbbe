/* run_read.h: reads metrics, options, layout and trace of a run directory into plain structs, for the doctor, reports
 * and other readers.
 *
 * ls_run_log_open() reads a whole run with its trace. To follow a run that is being written, use series.h, which fills
 * the same struct. All input is untrusted: it may be torn, truncated, huge or forged. Lines that are not JSON objects,
 * or of an unknown kind, are counted and skipped; a member of a wrong type counts as absent. Memory is bounded by the
 * size of the files. Nothing is written.
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
    double loss, norm, lr, ms; /* norm: of the whole gradient, before clipping; ms: duration of the step */
    double tokens_s;           /* tokens, or images, a second */
    double mfu, gpu_wait_ms;   /* gpu_wait_ms: time in which the host waited for its GPU */
    double memory;             /* bytes of the workers of the first machine; recorded once a second, else NaN */
    double gpu_memory;         /* bytes in use on the first worker's GPU; likewise */
    long long unix_ms;         /* when it was done; LS_RUN_NONE: not recorded */
    int scale;                 /* exponent of the loss scale of fp16; INT_MIN: none */
    int dropped;               /* gradient groups that were left out */
    int audited;               /* gradient groups that were computed twice */
    bool skipped;              /* no update: overflow */
    bool has_norm;             /* a norm was recorded; it may still be NaN */
    char state_before[33];     /* hash of the state after the step before; "": not recorded */
} ls_run_log_step;

typedef struct ls_run_log_validation {
    long long step;
    double loss, ms; /* ms: how long it took */
    double accuracy; /* of image models, 0 to 1 */
    long long unix_ms;
} ls_run_log_validation;

/* A text that the model made. Its lines end with \n; no other control characters. */
typedef struct ls_run_log_sample {
    long long step;
    long long unix_ms;
    char *text;
} ls_run_log_sample;

/* A checkpoint. */
typedef struct ls_run_log_save {
    long long step;
    double ms; /* for which training waited */
} ls_run_log_save;

/* A process that trained a part of the run: from which step, and where. */
typedef struct ls_run_log_start {
    long long step;    /* its first; LS_RUN_NONE: the run did not record it */
    int threads;       /* of a worker; 0: not recorded */
    bool crowded;      /* more threads than cores */
    bool watched;      /* outlier detection was on */
    double unigram;    /* entropy of single tokens of the data, nats */
    long long unix_ms; /* when */
    int restart;       /* the command replaced its workers for the restart-th time; 0: the command itself was started */
    double recovery_ms; /* of a restart: from the loss of a worker to here */
    bool taken;         /* of a restart: the new workers took over the state after `step`; no step is repeated */
    char version[32], model[LS_RUN_NAME_MAX], cpu[LS_RUN_NAME_MAX], device[LS_RUN_NAME_MAX];
} ls_run_log_start;

/* One block of the model, every --numerics steps. Shares are between 0 and 1. */
typedef struct ls_run_log_numerics {
    long long step;
    int block; /* index in ls_run_log.blocks */
    float grad_norm, weight_norm, update_norm;
    /* Shares of the gradients of its parameters (grad_) and of the residual stream (act_) that 16 bits flush to 0, or
     * that are within 2^-4 of the largest value (_high); and of weight updates that rounding loses. */
    float grad_flushed, grad_high, act_flushed, act_high, lost;
} ls_run_log_numerics;

/* Estimate of the gradient noise scale: the batch size, in tokens and in sequences, at which noise equals signal. */
typedef struct ls_run_log_noise {
    long long step; /* of the newest estimate; LS_RUN_NONE: there is none */
    double scale_tokens, scale_sequences;
} ls_run_log_noise;

/* OVERFLOW: fp16 gradients overflowed, and the step was skipped. FLOOR: the same at the lowest loss scale; the run
 * ends. REPLICA: hashes of replicas differ. STATE: weights or optimizer state changed in memory. STOPPED: why the run
 * ended. */
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

enum { LS_RUN_SUSPECTS_MAX = 8, LS_RUN_EVENTS_MAX = 8192 }; /* the latter: kept of each kind */

/* An event. Only the members that its kind has are set. */
typedef struct ls_run_log_event {
    long long step;
    ls_run_log_event_kind kind;
    int worker; /* that the event is about; of an audit: the one that was wrong; of a replica check: the first suspect
                 */
    int suspects[LS_RUN_SUSPECTS_MAX], suspect_count;
    int owner, auditor, group; /* group: gradient group, a fixed part of the batch; owner, auditor: ranks of an audit */
    int scale, next_scale;     /* exponents of the loss scale; INT_MIN: none */
    /* Of a value that is not finite: micro-batch, and element of the tensor. Of an outlier: the samples of its group.
     */
    long long micro, index, first_sample, samples;
    /* Of an outlier: its gradient norm, median and spread of its peers', and by how many spreads it stands out; by how
     * far it turned the sum of gradients, and the norm of the sum with and without it. */
    double norm, median, spread, score, angle_deg, length_with, length_without;
    double group_loss, peers_loss, loss_score; /* of an outlier; older runs have none */
    /* recurs: repeating the computation gave the same again; persistent: the same worker was wrong again; has_:
     * recorded. */
    bool recurs, persistent, has_recurs, has_persistent;
    bool left_out;                      /* the run continued without the cores or the GPU of the worker */
    long long found_step;               /* step in which the run saw the fault and recovered; LS_RUN_NONE: it ended */
    long long suspect_from, suspect_to; /* steps since the last clean audit or check; LS_RUN_NONE: none */
    char block[LS_RUN_NAME_MAX], tensor[LS_RUN_NAME_MAX];
    char what[LS_RUN_TEXT_MAX]; /* phase of non-finite, action of outlier, what of state, reason of stopped */
    char value[16];             /* of non-finite: "nan", "inf" or "overflow" */
} ls_run_log_event;

/* How workers spent a step, in ms: lists in the metrics. A trace only has the first two. */
typedef enum ls_usage_kind {
    LS_USAGE_BUSY,
    LS_USAGE_WAIT,
    LS_USAGE_NET,    /* part of waiting: bytes were in flight */
    LS_USAGE_INPUT,  /* part of busy: reading the batch */
    LS_USAGE_QUEUED, /* runnable without a core */
    LS_USAGE_CPU,    /* on a core */
    LS_USAGE_KINDS
} ls_usage_kind;

typedef struct ls_run_log_usage {
    long long step;
    int workers;
    size_t at; /* index in ls_run_log.usage_ms: `workers` times for each kind; read it with ls_run_log_times() */
} ls_run_log_usage;

/* device.json: the device that the last process computed on. */
typedef struct ls_run_log_device {
    bool is_gpu; /* false: a CPU, or not recorded */
    char gpu[LS_RUN_NAME_MAX], unit[LS_RUN_NAME_MAX], precision[LS_RUN_NAME_MAX];
    int gpus;            /* 0: unknown */
    double peak_flops_s; /* measured rate of the matrix unit, of all GPUs together; 0: unknown */
    /* From the trace: idle time of compute queues inside steps, and the time of those steps. */
    double idle_us, traced_us;
} ls_run_log_device;

typedef struct ls_run_log_option {
    char name[LS_RUN_NAME_MAX], value[LS_RUN_TEXT_MAX];
} ls_run_log_option;

/* A whole run as read so far. Arrays and texts belong to it (ls_run_log_free()); records of each kind ascend by step.
 */
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
    bool is_open; /* a process is training in the folder */
    bool stopped; /* the last process recorded why it ended before the last step: `stop` */
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
    size_t of_kind[LS_EVENT_KINDS]; /* number of events, including those beyond LS_RUN_EVENTS_MAX */
    ls_run_log_usage *usage;
    size_t usage_count;
    float *usage_ms;
    size_t usage_ms_count;
    bool usage_of_trace; /* the times come from trace.json, not from the metrics */
    /* options as resolved (config.json), then fields of the identity that are not among them */
    ls_run_log_option *options;
    size_t option_count;
    ls_run_log_device device;
    int dp, tp, pp;            /* workers along each axis of the mesh; 0: not known */
    int share[LS_WORKERS_MAX]; /* groups of each replica (dp); 0: not known */
    int micro;                 /* sequences of a micro-batch; 0: not known */
    char schedule[32];
    /* lines of the metrics */
    long long lines, damaged_lines, unknown_lines;
    bool ends_torn;                     /* the last line is incomplete */
    char trace_problem[LS_MESSAGE_MAX]; /* why trace.json could not be used; "": it could, or there is none */
    long long limit_step;               /* lines of later steps are ignored; LLONG_MAX: none */
    bool has_folder; /* `checkpoints` lists the complete checkpoints in the folder, steps ascending */
    long long *checkpoints;
    size_t checkpoint_count;
    size_t cuts; /* how often records were dropped because a step was recorded again */
} ls_run_log;

/* Reads the run directory `path`; free *out with ls_run_log_free(). Fails with LS_ERR_INPUT if it is no run directory
 * or its metrics have lines but all are damaged; a run without metrics is read, and a damaged configuration, layout or
 * trace is ignored (trace_problem). After a failure there is nothing to free. */
ls_status ls_run_log_open(const char *path, ls_run_log *out);
/* Frees the arrays, but not the struct, and empties the log as ls_run_log_init() does. NULL is fine. */
void ls_run_log_free(ls_run_log *run);

/* Parts of ls_run_log_open(), for texts in memory: they add to a log that ls_run_log_init() made empty. Does not free
 * what the log holds. */
void ls_run_log_init(ls_run_log *run);
/* Adds one line, given without its newline (run_lines.c); a damaged or unknown line is only counted, and one of a step
 * after limit_step is ignored. A step that was recorded before, or comes before the last one, drops the records from it
 * on, but of that step itself neither validations, numerics, noise, starts nor events, which may precede it. Fails only
 * with LS_ERR_RESOURCE. */
ls_status ls_run_log_add_line(ls_run_log *run, const char *line, size_t bytes);
/* Adds all lines of a text. A last line without its newline is added if it is JSON, else it sets ends_torn. For files
 * use series.h. */
ls_status ls_run_log_add_metrics(ls_run_log *run, const char *text, size_t bytes);
/* Adds the options in the text of config.json or identity.json. Any other text has no effect; of an option that is
 * added twice the first value counts. Fails only with LS_ERR_RESOURCE, as the next two do. */
ls_status ls_run_log_add_options(ls_run_log *run, const char *text, size_t bytes);
/* Adds mesh, micro-batch, schedule and shares from the text of layout.json; no effect if they do not fit each other. */
ls_status ls_run_log_add_layout(ls_run_log *run, const char *text, size_t bytes);
/* Sets run->device from the text of device.json. */
ls_status ls_run_log_add_device(ls_run_log *run, const char *text, size_t bytes);
/* Adds busy and waiting times from at most 16 steps of a trace, for runs whose metrics have none. `source` names the
 * trace in messages. */
ls_status ls_run_log_add_trace(ls_run_log *run, const char *source, const ls_trace *trace);
/* Adds the times of a step. ms[kind] lists one time per worker; NULL: not recorded. */
ls_status ls_run_log_add_usage(ls_run_log *run, long long step, int workers, const float *const ms[LS_USAGE_KINDS]);

/* Adds the files beside the metrics, the checkpoints and is_open. Fails with LS_ERR_INPUT if the folder is no run. */
ls_status ls_run_log_add_folder(ls_run_log *run, const char *path);
/* Replaces the list of checkpoints with those in the folder. A folder that cannot be read has none. */
ls_status ls_run_log_add_checkpoints(ls_run_log *run, const char *path);
/* Returns the newest checkpoint of a step before `step`, in the folder or, for a log without one, among the saves;
 * LS_RUN_NONE if there is none. */
long long ls_run_log_checkpoint_before(const ls_run_log *run, long long step);
/* Returns the name of the kind in metrics.jsonl: "overflow". Static text. */
const char *ls_run_log_event_name(ls_run_log_event_kind kind);
/* Returns whether a process holds the lock of the run folder, that is, trains in it. */
bool ls_run_folder_is_open(const char *path);
/* Sets every field to its value for "not recorded". */
void ls_run_log_step_init(ls_run_log_step *step);

/* The length of a log at some point, to go back to. */
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
/* Stores the present length of the log in *out, for ls_run_log_go_back(). */
void ls_run_log_mark_make(const ls_run_log *run, ls_run_log_mark *out);
/* Removes what was added since the mark. Returns false and does nothing if records from before the mark may have been
 * dropped since: the caller must read the run again. */
bool ls_run_log_go_back(ls_run_log *run, const ls_run_log_mark *mark);

/* Makes room for one more record in an array of the run: `array` is the address of its pointer, `count` the records
 * in it. */
static inline ls_status ls_run_log_grow(void *array, size_t count, size_t record_bytes) {
    return ls_array_grow(array, count, record_bytes, "records of a run");
}
/* Copies a text, at most `capacity` bytes with its NUL. Control characters, newlines too, become '?', and a text that
 * is cut off ends with a whole UTF-8 character. */
void ls_run_log_copy_text(char *out, size_t capacity, const char *from);

/* Returns the text of an option by its name without "--", which belongs to the run; NULL if it was not recorded. */
const char *ls_run_log_option_get(const ls_run_log *run, const char *name);
/* Sets *value to the number of the choice of an option with choices. Returns false and leaves *value unchanged if the
 * option was not recorded or has another value. */
bool ls_run_option_choice(const ls_run_log *run, ls_option_id id, int *value);
/* Returns the number of an option by its name without "--"; NaN if it was not recorded or is no finite number. */
double ls_run_log_option_number(const ls_run_log *run, const char *name);

/* Returns the times of this kind of all workers in ms, one per worker; NaN: not recorded. They belong to the run. */
static inline const float *ls_run_log_times(const ls_run_log *run, const ls_run_log_usage *u, ls_usage_kind kind) {
    return run->usage_ms + u->at + (size_t)kind * (size_t)u->workers;
}
/* Returns the busy times of all workers in a step, in ms, one per worker; they belong to the run. */
static inline const float *ls_run_log_busy(const ls_run_log *run, const ls_run_log_usage *u) {
    return ls_run_log_times(run, u, LS_USAGE_BUSY);
}
/* Returns the waiting times of all workers in a step, in ms, one per worker; NaN: not recorded. They belong to the
 * run. */
static inline const float *ls_run_log_wait(const ls_run_log *run, const ls_run_log_usage *u) {
    return ls_run_log_times(run, u, LS_USAGE_WAIT);
}

#endif
