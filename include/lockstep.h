/* lockstep.h: the installed interface of lockstep: everything that the program `lockstep` does. Unstable until 1.0: a
 * version 0.x may change it.
 *
 * Training. Options by name (ls_options) describe a run, a plan or a check; docs/reference/options.md lists them.
 * ls_run_open() makes a run of them, on files or on the caller's own data (ls_source); ls_run_workers() starts its
 * workers and calls one function in each, which steps, evaluates, saves and generates. ls_plan_make() searches a layout
 * for a cluster, ls_probe() measures this machine for it, and ls_verify() shows that layouts give the bits of one
 * worker.
 *
 * Text and models. ls_tokenizer turns text into tokens and back, ls_tokenize() whole files of it; ls_import() and
 * ls_export() take models from other programs and give models to them.
 *
 * Workers and sums. ls_workers_run() starts workers (or joins the ones that mpirun or srun started) and calls one
 * function in each of them with its ls_world. From the world come communicators, meshes, shared memory and the
 * collectives. Sums are *ordered*: they follow one balanced binary tree over the contributions, whoever holds them, so
 * the same contributions give the same bits on any number of workers.
 *
 * Errors. Every function that can fail returns an ls_status. ls_status_message() tells, for the calling thread, what
 * was wrong, with which value, and what to do. Nothing here prints; warnings go to the program's own handler
 * (ls_message_handler_set), or nowhere. Nothing exits, but that MPI has no other way to end a job than MPI_Abort().
 * Processes are started by functions whose comment says so, and by no other.
 *
 * Threads. A worker calls collectives from one thread. Collectives of one communicator are issued in the same order by
 * all its members.
 */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is declared here is all that the shared library exports. */
#ifdef __GNUC__
#    pragma GCC visibility push(default)
#endif

#define LS_VERSION "0.2.0"

/* ---- status ------------------------------------------------------------------------------------------------------ */

/* code, exit status of a program that ends because of it, meaning */
#define LS_STATUS_LIST(X)                                                                                              \
    X(LS_OK, 0, "success")                                                                                             \
    X(LS_ERR_FAILED, 1, "the work failed")                                                                             \
    X(LS_ERR_INPUT, 2, "bad input")                                                                                    \
    X(LS_ERR_WORKER, 3, "a worker was lost")                                                                           \
    X(LS_ERR_DEADLINE, 4, "a worker did not answer in time")                                                           \
    X(LS_ERR_RESOURCE, 5, "out of memory, disk, descriptors or processes")                                             \
    X(LS_ERR_PEER, 6, "another worker failed first")                                                                   \
    X(LS_ERR_INTERRUPTED, 130, "interrupted")                                                                          \
    X(LS_ERR_TERMINATED, 143, "terminated")                                                                            \
    X(LS_ERR_REQUEUED, 75, "stopped, to be started again")

typedef enum ls_status {
#define LS_STATUS_ENUM(name, exit_code, text) name,
    LS_STATUS_LIST(LS_STATUS_ENUM)
#undef LS_STATUS_ENUM
} ls_status;

/* The message of the last failure in this thread; never NULL. */
const char *ls_status_message(void);
/* Records a message for ls_status_message() and returns `status`: how a worker's function reports a failure of its own.
 */
#ifdef __GNUC__
__attribute__((format(printf, 2, 3)))
#endif
ls_status
ls_fail(ls_status status, const char *format, ...);
/* "LS_ERR_INPUT" */
const char *ls_status_name(ls_status status);
/* The exit status that a program ending with `status` should return. */
int ls_status_exit_code(ls_status status);

/* ---- warnings ---------------------------------------------------------------------------------------------------- */

/* Gets a line of text without its newline, such as "lockstep: warning: 8 workers of 1 thread on 2 cores: …". It is
 * called from any thread, and in the process of the worker that has something to say. */
typedef void (*ls_message_fn)(void *ctx, const char *line);
/* From now on `take` gets what a person who runs the program may want to know though no call has failed, and under MPI
 * the message of a worker that fails, right before it ends the job. To be called before ls_workers_run(). NULL, as at
 * the start: nobody gets it. */
