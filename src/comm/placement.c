/* placement.c: cores for workers. */
#include "comm/placement.h"

#include <sched.h>
#include <stdlib.h>
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

ls_status ls_placement_make(int workers, int threads, bool pin, ls_placement *out) {
    *out = (ls_placement){.workers = workers};
    int *cpus = malloc(sizeof *cpus * CPU_SETSIZE);
    if (!cpus) return ls_fail(LS_ERR_RESOURCE, "out of memory for the placement of workers");
    int cores = 0, n = list_cpus(cpus, CPU_SETSIZE, &cores), quota = ls_cpu_count();
    if (cores < 1 || cores > quota) cores = quota;
    out->cores = cores;
    out->threads = threads > 0 ? threads : cores / workers > 0 ? cores / workers : 1;
    int64_t wanted = (int64_t)workers * out->threads;
    out->crowded = wanted > quota;
    if (pin && wanted <= n && !out->crowded) {
        out->cpus = cpus;
        return LS_OK;
    }
    free(cpus);
    return LS_OK;
}

void ls_placement_free(ls_placement *placement) {
    free(placement->cpus);
    placement->cpus = NULL;
}

const int *ls_placement_cpus(const ls_placement *placement, int worker) {
    return placement->cpus ? placement->cpus + (size_t)worker * (size_t)placement->threads : NULL;
}
