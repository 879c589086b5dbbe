/* compare.c: `lockstep plan --compare A.json B.json`: prints two answers of plan --json as one table, for a change of
 * hardware: how the best layout and the time of a step change, which techniques to stop using, and which to begin. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "parallel/layout/knobs.h"
#include "plan/plan.h"
#include "report/numbers.h"

enum { FILE_MAX_BYTES = 64 << 20, NAME_MAX_BYTES = 4096, CELL = 96, ITEMS_MAX = 24 };

#define GIB (1024.0 * 1024.0 * 1024.0)

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct answer {
    char name[NAME_MAX_BYTES];
    json_t *json;
    const json_t *best, *layout;
} answer;

/* Reads the file a->name. Fails unless it is an answer for a cluster of chips in which some layout fits. a->json is to
 * be released in any case. */
static ls_status read_answer(answer *a) {
    char *text;
    size_t bytes;
    json_error_t error;
    LS_TRY(ls_file_read(a->name, FILE_MAX_BYTES, &text, &bytes));
    a->json = json_loadb(text, bytes, 0, &error);
    free(text);
    if (!a->json) return ls_fail(LS_ERR_INPUT, "%s: line %d: %s", a->name, error.line, error.text);
    a->best = json_object_get(a->json, "best");
    a->layout = json_object_get(a->best, "layout");
    if (!a->best || !json_is_object(json_object_get(a->json, "cluster")))
        return ls_fail(LS_ERR_INPUT, "%s is not what lockstep plan --json prints for a cluster of chips", a->name);
    if (!json_is_object(a->layout))
        return ls_fail(LS_ERR_INPUT, "%s has no layout to compare: nothing fits there", a->name);
    return LS_OK;
}

/* Reads the two files of --compare, whose names are separated by a comma. */
static ls_status read_both(const ls_options *o, answer both[2]) {
    const char *comma = strchr(o->compare, ',');
    if (!comma || strchr(comma + 1, ','))
        return ls_fail(LS_ERR_INPUT,
                       "--compare needs two files, which plan --json has written: --compare A.json B.json");
    snprintf(both[0].name, sizeof both[0].name, "%.*s", (int)(comma - o->compare), o->compare);
    snprintf(both[1].name, sizeof both[1].name, "%s", comma + 1);
    for (int i = 0; i < 2; i++) {
        ls_status status = read_answer(&both[i]);
        if (status != LS_OK) return ls_fail_at(status, "--compare: ");
    }
    return LS_OK;
}

/* Returns a member of an object as a number; 0 if it is absent. */
static double number(const json_t *object, const char *name) {
    return json_number_value(json_object_get(object, name));
}

/* Writes a member of a layout as text, an absent one as `neutral`; returns `text`. */
static const char *knob_text(const json_t *layout, const char *name, const char *neutral, char text[CELL]) {
    const json_t *value = json_object_get(layout, name);
    if (json_is_string(value))
        snprintf(text, CELL, "%s", json_string_value(value));
    else if (json_is_boolean(value))
        snprintf(text, CELL, "%s", json_is_true(value) ? "yes" : "no");
    else if (json_is_number(value))
        snprintf(text, CELL, "%.10g", json_number_value(value));
    else
        snprintf(text, CELL, "%s", neutral);
    return text;
}

/* The knobs (fields) of a layout that are compared; neutral: the value that plan --json leaves out. */
static const struct {
    const char *member, *words, *neutral;
    bool stops; /* less of it is something to stop doing */
} knobs[] = {{"dp", "dp", "1", false},
             {"tp", "tp", "1", true},
             {"pp", "pp", "1", true},
             {"virtual-stages", "virtual stages", "1", true},
             {"schedule", "schedule", "1f1b", false},
             {"micro-batch", "micro-batch", "1", false},
             {"zero", "ZeRO", "0", true},
             {"recompute", "recomputation", "none", true},
             {"sequence-parallel", "sequence parallel", "no", true},
             {"precision", "precision", "fp32", false},
             {"sites_divide", "sites divide", "-", false}};
enum { KNOBS = sizeof knobs / sizeof knobs[0] };

/* Returns whether two layouts have the same value of knob k. */
static bool is_same_knob(const json_t *a, const json_t *b, int k) {
    char x[CELL], y[CELL];
    return strcmp(knob_text(a, knobs[k].member, knobs[k].neutral, x),
                  knob_text(b, knobs[k].member, knobs[k].neutral, y)) == 0;
}

