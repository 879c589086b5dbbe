/* mpi.c: workers that mpirun or srun started.
 *
 * MPI carries all bytes between machines. Workers of one machine map one segment: the first of them creates it, the
 * others open it through /proc. If the system forbids that, each worker counts as a machine of its own, and everything
 * goes through MPI.
 *
 * MPI has no timeouts, so two checks guard the start. A launcher of another MPI gives every process a world of size 1,
 * which is an error here. An alarm ends the process if MPI_Init does not return. Signals that would end the process are
 * held until MPI_Init has returned, because Open MPI's mpirun may hang if a process dies while it registers. */
#ifdef LS_HAVE_MPI
#    include <mpi.h>
#    include <signal.h>
#    include <stdio.h>
#    include <stdlib.h>
#    include <string.h>
#    include <unistd.h>

#    include "base/cpu.h"
#    include "base/log.h"
#    include "comm/communicators/communicators.h"
#    include "comm/launch/launcher.h"
#    include "comm/launch/signals.h"
#    include "comm/transports/open.h"
#    include "comm/transports/transports.h"

enum { INIT_PATIENCE_S = 120, STOP_PATIENCE_S = 3, END_PATIENCE_S = 5 };
static const size_t piece_bytes = (size_t)1 << 30; /* MPI counts with an int */

_Static_assert(sizeof(MPI_Request) <= sizeof(((ls_net_request *)0)->handle[0]), "a request must fit its handle");

/* Returns LS_OK for MPI_SUCCESS, else LS_ERR_FAILED with MPI's text and `what` was called. */
static ls_status check_mpi(int code, const char *what) {
    if (code == MPI_SUCCESS) return LS_OK;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    return ls_fail(LS_ERR_FAILED, "MPI: %s failed: %s", what, text);
}

#    ifdef __SANITIZE_ADDRESS__
#        include <sanitizer/lsan_interface.h>
/* Switches the leak check of LeakSanitizer off once MPI has been initialized. Plugins of an MPI leak memory, and no
 * suppression can name them, because they are unloaded before the leak check. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void) {
    int begun = 0;
    MPI_Initialized(&begun);
    return begun;
}
#    endif

/* ---- messages ---------------------------------------------------------------------------------------------------- */

typedef struct lanes {
    MPI_Comm lane[LS_NET_LANES];
} lanes;

/* Makes the MPI communicators of `comm`, one for each lane, and stores them in comm->net: the first by splitting that
 * of `parent` (NULL: the world) by color and key, the others as duplicates of it. Collective over `parent`: a member
 * that is in none of the new communicators calls this, too, with comm NULL. */
static ls_status comm_open(ls_comm *parent, ls_comm *comm, int color, int key) {
    MPI_Comm from = parent ? ((lanes *)parent->net)->lane[LS_NET_COLLECTIVE] : MPI_COMM_WORLD;
    MPI_Comm made[LS_NET_LANES];
    LS_TRY(check_mpi(MPI_Comm_split(from, comm ? color : MPI_UNDEFINED, key, &made[0]), "MPI_Comm_split"));
    if (!comm) return LS_OK;
    for (int i = 1; i < LS_NET_LANES; i++) LS_TRY(check_mpi(MPI_Comm_dup(made[0], &made[i]), "MPI_Comm_dup"));
    lanes *l = malloc(sizeof *l);
    if (!l) return ls_fail(LS_ERR_RESOURCE, "out of memory for a communicator");
    memcpy(l->lane, made, sizeof made);
    for (int i = 0; i < LS_NET_LANES; i++) MPI_Comm_set_errhandler(l->lane[i], MPI_ERRORS_RETURN);
    comm->net = l;
    return LS_OK;
}

/* Frees the communicator's lanes. Collective over its members. */
static void comm_close(ls_comm *comm) {
    lanes *l = comm->net;
    for (int i = 0; i < LS_NET_LANES; i++) MPI_Comm_free(&l->lane[i]);
    free(l);
    comm->net = NULL;
}

/* Returns MPI's request for one piece of a message, which lies in the transport-independent struct. */
static MPI_Request *handle(ls_net_request *request, int piece) {
    return (MPI_Request *)(void *)&request->handle[piece];
}

