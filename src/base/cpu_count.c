/* cpu_count.c: counts the cores that this process may use.
 *
 * A container usually limits CPU time by a quota of its control group and leaves the affinity mask full. The kernel
 * would then throttle a pool as large as the mask in the middle of every parallel loop. Any ancestor group may have the
 * quota, so all of them are read:
 *
 *     version 2   <root>/<group>/cpu.max                        "200000 100000" or "max 100000"
 *     version 1   <root>/cpu/<group>/cpu.cfs_quota_us, …_period_us
 */
#include "base/cpu.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the first line of a file, without its newline. Returns false if there is none. */
static bool read_first_line(const char *path, char *line, size_t capacity) {
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool found = fgets(line, (int)capacity, file) != NULL;
    fclose(file);
    if (found) line[strcspn(line, "\n")] = '\0';
    return found;
}

/* Returns the quota in cores, rounded up; 0: no limit. */
static int cores_of(long long quota_us, long long period_us) {
    if (quota_us <= 0 || period_us <= 0) return 0;
    long long cores = quota_us / period_us + (quota_us % period_us != 0);
    return cores > INT_MAX ? INT_MAX : (int)cores;
}

/* Returns the CPU quota of the control group (version 2) of this folder in cores, rounded up; 0: none. */
static int quota_v2(const char *folder) {
    char path[PATH_MAX + 32], line[64];
    long long quota_us, period_us;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!read_first_line(path, line, sizeof line)) return 0;
    if (sscanf(line, "%lld %lld", &quota_us, &period_us) != 2) return 0; /* "max …": no limit */
    return cores_of(quota_us, period_us);
}

/* Returns the CPU quota of the control group (version 1) of this folder in cores, rounded up; 0: none. */
static int quota_v1(const char *folder) {
    char path[PATH_MAX + 32], quota[64], period[64];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_first_line(path, quota, sizeof quota)) return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_first_line(path, period, sizeof period)) return 0;
    return cores_of(strtoll(quota, NULL, 10), strtoll(period, NULL, 10)); /* −1: no limit */
}

/* Returns the smaller of two quotas, where 0 is none. */
static int smaller_quota(int a, int b) { return a == 0 || (b != 0 && b < a) ? b : a; }

/* Returns the smallest quota of the folder base/group and its ancestors, up to `base`. Inside a container the folder of
 * the group itself may be missing; then the walk starts at an ancestor. */
static int quota_upwards(const char *base, const char *group, int (*quota_of)(const char *folder)) {
    char folder[PATH_MAX];
    int length = snprintf(folder, sizeof folder, "%s%s", base, group);
    if (length < 0 || (size_t)length >= sizeof folder) return 0;
    size_t base_bytes = strlen(base);
    int quota = quota_of(folder);
    for (char *slash = strrchr(folder, '/'); slash && slash >= folder + base_bytes; slash = strrchr(folder, '/')) {
        *slash = '\0';
        quota = smaller_quota(quota, quota_of(folder));
    }
    return quota;
}

/* Returns whether "cpu" is one of the names in the list "cpu,cpuacct". */
static bool has_cpu_controller(const char *controllers) {
    for (const char *name = controllers; *name != '\0';) {
        size_t length = strcspn(name, ",");
        if (length == 3 && memcmp(name, "cpu", 3) == 0) return true;
        name += length + (name[length] == ',');
    }
    return false;
}

/* Returns the quota in cores (0: none) of the group in a line "number:controllers:/group" of /proc/PID/cgroup; a line
 * without controllers is of version 2. Changes the line. */
static int quota_of_line(const char *root, char *line) {
    char base[PATH_MAX];
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return 0;
    *controllers++ = *group++ = '\0';
    if (*controllers == '\0') {
        int quota = quota_upwards(root, group, quota_v2);
        if (snprintf(base, sizeof base, "%s/unified", root) >= (int)sizeof base) return quota;
        return smaller_quota(quota, quota_upwards(base, group, quota_v2));
    }
    if (!has_cpu_controller(controllers)) return 0;
    int quota = 0;
    const char *const names[] = {"cpu", controllers};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (snprintf(base, sizeof base, "%s/%s", root, names[i]) >= (int)sizeof base) continue;
        quota = smaller_quota(quota, quota_upwards(base, group, quota_v1));
    }
    return quota;
}

int ls_cpu_quota(const char *root, const char *membership) {
    FILE *file = fopen(membership, "re");
    if (!file) return 0;
    int quota = 0;
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        quota = smaller_quota(quota, quota_of_line(root, line));
    }
    free(line);
    fclose(file);
    return quota;
}

/* Counts the CPUs of the affinity mask. Grows the set until it fits, because the kernel refuses a smaller one. */
static int affinity_count(void) {
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (!set) return 1;
        size_t bytes = CPU_ALLOC_SIZE(cpus);
        int rc = sched_getaffinity(0, bytes, set), error = errno;
        int count = rc == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (rc == 0) return count > 0 ? count : 1;
        if (error != EINVAL) return 1;
    }
    return 1;
}

int ls_cpu_count(void) {
    int cores = affinity_count();
    int quota = ls_cpu_quota("/sys/fs/cgroup", "/proc/self/cgroup");
    return quota > 0 && quota < cores ? quota : cores;
}
