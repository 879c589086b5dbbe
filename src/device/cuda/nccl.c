/* nccl.c: links between GPUs by NCCL's sends and receives.
 *
 * Communicators are non-blocking: a call that would wait for another process returns at once, and the caller polls
 * until it is complete. Between polls the caller checks whether the other workers are alive, and can abort. */
#include "device/cuda/nccl.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Our own declarations of NCCL's interface. */
typedef int ncclResult_t;
typedef struct ncclComm *ncclComm_t;
typedef struct ncclConfig {
    size_t size;
    unsigned magic, version;
    int blocking;
} ncclConfig;

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_UINT8 = 1, NCCL_VERSION_MIN = 21400 };
static const unsigned config_magic = 0xcafebeef;

/* The functions that are looked up in the library: name, parameters. */
#define NCCL_CALLS(X)                                                                                                  \
    X(ncclGetVersion, (int *version))                                                                                  \
    X(ncclGetUniqueId, (ls_link_id * id))                                                                              \
    X(ncclCommInitRankConfig, (ncclComm_t * comm, int ranks, ls_link_id id, int rank, ncclConfig *config))             \
    X(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * state))                                                  \
    X(ncclCommAbort, (ncclComm_t comm))                                                                                \
    X(ncclGroupStart, (void))                                                                                          \
    X(ncclGroupEnd, (void))                                                                                            \
    X(ncclSend, (const void *memory, size_t count, int type, int peer, ncclComm_t comm, CUstream stream))              \
    X(ncclRecv, (void *memory, size_t count, int type, int peer, ncclComm_t comm, CUstream stream))

/* The loaded library; one for the process, never unloaded once it works. */
static struct {
    void *library;
    int version; /* 21400 is 2.14.0; 0: not loaded */
#define MEMBER(name, parameters) ncclResult_t(*name) parameters;
    NCCL_CALLS(MEMBER)
#undef MEMBER
    const char *(*ncclGetErrorString)(ncclResult_t result);
    const char *(*ncclGetLastError)(ncclComm_t comm);
} nccl;

struct ls_link {
    ncclComm_t comm;
    ncclResult_t failed; /* the first failure; it stays */
};

/* Stores the address of a function of NCCL in the function pointer at `out`. LS_ERR_INPUT of this machine if it is
 * missing. */
static ls_status find_nccl_symbol(const char *name, void *out) {
    void *symbol = dlsym(nccl.library, name);
    if (!symbol) return ls_fail_here(LS_ERR_INPUT, "libnccl.so.2 has no %s; NCCL 2.14 or newer is needed", name);
    memcpy(out, &symbol, sizeof symbol);
    return LS_OK;
}

/* Loads libnccl.so.2 and fills `nccl`; sets nccl.version last. LS_ERR_INPUT of this machine: it is absent, older
 * than 2.14, or lacks a function; the caller then unloads it. */
static ls_status load_nccl(void) {
    nccl.library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!nccl.library) return ls_fail_here(LS_ERR_INPUT, "NCCL is not here (%s)", dlerror());
#define LOAD(name, parameters) LS_TRY(find_nccl_symbol(#name, &nccl.name));
    NCCL_CALLS(LOAD)
#undef LOAD
    LS_TRY(find_nccl_symbol("ncclGetErrorString", &nccl.ncclGetErrorString));
    LS_TRY(find_nccl_symbol("ncclGetLastError", &nccl.ncclGetLastError));
    int version = 0;
    if (nccl.ncclGetVersion(&version) != NCCL_SUCCESS || version < NCCL_VERSION_MIN)
        return ls_fail_here(LS_ERR_INPUT, "NCCL has version %d.%d.%d, and 2.14 is needed",
                            version / (version < 10000 ? 1000 : 10000), version / 100 % (version < 10000 ? 10 : 100),
                            version % 100);
    nccl.version = version;
    return LS_OK;
}

/* Loads NCCL unless it is loaded. After a failure the next call tries again. */
static ls_status load_nccl_once(void) {
    if (nccl.version) return LS_OK;
    ls_status status = load_nccl();
    if (status != LS_OK && nccl.library) {
        (void)dlclose(nccl.library);
        nccl.library = NULL;
    }
    return status;
}

/* Converts a result of NCCL to a status; ncclInProgress is LS_OK. A failure is LS_ERR_FAILED with NCCL's text, and
 * stays in link->failed. `link` may be NULL. */
static ls_status check_nccl(ls_link *link, ncclResult_t result, const char *call) {
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) return LS_OK;
    if (link) link->failed = result;
    const char *more = nccl.ncclGetLastError(link ? link->comm : NULL);
    return ls_fail(LS_ERR_FAILED, "NCCL %d.%d.%d failed: %s: %s%s%.200s", nccl.version / 10000,
                   nccl.version / 100 % 100, nccl.version % 100, call, nccl.ncclGetErrorString(result),
                   more && *more ? "; " : "", more ? more : "");
}

ls_status ls_nccl_id(ls_link_id *out) {
    LS_TRY(load_nccl_once());
    return check_nccl(NULL, nccl.ncclGetUniqueId(out), "ncclGetUniqueId");
}

ls_status ls_nccl_open(const ls_link_id *id, int member, int members, ls_link **out) {
    *out = NULL;
    LS_TRY(load_nccl_once());
    ls_link *link = calloc(1, sizeof *link);
    if (!link) return ls_fail(LS_ERR_RESOURCE, "out of memory for a link");
    /* The version tells newer libraries to use their defaults for fields that this struct lacks. */
    ncclConfig config = {.size = sizeof config, .magic = config_magic, .version = NCCL_VERSION_MIN, .blocking = 0};
    ncclResult_t result = nccl.ncclCommInitRankConfig(&link->comm, members, *id, member, &config);
    ls_status status = check_nccl(link, result, "ncclCommInitRankConfig");
    if (status == LS_OK)
        *out = link;
    else
        ls_nccl_close(link, false);
    return status;
}

ls_status ls_nccl_settled(ls_link *link, bool *out) {
    ncclResult_t state = link->failed;
    *out = false;
    if (!state) LS_TRY(check_nccl(link, nccl.ncclCommGetAsyncError(link->comm, &state), "ncclCommGetAsyncError"));
    LS_TRY(check_nccl(link, state, "between machines"));
    *out = state == NCCL_SUCCESS;
    return LS_OK;
}

ls_status ls_nccl_move(ls_link *link, const ls_link_piece *pieces, int count, CUstream stream) {
    LS_TRY(check_nccl(link, nccl.ncclGroupStart(), "ncclGroupStart"));
    ncclResult_t result = NCCL_SUCCESS;
    for (int i = 0; i < count && (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS); i++) {
        const ls_link_piece *p = &pieces[i];
        if (!p->bytes) continue;
        result = p->sends ? nccl.ncclSend(p->memory, p->bytes, NCCL_UINT8, p->member, link->comm, stream)
                          : nccl.ncclRecv(p->memory, p->bytes, NCCL_UINT8, p->member, link->comm, stream);
    }
    ncclResult_t ended = nccl.ncclGroupEnd();
    LS_TRY(check_nccl(link, result, "ncclSend and ncclRecv"));
    return check_nccl(link, ended, "ncclGroupEnd");
}

void ls_nccl_close(ls_link *link, bool left) {
    if (link->comm && !left) (void)nccl.ncclCommAbort(link->comm);
    free(link);
}
