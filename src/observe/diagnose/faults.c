/* faults.c: workers that compute, or keep, numbers wrongly, as replica checks, hashes and audits saw them. */
#include "observe/diagnose/rules.h"

/* Returns whether the event shows a faulty worker. A value that is not finite does so only if repeating the step gave
 * a finite one. */
static bool is_fault(const ls_run_log_event *e) {
    if (e->kind == LS_EVENT_NON_FINITE) return e->has_recurs && !e->recurs;
    return e->kind == LS_EVENT_REPLICA || e->kind == LS_EVENT_STATE || e->kind == LS_EVENT_AUDIT;
}

/* Sets the title, and adds evidence, by the kind of the event. */
static void describe_fault(ls_finding *f, const ls_run_log_event *e) {
    switch (e->kind) {
    case LS_EVENT_REPLICA:
        if (e->suspect_count == 1)
            LS_TITLE(f, "worker %d has different weights from its replicas", e->worker);
        else
            LS_TITLE(f, "replicas have different weights: worker %d%s is wrong", e->worker,
                     e->suspect_count > 1 ? " or one of the others listed" : "");
        LS_EVIDENCE(f, "step %lld: %d worker%s from the others in %s", e->step, e->suspect_count,
                    e->suspect_count == 1 ? " differs" : "s differ", e->tensor[0] ? e->tensor : "a tensor");
        for (int i = 0; i < e->suspect_count && e->suspect_count > 1; i++)
            if (i < 3) LS_EVIDENCE(f, "suspect: worker %d", e->suspects[i]);
        break;
    case LS_EVENT_STATE:
        LS_TITLE(f, "memory of worker %d was corrupted: %s of %s is not what was written", e->worker,
                 e->what[0] ? e->what : "a value", e->tensor[0] ? e->tensor : "a tensor");
        break;
    case LS_EVENT_AUDIT:
        LS_TITLE(f, "worker %d computed a wrong gradient%s%s", e->worker, e->block[0] ? ", first in " : "", e->block);
        LS_EVIDENCE(f,
                    "step %lld: group %d of worker %d was recomputed by worker %d; worker %d is the one that is wrong",
                    e->step, e->group, e->owner, e->auditor, e->worker);
        break;
    default:
        if (e->worker == LS_RUN_NONE)
            LS_TITLE(f, "a value was not finite, but was finite when the step was repeated: a transient fault");
        else
            LS_TITLE(f, "worker %d produced a value that is not finite, but not when it repeated the step", e->worker);
        if (e->tensor[0])
            LS_EVIDENCE(f, "step %lld: %s in %s %s", e->step, e->value[0] ? e->value : "not finite", e->block,
                        e->tensor);
    }
}

/* Adds as evidence the steps between the last clean check and the fault, and whether the run repeated them. */
static void describe_doubt(ls_finding *f, const ls_run_log_event *e) {
    if (e->suspect_from != LS_RUN_NONE)
        LS_EVIDENCE(f, "steps %lld to %lld, made since the last clean %s, %s", e->suspect_from, e->suspect_to,
                    e->kind == LS_EVENT_AUDIT ? "audit" : "check",
                    e->found_step != LS_RUN_NONE ? "were suspect and repeated" : "are suspect");
    if (e->found_step != LS_RUN_NONE)
        LS_EVIDENCE(f, "detected in step %lld; the run continued by itself from step %lld%s", e->found_step, e->step,
                    e->left_out ? ", without the cores or the GPU of this worker" : "");
}

/* Returns the first step whose result may be wrong. */
static long long first_in_doubt(const ls_run_log_event *e) {
    return e->suspect_from != LS_RUN_NONE ? e->suspect_from : e->step;
}

void ls_diagnose_faults(ls_case *c) {
    const ls_run_log *run = c->run;
    const ls_run_log_event *first = NULL, *last = NULL;
    size_t count = 0, of_worker = 0;
    bool persistent = false;
    for (size_t i = 0; i < run->event_count; i++) {
        const ls_run_log_event *e = &run->events[i];
        if (!is_fault(e)) continue;
        if (!first) first = e;
        last = e;
        count++;
        if (e->worker != first->worker) continue;
        of_worker++;
        persistent = persistent || e->persistent;
    }
    if (!first) return;
    ls_finding *f = ls_finding_add(c, LS_CAUSE_FAULT, first->step, last->step, (double)count);
    f->worker = first->worker;
    f->group = first->group;
    ls_finding_name(f, first);
    describe_fault(f, first);
    describe_doubt(f, first);
    bool is_known = f->worker != LS_RUN_NONE;
    persistent = persistent || (is_known && of_worker > 2);
    if (is_known)
        LS_EVIDENCE(f, "%zu such event%s in total, %zu of this worker: %s", count, count == 1 ? "" : "s", of_worker,
                    persistent ? "recurring" : "transient so far");
    else
        LS_EVIDENCE(f, "%zu such event%s in total; the worker was not recorded", count, count == 1 ? "" : "s");
    if (!is_known)
        LS_ACTION(f, "nothing now: the repeated step was used; --audit 0.05 would have identified the worker");
    else if (last->found_step != LS_RUN_NONE && (last->left_out || !persistent))
        LS_ACTION(f, "nothing for this run, which continued from a verified state; test the %s of worker %d",
                  first->kind == LS_EVENT_AUDIT ? "processor or GPU" : "memory", f->worker);
    else if (persistent && first->suspect_from != LS_RUN_NONE)
        LS_ACTION(f,
                  "remove the machine of worker %d from the run and continue with --resume from the last checkpoint "
                  "before step %lld; lockstep bisect RUN --from %lld shows whether the steps after it are wrong",
                  f->worker, first_in_doubt(first), first_in_doubt(first) - 1);
    else if (persistent)
        LS_ACTION(f,
                  "remove the machine of worker %d from the run and continue with --resume from the last checkpoint "
                  "before step %lld",
                  f->worker, first_in_doubt(first));
    else
        LS_ACTION(f,
                  "continue with --resume from the last checkpoint before step %lld and --audit 0.05; remove the "
                  "machine of worker %d if it happens again",
                  f->step, f->worker);
}
