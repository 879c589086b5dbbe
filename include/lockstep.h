/* lockstep.h: the installed interface of lockstep, with everything that the program `lockstep` does. Unstable
 * until 1.0: a version 0.x may change it.
 *
 * Training. Options by name (ls_options) describe a run, a plan or a check; docs/reference/options.md lists them.
 * ls_run_open() creates a run from them, on files or on the caller's own data (ls_source). ls_run_workers() starts its
 * workers and calls one function in each, which steps, evaluates, saves and generates. ls_plan_make() searches for a
 * layout for a cluster, ls_probe() measures this machine for it, and ls_verify() checks that layouts give the bits of
 * one worker.
 *
 * Text and models. ls_tokenizer converts text to tokens and back, ls_tokenize() whole files; ls_import() and
 * ls_export() convert models from and to other programs' formats.
 *
 * Workers and sums. ls_workers_run() starts workers (or joins those that mpirun or srun started) and calls one function
 * in each of them with its ls_world. The world provides communicators, meshes, shared memory and the collectives. Sums
 * are *ordered*: they follow one balanced binary tree over the contributions, whichever worker holds them, so the same
 * contributions give the same bits on any number of workers.
 *
 * Errors. Every function that can fail returns an ls_status. ls_status_message() says, for the calling thread, what was
 * wrong, with which value, and what to do. The library prints nothing; warnings go to the program's own handler
 * (ls_message_handler_set), if it has one. The library never exits, except that under MPI a failure can only end the
 * job with MPI_Abort(). Only functions whose comment says so start processes.
 *
 * Threads. A worker calls collectives from one thread. All members of a communicator call its collectives in the same
 * order.
 */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The shared library exports exactly what is declared here. */
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

/* Returns the message of the last failure in this thread, valid until its next failure; never NULL. */
const char *ls_status_message(void);
/* Records a message for ls_status_message() and returns `status`. A worker's function reports its own failures so. */
#ifdef __GNUC__
__attribute__((format(printf, 2, 3)))
#endif
ls_status
ls_fail(ls_status status, const char *format, ...);
/* Returns a name such as "LS_ERR_INPUT"; a constant. */
const char *ls_status_name(ls_status status);
/* Returns the exit status for a program that ends with `status`: that of LS_STATUS_LIST, 1 for any other number. */
int ls_status_exit_code(ls_status status);

/* ---- warnings ---------------------------------------------------------------------------------------------------- */

/* Receives a line of text without its newline, such as "lockstep: warning: 8 workers of 1 thread on 2 cores: …". Called
 * from any thread, in the process of the worker that the line is about. */
typedef void (*ls_message_fn)(void *ctx, const char *line);
/* Sets the handler of messages that are no failure of a call, such as warnings; under MPI it also receives the message
 * of a worker that fails, right before the job is aborted. To be called before ls_workers_run(). NULL, the default:
 * messages are dropped. */
void ls_message_handler_set(ls_message_fn take, void *ctx);

/* ---- types ------------------------------------------------------------------------------------------------------- */

typedef enum ls_dtype { LS_F32, LS_BF16, LS_F16, LS_I64, LS_U8, LS_DTYPE_COUNT } ls_dtype;

/* Returns the bytes of one element. */
size_t ls_dtype_bytes(ls_dtype dtype);

/* ---- workers ----------------------------------------------------------------------------------------------------- */

typedef struct ls_world ls_world;
typedef struct ls_comm ls_comm;
typedef struct ls_mesh ls_mesh;
typedef struct ls_request ls_request;

/* The function that each worker runs. `world` is valid until it returns; in forked workers `arg` is a copy of the
 * parent's memory. */
typedef ls_status (*ls_worker_fn)(ls_world *world, void *arg);

enum { LS_WORKERS_MAX = 512 };

