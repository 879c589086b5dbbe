/* status.c: the message of the last failure of each thread. */
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_message[LS_MESSAGE_MAX];
static _Thread_local bool last_is_here;
static _Thread_local int last_cause;

const char *ls_status_message(void) { return last_message; }

const char *ls_status_name(ls_status status) {
    switch (status) {
#define LS_STATUS_NAME(name, exit_code, text)                                                                          \
    case name: return #name;
        LS_STATUS_LIST(LS_STATUS_NAME)
#undef LS_STATUS_NAME
    }
    return "unknown status";
}

int ls_status_exit_code(ls_status status) {
    switch (status) {
#define LS_STATUS_EXIT(name, exit_code, text)                                                                          \
    case name: return exit_code;
        LS_STATUS_LIST(LS_STATUS_EXIT)
#undef LS_STATUS_EXIT
    }
    return 1;
}

/* Formats the message, then `suffix`. Uses a second buffer, because arguments may point into last_message. */
__attribute__((format(printf, 1, 0))) static void set_message(const char *format, va_list args, const char *suffix) {
    char text[LS_MESSAGE_MAX];
    vsnprintf(text, sizeof text, format, args);
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s", suffix);
    memcpy(last_message, text, sizeof text);
}

ls_status ls_fail(ls_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    set_message(format, args, "");
    va_end(args);
    last_is_here = false;
    last_cause = 0;
    return status;
}

ls_status ls_fail_here(ls_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    set_message(format, args, "");
    va_end(args);
    last_is_here = true;
    last_cause = 0;
    return status;
}

bool ls_fail_is_here(void) { return last_is_here; }
int ls_fail_cause(void) { return last_cause; }

/* Returns whether the errno means that memory, disk space, descriptors or processes ran out. */
static bool is_resource_limit(int error) {
    return error == ENOMEM || error == ENOSPC || error == EMFILE || error == ENFILE || error == EAGAIN ||
           error == EDQUOT || error == EFBIG;
}

ls_status ls_fail_errno(ls_status status, const char *format, ...) {
    int error = errno;
    char suffix[128];
    snprintf(suffix, sizeof suffix, ": %s", strerror(error));
    va_list args;
    va_start(args, format);
    set_message(format, args, suffix);
    va_end(args);
    last_is_here = false;
    last_cause = error;
    return is_resource_limit(error) ? LS_ERR_RESOURCE : status;
}

ls_status ls_fail_at(ls_status status, const char *format, ...) {
    char below[LS_MESSAGE_MAX];
    memcpy(below, last_message, sizeof below);
    va_list args;
    va_start(args, format);
    set_message(format, args, below);
    va_end(args);
    return status;
}
