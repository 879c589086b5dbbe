/* course.h: a whole run: how long it takes without failures and with them, and how often to save.
 *
 * With W seconds of work, a checkpoint of d seconds every t of them, failures of the cluster every M seconds on average
 * and r seconds until training goes on: a failure loses r and half of t + d, so the run takes
 *
 *     T = W·(1 + d/t) + T/M·((t + d)/2 + r),   least where   t = −d + sqrt(d² + 2d·(M − r − d/2))
 *
 * which is Young's sqrt(2dM) (1974) for short checkpoints. */
#ifndef LS_PLAN_COURSE_H
#define LS_PLAN_COURSE_H

#include <stdbool.h>

typedef struct ls_course {
    double work_seconds; /* without failures and checkpoints */
    double mtbf_seconds; /* of the cluster */
    double checkpoint_bytes, save_seconds;
    double interval_seconds; /* of work between two checkpoints */
    double seconds;          /* of the run; 0: it never ends, since failures come faster than it gets over them */
    double failures;         /* in that time */
    double goodput;          /* work_seconds / seconds */
} ls_course;

/* A run on one machine that goes on from memory when it loses a worker: of a failure every M seconds it takes r until
 * the next step begins; and a share a of failures comes before their step has committed, which is retried and of
 * which half was done on average:
 *
 *     T = W·(1 + w) + T/M·(r + a·s/2)
 *
 * with the share w by which saves hold it up; goodput is W/T. All but M is measured. */
typedef struct ls_mending {
    double seen_seconds;    /* from a death to its notice */
    double restart_seconds; /* from there to the next step */
    double slower_seconds;  /* by which that takes longer than others: its memory is new */
    double step_seconds;
    double again_share; /* a */
    double save_share;  /* w */
} ls_mending;

/* Twice the goodput: without and with what is computed again; 0: failures come faster than the run gets over them. */
void ls_mending_goodput(const ls_mending *mending, double mtbf_seconds, double *aside, double *whole);

/* restart: r; save: d. */
ls_course ls_course_of(double work_seconds, double mtbf_seconds, double checkpoint_bytes, double bytes_per_second,
                       double restart_seconds);
/* The same with a given interval. */
double ls_course_seconds(const ls_course *course, double interval_seconds, double restart_seconds);

#endif