/* All fields may be 0: one worker, cores divided among workers, pinned, a timeout of five minutes. */
typedef struct ls_workers_options {
    int workers;       /* processes on this machine; 0: one, or all that the launcher started */
    int threads;       /* threads of each worker; 0: its share of the cores */
    int no_pin;        /* 1: leave the placement of workers on cores to the system */
    double timeout_s;  /* how long a collective waits for a worker; 0: 300 seconds */
    size_t heap_bytes; /* address space for shared memory, for each worker; 0: as much as the machine's memory */
    int node_size;     /* under MPI: share memory among at most this many workers; 0: the whole machine */
    int pass_signals;  /* 1: forward SIGINT and SIGTERM to the workers, which then end; a second SIGINT kills them */
    double link_latency_s;   /* emulates a slow network between the workers of one machine; no result changes: */
    double link_bytes_per_s; /* latency and bandwidth of each worker's link; 0: not limited */
    int forks_one;           /* 1: fork a single worker too, so that it leaves nothing behind in this process */
} ls_workers_options;

/* Runs `fn` in every worker and returns when all have ended. Without a launcher this forks `workers` processes, so call
 * it before any thread is started; with one worker `fn` runs in this process, unless forks_one is set. Under mpirun or
 * srun the launcher has started the workers and `fn` runs in this process. Returns the status of the worker that failed
 * first; the message names it.
 *
 * SIGINT or SIGTERM to the process that forked ends all workers, with LS_ERR_INTERRUPTED or LS_ERR_TERMINATED. With
 * pass_signals each worker receives a SIGTERM instead, for either of them and for SIGHUP and SIGXCPU (forked workers
 * ignore SIGINT itself, which a terminal sends to all processes): it handles the signal, ends its work, and returns one
 * of these two statuses, which becomes the run's unless a worker fails. The siginfo has si_code SI_QUEUE and the
 * original signal in si_value.sival_int. SIGUSR1 and SIGUSR2 are forwarded unchanged; the status for the latter is
 * LS_ERR_REQUEUED. Repeated SIGTERMs are forwarded again. A worker that returns one of these statuses has not failed:
 * the others continue until they return too, and a worker that waits for one that has left gets LS_ERR_PEER. */
ls_status ls_workers_run(const ls_workers_options *options, ls_worker_fn fn, void *arg);

/* Returns the number of this worker, 0 … size − 1. */
int ls_world_rank(const ls_world *world);
int ls_world_size(const ls_world *world);
/* Returns the threads that this worker may compute with. */
int ls_world_threads(const ls_world *world);
/* Returns "self", "shm" or "mpi". */
const char *ls_world_transport(const ls_world *world);
/* Returns the communicator of all workers; borrowed. */
ls_comm *ls_world_comm(ls_world *world);

/* Allocates memory, zeroed and aligned to 64 bytes, that the other workers of this machine can access directly:
 * collectives on it need no extra copy. Collectives accept any other memory, too. Not collective. The caller frees it
 * with ls_world_free(). LS_ERR_RESOURCE if there is no memory, or heap_bytes are used up. */
ls_status ls_world_alloc(ls_world *world, size_t bytes, void **out);
/* Frees memory of ls_world_alloc(); NULL does nothing. */
void ls_world_free(ls_world *world, void *memory);

/* ---- mesh -------------------------------------------------------------------------------------------------------- */

typedef enum ls_axis { LS_AXIS_DP, LS_AXIS_TP, LS_AXIS_PP, LS_AXIS_COUNT } ls_axis;

/* Arranges the world as dp × tp × pp, tp on neighbouring ranks, then dp, then pp:
 * rank = tp_index + tp·(dp_index + dp·pp_index). Collective over the world. */
ls_status ls_mesh_create(ls_world *world, int dp, int tp, int pp, ls_mesh **out);
/* Destroys the mesh and its communicators. Collective over the world, as ls_comm_destroy() is; NULL does nothing. */
void ls_mesh_destroy(ls_mesh *mesh);
/* Returns the workers along an axis: dp, tp or pp. */
int ls_mesh_size(const ls_mesh *mesh, ls_axis axis);
/* Returns this worker's index along an axis. */
int ls_mesh_index(const ls_mesh *mesh, ls_axis axis);
/* Returns the communicator of the workers that differ from this one only along `axis`; borrowed. */
ls_comm *ls_mesh_comm(ls_mesh *mesh, ls_axis axis);

/* ---- communicators ----------------------------------------------------------------------------------------------- */

/* Returns this worker's rank among the members. */
int ls_comm_rank(const ls_comm *comm);
int ls_comm_size(const ls_comm *comm);

