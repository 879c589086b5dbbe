/* state_log.c: writes and reads files of fixed slots, in place: a crash can tear one slot, which is detected because
 * its parts then do not add up to its sum. */
#include "run/folder/state_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/calls.h"
#include "numerics/state_sum.h"

enum { MAGIC_BYTES = 8, PARAMS_MAX = 1 << 20, WORKERS_MAX = 1 << 16 };

typedef struct header {
    char magic[MAGIC_BYTES];
    int32_t params, slots;
} header;

/* The begin of a slot; the parts follow it. `sum` is that of all workers. */
typedef struct slot_head {
    int64_t step, workers;
    ls_hash128 sum;
} slot_head;

struct ls_state_log {
    int file, workers;
    header head;
    slot_head *slot; /* with its parts behind it */
};

/* Returns the number of parts in a slot. */
static size_t parts_of(const header *h) { return (size_t)h->params * LS_STATE_TENSORS; }
/* Returns the bytes of a slot: its head and its parts. */
static size_t slot_bytes(const header *h) { return sizeof(slot_head) + parts_of(h) * sizeof(ls_hash128); }
/* Returns the offset of the slot of a step in the file. */
static off_t slot_at(const header *h, int64_t step) {
    size_t names = sizeof *h + (size_t)h->params * LS_PARAM_NAME_MAX;
    return (off_t)(names + (size_t)(step % h->slots) * slot_bytes(h));
}

/* Returns the header for so many parameters: as many slots as LS_STATE_LOG_BYTES allows, at least 2. */
static header header_of(int params) {
    header h = {.magic = "lsstate1", .params = params};
    size_t slots = LS_STATE_LOG_BYTES / slot_bytes(&h);
    h.slots = slots > LS_STATE_LOG_SLOTS ? LS_STATE_LOG_SLOTS : slots < 2 ? 2 : (int32_t)slots;
    return h;
}

