/* launcher.h: detects the launcher (mpirun, mpiexec, srun, torchrun) that started this process, from its environment
 * and its ancestors. The functions keep no state and never fail; any thread may call them while none changes the
 * environment. */
#ifndef LS_COMM_LAUNCHER_H
#define LS_COMM_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ls_launcher_kind {
    LS_LAUNCHER_NONE,
    LS_LAUNCHER_OPENMPI,
    LS_LAUNCHER_PMI, /* MPICH's hydra and its relatives */
    LS_LAUNCHER_SLURM,
    LS_LAUNCHER_TORCHRUN,
} ls_launcher_kind;

typedef struct ls_launcher {
    ls_launcher_kind kind;
    const char *name; /* for messages */
    int rank, size;   /* as the launcher's variables say */
    bool stale; /* the variables are set, but no ancestor of this process is a launcher; false for torchrun, and if
                 * /proc cannot be read */
} ls_launcher;

/* Detects the launcher. One that started a single process counts as none, with size 1. Check `stale` before using the
 * result. */
ls_launcher ls_launcher_detect(void);

/* This process's rank and the number of processes; 0 of 0 without a launcher. */
typedef struct ls_place {
    int rank, size;
} ls_place;
/* Returns this process's rank and the number of processes; 0 of 0 without a launcher, or if its variables are stale. */
ls_place ls_launcher_place(void);

/* Writes the prefix that starts a command as this one was started, such as "mpirun -n 4 "; "" without a launcher, or if
 * its variables are stale. Only srun and mpirun are told apart; all others give "mpiexec". For messages that name a
 * command. */
void ls_launcher_command(char *text, size_t room);

/* Returns whether the launcher gave this process a process management interface (PMI). Without one, as under `srun
 * --mpi=none`, MPI cannot find the other processes. Always true for launchers other than srun. */
bool ls_launcher_has_pmi(const ls_launcher *launcher);

#endif
