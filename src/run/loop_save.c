/* loop_save.c: decides when a run saves a checkpoint, and reports what came of it. */
#include <inttypes.h>
#include <math.h>

#include "base/alive.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "comm/world/world.h"
#include "run/agree.h"
#include "run/loop.h"
#include "run/state_hash.h"

/* An evaluation that is better than those saved is saved as well if a tenth of --save-every, and at least one step, has
 * passed since the last save, because a model may improve at every evaluation. A run with --early-stop ends after its
 * best evaluation, so it saves each of them. */
enum { NOTE_MAX = 256, BEST_SHARE = 10 };

/* ---- outcomes ---------------------------------------------------------------------------------------------------- */

/* Chooses the interval of --save-every auto with the formula of Young and Daly: with one failure every M seconds and
 * saves for which training waits C seconds, an interval of √(2 · C · M) loses least. At least two saves long, so that
 * each save can finish, and 10 s to one day; a change of at most a tenth is not made. Called on rank 0, whose clock
 * counts. */
static void choose_interval(ls_loop *l, const ls_save_outcome *o) {
    const double mtbf_h = 3, least_s = 10, most_s = 86400;
    const ls_options *given = &l->trainer->settings.options;
    double mtbf_s = 3600 * (given->mtbf > 0 ? given->mtbf : mtbf_h), every_s = sqrt(2 * o->stall_s * mtbf_s);
    if (every_s < 2 * o->seconds) every_s = 2 * o->seconds;
    if (every_s < least_s) every_s = least_s;
    if (every_s > most_s) every_s = most_s;
    if (!(fabs(every_s - l->saves.every_s) > 0.1 * l->saves.every_s)) return;
    l->saves.every_s = every_s;
    ls_log_info("a checkpoint every %.0f s: training waited %.3f s for one, with a failure every %.1f h (--mtbf)",
                every_s, o->stall_s, mtbf_s / 3600);
}

/* Records the outcome of a save in the metrics, and reports or warns. Does nothing except on rank 0. */
static ls_status tell_saved(ls_loop *l, const ls_save_outcome *o) {
    char text[NOTE_MAX];
    if (!l->reports) return LS_OK;
    ls_loop_record_save(l, o);
    if (o->status != LS_OK) {
        ls_log_warn(
            "the checkpoint of step %" PRId64
            " could NOT be saved: %s; training continues, and the newest checkpoint is still that of step %" PRId64,
            o->step, o->text, l->saves.sound_step > 0 ? l->saves.sound_step : 0);
        return LS_OK;
    }
    if (l->trainer->settings.save_auto) choose_interval(l, o);
    if (o->along)
        snprintf(text, sizeof text, "step %lld | checkpoint saved in %.1f s; training waited %.3f s",
                 (long long)o->step, o->seconds, o->stall_s);
    else
        snprintf(text, sizeof text, "step %lld | checkpoint saved in %.1f s", (long long)o->step, o->seconds);
    return ls_loop_report(l, (ls_run_event){.kind = LS_RUN_SAVED, .text = text});
}

/* Notes that the present step is being saved, as if that had succeeded, because the checkpoint holds these notes;
 * take_failure() undoes it. */
static void take_saving(ls_loop *l) {
    ls_trainer *t = l->trainer;
    l->saves.before = t->validation;
    l->saves.sound_step = l->saves.saved_step;
    ls_validation_saving(&t->validation, t->step);
    if (l->saves.store) ls_store_set_best(l->saves.store, t->validation.saved_step);
    if (l->saves.store && t->guard.audit.every > 0) ls_store_set_clean(l->saves.store, t->guard.audit.clean_step);
    l->saves.saved_s = ls_clock_seconds(); /* what fails is not tried again at once */
}

/* Undoes take_saving() after a save has failed. */
static void take_failure(ls_loop *l) {
    ls_validation *v = &l->trainer->validation;
    l->saves.saved_step = l->saves.sound_step;
    v->saved_loss = l->saves.before.saved_loss;
    v->saved_step = l->saves.before.saved_step;
}

