/* status.h: creates errors, for every function that returns an ls_status. The codes, and how a program reads them,
 * are in lockstep.h.
 *
 * A function that fails returns ls_fail(code, "what was wrong, with which value; what to do"). The message belongs to
 * the thread and is valid until its next failure. Only cli/ prints it. */
#ifndef LS_BASE_STATUS_H
#define LS_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>

#include "lockstep.h"

enum { LS_MESSAGE_MAX = 512 };

/* Fails as ls_fail() does, with the text of errno appended. Memory, descriptor, process and disk limits become
 * LS_ERR_RESOURCE, whatever `status` is. */
ls_status ls_fail_errno(ls_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Fails as ls_fail() does, because of this machine: workers on other machines of the run may not have the failure. */
ls_status ls_fail_here(ls_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns whether the last failure of this thread was made by ls_fail_here(): then the worker that has it reports it,
 * whatever its rank. */
bool ls_fail_is_here(void);
/* Returns the errno of the last failure of this thread if ls_fail_errno() made it; else 0. */
int ls_fail_cause(void);
/* Puts a prefix in front of the message of this thread's last failure, to name the place where a lower layer failed.
 * Returns `status`; what ls_fail_is_here() and ls_fail_cause() return stays. */
ls_status ls_fail_at(ls_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns whether the status is an orderly end that was requested, not a failure. */
static inline bool ls_status_is_stop(ls_status status) {
    return status == LS_ERR_INTERRUPTED || status == LS_ERR_TERMINATED || status == LS_ERR_REQUEUED;
}

/* Returns from the calling function if `call` fails. */
#define LS_TRY(call)                                                                                                   \
    do {                                                                                                               \
        ls_status ls_try_status_ = (call);                                                                             \
        if (ls_try_status_ != LS_OK) return ls_try_status_;                                                            \
    } while (0)

/* Sets `status`, and goes to `out` if `call` fails. */
#define LS_TRY_OUT(call)                                                                                               \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != LS_OK) goto out;                                                                                 \
    } while (0)

#endif
