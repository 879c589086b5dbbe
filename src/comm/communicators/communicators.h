/* communicators.h: makes, splits and closes communicators, sets of workers that call collectives together. lockstep.h
 * has the calls for users: ls_comm_split(), ls_comm_destroy(), ls_mesh_create(). The transports open and close the
 * world's communicator. The caller of a split owns the result. */
#ifndef LS_COMM_COMMUNICATORS_COMMUNICATORS_H
#define LS_COMM_COMMUNICATORS_COMMUNICATORS_H

#include "comm/world/request.h"

/* Returns the bytes of the control block (the shared memory of a communicator, world/comm.h) for so many members on a
 * machine. */
size_t ls_comm_control_bytes(int local_size);
/* Opens the communicator of all workers, whose control block is part of the segment. Collective. */
ls_status ls_comm_open_world(ls_world *world, ls_comm **out);
/* Frees this worker's part of a communicator without waiting for the others; NULL does nothing. ls_comm_destroy()
 * waits. */
void ls_comm_close(ls_comm *comm);
/* Splits like ls_comm_split(): members with the same color form a communicator; a negative color gets NULL. `queue` is
 * the device queue for its tensors, and `links` what to open links between machines for (LS_LINKS_…, links/links.h).
 * Also finds out whether members' devices share memory (comm->peers): only if those of all members of `parent`
 * do. Collective over `parent`. After an error *out is NULL. */
ls_status ls_comm_split_linked(ls_comm *parent, int color, int key, int queue, unsigned links, ls_comm **out);

/* Returns "dp", "tp" or "pp". */
const char *ls_mesh_axis_name(ls_axis axis);

#endif
