/* recover.h: a worker as recovery sees it: what the trainer lends, and what this folder keeps for the next attempt.
 *
 * The trainer has one of these and calls left.h and copies.h with it. Nothing here knows the trainer: the numbers of a
 * run are passed as ls_left_numbers. */
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
    int rank, threads;
    /* left.c */
    struct ls_left *kept; /* in memory of the world; NULL: no supervisor, so nothing is left */
    ls_journal journal;   /* of updates on a CPU */
    int64_t marked;       /* the last update for which the device has a mark, if it is not the host; −1: none */
    /* copies.c */
    struct ls_copies *copies; /* of another worker's state; NULL: none */
    const char *no_copies;    /* why there are none, if they were requested; else NULL */
} ls_recover;

#endif
