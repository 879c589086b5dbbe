/* links.h: collectives and messages among the workers of a communicator, on a vector of fp32 numbers. */
#ifndef LS_LAB_LINKS_H
#define LS_LAB_LINKS_H

#include "lab/timer.h"
#include "plan/native/machine.h"

/* One worker's view of the vector that is being measured. */
typedef struct ls_link_vector {
    ls_comm *comm;
    int rank, size;
    ls_native_op op; /* LS_NATIVE_SEND: a ping-pong of workers 0 and 1, the others have no part */
    size_t elems;
    float *in, *out;
    size_t shards[LS_WORKERS_MAX + 1];  /* even shards, first elements */
    size_t shard_bytes[LS_WORKERS_MAX]; /* the same in bytes */
} ls_link_vector;

/* `bytes` of the whole vector. */
void ls_link_resize(ls_link_vector *vector, size_t bytes);
/* One operation, of a ping-pong both ways. An ls_timer_call. */
ls_status ls_link_call(void *vector);
/* Seconds of the operation, of a ping-pong one way; 0 on workers that have no part. All workers of timer->comm make the
 * call together: those of the vector, or of several vectors at the same time. */
ls_status ls_link_time(const ls_timer *timer, ls_link_vector *vector, ls_timing *out);

#endif
