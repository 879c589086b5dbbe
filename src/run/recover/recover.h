/* recover.h: a worker as recovery sees it: what the trainer lends, and what this folder keeps so that the run can
 * continue after a worker is lost. The workers that are started then are the "next attempt".
 *
 * The trainer has one of these and calls left.h (the state in shared memory) and copies.h (copies of another worker's
 * state) with it. Nothing here knows the trainer: the numbers of a run are passed as ls_left_numbers. One thread per
 * worker calls. */
#ifndef LS_RUN_RECOVER_RECOVER_H
#define LS_RUN_RECOVER_RECOVER_H

#include "device/cpu/journal.h"
#include "parallel/partition/partition.h"
#include "run/room.h"
#include "run/settings.h"

typedef struct ls_recover {
    /* borrowed */
    const ls_settings *settings;
    const ls_layout *layout;
    const ls_room *room;
    ls_device *device;
    ls_world *world; /* NULL: one worker alone */
    ls_mesh *mesh;
    ls_model *model;
    ls_partition *partition;
    int rank, threads; /* of this worker */
    /* left.c */
    struct ls_left *kept; /* what this worker leaves, in shared memory; NULL: no supervisor, so nothing is left */
    ls_journal journal;   /* in shared memory: elements that an update on a CPU is just changing */
    int64_t marked;       /* the last update for which the device has a mark, if it is not the host; −1: none */
    /* copies.c */
    struct ls_copies *copies; /* of another worker's state; NULL: none */
    const char *no_copies;    /* why there are none, if they were requested; else NULL */
} ls_recover;

#endif