void ls_message_handler_set(ls_message_fn take, void *ctx);

/* ---- types ------------------------------------------------------------------------------------------------------- */

typedef enum ls_dtype { LS_F32, LS_BF16, LS_F16, LS_I64, LS_U8, LS_DTYPE_COUNT } ls_dtype;

/* Bytes of one element. */
size_t ls_dtype_bytes(ls_dtype dtype);

/* ---- workers ----------------------------------------------------------------------------------------------------- */

typedef struct ls_world ls_world;
typedef struct ls_comm ls_comm;
typedef struct ls_mesh ls_mesh;
typedef struct ls_request ls_request;

typedef ls_status (*ls_worker_fn)(ls_world *world, void *arg);

enum { LS_WORKERS_MAX = 512 };

/* All fields may be left 0: one worker, cores shared out, pinned, five minutes of patience. */
typedef struct ls_workers_options {
    int workers;       /* processes on this machine; 0: one, or all that the launcher started */
    int threads;       /* threads of each worker; 0: the cores shared out */
    int no_pin;        /* 1: leave the placement of workers on cores to the system */
    double timeout_s;  /* how long a collective waits for a worker; 0: 300 seconds */
    size_t heap_bytes; /* address space for shared memory, for each worker; 0: as much as the machine's memory */
    int node_size;     /* under MPI: use shared memory among at most this many neighbours; 0: the whole machine */
    int pass_signals; /* 1: SIGINT and SIGTERM are passed on to the workers, who end by themselves; a second SIGINT ends
                         them at once */
    double link_latency_s; /* a slow network between the workers of one machine, to see what it does: what one sends */
    double link_bytes_per_s; /* is readable so much later; 0: at once. No result changes */
    int forks_one;           /* 1: one worker is forked too, and leaves nothing behind in this process */
} ls_workers_options;

/* Runs `fn` in every worker and returns when all have ended. Without a launcher this forks `workers` processes, so call
 * it before any thread is started; with one worker `fn` runs in this process, but for forks_one. Under mpirun or srun
 * the world is the launcher's and `fn` runs in this process. The status is that of the worker that failed first, and
 * the message names it.
 *
 * SIGINT or SIGTERM to the process that forked ends all workers, with LS_ERR_INTERRUPTED or LS_ERR_TERMINATED. With
 * pass_signals each worker gets a SIGTERM instead, for either of them and for SIGHUP and SIGXCPU (forked workers ignore
 * SIGINT itself, which a terminal sends to everybody): it handles the signal, ends its work, and returns one of these
 * two statuses, which is the run's unless a worker fails. The siginfo has si_code SI_QUEUE and in si_value.sival_int
 * the signal that came. SIGUSR1 and SIGUSR2 are passed on as they are; LS_ERR_REQUEUED is for the latter. Repeated
 * SIGTERMs are passed on again. A worker that returns so is no failure: the others go on until they return too, and who
 * waits for one that has left gets LS_ERR_PEER. */
ls_status ls_workers_run(const ls_workers_options *options, ls_worker_fn fn, void *arg);

int ls_world_rank(const ls_world *world);
int ls_world_size(const ls_world *world);
int ls_world_threads(const ls_world *world);
/* "self", "shm" or "mpi" */
const char *ls_world_transport(const ls_world *world);
/* The communicator of all workers; borrowed. */
ls_comm *ls_world_comm(ls_world *world);

/* Memory that the other workers of this machine read and write directly: collectives on it move no extra copy.
 * 64-byte aligned and zeroed. Collectives take any other memory too. */
ls_status ls_world_alloc(ls_world *world, size_t bytes, void **out);
void ls_world_free(ls_world *world, void *memory);

/* ---- mesh -------------------------------------------------------------------------------------------------------- */

typedef enum ls_axis { LS_AXIS_DP, LS_AXIS_TP, LS_AXIS_PP, LS_AXIS_COUNT } ls_axis;