ls_status ls_loop_settle_save(ls_loop *l) {
    if (!l->saves.enabled) return LS_OK;
    ls_save_outcome o;
    bool news;
    LS_TRY(ls_saver_settle(l->saves.saver, &o, &news));
    if (o.step >= 0 && o.status != LS_OK && l->saves.saved_step == o.step) take_failure(l);
    return news ? tell_saved(l, &o) : LS_OK;
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

/* Saves while training waits. `since_s`: since when it has waited. */
static ls_status save_now(ls_loop *l, double since_s) {
    ls_save_outcome o;
    take_saving(l);
    l->saves.in_progress = true;
    (void)ls_phase_enter(LS_PHASE_SAVE);
    ls_fault_point(LS_POINT_SAVE);
    ls_status status = ls_saver_save(l->saves.saver, since_s, ls_metrics_share(l->record.metrics), &o);
    if (status != LS_OK) {
        take_failure(l);
        return status;
    }
    l->saves.in_progress = false;
    l->saves.saved_step = l->trainer->step;
    ls_fault_point(LS_POINT_SAVED);
    if (o.seconds > l->saves.longest_s) l->saves.longest_s = o.seconds;
    return tell_saved(l, &o);
}

ls_status ls_loop_save(ls_loop *l) {
    ls_trainer *t = l->trainer;
    double since_s = ls_clock_seconds();
    if (!l->saves.enabled) return LS_OK;
    LS_TRY(ls_loop_settle_save(l));
    /* Before the first step there is nothing that could not be made again. */
    if (l->saves.saved_step == t->step || (l->stop != 0 && t->step == t->origin.step)) return LS_OK;
    LS_TRY(ls_trainer_prove_state(t));
    return save_now(l, since_s);
}

/* Starts a save in the background; the saver must have a snapshot. */
static ls_status begin_save(ls_loop *l, double since_s) {
    take_saving(l);
    (void)ls_phase_enter(LS_PHASE_SAVE);
    ls_fault_point(LS_POINT_SAVE);
    ls_status status = ls_saver_begin(l->saves.saver, since_s, ls_metrics_share(l->record.metrics));
    if (status == LS_OK)
        l->saves.saved_step = l->trainer->step;
    else
        take_failure(l);
    ls_fault_point(LS_POINT_SAVED);
    return status;
}

/* Saves at a step that is due, in the background if possible. A failure of the save is reported, and is LS_OK, unless
 * the state is damaged or not finite, or a worker has failed. */
static ls_status save_along(ls_loop *l) {
    double since_s = ls_clock_seconds();
    LS_TRY(ls_loop_settle_save(l));
    if (l->saves.saved_step == l->trainer->step) return LS_OK;
    LS_TRY(ls_trainer_prove_state(l->trainer)); /* what is not sound ends the run */
    ls_status status = ls_saver_has_snapshot(l->saves.saver) ? begin_save(l, since_s) : save_now(l, since_s);
    l->saves.in_progress = false;
    if (status == LS_OK) return LS_OK;
    /* It is not the save that has failed. */
    if (l->trainer->failure.is_damaged || (l->trainer->world && l->trainer->world->failure.failed)) return status;
    ls_save_outcome o = {.step = l->trainer->step, .status = status};
    snprintf(o.text, sizeof o.text, "%s", ls_status_message());
    return tell_saved(l, &o);
}

/* Allocates the snapshot at the first save, or before it, so that the save itself does not wait for memory: in the
 * second half of an interval in steps, or after a tenth of one in time. Once in a run; warns if there is too little
 * memory. */
static ls_status prepare_first_save(ls_loop *l, bool is_due_now) {
    const ls_settings *s = &l->trainer->settings;
    char why[LS_MESSAGE_MAX];
    bool half_way = s->save_every > 0 && 2 * (l->trainer->step % s->save_every) >= s->save_every;
    if (l->saves.prepared || !(is_due_now || half_way || l->requests & LS_REQUEST_SAVE_BEST)) return LS_OK;
    l->saves.prepared = true;
    LS_TRY(ls_saver_prepare(l->saves.saver, s->options.save_mode, why));
    if (why[0]) ls_log_warn("%s: training waits while checkpoints are written", why);
    return LS_OK;
}

/* Reports, on rank 0, a background save that has ended since the last call; does not wait. */
static ls_status look_at_save(ls_loop *l) {
    ls_save_outcome o;
    return l->reports && ls_saver_look(l->saves.saver, &o) ? tell_saved(l, &o) : LS_OK;
}

/* Returns whether a save is due after this step; the same on all workers. */
static bool save_is_due(const ls_loop *l) {
    const ls_trainer *t = l->trainer;
    const ls_settings *s = &t->settings;
    int64_t done = t->step, since = done - (l->saves.saved_step > 0 ? l->saves.saved_step : t->origin.step);
    if ((s->save_every > 0 && done % s->save_every == 0) || l->requests & LS_REQUEST_SAVE) return true;
    if (!ls_validation_is_best_at(&t->validation, done)) return false;
    if (s->options.early_stop > 0) return s->save_every > 0 || s->save_every_s > 0;
    if (l->requests & LS_REQUEST_SAVE_BEST) return true;
    return s->save_every >= BEST_SHARE && since >= s->save_every / BEST_SHARE;
}

ls_status ls_loop_save_as_due(ls_loop *l) {
    bool is_due_now = save_is_due(l);
    LS_TRY(prepare_first_save(l, is_due_now));
    return is_due_now ? save_along(l) : look_at_save(l);
}

int ls_loop_save_requests(const ls_loop *l, double now_s) {
    double every_s = l->saves.every_s, passed_s = now_s - l->saves.saved_s;
    if (!l->reports || !(every_s > 0) || !l->saves.saver || ls_saver_is_busy(l->saves.saver)) return 0;
    return (passed_s >= every_s ? LS_REQUEST_SAVE : 0) | (passed_s >= every_s / BEST_SHARE ? LS_REQUEST_SAVE_BEST : 0);
}

int64_t ls_loop_kept_step(const ls_loop *l) {
    const ls_loop_saves *s = &l->saves;
    return s->saver && ls_saver_is_busy(s->saver) ? s->sound_step : s->saved_step;
}

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

ls_status ls_loop_save_begin(ls_loop *l) {
    ls_trainer *t = l->trainer;
    ls_loop_saves *s = &l->saves;
    s->saved_step = l->taken ? l->taken->saved_step : t->step > 0 ? t->step : -1;
    s->sound_step = s->saved_step;
    s->every_s = t->settings.save_every_s;
    s->saved_s = ls_clock_seconds();
    if (t->validation.saved_step > s->saved_step) { /* it was being saved when workers were lost */
        t->validation.saved_loss = (double)NAN;
        t->validation.saved_step = -1;
    }
    if (!s->enabled) return LS_OK;
    return ls_agree(t->world, ls_saver_open(t, s->store, s->identity, l->sample.tokenizer, &s->saver));
}

void ls_loop_save_end(ls_loop *l) {
    ls_saver_close(l->saves.saver, l->failed);
    l->saves.saver = NULL;
}

bool ls_loop_may_save(const ls_loop *l) {
    const ls_trainer *t = l->trainer;
    bool alone = !t->world || ls_world_size(t->world) == 1;
    if (t->step == 0 || l->saves.in_progress || t->failure.is_damaged) return false;
    return l->in_step ? t->failure.ended_whole : alone;
}

ls_status ls_loop_save_last(ls_loop *l) {
    bool finite = false;
    LS_TRY(ls_trainer_is_finite(l->trainer, &finite));
    if (!finite) return LS_OK;
    LS_TRY(ls_loop_settle_save(l));
    if (l->saves.store) ls_store_set_keep(l->saves.store, 0);
    return ls_loop_save(l);
}