/* Splits `parent`: members with the same color form a communicator, ordered by key and then by rank. A member with a
 * negative color joins none and gets NULL in *out. The caller destroys *out. Collective over `parent`. */
ls_status ls_comm_split(ls_comm *parent, int color, int key, ls_comm **out);
/* Destroys a communicator that ls_comm_split() made. Collective over its members; NULL does nothing. */
void ls_comm_destroy(ls_comm *comm);

/* ---- ordered sums ------------------------------------------------------------------------------------------------ */

/* How `groups` contributions are divided among the workers of a communicator: rank r holds bounds[r] … bounds[r+1]−1. A
 * worker's run may be empty. The sum follows the balanced binary tree over all groups that splits at the largest power
 * of two below the count. A worker passes the maximal subtrees of that tree that it holds, in order: ls_tree_cover()
 * lists them, and ls_tree_sum() adds one up from its groups. In a sum of bf16 a single group is bf16, and a subtree of
 * several groups is fp32. */
typedef struct ls_runs {
    int groups;
    const int *bounds; /* size + 1 entries, from 0 to groups; NULL: groups·r/size, the even split */
} ls_runs;

/* A node of the tree: groups first … first+count−1. */
typedef struct ls_tree_node {
    int first, count;
} ls_tree_node;

enum { LS_GROUPS_MAX = 4096, LS_TREE_COVER_MAX = 24 };

/* Lists the maximal subtrees inside groups lo … hi−1, in order; at most LS_TREE_COVER_MAX. Returns their number. */
int ls_tree_cover(int groups, int lo, int hi, ls_tree_node *nodes);

/* Adds `leaves` contributions of `elems` fp32 elements in the order of the tree; `leaves` is the count of a node.
 * Local: uses no other worker. `out` may be one of the contributions; the others are not changed. For a node of the
 * tree the result has the node's bits. */
ls_status ls_tree_sum(const float *const *contributions, int leaves, float *out, size_t elems);

/* ---- collectives ------------------------------------------------------------------------------------------------- */

/* Each collective has a blocking form and a form that starts it and returns a request, which ls_request_wait() ends.
 * The collective owns the buffers until then; lists (parts, bytes, shards, runs) are read at once and may be freed. If
 * sizes differ between members, or members call different collectives, all of them fail. */

/* Waits until all members have called it. */
ls_status ls_comm_barrier(ls_comm *comm);
/* Copies `bytes` bytes from `buffer` of rank `root` to that of all other members. */
ls_status ls_comm_broadcast(ls_comm *comm, int root, void *buffer, size_t bytes);
/* Gathers `bytes[r]` bytes of each rank r in `out`, in order of rank; in place if `in` is this rank's place in `out`.
 */
ls_status ls_comm_all_gather(ls_comm *comm, const void *in, void *out, const size_t *bytes);
/* Sends block r of `in` to rank r and receives block s of `out` from rank s. Blocks have `bytes` bytes; `in` may be
 * `out`. */
ls_status ls_comm_all_to_all(ls_comm *comm, const void *in, void *out, size_t bytes);
/* Sends a message to rank `to`. Messages between two members are matched by tag (0 … 32767) in the order sent. A send
 * ends when its buffer may be reused. */
ls_status ls_comm_send(ls_comm *comm, int to, int tag, const void *buffer, size_t bytes);
/* Receives the next message of this tag from rank `from`; `bytes` is its size. */
ls_status ls_comm_recv(ls_comm *comm, int from, int tag, void *buffer, size_t bytes);

/* Computes the ordered sum of all contributions, whole on every member. `parts` holds this worker's subtrees of `elems`
 * elements each; `out` is fp32 for LS_F32 and LS_BF16, int64 (modulo 2^64) for LS_I64, and may be one of the fp32 (or
 * int64) parts. `runs` NULL: one group per worker. */
ls_status ls_comm_all_reduce(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts, void *out,
                             size_t elems);
/* Computes the same sum, of which member r gets elements shards[r] … shards[r+1]−1 (size + 1 entries from 0 to elems;
 * NULL: those of ls_shard_bounds()). `out` has room for this worker's shard; it may be the place of that shard in a
 * part. */
