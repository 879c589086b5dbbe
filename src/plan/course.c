/* course.c: the duration of a run with checkpoints and failures, by the formulas of course.h. */
#include "plan/course.h"

#include <math.h>

double ls_course_seconds(const ls_course *c, double interval, double restart) {
    double lost = ((interval + c->save_seconds) / 2 + restart) / c->mtbf_seconds;
    return lost < 1 ? c->work_seconds * (1 + c->save_seconds / interval) / (1 - lost) : 0;
}

ls_course ls_course_of(double work_seconds, double mtbf_seconds, double checkpoint_bytes, double bytes_per_second,
                       double restart_seconds) {
    ls_course c = {.work_seconds = work_seconds, .mtbf_seconds = mtbf_seconds, .checkpoint_bytes = checkpoint_bytes};
    double d = c.save_seconds = checkpoint_bytes / bytes_per_second, left = mtbf_seconds - restart_seconds - d / 2;
    if (left <= 0) return c;
    c.interval_seconds = sqrt(d * d + 2 * d * left) - d;
    if (!(c.interval_seconds > 0)) return c;
    c.seconds = ls_course_seconds(&c, c.interval_seconds, restart_seconds);
    c.failures = c.seconds / mtbf_seconds;
    c.goodput = c.seconds > 0 ? work_seconds / c.seconds : 0;
    return c;
}

/* Returns the goodput, the share of the run's time that makes progress, if each failure loses `lost_seconds` and saving
 * takes m->save_share of the training time. Returns 0 if the mean time between failures is at most `lost_seconds`. */
static double goodput_after(const ls_mending *m, double lost_seconds, double mtbf_seconds) {
    return lost_seconds < mtbf_seconds ? (1 - lost_seconds / mtbf_seconds) / (1 + m->save_share) : 0;
}

void ls_mending_goodput(const ls_mending *m, double mtbf_seconds, double *aside, double *whole) {
    double lost = m->seen_seconds + m->restart_seconds + m->slower_seconds;
    *aside = goodput_after(m, lost, mtbf_seconds);
    *whole = goodput_after(m, lost + m->again_share * m->step_seconds / 2, mtbf_seconds);
}