/* ---- what to stop and to begin ----------------------------------------------------------------------------------- */

/* A line of advice about a knob that differs. */
typedef struct item {
    bool stop; /* otherwise begin */
    int knob;
    char what[CELL], why[2 * CELL];
} item;

typedef struct items {
    item list[ITEMS_MAX];
    int count;
} items;

/* Returns the seconds of a step that the answer's best layout spends on a kind of time. */
static double kind_seconds(const answer *a, ls_time_kind kind) {
    return number(json_object_get(a->best, "time_seconds"), ls_time_kind_name(kind));
}

/* Returns the share of a step that the answer's best layout spends on a kind of time. */
static double share(const answer *a, ls_time_kind kind) { return kind_seconds(a, kind) / number(a->best, "seconds"); }

/* Returns the kind of time in which the cost of a knob shows; LS_TIME_KINDS: none in particular. */
static ls_time_kind kind_of(const char *member) {
    return strcmp(member, "recompute") == 0 ? LS_TIME_RECOMPUTE
           : strcmp(member, "tp") == 0      ? LS_TIME_TP
           : strcmp(member, "pp") == 0      ? LS_TIME_BUBBLE
           : strcmp(member, "zero") == 0    ? LS_TIME_GATHER
                                            : LS_TIME_KINDS;
}

/* Returns the layout of B with A's value of one knob and its predicted time, or NULL if B's answer does not contain it.
 * Borrowed. */
static const json_t *find_kept(const answer both[2], int knob) {
    static const char *const lists[] = {"runners_up", "misfits", "changes"};
    for (size_t l = 0; l < 3; l++) {
        size_t i;
        const json_t *one;
        json_array_foreach(json_object_get(both[1].json, lists[l]), i, one) {
            const json_t *layout = json_object_get(one, "layout");
            bool same = !json_is_true(json_object_get(one, "hardware"));
            for (int k = 0; k < KNOBS && same; k++)
                same = is_same_knob(layout, k == knob ? both[0].layout : both[1].layout, k);
            if (same) return one;
        }
    }
    return NULL;
}

/* Returns the rank of a knob's value (more of the technique is higher), or −1 if its values have no order. */
static double degree(const json_t *layout, int k) {
    static const char *const orders[] = {"none", "selective", "full"};
    char text[CELL];
    knob_text(layout, knobs[k].member, knobs[k].neutral, text);
    for (int i = 0; i < 3; i++)
        if (strcmp(text, orders[i]) == 0) return i;
    if (strcmp(text, "yes") == 0) return 1;
    if (strcmp(text, "no") == 0) return 0;
    char *rest;
    double value = strtod(text, &rest);
    return *rest ? -1 : value;
}

/* Writes why the knob changes: the time that it costs, and what A's value would cost in B, as far as the answers
 * contain it. */
static void add_reason(const answer both[2], item *out) {
    ls_time_kind kind = kind_of(knobs[out->knob].member);
    const answer *user = &both[out->stop ? 0 : 1];
    const json_t *kept = find_kept(both, out->knob);
    int used = 0;
    if (kind < LS_TIME_KINDS && kind_seconds(user, kind) > 0)
        used = snprintf(out->why, sizeof out->why, "it %s %.1f %% of the step in %s (%s)", out->stop ? "took" : "takes",
                        100 * share(user, kind), out->stop ? "A" : "B", ls_time_kind_label(kind));
    size_t room = sizeof out->why - (size_t)used;
    double lacks = number(kept, "lacks_bytes"), seconds = number(kept, "seconds"),
           now = number(both[1].best, "seconds");
    const char *join = used > 0 ? "; " : "";
    if (kept && lacks > 0)
        snprintf(out->why + used, room, "%sas in A it lacks %.1f GiB in B", join, lacks / GIB);
    else if (kept && seconds > 0)
        snprintf(out->why + used, room, "%sas in A a step of B takes %s%.1f %% more", join, seconds < now ? "−" : "",
                 100 * (seconds > now ? seconds / now - 1 : 1 - seconds / now));
}

