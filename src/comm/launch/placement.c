/* placement.c: lists the usable cores, claims them for this run, and divides them among workers. */
#include "comm/launch/placement.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef LS_HAVE_HWLOC
#    include <hwloc.h>
#endif

#include "base/cpu.h"
#include "base/log.h"
#include "comm/launch/claim.h"

#ifdef LS_HAVE_HWLOC
/* Lists the allowed CPUs with hwloc, one of each core first, and returns their number; 0: hwloc failed. *cores: how
 * many of them are the first of their core. */
static int list_with_hwloc(const cpu_set_t *allowed, int *cpus, int capacity, int *cores) {
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) return 0;
    int used = 0;
    /* Finding I/O devices would take most of the time. */
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
    if (hwloc_topology_load(topology) == 0) {
        int n = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
        for (unsigned thread = 0, found = 1; found; thread++) {
            found = 0;
            for (int c = 0; c < n && used < capacity; c++) {
                hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)c);
                hwloc_obj_t unit = hwloc_get_obj_inside_cpuset_by_type(topology, core->cpuset, HWLOC_OBJ_PU, thread);
                if (!unit) continue;
                found = 1;
                if (unit->os_index < CPU_SETSIZE && CPU_ISSET(unit->os_index, allowed))
                    cpus[used++] = (int)unit->os_index;
            }
            if (thread == 0) *cores = used;
        }
    }
    hwloc_topology_destroy(topology);
    return used;
}
#endif

static cpu_set_t left_out; /* cores that compute wrong results */

/* Lists the CPUs that this process may use, one of each core first, then the other hyperthreads. Returns their number,
 * and in *cores the number of cores. */
static int list_cpus(int *cpus, int capacity, int *cores) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
    int used = 0;
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &left_out)) CPU_CLR(c, &allowed);
#ifdef LS_HAVE_HWLOC
    used = list_with_hwloc(&allowed, cpus, capacity, cores);
    if (used > 0) return used;
#endif
    for (int c = 0; c < CPU_SETSIZE && used < capacity; c++)
        if (CPU_ISSET(c, &allowed)) cpus[used++] = c;
    *cores = used;
    return used;
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

/* Cores that other processes have claimed. */
typedef struct taken {
    int own;      /* number claimed by runs of this user */
    int foreign;  /* number claimed by others, listed in `cpus` */
    int *cpus;    /* space for all */
    unsigned uid; /* first known user of those, if `is_known` */
    bool is_known;
} taken;

/* Claims the first `wanted` free CPUs of n and moves them to the front. Claims none and returns false if fewer are
 * free. */
static bool claim_all(int *cpus, int n, int wanted, int *claims, taken *by) {
    int got = 0;
    for (int c = 0; c < n && got < wanted; c++) {
        ls_claim_holder holder;
        unsigned uid;
        int fd = ls_claim_cpu(cpus[c], &holder, &uid);
        if (fd >= 0) {
            claims[got] = fd;
            cpus[got++] = cpus[c];
        } else if (holder == LS_CLAIM_OWN) {
            by->own++;
        } else if (holder != LS_CLAIM_NONE) {
            by->cpus[by->foreign++] = cpus[c];
            if (holder == LS_CLAIM_OTHER && !by->is_known) by->uid = uid;
            by->is_known |= holder == LS_CLAIM_OTHER;
        }
    }
    if (got == wanted) return true;
    while (got > 0) close(claims[--got]);
    return false;
}

/* Orders numbers for qsort(). */
static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Logs why this run is not pinned although it should be; once for each process, which may make many runs. Claims of the
 * user's own runs are no reason for a warning. */
static void log_taken_cores(taken *by) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    char cores[80], owner[48] = "another program";
    if (by->own + by->foreign == 0 || atomic_flag_test_and_set(&told)) return;
    if (by->foreign == 0) {
        ls_log_info("other runs are pinned to %d core%s of this machine: this run is not pinned", by->own,
                    by->own == 1 ? "" : "s");
        return;
    }
    qsort(by->cpus, (size_t)by->foreign, sizeof *by->cpus, ascending);
    ls_claim_list(by->cpus, by->foreign, cores, sizeof cores);
    if (by->is_known) snprintf(owner, sizeof owner, "another user (uid %u)", by->uid);
    ls_log_warn("core%s %s %s claimed by %s: this run is not pinned to cores and may be slower; --no-pin runs "
                "unpinned without this warning",
                by->foreign == 1 ? "" : "s", cores, by->foreign == 1 ? "is" : "are", owner);
}

/* Claims `wanted` CPUs and moves them to the front of the list; false: none is claimed, and the log says why. */
static bool claim_or_log(int *cpus, int n, int wanted, int *claims) {
    taken by = {.cpus = malloc((size_t)n * sizeof *by.cpus)};
    bool all = by.cpus && claim_all(cpus, n, wanted, claims, &by);
    if (by.cpus && !all) log_taken_cores(&by);
    free(by.cpus);
    return all;
}

/* ---- the placement ----------------------------------------------------------------------------------------------- */

ls_status ls_placement_make(int workers, int threads, bool pin, ls_placement *out) {
    *out = (ls_placement){.workers = workers};
    int *cpus = malloc(sizeof *cpus * CPU_SETSIZE), *claims = malloc(sizeof *claims * CPU_SETSIZE);
    if (!cpus || !claims) {
        free(cpus);
        free(claims);
        return ls_fail(LS_ERR_RESOURCE, "out of memory for the placement of workers");
    }
    int cores = 0, n = list_cpus(cpus, CPU_SETSIZE, &cores), quota = ls_cpu_count();
    if (CPU_COUNT(&left_out) > 0 && quota > n) quota = n > 0 ? n : 1;
    if (cores < 1 || cores > quota) cores = quota;
    out->cores = cores;
    out->threads = threads > 0 ? threads : cores / workers > 0 ? cores / workers : 1;
    int64_t wanted = (int64_t)workers * out->threads;
    out->crowded = wanted > quota;
    if (pin && wanted <= n && !out->crowded && claim_or_log(cpus, n, (int)wanted, claims)) {
        out->cpus = cpus;
        out->claims = claims;
        return LS_OK;
    }
    free(cpus);
    free(claims);
    return LS_OK;
}

void ls_placement_free(ls_placement *placement) {
    if (placement->claims)
        for (int c = 0; c < placement->workers * placement->threads; c++) close(placement->claims[c]);
    free(placement->claims);
    free(placement->cpus);
    placement->claims = NULL;
    placement->cpus = NULL;
}

void ls_placement_leave_out(const ls_placement *placement, int worker) {
    const int *cpus = ls_placement_cpus(placement, worker);
    for (int c = 0; cpus && c < placement->threads; c++) CPU_SET(cpus[c], &left_out);
}

const int *ls_placement_cpus(const ls_placement *placement, int worker) {
    return placement->cpus ? placement->cpus + (size_t)worker * (size_t)placement->threads : NULL;
}
