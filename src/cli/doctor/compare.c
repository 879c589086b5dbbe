/* compare.c: `lockstep doctor A B`: finds what is different in run B, and which of it explains the difference in time,
 * and in the loss.
 *
 * The time of a step is divided by use: computing, network, bubble and so on. The use whose time changed most, in the
 * direction of the whole, explains the difference, and the changed options that act on it are its cause. If none does,
 * as on a machine that other programs load, the report names the changes that explain other uses. A different loss can
 * only come from model, data and the options of a run's identity, those that change results.
 *
 * A run that went wrong, for example one that ended in NaN, is the verdict; times come second. */
#include "cli/doctor/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/print.h"
#include "config/options.h"

enum { CHANGES_MAX = 64, SHOWN = 60 };

/* An option or fact that differs; texts are borrowed, "" was not recorded. */
typedef struct change {
    const char *name, *from, *to;
} change;

typedef struct comparison {
    const ls_run_log *run[2];
    const ls_diagnosis *diagnosis[2];
    change changed[CHANGES_MAX];
    int count;
    double ms[2][LS_USES]; /* of a step, with its part of what is between steps */
    double all[2];
    ls_use most;         /* that explains the difference; LS_USES: there is none to explain */
    char numbers[4][16]; /* texts of changes that are numbers */
} comparison;

/* ---- what changed ------------------------------------------------------------------------------------------------ */