ls_status ls_comm_reduce_scatter(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                 void *out, const size_t *shards, size_t elems);

/* Divides elems into `size` shards that end at multiples of 1024 elements; writes size + 1 bounds. */
void ls_shard_bounds(size_t elems, int size, size_t *bounds);

/* Starts ls_comm_barrier(); ls_request_wait() or ls_request_test() ends it. *out is NULL on failure. */
ls_status ls_comm_barrier_start(ls_comm *comm, ls_request **out);
/* Starts ls_comm_broadcast(). */
ls_status ls_comm_broadcast_start(ls_comm *comm, int root, void *buffer, size_t bytes, ls_request **out);
/* Starts ls_comm_all_gather(). */
ls_status ls_comm_all_gather_start(ls_comm *comm, const void *in, void *out_buffer, const size_t *bytes,
                                   ls_request **out);
/* Starts ls_comm_all_to_all(). */
ls_status ls_comm_all_to_all_start(ls_comm *comm, const void *in, void *out_buffer, size_t bytes, ls_request **out);
/* Starts ls_comm_send(). */
ls_status ls_comm_send_start(ls_comm *comm, int to, int tag, const void *buffer, size_t bytes, ls_request **out);
/* Starts ls_comm_recv(). */
ls_status ls_comm_recv_start(ls_comm *comm, int from, int tag, void *buffer, size_t bytes, ls_request **out);
/* Starts ls_comm_all_reduce(). */
ls_status ls_comm_all_reduce_start(ls_comm *comm, const ls_runs *runs, ls_dtype dtype, const void *const *parts,
                                   void *out_buffer, size_t elems, ls_request **out);
/* Starts ls_comm_reduce_scatter(). */
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

/* Collectives and messages that one member started on a communicator, and their bytes. */
typedef struct ls_traffic {
    uint64_t calls, bytes;
} ls_traffic;

/* Returns this member's counts, which only grow; take the difference of two readings. Splitting a communicator counts
 * as the two all-gathers that it does. Bytes are those of this member's data that other members need, whatever the
 * transport sends. With W members, of which this one is r (a communicator of one member counts calls but no bytes):
 *
 *   reduce-scatter   for each part: (elems − elements of the own shard) · bytes of the part's elements
 *   all-reduce       the same with shards elems·r/W … elems·(r+1)/W (rounded down), and then the own shard of the
 *                    result, (W−1) · its elements · bytes of the result's elements
 *   all-gather       (W−1) · own bytes
 *   all-to-all       (W−1) · bytes of a block
 *   broadcast        (W−1) · bytes on the root, 0 elsewhere
 *   send, receive    bytes; 0 to and from the same member
 *   barrier          0
 *
 * Elements of a part have 4 bytes in a sum of LS_F32, 8 of LS_I64, and in one of LS_BF16 2 where the part is a single
 * group and 4 otherwise; elements of a result have 4 bytes, 8 for LS_I64. */
void ls_comm_traffic(const ls_comm *comm, ls_traffic_kind kind, ls_traffic *out);

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Advances all requests in flight and sets *done if this one has ended, which releases it. */
ls_status ls_request_test(ls_request *request, int *done);
/* Waits for the request's end and releases it, whatever the status. NULL does nothing. */
ls_status ls_request_wait(ls_request *request);

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* The options of one command of the program, with the names, meanings and defaults of docs/reference/options.md. */
typedef struct ls_options ls_options;

/* Creates the options of a command, all at their defaults. `command`: "train", "eval", "generate", "tokenize",
 * "import", "export", "plan", "probe" or "verify". LS_ERR_INPUT if there is no such command. Neither the environment
 * nor a file is read. The caller destroys *out. */
ls_status ls_options_create(const char *command, ls_options **out);
void ls_options_destroy(ls_options *options);
/* Sets an option, such as "dp" to "4"; a switch is "true" or "false". The value is copied. An unknown name (the message
 * has the nearest one) or a value out of range is LS_ERR_INPUT. NULL restores the default. Setting "config" reads that
 * file, YAML or JSON, at once and sets the options that it has. */
