/* mail.h: messages between members on one machine, through rings in shared memory (send_recv.c). Communicators open and
 * close this state; peers/messages.c sends notes about device memory through the same rings. The worker's main thread
 * calls all functions. */
#ifndef LS_COMM_COLLECTIVES_MAIL_H
#define LS_COMM_COLLECTIVES_MAIL_H

#include "comm/world/comm.h"

/* Allocates a communicator's state for messages: comm->mail. The communicator frees it, also after an error. */
ls_status ls_mail_open(ls_comm *comm);
/* Frees a communicator's state for messages, and this member's rings and records in shared memory; does nothing if
 * there is none. */
void ls_mail_close(ls_comm *comm);

/* A message between local members whose bytes stay in the sender's device memory until the receiver's device has read
 * them: the place of the bytes, the value of the sender's counter from which on they may be read, and, set by the
 * receiver, the value of its counter once it has read them. */
typedef struct ls_mail_note {
    uint64_t place, ready, done;
} ls_mail_note;

/* Sends a note to request->peer. LS_REQUEST_WAITS: the ring is full, or an older send of this worker has not started;
 * to be called again. */
ls_status ls_mail_post_note(ls_request *r, const ls_mail_note *note);
/* Fills in *note, with the receiver's `done`, once the receiver has taken the note that ls_mail_post_note() sent;
 * LS_REQUEST_WAITS before. */
ls_status ls_mail_await_note(ls_request *r, ls_mail_note *note);
/* Takes the oldest note of request->peer with the request's tag: its callback `read` reads the note and writes `done`
 * into it. LS_REQUEST_WAITS: no note has come, an older receive with this partner and tag has not taken its own, or
 * `read` returned that; then the note stays and `read` is called again later. LS_ERR_INPUT: sender and receiver expect
 * different sizes. */
ls_status ls_mail_take_note(ls_request *r, ls_status (*read)(ls_request *r, ls_mail_note *note));

#endif