/* Arranges the world as dp × tp × pp, tp on neighbouring ranks, then dp, then pp:
 * rank = tp_index + tp·(dp_index + dp·pp_index). Collective over the world. */
ls_status ls_mesh_create(ls_world *world, int dp, int tp, int pp, ls_mesh **out);
void ls_mesh_destroy(ls_mesh *mesh);
int ls_mesh_size(const ls_mesh *mesh, ls_axis axis);
int ls_mesh_index(const ls_mesh *mesh, ls_axis axis);
/* The communicator of the workers that differ from this one only along `axis`; borrowed. */
ls_comm *ls_mesh_comm(ls_mesh *mesh, ls_axis axis);

/* ---- communicators ----------------------------------------------------------------------------------------------- */

int ls_comm_rank(const ls_comm *comm);
int ls_comm_size(const ls_comm *comm);

/* Members of `parent` with the same color form a communicator, ordered by key and then by rank. A negative color
 * joins none and gets NULL. Collective over `parent`. */
ls_status ls_comm_split(ls_comm *parent, int color, int key, ls_comm **out);
/* Collective; NULL does nothing. */
void ls_comm_destroy(ls_comm *comm);

/* ---- ordered sums ------------------------------------------------------------------------------------------------ */

/* How `groups` contributions lie on the workers of a communicator: rank r holds bounds[r] … bounds[r+1]−1. A run may
 * be empty. The sum is the balanced binary tree over all groups that splits at the largest power of two below the
 * count. A worker hands over the maximal subtrees of that tree which it holds, in order: ls_tree_cover() lists them and
 * ls_tree_sum() adds one up from its groups. In a sum of bf16 a single group is bf16 and a subtree of several is fp32.
 */
typedef struct ls_runs {
    int groups;
    const int *bounds; /* size + 1 entries, from 0 to groups; NULL: groups·r/size, the even split */
} ls_runs;

/* Groups first … first+count−1: one node of the tree. */
typedef struct ls_tree_node {
    int first, count;
} ls_tree_node;

enum { LS_GROUPS_MAX = 4096, LS_TREE_COVER_MAX = 24 };

/* The maximal subtrees inside groups lo … hi−1, in order; at most LS_TREE_COVER_MAX. Returns their number. */
int ls_tree_cover(int groups, int lo, int hi, ls_tree_node *nodes);

/* Adds `leaves` contributions of `elems` fp32 elements in the order of the tree; `leaves` is the count of a node. `out`
 * may be any of the contributions, which are otherwise left alone. For a node of the tree this gives the node's own
 * bits. */
ls_status ls_tree_sum(const float *const *contributions, int leaves, float *out, size_t elems);

/* ---- collectives ------------------------------------------------------------------------------------------------- */

/* Each has a blocking form and a form that starts it and returns a request, which ls_request_wait() ends. Buffers
 * belong to the collective until then; lists of them (parts, bytes, shards, runs) are read at once and may go. Sizes
 * are the same on all members; where they are not, or where members call different collectives, all of them fail. */

ls_status ls_comm_barrier(ls_comm *comm);
ls_status ls_comm_broadcast(ls_comm *comm, int root, void *buffer, size_t bytes);
/* Rank r's `bytes[r]` bytes go to `out` behind those of the ranks before it; in place when `in` is that very spot. */
ls_status ls_comm_all_gather(ls_comm *comm, const void *in, void *out, const size_t *bytes);
/* Block r of `in` goes to rank r, block s of `out` comes from rank s; all blocks have `bytes` bytes; in == out works.
 */
ls_status ls_comm_all_to_all(ls_comm *comm, const void *in, void *out, size_t bytes);
/* Between two members, matched by tag (0 … 32767) in the order sent. A send ends when its buffer may be used again. */
ls_status ls_comm_send(ls_comm *comm, int to, int tag, const void *buffer, size_t bytes);
ls_status ls_comm_recv(ls_comm *comm, int from, int tag, void *buffer, size_t bytes);

