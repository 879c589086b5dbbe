/* move.c: makes the request of a move, a collective on device memory that is described as data (move.h). */
#include "comm/collectives/move.h"

ls_status ls_move_prepare(const ls_move *m, ls_status (*step)(ls_request *), ls_request **out) {
    switch (m->kind) {
    case LS_TRAFFIC_ALL_GATHER: return ls_all_gather_prepare(m->comm, m->in, m->out, m->sizes, step, out);
    case LS_TRAFFIC_ALL_REDUCE:
        return ls_all_reduce_prepare(m->comm, m->runs, m->dtype, m->parts, m->out, m->elems, step, out);
    case LS_TRAFFIC_REDUCE_SCATTER:
        return ls_reduce_scatter_prepare(m->comm, m->runs, m->dtype, m->parts, m->out, m->sizes, m->elems, step, out);
    default:
        LS_TRY(ls_message_prepare(m->comm, m->kind, m->peer, m->tag, m->bytes, step, out));
        (*out)->in = m->in;
        (*out)->out = m->out;
        return LS_OK;
    }
}
