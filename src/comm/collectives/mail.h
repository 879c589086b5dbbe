/* mail.h: messages between local members (send_recv.c). */
#ifndef LS_COMM_COLLECTIVES_MAIL_H
#define LS_COMM_COLLECTIVES_MAIL_H

#include "comm/world/comm.h"

/* Allocate and free a communicator's state for messages. */
ls_status ls_mail_open(ls_comm *comm);
void ls_mail_close(ls_comm *comm);

/* A message between local members whose bytes stay in the sender's device memory until the receiver's device has read
 * them: the place of the bytes, the value of the sender's counter from which on they may be read, and, set by the
 * receiver, the value of its counter once it has read them. */
typedef struct ls_mail_note {
    uint64_t place, ready, done;
} ls_mail_note;

/* The sender posts a note to request->peer, then awaits that the receiver has taken it, which fills in *note. The
 * receiver takes the oldest note with its tag: its callback `read` reads the note and writes `done` into it. All three
 * return LS_REQUEST_WAITS if they cannot continue yet; if `read` returns that, the note stays and `read` is called
 * again later. LS_ERR_INPUT: sender and receiver expect different sizes. */
ls_status ls_mail_post_note(ls_request *r, const ls_mail_note *note);
ls_status ls_mail_await_note(ls_request *r, ls_mail_note *note);
ls_status ls_mail_take_note(ls_request *r, ls_status (*read)(ls_request *r, ls_mail_note *note));

#endif