/* Writes the path of a worker's file; returns false if it is too long. */
static bool path_of(char path[PATH_MAX], const char *dir, int worker) {
    return snprintf(path, PATH_MAX, "%s/state/worker-%d.sums", dir, worker) < PATH_MAX;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Fails with LS_ERR_RESOURCE and errno: the file cannot be written. */
static ls_status failed(const char *path) { return ls_fail_errno(LS_ERR_RESOURCE, "cannot write %s", path); }

/* Keeps a file with the same header; empties any other and writes names, then header. */
static ls_status begin_file(ls_state_log *log, const ls_model *model, const char *path) {
    header there;
    if (pread(log->file, &there, sizeof there, 0) == sizeof there && memcmp(&there, &log->head, sizeof there) == 0)
        return LS_OK;
    if (ftruncate(log->file, 0) != 0) return failed(path);
    for (int i = 0; i < model->nparams; i++) {
        char name[LS_PARAM_NAME_MAX] = "";
        snprintf(name, sizeof name, "%s", ls_model_param(model, i)->name);
        off_t at = (off_t)(sizeof log->head + (size_t)i * sizeof name);
        if (pwrite(log->file, name, sizeof name, at) != sizeof name) return failed(path);
    }
    return pwrite(log->file, &log->head, sizeof log->head, 0) == sizeof log->head ? LS_OK : failed(path);
}

ls_status ls_state_log_open(const char *dir, const ls_model *model, int worker, int workers, ls_state_log **out) {
    char path[PATH_MAX];
    *out = NULL;
    if (!path_of(path, dir, worker)) return ls_fail(LS_ERR_INPUT, "the path %.100s… is too long", dir);
    *strrchr(path, '/') = '\0';
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return ls_fail_errno(LS_ERR_RESOURCE, "cannot make %s", path);
    (void)path_of(path, dir, worker);
    ls_state_log *log = calloc(1, sizeof *log);
    if (!log) return ls_fail(LS_ERR_RESOURCE, "out of memory for the sums of a state");
    log->head = header_of(model->nparams);
    log->workers = workers;
    log->slot = calloc(1, slot_bytes(&log->head));
    log->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    ls_status status = log->file < 0 || !log->slot ? failed(path) : begin_file(log, model, path);
    if (status == LS_OK)
        *out = log;
    else
        ls_state_log_close(log);
    return status;
}

void ls_state_log_close(ls_state_log *log) {
    if (!log) return;
    if (log->file >= 0) close(log->file);
    free(log->slot);
    free(log);
}

ls_status ls_state_log_write(ls_state_log *log, int64_t step, ls_hash128 sum, const ls_hash128 *parts) {
    size_t bytes = slot_bytes(&log->head);
    *log->slot = (slot_head){.step = step, .workers = log->workers, .sum = sum};
    memcpy(log->slot + 1, parts, bytes - sizeof *log->slot);
    if (pwrite(log->file, log->slot, bytes, slot_at(&log->head, step)) == (ssize_t)bytes) return LS_OK;
    return ls_fail_errno(LS_ERR_RESOURCE, "cannot write the sums of step %lld", (long long)step);
}

/* ---- reading: nothing in a file is trusted ----------------------------------------------------------------------- */

/* Reads the header; returns false unless it is exactly one that header_of() makes. */
static bool read_head(int file, header *h) {
    if (pread(file, h, sizeof *h, 0) != sizeof *h || h->params < 1 || h->params > PARAMS_MAX) return false;
    header right = header_of(h->params);
    return memcmp(h, &right, sizeof right) == 0;
}

/* Reads the names of the parameters; returns false on a short file or without memory. */
static bool read_names(int file, const header *h, ls_state_record *out) {
    size_t bytes = (size_t)h->params * LS_PARAM_NAME_MAX;
    out->params = h->params;
    out->names = malloc(bytes);
    if (!out->names || pread(file, out->names, bytes, sizeof *h) != (ssize_t)bytes) return false;
    for (int i = 0; i < h->params; i++) out->names[i][LS_PARAM_NAME_MAX - 1] = '\0';
    return true;
}

/* Adds the parts of one worker for `step` to the record; worker 0, read first, tells how many workers there are, and
 * allocates. Returns false if the worker has no such step, or another sum than worker 0. */
static bool read_worker(const char *dir, int64_t step, int worker, ls_state_record *out, slot_head *first) {
    char path[PATH_MAX];
    header h;
    slot_head head;
    if (!path_of(path, dir, worker)) return false;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool whole = file >= 0 && read_head(file, &h) && (worker == 0 || h.params == out->params) &&
                 pread(file, &head, sizeof head, slot_at(&h, step)) == sizeof head && head.step == step &&
                 head.workers > worker && head.workers <= WORKERS_MAX;
    if (whole && worker == 0) {
        *first = head;
        out->workers = (int)head.workers;
        out->parts = calloc((size_t)out->workers * parts_of(&h), sizeof *out->parts);
        whole = out->parts && read_names(file, &h, out);
    }
    whole = whole && head.workers == first->workers && ls_hash_equal(head.sum, first->sum);
    size_t bytes = whole ? parts_of(&h) * sizeof(ls_hash128) : 0;
    off_t at = whole ? slot_at(&h, step) + (off_t)sizeof head : 0;
    whole = whole && pread(file, out->parts + (size_t)worker * parts_of(&h), bytes, at) == (ssize_t)bytes;
    if (file >= 0) close(file);
    return whole;
}

bool ls_state_record_read(const char *dir, int64_t step, ls_state_record *out) {
    slot_head first = {.step = -1};
    ls_hash128 sum = {0, 0};
    *out = (ls_state_record){0};
    bool whole = read_worker(dir, step, 0, out, &first);
    for (int w = 1; whole && w < out->workers; w++) whole = read_worker(dir, step, w, out, &first);
    size_t count = whole ? (size_t)out->workers * (size_t)out->params * LS_STATE_TENSORS : 0;
    for (size_t i = 0; i < count; i++) ls_state_add(&sum, out->parts[i]);
    if (whole && ls_hash_equal(sum, first.sum)) return true;
    ls_state_record_free(out);
    return false;
}

void ls_state_record_free(ls_state_record *record) {
    free(record->names);
    free(record->parts);
    *record = (ls_state_record){0};
}