ls_status ls_options_set(ls_options *options, const char *name, const char *value);
/* Returns the value that was set, or the default; NULL if there is neither, and for an unknown name. Borrowed until the
 * option is set again. */
const char *ls_options_get(const ls_options *options, const char *name);

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */

typedef struct ls_tokenizer ls_tokenizer;

/* Opens a tokenizer. `path` is "bytes" (an id is a byte); a folder with tokenizer.json, else with vocab.json and
 * merges.txt; the file tokenizer.json; or vocab.json with merges.txt beside it. The caller closes *out. */
ls_status ls_tokenizer_open(const char *path, ls_tokenizer **out);
/* NULL does nothing. */
void ls_tokenizer_close(ls_tokenizer *tokenizer);

/* A growing list of ids. Starts as {0}. */
typedef struct ls_tokens {
    int32_t *ids;
    size_t count, capacity;
} ls_tokens;

/* Frees the ids and makes the list empty. */
void ls_tokens_fini(ls_tokens *tokens);

/* Special tokens in the text (such as <|endoftext|>) become their ids. Without this flag they are encoded as plain
 * text, which is safe for untrusted text. Added tokens that are not special are always recognized. */
enum { LS_ENCODE_SPECIAL = 1 };

/* Appends the ids of `bytes` bytes of `text` to `out`, without tokens before or after it. `flags`: 0 or
 * LS_ENCODE_SPECIAL. One thread at a time may encode with one tokenizer. */
ls_status ls_tokenizer_encode(ls_tokenizer *tokenizer, const void *text, size_t bytes, unsigned flags, ls_tokens *out);
/* Returns the bytes of all ids. `*text` has a NUL behind its `*bytes` bytes; the caller frees it. */
ls_status ls_tokenizer_decode(const ls_tokenizer *tokenizer, const int32_t *ids, size_t count, char **text,
                              size_t *bytes);

/* Returns the highest id + 1. */
uint32_t ls_tokenizer_vocab(const ls_tokenizer *tokenizer);
/* Returns the id of the token that ends a document; −1: the tokenizer has none. */
int32_t ls_tokenizer_eot(const ls_tokenizer *tokenizer);
/* Returns the id of the token that begins a document; −1: the tokenizer has none. */
int32_t ls_tokenizer_bos(const ls_tokenizer *tokenizer);

/* Hashes are 128 bits as text. */
enum { LS_HASH_CHARS = 33 };
/* Returns the hash of the files that the tokenizer was made from: equal hashes give equal ids. */
void ls_tokenizer_identity(const ls_tokenizer *tokenizer, char hash[LS_HASH_CHARS]);

enum { LS_OUT_CHARS = 4096 };

/* Progress of ls_tokenize(), and at its end what it has written. */
typedef struct ls_tokenized {
    uint64_t tokens, val_tokens; /* all of them; those for validation */
    uint64_t bytes, documents;   /* of text */
    uint64_t invalid_bytes;      /* that are not UTF-8; kept unchanged */
    uint64_t shards;             /* number of files written */
    uint32_t vocab;
    double seconds;
    char out[LS_OUT_CHARS], val_out[LS_OUT_CHARS]; /* the files are OUT_000001.bin …; val_out "": none for validation */
    const char *file;                              /* the file that is being read; NULL: none */
    uint64_t file_done, file_bytes;                /* bytes of it that are done; its size */
} ls_tokenized;

/* Converts text and JSONL to token files in llm.c's format, with the options of "tokenize". The output appears at the
 * end, all of it or none. `progress` is called now and then, and at the end of each file (without `file`); it may be
 * NULL. */
ls_status ls_tokenize(const ls_options *options, void (*progress)(void *ctx, const ls_tokenized *so_far), void *ctx,
                      ls_tokenized *out);

/* ---- models of other programs ------------------------------------------------------------------------------------ */

typedef struct ls_exchanged {
    char name[64];    /* of the model */
    const char *from; /* "lockstep", "Hugging Face" or "llm.c" */
    uint64_t parameters;
    char tokenizer[LS_OUT_CHARS]; /* path of the model's tokenizer; "": none */
} ls_exchanged;

/* Converts "model", a Hugging Face folder or a model file of llm.c, to the checkpoint "out", from which train, eval,
 * generate and export can start. Uses the options of "import". */
