/* windows.h: which tokens `lockstep eval` shows a model at once, and which of them it scores.
 *
 * N tokens have N−1 targets: every token but the first, which nothing precedes. A window has at most T inputs and, one
 * further, as many targets. Window k begins at token k·S, where S ≤ T is the stride, and scores the targets that no
 * window before it has scored; those it shares with the one before are there for context. The last window ends with
 * the last token and may be shorter. T = 4, S = 2, N = 10:
 *
 *     token      0 1 2 3 4 5 6 7 8 9
 *     window 0   i i i i              scores 1 2 3 4
 *     window 1       i i i i          scores 5 6      (3 and 4 are context)
 *     window 2           i i i i      scores 7 8
 *     window 3               i i i    scores 9
 *
 * So every target is scored once, whatever T and S are. */
#ifndef LS_DATA_WINDOWS_H
#define LS_DATA_WINDOWS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ls_windows {
    uint64_t tokens, length, stride; /* N, T and S */
    uint64_t count;
} ls_windows;

typedef struct ls_token_window {
    uint64_t begin; /* the first input; targets begin one further */
    size_t length;  /* inputs, and targets */
    size_t context; /* targets at its begin that are not scored */
} ls_token_window;

/* LS_ERR_INPUT when N < 2. 1 ≤ S ≤ T. */
ls_status ls_windows_init(ls_windows *windows, uint64_t tokens, uint64_t length, uint64_t stride);
/* Window k < count. */
ls_token_window ls_windows_get(const ls_windows *windows, uint64_t k);
/* How many of the windows k, k+1, … have the length and the context of window k; at most `most`. */
size_t ls_windows_alike(const ls_windows *windows, uint64_t k, size_t most);

#endif
