/* windows.h: the windows of tokens that `lockstep eval` passes to a model, and which targets of each it scores.
 *
 * N tokens have N−1 targets: every token but the first. A window has at most T inputs and as many targets, one token
 * further. Window k begins at token k·S, where S ≤ T is the stride, and scores the targets that no earlier window has
 * scored; those that it shares with the previous window are only context. The last window ends with the last token and
 * may be shorter. T = 4, S = 2, N = 10:
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
    size_t context; /* number of targets at its beginning that are not scored */
} ls_token_window;

/* Computes how many windows N tokens have; 1 ≤ S ≤ T. LS_ERR_INPUT if N < 2. */
ls_status ls_windows_init(ls_windows *windows, uint64_t tokens, uint64_t length, uint64_t stride);
/* Returns window k < count. */
ls_token_window ls_windows_get(const ls_windows *windows, uint64_t k);
/* Counts how many of the windows k, k+1, … have the length and context of window k, itself included; at most `most`.
 * The caller evaluates them as one batch. */
size_t ls_windows_alike(const ls_windows *windows, uint64_t k, size_t most);

#endif