/* Sets the number of pieces, at most 1 GiB each and at least one; LS_ERR_INPUT: the message is too long. */
static ls_status count_pieces(size_t bytes, ls_net_request *request) {
    size_t pieces = bytes ? (bytes - 1) / piece_bytes + 1 : 1;
    if (pieces > LS_NET_PIECES)
        return ls_fail(LS_ERR_INPUT, "a message of %zu GiB between machines exceeds the limit of %d GiB", bytes >> 30,
                       LS_NET_PIECES);
    request->pieces = (int)pieces;
    return LS_OK;
}

/* Returns the bytes of a piece of a message. */
static int piece_length(size_t bytes, int piece) {
    size_t left = bytes - (size_t)piece * piece_bytes;
    return (int)(left < piece_bytes ? left : piece_bytes);
}

/* Returns the address of a piece. An empty message may have no address to count from. */
static void *piece_at(const void *data, int piece) {
    char *begin = (char *)(uintptr_t)data;
    return piece ? begin + (size_t)piece * piece_bytes : begin;
}

/* Starts to send a message, in pieces; ls_transport.send. */
static ls_status net_send(ls_comm *comm, ls_net_lane lane, int to, int tag, const void *data, size_t bytes,
                          ls_net_request *out) {
    LS_TRY(count_pieces(bytes, out));
    for (int i = 0; i < out->pieces; i++)
        LS_TRY(check_mpi(MPI_Isend(piece_at(data, i), piece_length(bytes, i), MPI_BYTE, to, tag,
                                   ((lanes *)comm->net)->lane[lane], handle(out, i)),
                         "sending"));
    return LS_OK;
}

/* Starts to receive a message, in pieces; ls_transport.recv. */
static ls_status net_recv(ls_comm *comm, ls_net_lane lane, int from, int tag, void *data, size_t bytes,
                          ls_net_request *out) {
    LS_TRY(count_pieces(bytes, out));
    for (int i = 0; i < out->pieces; i++)
        LS_TRY(check_mpi(MPI_Irecv(piece_at(data, i), piece_length(bytes, i), MPI_BYTE, from, tag,
                                   ((lanes *)comm->net)->lane[lane], handle(out, i)),
                         "receiving"));
    return LS_OK;
}

/* Tests the pieces from the last one on, and says in *done whether all have been sent or received. */
static ls_status net_test(ls_net_request *request, bool *done) {
    while (request->pieces > 0) {
        int arrived = 0;
        LS_TRY(check_mpi(MPI_Test(handle(request, request->pieces - 1), &arrived, MPI_STATUS_IGNORE), "MPI_Test"));
        if (!arrived) break;
        request->pieces--;
    }
    *done = request->pieces == 0;
    return LS_OK;
}

/* Lets MPI advance its messages: it does so only inside calls. */
static void net_poke(void) {
    int there;
    (void)MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

enum { WORD_INTS = sizeof(ls_net_word) / sizeof(int) };

/* The words of this process, which is one worker. Each kind has its own slot, so that kinds do not block each other. */
static struct {
    MPI_Comm comm;
    MPI_Request *under_way[LS_NET_WORDS]; /* by rank */
    ls_net_word word[LS_NET_WORDS];
} words;

/* Makes the communicator for control words, and one slot to send from for each kind and rank. */
static ls_status open_words(int size) {
    for (int k = 0; k < LS_NET_WORDS; k++) {
        words.under_way[k] = malloc(sizeof(MPI_Request) * (size_t)size);
        if (!words.under_way[k]) return ls_fail(LS_ERR_RESOURCE, "out of memory for %d workers", size);
        for (int r = 0; r < size; r++) words.under_way[k][r] = MPI_REQUEST_NULL;
    }
    LS_TRY(check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &words.comm), "MPI_Comm_dup"));
    MPI_Comm_set_errhandler(words.comm, MPI_ERRORS_RETURN);
    return LS_OK;
}

/* Starts to send a control word to all workers of other machines; drops it if the last one of its kind is still in
 * flight. */
