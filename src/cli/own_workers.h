/* own_workers.h: for commands that start worker groups of several sizes themselves and so cannot join a launcher's. */
#ifndef LS_CLI_OWN_WORKERS_H
#define LS_CLI_OWN_WORKERS_H

#include "lockstep.h"

/* Fails when mpirun, srun or the like started this process as one of several; only the first of them has a message. */
ls_status ls_cli_require_own_workers(const char *command);

#endif