/* Makes a line of advice for each knob that differs. */
static void find_items(const answer both[2], items *out) {
    out->count = 0;
    for (int k = 0; k < KNOBS; k++) {
        if (is_same_knob(both[0].layout, both[1].layout, k)) continue;
        double a = degree(both[0].layout, k), b = degree(both[1].layout, k);
        char x[CELL], y[CELL];
        item *one = &out->list[out->count++];
        *one = (item){.knob = k, .stop = knobs[k].stops && b < a};
        snprintf(one->what, sizeof one->what, "%.40s %.20s instead of %.20s", knobs[k].words,
                 knob_text(both[1].layout, knobs[k].member, knobs[k].neutral, y),
                 knob_text(both[0].layout, knobs[k].member, knobs[k].neutral, x));
        add_reason(both, one);
    }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Writes "64 × H100 + 32 × A100". */
static void cluster_text(const answer *a, char text[CELL]) {
    size_t i;
    const json_t *site;
    int used = 0;
    json_array_foreach(json_object_get(json_object_get(a->json, "cluster"), "sites"), i, site) {
        used += snprintf(text + used, CELL - (size_t)used, "%s%.0f × %.30s", i > 0 ? " + " : "", number(site, "chips"),
                         json_string_value(json_object_get(site, "chip")));
        if (used >= CELL) return;
    }
}

/* Returns the number of chips that the fastest layout uses. */
static double used_chips(const answer *a) {
    size_t i;
    const json_t *n;
    double sum = 0;
    json_array_foreach(json_object_get(json_object_get(json_object_get(a->json, "use"), "fastest"), "chips"), i, n)
        sum += json_number_value(n);
    return sum;
}

/* Returns the number of UTF-8 characters. */
static int width(const char *text) {
    int wide = 0;
    for (; *text; text++) wide += (*text & 0xc0) != 0x80;
    return wide;
}

/* Prints a text, filled with blanks to this number of columns. */
static void print_cell(const char *text, int columns) {
    printf("%s%*s", text, columns > width(text) ? columns - width(text) : 0, "");
}

/* Prints a line of the table in four columns. */
static void print_line(const char *name, const char *a, const char *b, const char *change) {
    print_cell(name, 22);
    print_cell(a, 30);
    print_cell(b, 30);
    printf("%s\n", change);
}

/* Prints a line with both numbers as texts, and B over A unless one is 0. */
static void print_ratio(const char *name, double a, double b, ls_number one, ls_number two) {
    char change[CELL] = "";
    if (a > 0 && b > 0) snprintf(change, sizeof change, "× %.2f", b / a);
    print_line(name, one.text, two.text, change);
}

/* Prints the time of a step by kind; leaves out kinds below 0.5 % in both. */
static void print_kinds(const answer both[2]) {
    for (int k = 0; k < LS_TIME_KINDS; k++) {
        char cell[2][CELL];
        if (share(&both[0], (ls_time_kind)k) < .005 && share(&both[1], (ls_time_kind)k) < .005) continue;
        for (int i = 0; i < 2; i++) {
            double seconds = kind_seconds(&both[i], (ls_time_kind)k);
            snprintf(cell[i], CELL, "%s (%.1f %%)", LS_TIME(seconds), 100 * share(&both[i], (ls_time_kind)k));
            if (seconds == 0) snprintf(cell[i], CELL, "–");
        }
        char label[CELL], change[CELL] = "";
        double a = kind_seconds(&both[0], (ls_time_kind)k), b = kind_seconds(&both[1], (ls_time_kind)k);
        if (a > 0 && b > 0) snprintf(change, sizeof change, "× %.2f", b / a);
        snprintf(label, sizeof label, "  %s", ls_time_kind_label((ls_time_kind)k));
        print_line(label, cell[0], cell[1], change);
    }
}

/* Prints the knobs of both layouts; leaves out those that are neutral in both. */
static void print_knobs(const answer both[2]) {
    for (int k = 0; k < KNOBS; k++) {
        char x[CELL], y[CELL], label[CELL];
        knob_text(both[0].layout, knobs[k].member, knobs[k].neutral, x);
        knob_text(both[1].layout, knobs[k].member, knobs[k].neutral, y);
        if (strcmp(x, y) == 0 && strcmp(x, knobs[k].neutral) == 0) continue;
        snprintf(label, sizeof label, "  %s", knobs[k].words);
        print_line(label, x, y, strcmp(x, y) == 0 ? "" : "changes");
    }
}

/* Returns the label of the kind of time that limits scaling; "nothing" if none does. */
static const char *bottleneck_label(const answer *a) {
    const char *kind = json_string_value(json_object_get(json_object_get(a->json, "scaling_bottleneck"), "kind"));
    for (int k = 0; kind && k < LS_TIME_KINDS; k++)
        if (strcmp(kind, ls_time_kind_name((ls_time_kind)k)) == 0) return ls_time_kind_label((ls_time_kind)k);
    return "nothing";
}

/* Prints the title and the lines of advice to stop, or to begin; nothing if there are none. */
static void print_items(const items *all, bool stop, const char *title) {
    int shown = 0;
    for (int i = 0; i < all->count; i++) {
        if (all->list[i].stop != stop) continue;
        if (shown++ == 0) printf("\n%s\n", title);
        printf("  %s%s%s\n", all->list[i].what, all->list[i].why[0] ? ": " : "", all->list[i].why);
    }
}

/* Returns whether both answer the same question, hardware aside. */
static bool same_question(const answer both[2]) {
    static const char *const members[] = {"model", "seq", "global_batch", "program"};
    for (size_t i = 0; i < 4; i++)
        if (!json_equal(json_object_get(both[0].json, members[i]), json_object_get(both[1].json, members[i])))
            return false;
    return true;
}

/* Prints the table and the advice. */
static void print_table(const answer both[2], const items *all) {
    char cell[2][CELL];
    const json_t *a = both[0].best, *b = both[1].best;
    cluster_text(&both[0], cell[0]);
    cluster_text(&both[1], cell[1]);
    print_line("", "A", "B", "change");
    print_line("cluster", cell[0], cell[1], "");
    print_ratio("devices used", used_chips(&both[0]), used_chips(&both[1]), ls_number_whole(used_chips(&both[0])),
                ls_number_whole(used_chips(&both[1])));
    print_ratio("tokens per second", number(a, "tokens_per_second"), number(b, "tokens_per_second"),
                ls_number_whole(number(a, "tokens_per_second")), ls_number_whole(number(b, "tokens_per_second")));
    print_ratio("MFU", number(a, "mfu"), number(b, "mfu"), ls_number_percent(number(a, "mfu")),
                ls_number_percent(number(b, "mfu")));
    print_ratio("memory per chip", number(a, "memory_bytes"), number(b, "memory_bytes"),
                ls_number_gib(number(a, "memory_bytes")), ls_number_gib(number(b, "memory_bytes")));
    print_line("limit of scaling", bottleneck_label(&both[0]), bottleneck_label(&both[1]), "");
    print_ratio("time of a step", number(a, "seconds"), number(b, "seconds"), ls_number_time(number(a, "seconds")),
                ls_number_time(number(b, "seconds")));
    print_kinds(both);
    print_line("layout", "", "", "");
    print_knobs(both);
    print_items(all, true, "stop doing");
    print_items(all, false, "start or change");
    if (all->count == 0) printf("\nA and B have the same best layout: nothing to change\n");
    if (!same_question(both))
        printf("\nA and B differ in more than the hardware: model, sequence, batch or program are not the same\n");
}

/* Prints the comparison as JSON. */
static ls_status print_answers_json(const answer both[2], const items *all) {
    json_t *stop = json_array(), *begin = json_array();
    for (int i = 0; i < all->count; i++)
        json_array_append_new(all->list[i].stop ? stop : begin,
                              json_pack("{s:s, s:s, s:s}", "knob", knobs[all->list[i].knob].member, "what",
                                        all->list[i].what, "why", all->list[i].why));
    double a = number(both[0].best, "tokens_per_second"), b = number(both[1].best, "tokens_per_second");
    return ls_cli_print_json_lines(json_pack("{s:f, s:f, s:f, s:b, s:O, s:O, s:o, s:o}", "tokens_per_second_a", a,
                                             "tokens_per_second_b", b, "speedup", b / a, "same_question",
                                             same_question(both), "layout_a", both[0].layout, "layout_b",
                                             both[1].layout, "stop", stop, "begin", begin));
}

ls_status ls_cmd_plan_compare(const ls_options *options) {
    answer both[2] = {{.json = NULL}, {.json = NULL}};
    items all;
    ls_status status = read_both(options, both);
    if (status == LS_OK) {
        find_items(both, &all);
        if (options->json)
            status = print_answers_json(both, &all);
        else
            print_table(both, &all);
    }
    for (int i = 0; i < 2; i++) json_decref(both[i].json);
    return status;
}