static void net_tell(ls_world *world, ls_net_word word) {
    int done = 1;
    for (int r = 0; r < world->size && done; r++)
        if (MPI_Test(&words.under_way[word.kind][r], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
    if (!done) return;
    words.word[word.kind] = word;
    for (int r = 0; r < world->size; r++)
        if (world->machines.of[r] != world->machines.of[world->rank])
            (void)MPI_Isend(&words.word[word.kind], WORD_INTS, MPI_INT, r, 0, words.comm,
                            &words.under_way[word.kind][r]);
}

/* Receives a control word if one has arrived; false: none. */
static bool net_hear(ls_net_word *word) {
    int there = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, words.comm, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS || !there) return false;
    return MPI_Recv(word, WORD_INTS, MPI_INT, MPI_ANY_SOURCE, 0, words.comm, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

/* Receives and drops the words that are still in flight, because MPI must not end with pending messages, and frees the
 * slots. Collective. */
static void close_words(ls_world *world) {
    ls_net_word word;
    (void)MPI_Barrier(words.comm);
    while (net_hear(&word)) continue;
    for (int k = 0; k < LS_NET_WORDS; k++) {
        for (int r = 0; r < world->size; r++) (void)MPI_Wait(&words.under_way[k][r], MPI_STATUS_IGNORE);
        free(words.under_way[k]);
        words.under_way[k] = NULL;
    }
    (void)MPI_Comm_free(&words.comm);
}

/* ---- the world --------------------------------------------------------------------------------------------------- */

typedef struct invitation {
    int pid, good;
    ls_segment segment;
} invitation;

/* Creates one segment for the members of `machine`; *shared says whether all of them could map it. */
static ls_status share_segment(MPI_Comm machine, const ls_workers_options *options, ls_world *world, bool *shared) {
    invitation from_first = {0};
    ls_status status = LS_OK;
    if (world->machines.local == 0) {
        status = ls_segment_create(world->machines.local_size, options->heap_bytes,
                                   ls_comm_control_bytes(world->machines.local_size), &world->segment);
        from_first = (invitation){(int)getpid(), status == LS_OK, world->segment};
    }
    LS_TRY(check_mpi(MPI_Bcast(&from_first, sizeof from_first, MPI_BYTE, 0, machine),
                     "sharing the shared-memory handle (MPI_Bcast)"));
    if (!from_first.good)
        return status != LS_OK ? status : ls_fail(LS_ERR_PEER, "the first worker on this machine failed");
    int good = world->machines.local == 0 ||
               ls_segment_join((pid_t)from_first.pid, &from_first.segment, &world->segment) == LS_OK;
    int all_good = 0;
    LS_TRY(check_mpi(MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, machine),
                     "setting up shared memory (MPI_Allreduce)"));
    *shared = all_good;
    if (!all_good) ls_segment_close(&world->segment);
    return LS_OK;
}

/* Fills world->machines on every worker: for each rank the first rank of its machine, its number there, and the host
 * name. `machine_first`: the first rank of this worker's machine. */
static ls_status gather_places(ls_world *world, int machine_first) {
    size_t n = (size_t)world->size;
    world->machines.of = malloc(sizeof(int) * n);
    world->machines.local_of = malloc(sizeof(int) * n);
    world->machines.host_of = malloc(sizeof *world->machines.host_of * n);
    if (!world->machines.of || !world->machines.local_of || !world->machines.host_of)
        return ls_fail(LS_ERR_RESOURCE, "out of memory for %d workers", world->size);
    ls_host_name host = "";
    ls_host_name_get(host);
    LS_TRY(check_mpi(
        MPI_Allgather(host, LS_HOST_MAX, MPI_CHAR, world->machines.host_of, LS_HOST_MAX, MPI_CHAR, MPI_COMM_WORLD),
        "exchanging host names (MPI_Allgather)"));
    LS_TRY(check_mpi(MPI_Allgather(&machine_first, 1, MPI_INT, world->machines.of, 1, MPI_INT, MPI_COMM_WORLD),
                     "exchanging worker locations (MPI_Allgather)"));
    return check_mpi(
        MPI_Allgather(&world->machines.local, 1, MPI_INT, world->machines.local_of, 1, MPI_INT, MPI_COMM_WORLD),
        "exchanging worker locations (MPI_Allgather)");
}

/* Finds the workers of this machine (all, or node_size of them) and shares memory with them; if the system forbids
 * that, warns, and this worker counts as a machine of its own. *on_machine: number of all workers on the machine. */
static ls_status find_machine(const ls_workers_options *options, ls_world *world, int *on_machine) {
    MPI_Comm all, near;
    LS_TRY(check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world->rank, MPI_INFO_NULL, &all),
                     "finding the workers of this machine (MPI_Comm_split_type)"));
    int place;
    MPI_Comm_rank(all, &place);
    MPI_Comm_size(all, on_machine);
    int node = options->node_size > 0 ? options->node_size : LS_WORKERS_MAX;
    LS_TRY(check_mpi(MPI_Comm_split(all, place / node, place, &near),
                     "finding the workers of this machine (MPI_Comm_split)"));
    MPI_Comm_rank(near, &world->machines.local);
    MPI_Comm_size(near, &world->machines.local_size);
    bool shared = false;
    int first = world->rank;
    ls_status status = LS_OK;
    if (world->machines.local_size > 1) status = share_segment(near, options, world, &shared);
    if (status == LS_OK && shared) {
        status = check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, near), "finding the workers of this machine (MPI_Bcast)");
    } else if (status == LS_OK) {
        if (world->machines.local_size > 1 && world->machines.local == 0)
            ls_log_warn("the workers on this machine are not allowed to share memory: all traffic goes through MPI");
        world->machines.local = 0;
        world->machines.local_size = 1;
    }
    if (status == LS_OK) status = gather_places(world, first);
    MPI_Comm_free(&near);
    MPI_Comm_free(&all);
    return status;
}

