/* resize.h: `lockstep resize` and the supervisor of a run communicate through two files of the run directory.
 * (src/cli calls ls_resize_ask(), api/run_attempts.c the others.)
 *
 *     resize           the requested number of workers; the supervisor removes the file
 *     resize.answer    that number, `yes` or `no`, and a sentence; the command removes the file
 *
 * The supervisor polls ten times a second and changes the layout after the current step. A run that cannot be resized
 * says so on its status page (comm/world/status_page.h), so that the command refuses without writing a request. */
#ifndef LS_RUN_RECOVER_RESIZE_H
#define LS_RUN_RECOVER_RESIZE_H

#include <stdbool.h>

#include "base/status.h"

enum { LS_RESIZE_TEXT_MAX = 256 };

/* Requests `workers` workers for the run in folder `run`, and waits up to 30 s for the answer, whose sentence is in
 * `text` if it is yes. LS_ERR_INPUT if no run is active in the folder, if it cannot be resized, or if the answer is no;
 * LS_ERR_DEADLINE if there is no answer. The request is removed in all cases. */
ls_status ls_resize_ask(const char *run, int workers, char text[LS_RESIZE_TEXT_MAX]);

/* Reads and removes the request; returns false if there is none. *workers is −1 if it is not a number of workers from 1
 * to LS_WORKERS_MAX. */
bool ls_resize_take(const char *run, int *workers);
/* Answers the request for `workers` workers with `text`: one line, shorter than LS_RESIZE_TEXT_MAX, that continues "RUN
 * …" or "RUN was not resized: …". An answer that cannot be written is only logged. */
void ls_resize_answer(const char *run, int workers, bool is_accepted, const char *text);

#endif