/* Ordered sum of all contributions, the whole result on every member. `parts` holds this worker's subtrees of `elems`
 * elements each; `out` is fp32 for LS_F32 and LS_BF16, int64 (modulo 2^64) for LS_I64, and may be one of the fp32 (or
 * int64) parts. runs NULL: one group a worker. */
ls_status ls_comm_all_reduce(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts, void *out,
                             size_t elems);
/* The same sum, of which member r gets elements shards[r] … shards[r+1]−1 (size + 1 entries from 0 to elems; NULL: as
 * ls_shard_bounds() divides). `out` has room for this worker's shard; it may be the place of that shard in a part. */
ls_status ls_comm_reduce_scatter(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                 void *out, const size_t *shards, size_t elems);

/* Divides elems into `size` shards that end at multiples of 1024 elements; writes size + 1 bounds. */
void ls_shard_bounds(size_t elems, int size, size_t *bounds);

ls_status ls_comm_barrier_start(ls_comm *comm, ls_request **out);
ls_status ls_comm_broadcast_start(ls_comm *comm, int root, void *buffer, size_t bytes, ls_request **out);
ls_status ls_comm_all_gather_start(ls_comm *comm, const void *in, void *out_buffer, const size_t *bytes,
                                   ls_request **out);
ls_status ls_comm_all_to_all_start(ls_comm *comm, const void *in, void *out_buffer, size_t bytes, ls_request **out);
ls_status ls_comm_send_start(ls_comm *comm, int to, int tag, const void *buffer, size_t bytes, ls_request **out);
ls_status ls_comm_recv_start(ls_comm *comm, int from, int tag, void *buffer, size_t bytes, ls_request **out);
ls_status ls_comm_all_reduce_start(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                   void *out_buffer, size_t elems, ls_request **out);
ls_status ls_comm_reduce_scatter_start(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                       void *out_buffer, const size_t *shards, size_t elems, ls_request **out);

/* ---- traffic ----------------------------------------------------------------------------------------------------- */

typedef enum ls_traffic_kind {
    LS_TRAFFIC_REDUCE_SCATTER,
    LS_TRAFFIC_ALL_REDUCE,
    LS_TRAFFIC_ALL_GATHER,
    LS_TRAFFIC_ALL_TO_ALL,
    LS_TRAFFIC_BROADCAST,
    LS_TRAFFIC_SEND,
    LS_TRAFFIC_RECEIVE,
    LS_TRAFFIC_BARRIER,
    LS_TRAFFIC_KINDS
} ls_traffic_kind;

/* What one member started on a communicator since it was made. */
typedef struct ls_traffic {
    uint64_t calls, bytes;
} ls_traffic;

/* Counts are of this member alone and only grow; take the difference of two looks. Splitting a communicator counts as
 * the two all-gathers that it is. Bytes are what of this member's data others need, whatever the transport makes of it,
 * with W members, this one being r; a communicator of one member counts calls and no bytes:
 *
 *   reduce-scatter   for each part handed over: (elems − elements of the own shard) · bytes of the part's elements
 *   all-reduce       the same with shards elems·r/W … elems·(r+1)/W (rounded down), and then the own shard of the
 *                    result, (W−1) · its elements · bytes of the result's elements
 *   all-gather       (W−1) · own bytes
 *   all-to-all       (W−1) · bytes of a block
 *   broadcast        (W−1) · bytes on the root, 0 elsewhere
 *   send, receive    bytes; 0 to and from oneself
 *   barrier          0
 *
 * Elements of a part have 4 bytes in a sum of LS_F32, 8 of LS_I64, and in one of LS_BF16 2 where the part is a single
 * group and 4 otherwise; elements of a result have 4 bytes, 8 for LS_I64. */
void ls_comm_traffic(const ls_comm *comm, ls_traffic_kind kind, ls_traffic *out);

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Moves everything in flight along and tells whether this request has ended; if so, the request is gone. */
ls_status ls_request_test(ls_request *request, int *done);
/* Waits for the end; the request is gone, whatever the status. NULL does nothing. */
ls_status ls_request_wait(ls_request *request);

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* The options of one command of the program, by the names and with the defaults of docs/reference/options.md. What an
 * option means, and which go together, is said there once for both. */