/* Ends the process, by the signal that came meanwhile or with an error. Handler of SIGALRM during MPI_Init, which may
 * call little more than write, raise and _exit. */
static void give_up_on_init(int number) {
    static const char text[] = "lockstep: error: MPI_Init did not return within two minutes; check that all processes "
                               "were started, and by the same MPI that lockstep was built with\n";
    (void)number;
    int stopped_by = ls_signals_came();
    if (stopped_by) {
        (void)signal(stopped_by, SIG_DFL);
        (void)raise(stopped_by);
    }
    ssize_t ignored = write(2, text, sizeof text - 1);
    (void)ignored;
    _exit(4);
}

/* Calls MPI_Init under an alarm and with signals held, and returns MPI's code; a signal that came meanwhile takes
 * effect at the end. */
static int init_guarded(void) {
    struct sigaction alarm_action = {.sa_handler = give_up_on_init}, before_alarm;
    ls_held_signals held;
    (void)sigaction(SIGALRM, &alarm_action, &before_alarm);
    ls_signals_hold(&held, STOP_PATIENCE_S);
    (void)alarm(INIT_PATIENCE_S);
    int provided, code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    (void)alarm(0);
    (void)sigaction(SIGALRM, &before_alarm, NULL);
    ls_signals_let_go(&held);
    return code;
}

#    ifdef OPEN_MPI
#        define PMI_NAME "pmix"
#    else
#        define PMI_NAME "pmi2"
#    endif

/* Returns LS_ERR_INPUT if srun started this process without a process management interface (PMI). Open MPI would then
 * end the process with a page of text, and MPICH would give each process its own world. */
static ls_status check_pmi(const ls_launcher *launcher) {
    if (ls_launcher_has_pmi(launcher)) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "srun started %d processes without a PMI, so MPI cannot connect them: use srun --mpi=" PMI_NAME
                   " or export SLURM_MPI_TYPE=" PMI_NAME " (srun --mpi=list names those of this system)",
                   launcher->size);
}

/* Initializes MPI and checks that its world has as many processes as the launcher started; *ours: this call did it, so
 * this transport must finalize it. If the program has called MPI_Init itself, checks nothing, and the program finalizes
 * MPI. */
static ls_status init_mpi(const ls_launcher *launcher, bool *ours) {
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (ended)
        return ls_fail(LS_ERR_INPUT,
                       "MPI cannot be initialized again in this process: MPI_Finalize was called already");
    *ours = !begun;
    if (begun) return LS_OK;
    LS_TRY(check_pmi(launcher));
    LS_TRY(check_mpi(init_guarded(), "MPI_Init"));
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size == launcher->size) return LS_OK;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = 0;
    for (char *tab = version; (tab = strchr(tab, '\t'));) *tab = ' ';
    MPI_Finalize();
    return ls_fail(LS_ERR_INPUT,
                   "%s started %d processes, but MPI reports a world size of %d: this lockstep was built with %s; use "
                   "the launcher of that MPI",
                   launcher->name, launcher->size, size, version);
}

/* Makes the world from MPI's ranks, shares memory on each machine, chooses the number of threads, and opens the world.
 * Collective. */
