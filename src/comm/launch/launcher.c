/* launcher.c: detects mpirun, mpiexec, srun and torchrun by their environment variables.
 *
 * Variables alone are not enough: a shell inherits those of the job that started it, and MPI would then wait forever
 * for peers that do not exist. So the launcher or its daemon must also be an ancestor of this process. */
#include "comm/launch/launcher.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the environment variable's value; −1 if it is missing or not a number from 0 to INT_MAX. */
static int read_env_number(const char *variable) {
    const char *text = getenv(variable);
    if (!text || !*text) return -1;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    return errno == 0 && *end == 0 && value >= 0 && value <= INT_MAX ? (int)value : -1;
}

/* Reads name and parent of a process; false: /proc does not have it. */
static bool read_process(int pid, char name[64], int *parent) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open) return false;
    snprintf(name, 64, "%.*s", (int)(close - open - 1), open + 1);
    return sscanf(close + 1, " %*c %d", parent) == 1;
}

/* Returns whether the name starts with one of the prefixes; NULL ends the list. */
static bool starts_with_any(const char *name, const char *const *prefixes) {
    for (; *prefixes; prefixes++)
        if (strncmp(name, *prefixes, strlen(*prefixes)) == 0) return true;
    return false;
}

/* Returns whether an ancestor of this process has a name with one of these prefixes. True also if /proc cannot be read:
 * then the variables decide. */
static bool has_ancestor(const char *const *prefixes) {
    int pid = (int)getpid();
    char name[64];
    for (int depth = 0; depth < 64 && pid > 0; depth++) {
        int parent;
        if (!read_process(pid, name, &parent)) return depth == 0;
        if (depth > 0 && starts_with_any(name, prefixes)) return true;
        pid = parent;
    }
    return false;
}

static const char *const openmpi_names[] = {"mpirun", "mpiexec", "orterun", "orted", "prte", "slurmstepd", NULL};
static const char *const pmi_names[] = {"mpiexec",    "mpirun", "hydra_pmi_proxy", "pmi_proxy", "pmiexec",
                                        "slurmstepd", "palsd",  "apinit",          NULL};
static const char *const slurm_names[] = {"slurmstepd", NULL};
/* On some systems srun starts these. */
static const char *const hydra_names[] = {"mpiexec", "mpirun", "hydra_pmi_proxy", "pmi_proxy", "pmiexec", NULL};

/* Makes the description of a launcher; it is stale if no ancestor has one of these names. `ancestors` NULL: not
 * checked. */
static ls_launcher make_launcher(ls_launcher_kind kind, const char *name, int rank, int size,
                                 const char *const *ancestors) {
    return (ls_launcher){kind, name, rank, size, ancestors && !has_ancestor(ancestors)};
}

/* Returns whether srun --mpi=pmi2 has set the variables of PMI, not MPICH's mpiexec, which sets the same ones: in a
 * step of Slurm whose daemon is an ancestor, and no launcher of MPICH is. */
static bool is_pmi_of_srun(void) {
    return getenv("SLURM_STEP_ID") && has_ancestor(slurm_names) && !has_ancestor(hydra_names);
}

ls_launcher ls_launcher_detect(void) {
    int size = read_env_number("OMPI_COMM_WORLD_SIZE"), rank = read_env_number("OMPI_COMM_WORLD_RANK");
    if (size > 1 && rank >= 0)
        return make_launcher(LS_LAUNCHER_OPENMPI, "Open MPI's mpirun", rank, size, openmpi_names);
    size = read_env_number("PMI_SIZE");
    rank = read_env_number("PMI_RANK");
    if (size > 1 && rank >= 0 && !is_pmi_of_srun())
        return make_launcher(LS_LAUNCHER_PMI, "an MPICH-style mpiexec", rank, size, pmi_names);
    /* SLURM_NTASKS counts the tasks of the job, not those of this step. */
    size = read_env_number("SLURM_STEP_NUM_TASKS");
    rank = read_env_number("SLURM_PROCID");
    if (size > 1 && rank >= 0 && getenv("SLURM_STEP_ID"))
        return make_launcher(LS_LAUNCHER_SLURM, "srun", rank, size, slurm_names);
    size = read_env_number("WORLD_SIZE");
    rank = read_env_number("RANK");
    if (size > 1 && rank >= 0 && (getenv("TORCHELASTIC_RUN_ID") || (getenv("LOCAL_RANK") && getenv("MASTER_ADDR"))))
        return make_launcher(LS_LAUNCHER_TORCHRUN, "torchrun", rank, size, NULL);
    return (ls_launcher){.kind = LS_LAUNCHER_NONE, .name = "none", .size = 1};
}

ls_place ls_launcher_place(void) {
    ls_launcher launcher = ls_launcher_detect();
    bool launched = launcher.kind != LS_LAUNCHER_NONE && !launcher.stale;
    return launched ? (ls_place){launcher.rank, launcher.size} : (ls_place){0, 0};
}

void ls_launcher_command(char *text, size_t room) {
    ls_launcher launcher = ls_launcher_detect();
    const char *mpi = launcher.kind == LS_LAUNCHER_SLURM ? getenv("SLURM_MPI_TYPE") : NULL;
    text[0] = '\0';
    if (launcher.kind == LS_LAUNCHER_NONE || launcher.stale) return;
    const char *program = launcher.kind == LS_LAUNCHER_SLURM     ? "srun"
                          : launcher.kind == LS_LAUNCHER_OPENMPI ? "mpirun"
                                                                 : "mpiexec";
    (void)snprintf(text, room, "%s%s%.20s -n %d ", program, mpi ? " --mpi=" : "", mpi ? mpi : "", launcher.size);
}

/* Looks for the variables of PMIx, PMI-1, PMI-2 and Cray's PMI. An MPI can also find its peers without them, by a
 * library such as Slurm's libpmi that it is linked to or that a variable names. */
bool ls_launcher_has_pmi(const ls_launcher *launcher) {
    static const char *const variables[] = {"PMIX_RANK",        "PMI_RANK",    "PMI_FD",           "PMI_PORT",
                                            "PMI_CONTROL_PORT", "PALS_RANKID", "I_MPI_PMI_LIBRARY"};
    static const char *const libraries[] = {"libpmi.so.0", "libpmi2.so.0"};
    if (launcher->kind != LS_LAUNCHER_SLURM) return true;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i])) return true;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library) {
            (void)dlclose(library);
            return true;
        }
    }
    return false;
}
