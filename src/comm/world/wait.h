/* wait.h: starts requests, and waits for them.
 *
 * Movers and collectives call it to launch what request.h and collectives/ have prepared; ls_request_wait() and
 * ls_request_test() (lockstep.h) end a request. Any number of requests can be in flight. A wait for one makes progress
 * on all: it advances each, spins for a moment, then sleeps until another worker rings this worker's bell (a futex),
 * at most 50 ms. The wait ends with an error, after which the world has failed, if a step fails, a worker of this
 * machine fails, the awaited one has exited, or nothing moves for --timeout (docs/explain/workers.md). */
#ifndef LS_COMM_WORLD_WAIT_H
#define LS_COMM_WORLD_WAIT_H

#include "comm/world/request.h"

/* Counts the request's traffic (`traffic_bytes` must be set), puts it in flight and runs its first steps. After an
 * error the request is released, the world has failed, and *out is NULL. */
ls_status ls_request_launch(ls_request *request, ls_request **out);
/* Instead of a launch: releases the request and fails the world with the status, which is returned. */
ls_status ls_request_drop(ls_request *request, ls_status status, ls_request **out);
/* Advances every request in flight once, without waiting. An error fails the world; LS_ERR_PEER: another worker has. */
ls_status ls_world_progress(ls_world *world);

#endif
