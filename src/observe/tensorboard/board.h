/* board.h: a run for TensorBoard: event files that hold what its series holds.
 *
 * Scalars are the columns of the series (series.h): "train/loss", "train/norm", … of steps, "validation/loss" of
 * evaluations; samples are texts, "sample". Values are those of metrics.jsonl as 32-bit floats, which is what
 * TensorBoard keeps.
 *
 * A board begins with the whole series, in a file of its own, and takes away those that an earlier board left in the
 * folder; a session start at step 0 tells a TensorBoard that is open that they are void. Where the run went back, a
 * session start voids what was done again. So every curve has each step once. */
#ifndef LS_OBSERVE_TENSORBOARD_BOARD_H
#define LS_OBSERVE_TENSORBOARD_BOARD_H

#include <stdbool.h>

#include "base/status.h"
#include "observe/series.h"

typedef struct ls_board ls_board;

/* The run must be there; `folder` is made. */
ls_status ls_board_open(const char *run, const char *folder, ls_board **out);
/* Writes what the run has recorded since. */
ls_status ls_board_update(ls_board *board);
const ls_run_log *ls_board_log(const ls_board *board);
void ls_board_close(ls_board *board);

#endif