static ls_status make_world(const ls_workers_options *options, ls_world *world) {
    *world = (ls_world){.transport = &ls_transport_mpi, .segment = {.fd = -1}};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world->size);
    int on_machine = 1;
    LS_TRY(find_machine(options, world, &on_machine));
    LS_TRY(open_words(world->size));
    /* The launcher has placed the workers. If it bound them to cores, this worker owns its cores; otherwise all workers
     * share those of the machine. */
    int cores = ls_cpu_count();
    bool bound = cores < (int)sysconf(_SC_NPROCESSORS_ONLN);
    int fair = bound ? cores : cores / on_machine;
    world->threads = options->threads > 0 ? options->threads : fair > 0 ? fair : 1;
    bool crowded = (int64_t)world->threads * (bound ? 1 : on_machine) > cores;
    LS_TRY(ls_world_open(world, options, NULL, crowded));
    if (crowded && world->rank == 0)
        ls_log_warn("%d workers with %d thread%s on %d core%s: more threads than cores, expect no speed-up", on_machine,
                    world->threads, world->threads == 1 ? "" : "s", cores, cores == 1 ? "" : "s");
    return ls_comm_barrier(world->comm);
}

/* Logs this worker's failure and aborts the whole job, because MPI cannot notify the other workers; does not return. If
 * another worker failed first, waits 5 s for its abort, then aborts too. Not called after a signal to stop, on which
 * all workers have agreed. */
static void end_job(const ls_world *world, ls_status status) {
    const ls_failure *failure = world->segment.base ? &world->segment.header->failure : NULL;
    if (status == LS_ERR_PEER) {
        /* The failed worker aborts the job after it has recorded which worker is to blame. Only if it hangs does this
         * worker log the failure. */
        sleep(END_PATIENCE_S);
        if (failure && atomic_load(&failure->state) == 2 && failure->status != LS_ERR_PEER) {
            ls_log_write(LS_LOG_ERROR, "%s", failure->message);
            status = failure->status;
        }
    } else {
        ls_log_write(LS_LOG_ERROR, "%s", ls_status_message());
    }
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, ls_status_exit_code(status));
}

/* The process that finalizes MPI, when it exits. A launcher kills all processes as soon as one has exited with a status
 * other than 0, while rank 0 may still have files to close and a line to print. In MPI_Finalize the others wait until
 * rank 0 is about to exit, too. */
static pid_t finalizing_pid;

/* Finalizes MPI at the exit of the process that initialized it; not in its forked children. */
static void finalize_mpi(void) {
    int ended = 0;
    if (getpid() != finalizing_pid) return; /* a child that was forked */
    MPI_Finalized(&ended);
    if (!ended) MPI_Finalize();
}

/* Registers finalize_mpi() for the exit of this process; if that fails, finalizes now. */
static void finalize_at_exit(void) {
    finalizing_pid = getpid();
    if (atexit(finalize_mpi) != 0) finalize_mpi();
}

/* Runs `fn` in this process as one worker of MPI's world. A failure after MPI_Init, but not a signal to stop, aborts
 * the whole job and does not return. */
static ls_status run_under_mpi(const ls_workers_options *options, ls_worker_fn fn, void *arg) {
    ls_launcher launcher = ls_launcher_detect();
    bool ours = false;
    LS_TRY(init_mpi(&launcher, &ours));
    ls_log_set_worker(launcher.rank);
    ls_world world;
    ls_status status = make_world(options, &world);
    if (status == LS_OK) status = fn(&world, arg);
    if (status != LS_OK && !ls_status_is_stop(status)) {
        ls_world_fail(&world, status);
        end_job(&world, status);
    }
    if (world.segment.base) atomic_store(&world.segment.header->workers[world.machines.local].ended, LS_ENDED);
    close_words(&world);
    ls_world_close(&world);
    if (ours) finalize_at_exit();
    return status;
}

const ls_transport ls_transport_mpi = {.name = "mpi",
                                       .run = run_under_mpi,
                                       .comm_open = comm_open,
                                       .comm_close = comm_close,
                                       .send = net_send,
                                       .recv = net_recv,
                                       .test = net_test,
                                       .poke = net_poke,
                                       .tell = net_tell,
                                       .hear = net_hear};
#else
typedef int ls_transport_mpi_is_not_built; /* a file must hold something */
#endif