typedef struct ls_options ls_options;

/* `command`: "train", "eval", "generate", "tokenize", "import", "export", "plan", "probe" or "verify". Neither the
 * environment nor a file is read. */
ls_status ls_options_create(const char *command, ls_options **out);
void ls_options_destroy(ls_options *options);
/* "dp", "4"; a switch is "true" or "false". The value is copied. A name that the command does not have is LS_ERR_INPUT,
 * with the nearest one in the message, as is a value out of range. NULL: back to the default. "config" reads that
 * file, YAML or JSON, at once: what it names is set. */
ls_status ls_options_set(ls_options *options, const char *name, const char *value);
/* The value as it was set, or the default; NULL where there is neither, and for an unknown name. Borrowed until the
 * option is set again. */
const char *ls_options_get(const ls_options *options, const char *name);

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */

typedef struct ls_tokenizer ls_tokenizer;

/* `path` is "bytes", where an id is a byte; or a folder with tokenizer.json, else with vocab.json and merges.txt; or
 * the file tokenizer.json; or vocab.json, with merges.txt beside it. */
ls_status ls_tokenizer_open(const char *path, ls_tokenizer **out);
/* NULL does nothing. */
void ls_tokenizer_close(ls_tokenizer *tokenizer);

/* A growing list of ids. Starts as {0}. */
typedef struct ls_tokens {
    int32_t *ids;
    size_t count, capacity;
} ls_tokens;

void ls_tokens_fini(ls_tokens *tokens);

/* Special tokens in the text (such as <|endoftext|>) become their ids; without it they are plain text, which is the
 * safe way to take text that somebody else wrote. Added tokens that are not special are always looked for. */
enum { LS_ENCODE_SPECIAL = 1 };

/* Appends the ids of `text` to `out`. No token is added in front or behind. One thread at a time may encode with one
 * tokenizer. */
ls_status ls_tokenizer_encode(ls_tokenizer *tokenizer, const void *text, size_t bytes, unsigned flags, ls_tokens *out);
/* The bytes of all ids. `*text` has a NUL behind its `*bytes` bytes; the caller frees it. */
ls_status ls_tokenizer_decode(const ls_tokenizer *tokenizer, const int32_t *ids, size_t count, char **text,
                              size_t *bytes);

/* The highest id and one more. */
uint32_t ls_tokenizer_vocab(const ls_tokenizer *tokenizer);
/* The token that ends a document, and the one that begins it; −1: the tokenizer has none. */
int32_t ls_tokenizer_eot(const ls_tokenizer *tokenizer);
int32_t ls_tokenizer_bos(const ls_tokenizer *tokenizer);

/* Hashes are 128 bits as text. */
enum { LS_HASH_CHARS = 33 };
/* Of what the tokenizer was made from: equal hashes, equal ids. */
void ls_tokenizer_identity(const ls_tokenizer *tokenizer, char hash[LS_HASH_CHARS]);

enum { LS_OUT_CHARS = 4096 };

/* How far ls_tokenize() is, and at its end what it has written. */
typedef struct ls_tokenized {
    uint64_t tokens, val_tokens; /* all of them; those for validation */
    uint64_t bytes, documents;   /* of text */
    uint64_t invalid_bytes;      /* not UTF-8; they are kept as they are */
    uint64_t shards;             /* files, of all of them */
    uint32_t vocab;
    double seconds;
    char out[LS_OUT_CHARS], val_out[LS_OUT_CHARS]; /* the files are OUT_000001.bin …; val_out "": none for validation */
    const char *file;                              /* that is being read; NULL: none */
    uint64_t file_done, file_bytes;                /* of it */
} ls_tokenized;

/* With the options of "tokenize": text and JSONL become token files, in llm.c's format. All of the output appears at
 * the end, or none of it. `progress` is called now and then, and at the end of each file (without `file`); NULL is
 * fine. */