/* Returns whether the option only names a run or its files and does not change what the run does. */
static bool is_of_no_account(const char *name) {
    static const char *const names[] = {"out", "resume", "fork", "trace", "log-level", "run", "config", "hash", NULL};
    for (int i = 0; names[i]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Records a change if the texts differ; drops it beyond CHANGES_MAX. */
static void add_change(comparison *c, const char *name, const char *from, const char *to) {
    if (strcmp(from, to) != 0 && c->count < CHANGES_MAX) c->changed[c->count++] = (change){name, from, to};
}

/* Finds what differs between the runs: machine, version, threads, workers, and the options that either has. */
static void find_changes(comparison *c) {
    const ls_run_log *a = c->run[0], *b = c->run[1];
    add_change(c, "cpu", a->start.cpu, b->start.cpu);
    add_change(c, "device", a->start.device, b->start.device);
    add_change(c, "version", a->start.version, b->start.version);
    for (int i = 0; i < 2; i++) {
        snprintf(c->numbers[i], sizeof c->numbers[i], "%d", c->run[i]->start.threads);
        snprintf(c->numbers[2 + i], sizeof c->numbers[2 + i], "%d", c->diagnosis[i]->use.workers);
    }
    add_change(c, "threads of a worker", c->numbers[0], c->numbers[1]);
    add_change(c, "workers", c->numbers[2], c->numbers[3]);
    for (size_t i = 0; i < a->option_count; i++) {
        const char *to = ls_run_log_option_get(b, a->options[i].name);
        if (!is_of_no_account(a->options[i].name))
            add_change(c, a->options[i].name, a->options[i].value, to ? to : "not set");
    }
    for (size_t i = 0; i < b->option_count; i++)
        if (!is_of_no_account(b->options[i].name) && !ls_run_log_option_get(a, b->options[i].name))
            add_change(c, b->options[i].name, "not set", b->options[i].value);
}

/* ---- what explains it -------------------------------------------------------------------------------------------- */

/* Returns whether a changed option or fact can change the time of this use. */
static bool acts_on(const char *name, ls_use use) {
    static const char *const of[LS_USES] = {
        [LS_USE_COMPUTING] =
            (" cpu device threads of a worker workers dp tp pp model preset seq global-batch precision "
             "matrix-unit recompute numerics audit check on-outlier threads version "),
        [LS_USE_NETWORK] = " slow-link dp tp zero workers global-batch transport node-size sequence-parallel ",
        [LS_USE_BUBBLE] = " pp schedule micro-batch virtual-stages stages global-batch ",
        [LS_USE_IMBALANCE] = " shares stages dp pp workers pin ",
        [LS_USE_INPUT] = " data augment seq global-batch ",
        [LS_USE_CHECKPOINTS] = " save-every keep ",
        [LS_USE_EVALUATION] = " eval-every eval-batches val-data ",
        [LS_USE_HOST] = " workers threads of a worker threads dp tp pp pin cpu ",
        [LS_USE_GPU] = " workers device dp tp pp "};
    char word[SHOWN];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(of[use], word) != NULL;
}

/* Returns whether the option can change results: those of the identity, model, data and version. Layout, links and
 * machine change no bit. */
static bool changes_result(const char *name) {
    ls_option_id id = ls_option_find_of(LS_COMMAND_TRAIN, name);
    if (strcmp(name, "model") == 0 || strcmp(name, "data") == 0 || strcmp(name, "version") == 0) return true;
    return id != LS_OPTION_COUNT && ls_option_info_get(id)->identity.place > 0;
}

/* Computes the milliseconds of a step by use (checkpoints and evaluation are spread over the steps) and c->most, the
 * use that explains the difference; LS_USES if the times differ by at most 3 %. */
static void divide_step_time(comparison *c) {
    for (int i = 0; i < 2; i++) {
        const ls_utilisation *u = &c->diagnosis[i]->use;
        double steps = 1 - u->share[LS_USE_CHECKPOINTS] - u->share[LS_USE_EVALUATION];
        c->all[i] = u->steps > 0 ? u->step_ms / steps : (double)NAN;
        for (int k = 0; k < LS_USES; k++) c->ms[i][k] = c->all[i] * u->share[k];
    }
    double whole = c->all[1] - c->all[0], most = 0;
    c->most = LS_USES;
    if (!(fabs(whole) > .03 * c->all[0])) return;
    for (int k = 0; k < LS_USES; k++) {
        double part = (c->ms[1][k] - c->ms[0][k]) / whole;
        if (part > most) most = part, c->most = (ls_use)k;
    }
}

/* Returns the finding of a run whose numbers went wrong, or NULL: also for a run that was only slow or was killed. */
static const ls_finding *find_failure(const ls_diagnosis *d) {
    if (d->cause_count == 0 || ls_cause_is_of_time(d->finding[0].cause)) return NULL;
    return d->finding[0].cause == LS_CAUSE_ENDED ? NULL : &d->finding[0];
}

/* Finds the first common step with different losses, and the last common step with both losses; LS_RUN_NONE if there is
 * none. */
static void compare_losses(const comparison *c, long long *first, long long *last, double loss[2]) {
    const ls_run_log *a = c->run[0], *b = c->run[1];
    *first = *last = LS_RUN_NONE;
    for (size_t i = 0, k = 0; i < a->step_count && k < b->step_count;) {
        const ls_run_log_step *x = &a->steps[i], *y = &b->steps[k];
        if (x->step != y->step) {
            (x->step < y->step ? &i : &k)[0]++;
            continue;
        }
        if (*first == LS_RUN_NONE && x->loss != y->loss) *first = x->step;
        *last = x->step;
        loss[0] = x->loss, loss[1] = y->loss;
        i++, k++;
    }
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Prints all changes. */
static void print_changes(const comparison *c) {
    printf("what changed\n");
    if (c->count == 0) printf("  nothing: the recorded options, layout and machine are the same\n");
    for (int i = 0; i < c->count; i++)
        printf("  %-22s %.*s -> %.*s\n", c->changed[i].name, SHOWN,
               c->changed[i].from[0] ? c->changed[i].from : "not recorded", SHOWN,
               c->changed[i].to[0] ? c->changed[i].to : "not recorded");
}

/* Prints the milliseconds of a step by use in both runs; leaves out uses below 0.1 % of it. */
static void print_time(const comparison *c) {
    printf("\ntime of a step, ms\n");
    if (!(c->all[0] > 0) || !(c->all[1] > 0)) {
        printf("  one of the runs did not record enough to compare\n");
        return;
    }
    printf("  %-28s %10s %10s %10s\n", "", "first", "second", "change");
    for (int k = 0; k < LS_USES; k++)
        if (c->ms[0][k] > .001 * c->all[0] || c->ms[1][k] > .001 * c->all[1])
            printf("  %-28s %10.1f %10.1f %+10.1f\n", ls_use_name((ls_use)k), c->ms[0][k], c->ms[1][k],
                   c->ms[1][k] - c->ms[0][k]);
    printf("  %-28s %10.1f %10.1f %+10.1f\n", "all", c->all[0], c->all[1], c->all[1] - c->all[0]);
}

/* Prints `before` and the changed options that act on a use of time, or on the result (LS_USES). Returns false, without
 * output, if there are none. */
static bool print_acting(const comparison *c, const char *before, ls_use use) {
    bool any = false;
    for (int i = 0; i < c->count; i++) {
        const change *one = &c->changed[i];
        if (use == LS_USES ? !changes_result(one->name) : !acts_on(one->name, use)) continue;
        printf("%s%s %.*s -> %.*s", any ? ", " : before, one->name, SHOWN, one->from, SHOWN, one->to);
        any = true;
    }
    if (any) printf("\n");
    return any;
}

/* Explains a different matrix unit in runs with the same 16-bit type: its default depends on the machine. */
static void print_unit_advice(const comparison *c) {
    const change *unit = NULL;
    for (int i = 0; i < c->count; i++) {
        if (strcmp(c->changed[i].name, "precision") == 0) return;
        if (strcmp(c->changed[i].name, "matrix-unit") == 0) unit = &c->changed[i];
    }
    if (unit)
        printf(
            "  --matrix-unit %.*s in both runs removes this difference: CPUs default to chain, Hopper GPUs to hgmma\n",
            SHOWN, unit->from);
}

/* Prints from which step on the losses differ, the changes that may be the reason, and each run's own diagnosis. */
static void print_loss(const comparison *c) {
    long long first, last;
    double loss[2];
    compare_losses(c, &first, &last, loss);
    printf("\nloss\n");
    if (last == LS_RUN_NONE)
        printf("  the runs have no step in common\n");
    else if (first == LS_RUN_NONE)
        printf("  bit-identical in all common steps; at step %lld it is %.4f\n", last, loss[0]);
    else {
        printf("  different from step %lld on; at step %lld it is %.4f and %.4f\n", first, last, loss[0], loss[1]);
        if (!print_acting(c, "  changed options that affect it: ", LS_USES))
            printf("  no recorded change explains it: check whether files of the data or the model were changed in "
                   "place\n");
        print_unit_advice(c);
    }
    for (int i = 0; i < 2; i++)
        if (c->diagnosis[i]->cause_count > 0 && !find_failure(c->diagnosis[i]))
            printf("  diagnosis of the %s run alone: %s\n", i == 0 ? "first" : "second",
                   c->diagnosis[i]->finding[0].title);
}

/* Prints the failures of both runs, which are then the verdict. Returns false if there are none. */
static bool print_failures(const comparison *c) {
    const ls_finding *of[2] = {find_failure(c->diagnosis[0]), find_failure(c->diagnosis[1])};
    if (!of[0] && !of[1]) return false;
    printf("verdict: ");
    for (int i = 0; i < 2; i++)
        if (of[i])
            printf("%sthe %s run went wrong: %s\n", i == 1 && of[0] ? "  " : "", i == 0 ? "first" : "second",
                   of[i]->title);
    for (int i = 0; i < 2; i++)
        if (of[i] && of[i]->action[0])
            printf("  what to change in the %s: %s\n", i == 0 ? "first" : "second", of[i]->action);
    return true;
}

/* Prints the failures, if any, and which use of time explains the difference. */
static void print_verdict(const comparison *c) {
    double whole = c->all[1] - c->all[0];
    printf("%s", print_failures(c) ? "  time: " : "verdict: ");
    if (c->most == LS_USES) {
        printf("%s\n\n", c->all[0] > 0 && c->all[1] > 0 ? "both runs take the same time per step, within 3 %"
                                                        : "the times of these runs cannot be compared");
        return;
    }
    printf("a step of the second run takes %.2f times as long; %.0f %% of the difference is %s\n",
           c->all[1] / c->all[0], 100 * (c->ms[1][c->most] - c->ms[0][c->most]) / whole, ls_use_name(c->most));
    if (!print_acting(c, "  changed options that affect it: ", c->most)) {
        printf("  no recorded change explains it: check the machine and what else ran there\n");
        for (int k = 0; k < LS_USES; k++) {
            double more = c->ms[1][k] - c->ms[0][k];
            char before[96];
            snprintf(before, sizeof before, "  %+.1f ms of %s come from ", more, ls_use_name((ls_use)k));
            if (more * whole > 0 && fabs(more) > .05 * c->all[0]) (void)print_acting(c, before, (ls_use)k);
        }
    }
    printf("\n");
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Returns change i of the comparison ctx as a new object. A callback of ls_cli_json_list(). */
static json_t *change_json(const void *ctx, int i) {
    const comparison *c = ctx;
    return json_pack("{s:s, s:s, s:s, s:b, s:b}", "name", c->changed[i].name, "from", c->changed[i].from, "to",
                     c->changed[i].to, "explains", c->most < LS_USES && acts_on(c->changed[i].name, c->most),
                     "changes_result", changes_result(c->changed[i].name));
}

/* Returns the times of use k in both runs as a new object. A callback of ls_cli_json_list(). */
static json_t *use_json(const void *ctx, int k) {
    const comparison *c = ctx;
    return json_pack("{s:s, s:o, s:o}", "of", ls_use_name((ls_use)k), "first_ms", ls_cli_json_number(c->ms[0][k]),
                     "second_ms", ls_cli_json_number(c->ms[1][k]));
}

/* Returns the failure of a run as a new object; null if its numbers are correct. */
static json_t *failure_json(const ls_diagnosis *d) {
    const ls_finding *f = find_failure(d);
    return f ? json_pack("{s:s, s:s}", "cause", ls_cause_name(f->cause), "title", f->title) : json_null();
}

/* Prints the comparison as JSON. first, second: the runs as the user named them. */
static ls_status print_comparison_json(const char *first, const char *second, const comparison *c) {
    long long differs, last;
    double loss[2];
    compare_losses(c, &differs, &last, loss);
    return ls_cli_print_json(json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "first", ls_cli_json_path(first), "second",
        ls_cli_json_path(second), "first_ms", ls_cli_json_number(c->all[0]), "second_ms", ls_cli_json_number(c->all[1]),
        "explained_by", c->most < LS_USES ? json_string(ls_use_name(c->most)) : json_null(), "changed",
        ls_cli_json_list(c->count, change_json, c), "time", ls_cli_json_list(LS_USES, use_json, c),
        "losses_differ_from", differs == LS_RUN_NONE ? json_null() : json_integer((json_int_t)differs), "first_failure",
        failure_json(c->diagnosis[0]), "second_failure", failure_json(c->diagnosis[1])));
}

ls_status ls_doctor_compare(const char *const name[2], const ls_run_log run[2], const ls_diagnosis diagnosis[2],
                            bool json) {
    static comparison c;
    c = (comparison){.run = {&run[0], &run[1]}, .diagnosis = {&diagnosis[0], &diagnosis[1]}};
    find_changes(&c);
    divide_step_time(&c);
    if (json) return print_comparison_json(name[0], name[1], &c);
    printf("from %s to %s\n\n", name[0], name[1]);
    print_verdict(&c);
    print_changes(&c);
    print_time(&c);
    print_loss(&c);
    return LS_OK;
}