ls_status ls_import(const ls_options *options, ls_exchanged *out);
/* Converts the run or checkpoint "model" to a Hugging Face folder or a model file of llm.c. Uses the options of
 * "export". */
ls_status ls_export(const ls_options *options, ls_exchanged *out);

/* ---- own data ---------------------------------------------------------------------------------------------------- */

/* Data of the caller, instead of the files that the option "data" names. The callbacks return any sample by its number,
 * at any time and in each worker.
 *
 * The run knows samples only by number, so it cannot detect whether the data has changed. `identity` tells it, and
 * becomes part of the identity of the run: resuming with another one is refused. The same identity must mean the same
 * samples under the same numbers ("corpus-v3 train, tokenizer 7f3a"). */
typedef struct ls_source {
    const char *identity;
    uint64_t count; /* number of tokens or images */
    /* For a language model: returns tokens first … first+count−1, below the model's vocabulary. */
    ls_status (*tokens)(void *ctx, uint64_t first, size_t count, int32_t *out);
    /* For an image model: returns the bytes of image `index` as [channels][height][width], and its class. A byte x
     * becomes (x/255 − 0.5) / 0.25. */
    ls_status (*image)(void *ctx, uint64_t index, uint8_t *pixels, int32_t *label);
    void *ctx;
} ls_source;

/* ---- runs -------------------------------------------------------------------------------------------------------- */

typedef struct ls_run ls_run;

typedef struct ls_step {
    int64_t step, steps;   /* completed; total */
    double loss, norm, lr; /* loss: mean over the batch before the update; norm: of the gradient, before clipping.
                              NaN: not finite */
    double seconds;        /* of this worker's clock */
    double samples;        /* tokens, or images, of the step */
    double mfu;            /* share of the machine's peak; 0: not known */
    int is_images;         /* `samples` counts images */
    int audited;           /* gradient groups that were computed twice and compared */
    int skipped;           /* the update was skipped, because fp16 overflowed */
} ls_step;

typedef struct ls_evaluation {
    double loss;
    double accuracy;      /* of an image model; else −1 */
    double bits_per_byte; /* with the options of "eval", of text whose size is known; else 0 */
    uint64_t samples;     /* tokens that were predicted, or images; 0: not counted, as in a training run */
    double seconds;       /* in a training run 0 on all workers but the first */
} ls_evaluation;

typedef enum ls_run_event_kind {
    LS_RUN_PREPARES,    /* text: preparation that takes time: data to tokenize, GPU kernels to compile */
    LS_RUN_STEPPED,     /* step */
    LS_RUN_EVALUATED,   /* text, evaluation */
    LS_RUN_SAMPLED,     /* text: what the model wrote (option "sample-every") */
    LS_RUN_SAVED,       /* text */
    LS_RUN_NOTICED,     /* text: something about the numbers of the run, or an early stop */
    LS_RUN_STEPS_ENDED, /* no step will follow; the last checkpoint may */
    LS_RUN_SCORED,      /* done, all: progress of an evaluation with the options of "eval" */
    LS_RUN_MEASURES,    /* text: what is measured on this machine for "auto-layout"; NULL: finished */
    LS_RUN_PLANNED,     /* plan: the layouts that "auto-layout" compared; the run uses layout 0 */
    LS_RUN_VERIFIED     /* text: a layout, and whether it gives the bits of one worker; done: its number */
} ls_run_event_kind;

typedef struct ls_run_event {
    ls_run_event_kind kind;
    const char *text;                /* readable text without a trailing newline; NULL: none */
    const ls_step *step;             /* NULL: none */
    const ls_evaluation *evaluation; /* NULL: none */
    uint64_t done, all;
    struct ls_plan *plan; /* valid during the call; NULL: none */
} ls_run_event;

/* A status other than LS_OK ends the run. */
typedef ls_status (*ls_run_event_fn)(void *ctx, const ls_run_event *event);

/* All members but `options` may be 0. */
typedef struct ls_run_setup {
    const ls_options *options;   /* of train, eval or generate */
    const ls_source *data;       /* training data; NULL: the option "data" */
    const ls_source *validation; /* NULL: as the options say */
    ls_run_event_fn event;       /* callback, called in the first worker */
    void *event_ctx;
} ls_run_setup;