ls_status ls_tokenize(const ls_options *options, void (*progress)(void *ctx, const ls_tokenized *so_far), void *ctx,
                      ls_tokenized *out);

/* ---- models of other programs ------------------------------------------------------------------------------------ */

typedef struct ls_exchanged {
    char name[64];    /* of the model */
    const char *from; /* "lockstep", "Hugging Face" or "llm.c" */
    uint64_t parameters;
    char tokenizer[LS_OUT_CHARS]; /* that goes along; "": none */
} ls_exchanged;

/* With the options of "import": "model", a Hugging Face folder or a model file of llm.c, becomes the checkpoint "out",
 * which train, eval, generate and export start from. */
ls_status ls_import(const ls_options *options, ls_exchanged *out);
/* With the options of "export": the run or checkpoint "model" becomes a Hugging Face folder or a model file of llm.c.
 */
ls_status ls_export(const ls_options *options, ls_exchanged *out);

/* ---- own data ---------------------------------------------------------------------------------------------------- */

/* Data that the caller has, in the place of the files that the option "data" names: any sample can be asked for at any
 * time, by its number, in each worker.
 *
 * The run goes by numbers alone, so it cannot tell by itself whether the data is the same as before: `identity` says
 * it, and becomes part of the identity of the run. Whoever resumes with another one is refused. The same identity must
 * mean the same samples under the same numbers ("corpus-v3 train, tokenizer 7f3a"). */
typedef struct ls_source {
    const char *identity;
    uint64_t count; /* tokens; or images */
    /* Of a language model: tokens first … first+count−1, below the model's vocabulary. */
    ls_status (*tokens)(void *ctx, uint64_t first, size_t count, int32_t *out);
    /* Of an image model: the bytes of image `index`, [channels][height][width] as the model sees them, and its class. A
     * byte x becomes (x/255 − 0.5) / 0.25. */
    ls_status (*image)(void *ctx, uint64_t index, uint8_t *pixels, int32_t *label);
    void *ctx;
} ls_source;

/* ---- runs -------------------------------------------------------------------------------------------------------- */

typedef struct ls_run ls_run;

typedef struct ls_step {
    int64_t step, steps;   /* done, and in all */
    double loss, norm, lr; /* mean over the batch before the update; of the gradient, before clipping */
    double seconds;
    double samples; /* tokens, or images, of the step */
    double mfu;     /* share of the machine's peak; 0: not known */
    int is_images;  /* `samples` counts images */
    int audited;    /* gradient groups that were computed twice and compared */
    int skipped;    /* no update was made, because fp16 overflowed */
} ls_step;

typedef struct ls_evaluation {
    double loss;
    double accuracy;      /* of an image model; else −1 */
    double bits_per_byte; /* of text whose size is known; else 0 */
    uint64_t samples;     /* tokens that were predicted, or images; 0: not counted */
    double seconds;
} ls_evaluation;

typedef enum ls_run_event_kind {
    LS_RUN_PREPARES,    /* text: what has to be done first: data to tokenize, kernels of a GPU to compile */
    LS_RUN_STEPPED,     /* step */
    LS_RUN_EVALUATED,   /* text, evaluation */
    LS_RUN_SAMPLED,     /* text: what the model wrote (option "sample-every") */
    LS_RUN_SAVED,       /* text */
    LS_RUN_NOTICED,     /* text: something about the numbers of the run, or an early stop */
    LS_RUN_STEPS_ENDED, /* no step will follow; the last checkpoint may */
    LS_RUN_SCORED,      /* done of all: of an evaluation with the options of "eval" */
    LS_RUN_MEASURES,    /* text: what of this machine, for "auto-layout"; NULL: it is done */
    LS_RUN_PLANNED,     /* plan: what "auto-layout" compared; the run has layout 0 */
    LS_RUN_VERIFIED     /* text: a layout, and whether it gives the bits of one worker; done: the how manieth */
} ls_run_event_kind;

