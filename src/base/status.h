/* status.h: making errors. The codes and the reading side are in lockstep.h.
 *
 * A function that fails returns ls_fail(code, "what was wrong, with which value; what to do"). The message belongs to
 * the thread and lives until its next failure. Nothing below cli/ prints it. */
#ifndef LS_BASE_STATUS_H
#define LS_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>

#include "lockstep.h"

enum { LS_MESSAGE_MAX = 512 };

/* As ls_fail, with the text of errno behind the message. Memory, descriptor, process and disk limits become
 * LS_ERR_RESOURCE, whatever `status` says. */
ls_status ls_fail_errno(ls_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As ls_fail, for what this machine lacks: of the workers that a launcher started, others may not meet it. */
ls_status ls_fail_here(ls_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether the last failure of this thread was such a one. */
bool ls_fail_is_here(void);
/* The errno of the last failure of this thread, where it was one of ls_fail_errno(); else 0. */
int ls_fail_cause(void);
/* Puts "prefix" in front of the recorded message; for naming the place where a lower layer failed. */
ls_status ls_fail_at(ls_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An orderly end that somebody asked for, not a failure. */
static inline bool ls_status_is_stop(ls_status status) {
    return status == LS_ERR_INTERRUPTED || status == LS_ERR_TERMINATED || status == LS_ERR_REQUEUED;
}

/* Returns from the calling function when `call` fails. */
#define LS_TRY(call)                                                                                                   \
    do {                                                                                                               \
        ls_status ls_try_status_ = (call);                                                                             \
        if (ls_try_status_ != LS_OK) return ls_try_status_;                                                            \
    } while (0)

/* Sets `status` and goes to `out` when `call` fails. */
#define LS_TRY_OUT(call)                                                                                               \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != LS_OK) goto out;                                                                                 \
    } while (0)

#endif
