/* course.h: the duration of a whole run with and without failures, and how often to save (`lockstep plan` with
 * failure rates).
 *
 * A run has W seconds of work and a checkpoint of d seconds after every t of them. The cluster fails every M seconds on
 * average, and training continues r seconds later. A failure costs r and half of t + d, so the run takes
 *
 *     T = W·(1 + d/t) + T/M·((t + d)/2 + r),   least where   t = −d + sqrt(d² + 2d·(M − r − d/2))
 *
 * which is Young's sqrt(2dM) (1974) for short checkpoints. */
#ifndef LS_PLAN_COURSE_H
#define LS_PLAN_COURSE_H

#include <stdbool.h>

typedef struct ls_course {
    double work_seconds;                   /* without failures and checkpoints */
    double mtbf_seconds;                   /* of the cluster */
    double checkpoint_bytes, save_seconds; /* of one checkpoint */
    double interval_seconds;               /* of work between two checkpoints */
    double seconds;  /* of the run; 0: it never ends, since failures are more frequent than recoveries allow */
    double failures; /* in that time */
    double goodput;  /* work_seconds / seconds */
} ls_course;

/* A run on one machine that continues from memory when it loses a worker, every M seconds. That costs r seconds: until
 * the death is seen, until the next step begins, and what that step takes longer. A share a of the failures hits a step
 * of s seconds that has not committed; it is retried, and half of it was done on average:
 *
 *     T = W·(1 + w) + T/M·(r + a·s/2)
 *
 * where w is the share that saving adds. Goodput is W/T. Everything but M is measured. */
typedef struct ls_mending {
    double seen_seconds;    /* from the death of a worker to its detection */
    double restart_seconds; /* from detection to the next step */
    double slower_seconds;  /* extra time of that step: its memory pages are new */
    double step_seconds;    /* of a usual step */
    double again_share;     /* a */
    double save_share;      /* w */
} ls_mending;

/* Computes the goodput (a share of 1) without the retried work in *aside and with it in *whole; 0: failures are more
 * frequent than recoveries allow. */
void ls_mending_goodput(const ls_mending *mending, double mtbf_seconds, double *aside, double *whole);

/* Returns the run with the best interval between checkpoints. r is restart_seconds, d is the checkpoint's bytes over
 * the rate. If failures are too frequent to finish, or a checkpoint takes no time (then no interval is best), seconds,
 * failures and goodput are 0. */
ls_course ls_course_of(double work_seconds, double mtbf_seconds, double checkpoint_bytes, double bytes_per_second,
                       double restart_seconds);
/* Returns the seconds of the same run with a given interval; 0: it never ends. */
double ls_course_seconds(const ls_course *course, double interval_seconds, double restart_seconds);

#endif