typedef struct ls_run_event {
    ls_run_event_kind kind;
    const char *text;                /* for people, without a newline at its end; NULL: none */
    const ls_step *step;             /* NULL where there is none */
    const ls_evaluation *evaluation; /* likewise */
    uint64_t done, all;
    struct ls_plan *plan; /* for the time of the call; NULL where there is none */
} ls_run_event;

/* A failure ends the run. */
typedef ls_status (*ls_run_event_fn)(void *ctx, const ls_run_event *event);

/* All but the options may be left 0. */
typedef struct ls_run_setup {
    const ls_options *options;   /* of train, eval or generate */
    const ls_source *data;       /* what is learned from; NULL: the option "data" */
    const ls_source *validation; /* NULL: as the options say */
    ls_run_event_fn event;       /* called in the first worker, as things happen */
    void *event_ctx;
} ls_run_setup;

/* With the options of "train": model, settings, layout, data and folder of a run, in the order in which mistakes are
 * cheapest to find. A new run, or with "resume" or "fork" an earlier one that goes on. No worker is started, but that
 * "auto-layout" on a machine that was never measured measures it with workers of its own; none has weights yet.
 *
 * With the options of "eval" or "generate": a model with weights (a run, a checkpoint, a Hugging Face folder) on all
 * cores of this process, which can be evaluated, or written with, at once.
 *
 * Everything that the setup points to must live until close. On failure *out is NULL. */
ls_status ls_run_open(const ls_run_setup *setup, ls_run **out);
/* NULL does nothing. */
void ls_run_close(ls_run *run);

typedef ls_status (*ls_run_fn)(ls_run *run, void *arg);
/* Starts the workers of a training run and calls `fn` in each, at the beginning of the run or where it goes on. As
 * ls_workers_run() it forks, so call it before any thread is started; one worker is this process, unless it computes on
 * a GPU; under mpirun or srun the workers are there already. Returns when all have ended. SIGINT and SIGTERM meanwhile:
 * see ls_run_step(). Once for a run. */
ls_status ls_run_workers(ls_run *run, ls_run_fn fn, void *arg);

/* What follows is called by all workers of a run together, in the function that ls_run_workers() calls, and gives all
 * of them the same. After a failure the function returns it. */

/* One step. After SIGINT, SIGTERM, SIGHUP, SIGXCPU or SIGUSR2 to any worker the step is finished, or given up where the
 * option grace leaves no time for it, and all get LS_ERR_INTERRUPTED, LS_ERR_TERMINATED or LS_ERR_REQUEUED: an orderly
 * end, to be returned after ls_run_save(). */
ls_status ls_run_step(ls_run *run, ls_step *out);
/* Steps up to the option "steps", with evaluations, samples and checkpoints as often as the options say, as `lockstep
 * train` does. A run that a signal ended is saved and returns as ls_run_step() does. After another failure the last
 * step is saved where it is sound. */
ls_status ls_run_train(ls_run *run);
/* Of the validation data: loss, and accuracy of an image model. With the options of "eval": of all of "data". */
ls_status ls_run_evaluate(ls_run *run, ls_evaluation *out);
/* A checkpoint of this step in the folder of the run, unless it has one. */
ls_status ls_run_save(ls_run *run);

/* Gets text as it comes, the prompt first, and not always whole characters; sets *stop to end. */
typedef ls_status (*ls_text_fn)(void *ctx, const char *text, size_t bytes, int *stop);
/* What the model makes of a prompt (NULL: of nothing), by the options "temperature", "top-k", "top-p", "seed" and
 * "max-tokens", of "generate" also "stop". Ends at the token that ends a text. `take` is called in the first worker
 * only. *tokens gets their number; NULL is fine. */
ls_status ls_run_generate(ls_run *run, const char *prompt, ls_text_fn take, void *ctx, int64_t *tokens);

/* Of all weights, whatever the layout: two runs with the same hash have the same bits. All workers together. */
ls_status ls_run_hash(ls_run *run, char hash[LS_HASH_CHARS]);

