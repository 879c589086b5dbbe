/* communicators.h: makes, splits and closes communicators. lockstep.h has the calls for users: ls_comm_split(),
 * ls_comm_destroy(), ls_mesh_create(). */
#ifndef LS_COMM_COMMUNICATORS_COMMUNICATORS_H
#define LS_COMM_COMMUNICATORS_COMMUNICATORS_H

#include "comm/world/request.h"

/* Returns the bytes of the control block (world/comm.h) of a communicator with so many members on a machine. */
size_t ls_comm_control_bytes(int local_size);
/* Opens the communicator of the world, whose control block is part of the segment. */
ls_status ls_comm_open_world(ls_world *world, ls_comm **out);
void ls_comm_close(ls_comm *comm);
/* Splits like ls_comm_split(); `queue` is the device queue for its tensors, and `links` what to open links between
 * machines for (LS_LINKS_…, links/links.h). */
ls_status ls_comm_split_linked(ls_comm *parent, int color, int key, int queue, unsigned links, ls_comm **out);

/* Returns "dp", "tp" or "pp". */
const char *ls_mesh_axis_name(ls_axis axis);

#endif
