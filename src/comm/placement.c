/* placement.c: cores for workers. */
#include "comm/placement.h"

#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#ifdef LS_HAVE_HWLOC
#    include <hwloc.h>
#endif

#include "base/cpu.h"

#ifdef LS_HAVE_HWLOC
static int list_with_hwloc(const cpu_set_t *allowed, int *cpus, int room, int *cores) {
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) return 0;
    int used = 0;
    /* Devices are of no use here and take most of the time to find. */
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
    if (hwloc_topology_load(topology) == 0) {
        int n = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
        for (unsigned thread = 0, found = 1; found; thread++) {
            found = 0;
            for (int c = 0; c < n && used < room; c++) {
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

/* CPUs this process may use, one of each core first, then the other hyperthreads; returns their number. */
static int list_cpus(int *cpus, int room, int *cores) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
    int used = 0;
#ifdef LS_HAVE_HWLOC
    used = list_with_hwloc(&allowed, cpus, room, cores);
    if (used > 0) return used;
#endif
    for (int c = 0; c < CPU_SETSIZE && used < room; c++)
        if (CPU_ISSET(c, &allowed)) cpus[used++] = c;
    *cores = used;
    return used;
}

/* Runs that are started side by side would all be pinned to the first cores and leave the others idle. So a pinned core
 * is claimed by an abstract socket of its name: the kernel drops it with the last process that has it, however that
 * ends, and no file is left. Returns the socket, or -1 where another run has the core. */
static int claim(int cpu) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "lockstep-cpu-%d", cpu);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (bind(fd, (const struct sockaddr *)&name, bytes) == 0) return fd;
    close(fd);
    return -1;
}

/* Moves the first `wanted` of n CPUs that are free to the front; false, and nothing is claimed, where they are fewer.
 */
static bool claim_all(int *cpus, int n, int wanted, int *claims) {
    int got = 0;
    for (int c = 0; c < n && got < wanted; c++) {
        int fd = claim(cpus[c]);
        if (fd < 0) continue;
        claims[got] = fd;
        cpus[got++] = cpus[c];
    }
    if (got == wanted) return true;
    while (got > 0) close(claims[--got]);
    return false;
}

ls_status ls_placement_make(int workers, int threads, bool pin, ls_placement *out) {
    *out = (ls_placement){.workers = workers};
    int *cpus = malloc(sizeof *cpus * CPU_SETSIZE), *claims = malloc(sizeof *claims * CPU_SETSIZE);
    if (!cpus || !claims) {
        free(cpus);
        free(claims);
        return ls_fail(LS_ERR_RESOURCE, "out of memory for the placement of workers");
    }
    int cores = 0, n = list_cpus(cpus, CPU_SETSIZE, &cores), quota = ls_cpu_count();
    if (cores < 1 || cores > quota) cores = quota;
    out->cores = cores;
    out->threads = threads > 0 ? threads : cores / workers > 0 ? cores / workers : 1;
    int64_t wanted = (int64_t)workers * out->threads;
    out->crowded = wanted > quota;
    if (pin && wanted <= n && !out->crowded && claim_all(cpus, n, (int)wanted, claims)) {
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

const int *ls_placement_cpus(const ls_placement *placement, int worker) {
    return placement->cpus ? placement->cpus + (size_t)worker * (size_t)placement->threads : NULL;
}