typedef struct ls_run_state {
    const char *folder;   /* borrowed; NULL: none */
    const char *identity; /* hash of what the result depends on, borrowed; NULL: not known before ls_run_workers() */
    int64_t step, steps;  /* done, and in all */
    uint64_t parameters;
    int rank, workers; /* of this one; 0 of as many as there will be */
} ls_run_state;

/* Any worker alone; also before workers are started. */
ls_run_state ls_run_get_state(const ls_run *run);

/* Whether layouts give the bits of one worker. With the options of "train": the layout of that run, `steps` steps of
 * it, on the data of the setup. With the options of "verify": many layouts, or the one that they name, as many steps as
 * they say, on made-up data where they name none; `steps` is 0, and `event` hears of each layout.
 * LS_OK: every loss, gradient and weight is the same. LS_ERR_FAILED: the message says what differs first. Starts
 * workers, again and again; leaves no folder behind but one for results that "out" names. */
ls_status ls_verify(const ls_run_setup *setup, int64_t steps);

/* ---- what runs recorded ------------------------------------------------------------------------------------------ */

/* The series of a run (docs/reference/metrics.md), living or ended: each step once, in order, however often the run was
 * resumed, recovered or forked. Reads files and starts nothing. One thread at a time. */
typedef struct ls_history ls_history;

ls_status ls_history_open(const char *run, ls_history **out);
void ls_history_close(ls_history *history);
/* Reads what was recorded since. *changed, which may be NULL: 1 where there is anything new. */
ls_status ls_history_refresh(ls_history *history, int *changed);
/* Whether a process is at work in the run; as of the last look. */
int ls_history_is_open(const ls_history *history);
/* Names of the columns that have numbers, in their order; NULL at the end. "step", "loss", "lr", … are of steps;
 * "val_step", "val_loss", … of evaluations. */
const char *ls_history_column(const ls_history *history, size_t index);
/* How many numbers a column has; 0: there is none of this name. */
size_t ls_history_count(const ls_history *history, const char *column);
/* Copies numbers `first` … `first` + `count` − 1, or as many as there are. Returns how many. NaN: not recorded. */
size_t ls_history_read(const ls_history *history, const char *column, size_t first, size_t count, double *out);
/* A JSON object: the lists "starts", "events" and "samples", the number "planned_steps", and, if the last process
 * recorded why it ended before the last step, that text as "stopped". Borrowed until the next refresh; NULL: out of
 * memory. */
const char *ls_history_json(ls_history *history);

/* ---- plans ------------------------------------------------------------------------------------------------------- */

typedef struct ls_plan ls_plan;

/* With the options of "plan", of which "model" and "cluster" are needed: layouts that fit into memory, the fastest
 * first, but for a difference of one percent where one is simpler. Nothing is run. For a cluster file that `lockstep
 * probe` wrote the layouts are this program's own on that machine, for others those of the program that "stack" names.
 * That none fits is no failure. The options must live until the plan is destroyed. */
ls_status ls_plan_make(const ls_options *options, ls_plan **out);
void ls_plan_destroy(ls_plan *plan);
int ls_plan_count(const ls_plan *plan);
/* Of layout `index`: "seconds" of a step, "memory_bytes" of the heaviest worker, "capacity_bytes", "micro_batches"; a
 * knob such as "dp"; a part of the time or of the memory by its name in ls_plan_json(). −1: there is no such number. */
double ls_plan_number(ls_plan *plan, int index, const char *name);
/* All of it, as `lockstep plan --json` prints it: also what limits the layouts, what would help, and how they scale.
 * Borrowed; NULL: it could not be made. */
const char *ls_plan_json(ls_plan *plan);
/* Sets the options of train that run layout `index`. */
ls_status ls_plan_apply(const ls_plan *plan, int index, ls_options *train);

/* With the options of "probe": measures this machine for plans of this program, in about half a minute, and writes a
 * cluster file: "out", or where the option "auto-layout" of train looks for it. Starts workers. */
ls_status ls_probe(const ls_options *options);

#ifdef __GNUC__
#    pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
