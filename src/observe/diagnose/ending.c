/* ending.c: a run that ended before its last step: how, with which step, and what of it is lost.
 *
 * A process that ends in an orderly way tells why; one that was killed, or whose machine went down, tells nothing. */
#include <math.h>
#include <string.h>

#include "observe/diagnose/rules.h"

/* Returns the time, in seconds, that the recorded steps after `step` took. */
static double seconds_after(const ls_run_log *run, long long step) {
    double sum = 0;
    for (size_t i = run->step_count; i-- > 0 && run->steps[i].step > step;)
        if (run->steps[i].ms > 0) sum += run->steps[i].ms / 1e3;
    return sum;
}

/* Adds to *f how much of the run must be repeated, given its last checkpoint, and how to continue. */
static void describe_lost_work(const ls_case *c, ls_finding *f, long long last, long long planned) {
    const ls_run_log *run = c->run;
    long long saved = run->save_count > 0 ? run->saves[run->save_count - 1].step : 0;
    char time[LS_SPELL_MAX];
    LS_EVIDENCE(f, "the last recorded step is %lld; %lld of %lld steps are missing", last, planned - last, planned);
    if (saved > 0 && saved >= last)
        LS_EVIDENCE(f, "nothing is lost: step %lld was saved", saved);
    else if (saved > 0)
        LS_EVIDENCE(f, "the last checkpoint is of step %lld, so %lld step%s (%s of work) must be repeated", saved,
                    last - saved, last - saved == 1 ? "" : "s", ls_spell(seconds_after(run, saved), time));
    else
        LS_EVIDENCE(f, "no checkpoint was saved, so all %lld step%s (%s of work) are lost", last, last == 1 ? "" : "s",
                    ls_spell(seconds_after(run, 0), time));
    if (saved > 0)
        LS_ACTION(f, "continue with lockstep train --resume --out RUN%s",
                  last - saved > (planned - saved) / 10 + 1 ? "; a smaller --save-every loses less" : "");
    else
        LS_ACTION(f, "start again with --save-every %lld, which would have kept nine tenths of the work",
                  last >= 20 ? last / 10 : 2LL);
}

/* Returns whether the user, not a failure, ended the run: by an option, Ctrl-C or a signal. */
static bool is_requested_stop(const char *reason) {
    return strcmp(reason, "early stop") == 0 || strncmp(reason, "interrupted", 11) == 0 ||
           strncmp(reason, "terminated by", 13) == 0;
}

void ls_diagnose_ending(ls_case *c) {
    const ls_run_log *run = c->run;
    double planned = ls_run_log_option_number(run, "steps");
    if (run->step_count == 0 || !(planned < 1e15)) return;
    long long last = run->steps[run->step_count - 1].step, all = (long long)planned;
    if (last >= all) return;
    bool recorded = run->start.step != LS_RUN_NONE;
    for (int i = 0; i < c->out->finding_count; i++)
        if (!c->out->finding[i].is_note && !ls_cause_is_of_time(c->out->finding[i].cause)) return;
    if (run->is_open && !run->stopped) {
        LS_TITLE(ls_note_add(c, LS_CAUSE_ENDED, last, last, 0), "the run is still going: step %lld of %lld", last, all);
        return;
    }
    bool note = run->stopped ? is_requested_stop(run->stop) : !recorded;
    ls_finding *f =
        note ? ls_note_add(c, LS_CAUSE_ENDED, last, last, 0) : ls_finding_add(c, LS_CAUSE_ENDED, last, last, 0);
    if (run->stopped && note)
        LS_TITLE(f, "the run ended at step %lld of %lld: %s; %s", last, all, run->stop,
                 run->save_count > 0 && run->saves[run->save_count - 1].step >= last
                     ? "it was saved; continue with --resume"
                     : "it was not saved");
    else if (run->stopped)
        LS_TITLE(f, "the run ended at step %lld of %lld: %s", last, all, run->stop);
    else if (recorded)
        LS_TITLE(f, "the run was killed after step %lld of %lld: it recorded no reason", last, all);
    else
        LS_TITLE(f, "the run did not finish: its last step is %lld of %lld, and it recorded no reason", last, all);
    if (!note) describe_lost_work(c, f, last, all);
}
