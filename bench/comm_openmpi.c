/* comm_openmpi.c: the peer of `lockstep bench comm`, a plain MPI program (Open MPI, MPICH).
 *
 *   mpirun -n W comm_openmpi allreduce,sendrecv 4096 1048576
 *
 * prints "op size_bytes time_us" for each. The method is that of src/lab/bench/comm.c, so that the two columns can
 * be compared: the same buffers and numbers, one checked call, batches that grow until one is long enough to tell how
 * many calls fill BATCH_S, then SAMPLES batches behind barriers; the slowest rank of each, and the median of these. */
#include <errno.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 5, REPEATS_MAX = 20000 };
static const double BATCH_S = 0.02;
static const double EXPLORE_S = 0.004;

typedef enum op { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, SEND_RECV, OP_COUNT } op;
static const char *const op_names[OP_COUNT] = {"allreduce", "reducescatter", "allgather", "sendrecv"};

typedef struct vector {
    int rank, size;
    int elems;
    float *in, *out;
    int *first, *count; /* even shards */
} vector;

static void fail(const char *what, const char *value) {
    fprintf(stderr, "comm_openmpi: %s %s\n", what, value);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static unsigned base_of(size_t i) { return (uint32_t)i * 2654435761u >> 22; }

static void vector_resize(vector *v, size_t bytes) {
    v->elems = (int)(bytes / sizeof(float));
    for (int r = 0; r < v->size; r++) {
        long long lo = (long long)v->elems * r / v->size, hi = (long long)v->elems * (r + 1) / v->size;
        v->first[r] = (int)lo;
        v->count[r] = (int)(hi - lo);
    }
}

static void ping_pong(const vector *v) {
    if (v->rank == 0) {
        MPI_Send(v->in, v->elems, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(v->out, v->elems, MPI_FLOAT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (v->rank == 1) {
        MPI_Recv(v->out, v->elems, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(v->in, v->elems, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
    }
}

static void call_once(const vector *v, op o) {
    int even = v->elems % v->size == 0, mine = v->count[v->rank];
    switch (o) {
    case ALL_REDUCE: MPI_Allreduce(v->in, v->out, v->elems, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
    case REDUCE_SCATTER:
        if (even)
            MPI_Reduce_scatter_block(v->in, v->out, mine, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        else
            MPI_Reduce_scatter(v->in, v->out, v->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case ALL_GATHER:
        if (even)
            MPI_Allgather(v->in, mine, MPI_FLOAT, v->out, mine, MPI_FLOAT, MPI_COMM_WORLD);
        else
            MPI_Allgatherv(v->in, mine, MPI_FLOAT, v->out, v->count, v->first, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    default: ping_pong(v); break;
    }
}

/* Element i of rank r's input is base(i) + r: every sum is exact. */
static float expected(const vector *v, op o, int i) {
    unsigned w = (unsigned)v->size;
    if (o == SEND_RECV) return (float)(base_of((size_t)i) + (unsigned)(1 - v->rank));
    if (o == ALL_GATHER) {
        int r = v->size - 1;
        while (v->first[r] > i) r--;
        return (float)(base_of((size_t)(i - v->first[r])) + (unsigned)r);
    }
    if (o == REDUCE_SCATTER) i += v->first[v->rank];
    return (float)(w * base_of((size_t)i) + w * (w - 1) / 2);
}

static void check(const vector *v, op o) {
    int elems = o == REDUCE_SCATTER ? v->count[v->rank] : v->elems;
    if (o == SEND_RECV && v->rank > 1) return;
    for (int i = 0; i < elems; i++)
        if (v->out[i] != expected(v, o, i)) fail("wrong result of", op_names[o]);
}

static double time_batch(const vector *v, op o, int repeats) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < repeats; i++) call_once(v, o);
    return MPI_Wtime() - start;
}

static int choose_repeats(const vector *v, op o) {
    double seconds;
    int repeats = 1;
    for (;; repeats *= 4) {
        seconds = time_batch(v, o, repeats);
        MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (seconds >= EXPLORE_S || repeats * 4 > REPEATS_MAX) break;
    }
    double wanted = BATCH_S * repeats / (seconds > 0 ? seconds : 1e-9);
    return wanted < 1 ? 1 : wanted > REPEATS_MAX ? REPEATS_MAX : (int)wanted;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median over samples of the slowest rank's seconds a call; on rank 0. */
static double measure(const vector *v, op o) {
    double slowest[SAMPLES] = {0};
    memset(v->out, 0xff, (size_t)v->elems * sizeof(float));
    MPI_Barrier(MPI_COMM_WORLD);
    call_once(v, o);
    check(v, o);
    int repeats = choose_repeats(v, o);
    double calls = o == SEND_RECV ? 2.0 * repeats : repeats;
    for (int sample = 0; sample < SAMPLES; sample++) {
        double seconds = time_batch(v, o, repeats) / calls;
        if (o == SEND_RECV && v->rank > 1) seconds = 0;
        MPI_Reduce(&seconds, &slowest[sample], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    }
    qsort(slowest, SAMPLES, sizeof slowest[0], compare_doubles);
    return slowest[SAMPLES / 2];
}

static void print_library(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int chars = 0;
    MPI_Get_library_version(text, &chars);
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\t') *c = ' ';
    printf("# library %.*s\n", (int)strcspn(text, ",\n"), text);
}

static size_t read_size(const char *text) {
    char *end = NULL;
    errno = 0;
    unsigned long long bytes = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || bytes < sizeof(float) || bytes / sizeof(float) > INT32_MAX)
        fail("no size in bytes:", text);
    return (size_t)bytes;
}

static void read_ops(const char *list, int wanted[OP_COUNT]) {
    for (const char *name = list;; name++) {
        size_t chars = strcspn(name, ",");
        int o = 0;
        while (o < OP_COUNT && (strlen(op_names[o]) != chars || strncmp(op_names[o], name, chars) != 0)) o++;
        if (o == OP_COUNT) {
            fail("unknown operation in", list);
            return;
        }
        wanted[o] = 1;
        name += chars;
        if (*name == '\0') return;
    }
}

static void *allocate(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes) != 0) fail("out of memory", "");
    return memory;
}

int main(int argc, char **argv) {
    vector v = {0};
    int wanted[OP_COUNT] = {0};
    size_t max_bytes = sizeof(float);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &v.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &v.size);
    if (argc < 3) fail("usage: mpirun -n W comm_openmpi", "OP,OP… SIZE_BYTES…");
    read_ops(argv[1], wanted);
    if (v.size < 2) wanted[SEND_RECV] = 0;
    for (int a = 2; a < argc; a++) max_bytes = read_size(argv[a]) > max_bytes ? read_size(argv[a]) : max_bytes;
    v.first = allocate((size_t)v.size * sizeof(int));
    v.count = allocate((size_t)v.size * sizeof(int));
    v.in = allocate(max_bytes);
    v.out = allocate(max_bytes);
    for (size_t i = 0; i < max_bytes / sizeof(float); i++) v.in[i] = (float)(base_of(i) + (unsigned)v.rank);
    if (v.rank == 0) print_library();
    for (int a = 2; a < argc; a++) {
        size_t bytes = read_size(argv[a]);
        vector_resize(&v, bytes);
        for (int o = 0; o < OP_COUNT; o++) {
            if (!wanted[o]) continue;
            double seconds = measure(&v, (op)o);
            if (v.rank == 0) printf("%s %zu %.4f\n", op_names[o], bytes, 1e6 * seconds);
        }
    }
    free(v.first);
    free(v.count);
    free(v.in);
    free(v.out);
    MPI_Finalize();
    return fflush(stdout) == 0 ? 0 : 1;
}