/* Opens a run.
 *
 * With the options of "train": checks model, settings, layout, data and folder of a new run, or with "resume" or "fork"
 * of one that continues. Starts no worker and loads no weights; only "auto-layout" on a machine that was never measured
 * starts workers to measure it.
 *
 * With the options of "eval" or "generate": loads a model with weights (a run, a checkpoint, a Hugging Face folder) on
 * all cores of this process; it can be evaluated or generate text at once.
 *
 * Everything that the setup points to must live until ls_run_close(). On failure *out is NULL. */
ls_status ls_run_open(const ls_run_setup *setup, ls_run **out);
/* Closes the run; a training run that made no step leaves no folder that it created. NULL does nothing. */
void ls_run_close(ls_run *run);

typedef ls_status (*ls_run_fn)(ls_run *run, void *arg);
/* Starts the workers of a training run and calls `fn` in each, at the beginning of the run or where it continues. Forks
 * like ls_workers_run(), so call it before any thread is started; a single worker is this process, unless it computes
 * on a GPU; under mpirun or srun the launcher has started the workers. Returns when all have ended. For SIGINT and
 * SIGTERM see ls_run_step(). To be called once for a run. */
ls_status ls_run_workers(ls_run *run, ls_run_fn fn, void *arg);

/* The functions below are collective: all workers of a run call them, in the function that ls_run_workers() calls, and
 * get equal results, except for times. If one fails, that function must return its status. A run of "eval" or
 * "generate" has no workers: its process calls ls_run_evaluate() or ls_run_generate(), and ls_run_hash(), itself. */

/* Runs one step. After SIGINT, SIGTERM, SIGHUP, SIGXCPU or SIGUSR2 to any worker, the step is finished (or abandoned,
 * if the option "grace" leaves no time for it), and all workers get LS_ERR_INTERRUPTED, LS_ERR_TERMINATED or
 * LS_ERR_REQUEUED. This is an orderly end: return the status after ls_run_save(). `out` may be NULL; the loss of an
 * abandoned step, which does not count, is NaN. */
ls_status ls_run_step(ls_run *run, ls_step *out);
/* Runs all steps up to the option "steps", with evaluations, samples and checkpoints as often as the options say, like
 * `lockstep train`. A run that a signal ended is saved and returns as ls_run_step() does. After another failure the
 * last step is saved if its state is sound. */
ls_status ls_run_train(ls_run *run);
/* Evaluates the validation data (with the options of "eval": all of "data"): loss, and accuracy of an image model. In a
 * training run LS_ERR_INPUT if there is none, and LS_OK with the loss NaN if a signal left no time for it. */
ls_status ls_run_evaluate(ls_run *run, ls_evaluation *out);
/* Saves a checkpoint of this step in the folder of the run, unless there is one, or a signal came before the first
 * step. It is on disk on return. */
ls_status ls_run_save(ls_run *run);

/* Receives text as it is generated, the prompt first, and not always whole characters; sets *stop to end. */
typedef ls_status (*ls_text_fn)(void *ctx, const char *text, size_t bytes, int *stop);
/* Generates text from a prompt (NULL: none), by the options "temperature", "top-k", "top-p", "seed" and "max-tokens",
 * and for "generate" also "stop". Ends at the end-of-text token. The callback `take` is called in the first worker
 * only. *tokens receives the number of generated tokens, without the one that ends the text, unless the call fails.
 * `take` and `tokens` may be NULL. */
ls_status ls_run_generate(ls_run *run, const char *prompt, ls_text_fn take, void *ctx, int64_t *tokens);

/* Returns the hash of all weights, which does not depend on the layout: runs with equal hashes have equal bits.
 * Collective. */
ls_status ls_run_hash(ls_run *run, char hash[LS_HASH_CHARS]);

typedef struct ls_run_state {
    const char *folder;   /* borrowed; NULL: none */
    const char *identity; /* hash of what the result depends on, borrowed; NULL: not known before ls_run_workers() */
    int64_t step, steps;  /* completed; total */
    uint64_t parameters;  /* 0: not known yet, as in a training run before its workers have begun */
    int rank, workers;    /* of this worker; before the start: 0, and the number of workers to come */
} ls_run_state;

