/* outlier_track.h: one quantity of the gradient groups over the steps of a run: what is usual, and how far a group is
 * from it. Used for the logarithms of norms and for losses (outlier.h says how).
 *
 * A group's deviation d is its value less the median of the other groups' values. The largest deviation of each step is
 * remembered for LS_TRACK_HISTORY steps: with m their median and b the mean distance of those above m from m,
 *
 *     spread = max(least, b + m/threshold)      score = d / spread
 *
 * With less than four groups a median of peers is weak: there d is the smaller of 1.5·d and the deviation from the
 * recent steps' level.
 *
 * A step is looked at, perhaps more than once; then, unless it is skipped, it is remembered. */
#ifndef LS_RUN_GUARD_OUTLIER_TRACK_H
#define LS_RUN_GUARD_OUTLIER_TRACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { LS_TRACK_HISTORY = 100, LS_TRACK_WARMUP = 10, LS_TRACK_WORDS = 1 + 2 * LS_TRACK_HISTORY };

typedef struct ls_track_step {
    double level;   /* median over the groups */
    double largest; /* deviation */
} ls_track_step;

typedef struct ls_track {
    size_t groups;
    double threshold, least;
    double range; /* no value is larger in size */
    size_t count;
    ls_track_step history[LS_TRACK_HISTORY]; /* oldest first */
    ls_track_step judged;
    bool has_judged;
    /* of the step that is looked at */
    double *values; /* by group, to be filled in by the caller; NaN: it has none, and is no peer */
    double *sorted;
    size_t usable; /* groups with a value */
    bool is_warm;  /* there is enough history to judge by */
    bool is_few;   /* peers */
    double level;
    double spread; /* NaN unless warm */
    double wide;   /* m + b; likewise */
} ls_track;

/* Fails for want of memory alone. Closing what was never opened, or twice, does nothing. */
ls_status ls_track_open(ls_track *track, size_t groups, double threshold, double least, double range);
void ls_track_close(ls_track *track);

/* After `values` were filled in. */
void ls_track_look(ls_track *track);
/* Of a group with a value, where there are two such groups. */
double ls_track_deviation(const ls_track *track, size_t group);
/* 0 before the warm-up is over, and where there is nothing to compare with. */
double ls_track_score(const ls_track *track, size_t group);
/* Of the other groups' values; NaN: there are none. */
double ls_track_peers(const ls_track *track, size_t group);
/* What the step is remembered by: its groups but those left out, which loses `values` of those. */
void ls_track_keep(ls_track *track, const bool *left_out);
void ls_track_remember(ls_track *track);

void ls_track_save(const ls_track *track, int64_t words[LS_TRACK_WORDS]);
/* LS_ERR_INPUT for what ls_track_save() cannot have written; the history is unchanged then. */
ls_status ls_track_restore(ls_track *track, const char *what, const int64_t words[LS_TRACK_WORDS]);

#endif