/* Not collective; may be called before the workers are started. */
ls_run_state ls_run_get_state(const ls_run *run);

/* Checks that layouts give the bits of one worker. With the options of "train": the layout of that run, for `steps`
 * steps on the data of the setup. With the options of "verify": many layouts, or the one that they name, for as many
 * steps as they say, on generated data unless they name some; `steps` is 0, and `event` is called for each layout.
 * LS_OK: every loss, gradient and weight is equal. LS_ERR_FAILED: the message says what differs first. Starts workers
 * repeatedly; leaves no folder behind except that of the results, if "out" names one. */
ls_status ls_verify(const ls_run_setup *setup, int64_t steps);

/* ---- history of a run -------------------------------------------------------------------------------------------- */

/* The recorded series of a run (docs/reference/metrics.md), active or ended: each step once, in order, however often
 * the run was resumed, recovered or forked. Only reads files. One thread at a time. */
typedef struct ls_history ls_history;

/* Opens the records of the run in folder `run`, with those of the runs that it was forked from. The caller closes
 * *out. */
ls_status ls_history_open(const char *run, ls_history **out);
void ls_history_close(ls_history *history);
/* Reads what was recorded since the last call. *changed, which may be NULL, is 1 if there is anything new. */
ls_status ls_history_refresh(ls_history *history, int *changed);
/* Returns whether a process was working on the run at the last refresh. */
int ls_history_is_open(const ls_history *history);
/* Returns the name of a column that has numbers; NULL behind the last. "step", "loss", "lr", … are those of steps;
 * "val_step", "val_loss", … those of evaluations. */
const char *ls_history_column(const ls_history *history, size_t index);
/* Returns the number of values in a column, with those that were not recorded; 0 if there is no such column. */
size_t ls_history_count(const ls_history *history, const char *column);
/* Copies values `first` … `first` + `count` − 1, or fewer at the end. Returns their number. NaN: not recorded. */
size_t ls_history_read(const ls_history *history, const char *column, size_t first, size_t count, double *out);
/* Returns a JSON object with the lists "starts", "events" and "samples", the number "planned_steps", and, if the last
 * process recorded why it ended before the last step, that text as "stopped". Borrowed until the next refresh; NULL:
 * out of memory. */
const char *ls_history_json(ls_history *history);

/* ---- plans ------------------------------------------------------------------------------------------------------- */

typedef struct ls_plan ls_plan;

/* Searches for layouts that fit into memory, with the options of "plan", of which "model" and "cluster" are required.
 * The fastest comes first; of layouts within one percent, the simpler one. Nothing is run. For a cluster file that
 * `lockstep probe` wrote, and without "stack", the layouts are this program's own on that machine; otherwise those of
 * the program that "stack" names (default: Megatron, on CPUs this program). It is no failure if none fits. The options
 * must live until the plan is destroyed. */
ls_status ls_plan_make(const ls_options *options, ls_plan **out);
void ls_plan_destroy(ls_plan *plan);
/* Returns the number of layouts that fit and that the plan lists, the fastest first; 0: none fits. */
int ls_plan_count(const ls_plan *plan);
/* Returns a number of layout `index`: "seconds" of a step, "memory_bytes" of the largest worker, "capacity_bytes",
 * "micro_batches"; a knob such as "dp"; a part of the time or of the memory by its name in ls_plan_json(). −1: there is
 * no such number. */
double ls_plan_number(ls_plan *plan, int index, const char *name);
/* Returns the whole plan, as `lockstep plan --json` prints it, with the limits of the layouts, what would help, and how
 * they scale. Borrowed; NULL on failure. */
const char *ls_plan_json(ls_plan *plan);
/* Sets the options of train that run layout `index`. */
ls_status ls_plan_apply(const ls_plan *plan, int index, ls_options *train);

/* Measures this machine for plans of this program, in about half a minute, and writes a cluster file: "out", or the
 * place where the option "auto-layout" of train looks for it. Uses the options of "probe". Starts workers. */
ls_status ls_probe(const ls_options *options);

#ifdef __GNUC__
#    pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
