/* cmd_plan.c: `lockstep plan`: finds the fastest layout of a model on a cluster; its modes --validate, --compare and
 * --recovery are in cli/plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/plan/report.h"
#include "cli/print.h"
#include "report/memo/memo.h"

/* ---- lists of chips, links and programs, for people -------------------------------------------------------------- */

#define GIB (1024.0 * 1024.0 * 1024.0)

/* Prints the table of known chips: memory, peak TFLOP/s (bf16, else fp16; fp8), memory bandwidth, source. */
static void print_chips(void) {
    printf("%-24s %9s %12s %12s %10s  %s\n", "chip", "GiB", "16 bit, TF/s", "fp8, TF/s", "GB/s", "source");
    for (int i = 0; ls_chip_row(i); i++) {
        const ls_chip *c = ls_chip_row(i);
        double half = c->peak_flops[LS_PLAN_BF16] > 0 ? c->peak_flops[LS_PLAN_BF16] : c->peak_flops[LS_PLAN_FP16];
        printf("%-24s %9.1f %12.4g %12.4g %10.0f  %s\n", c->name, c->memory_bytes / GIB, half / 1e12,
               c->peak_flops[LS_PLAN_FP8] / 1e12, c->memory_bandwidth / 1e9, c->source);
    }
}

/* Prints the table of known links: bandwidth, share of it that is reached, start and hop latency, source. */
static void print_links(void) {
    printf("%-24s %9s %7s %9s %9s  %s\n", "link", "GB/s", "share", "start, µs", "hop, µs", "source");
    for (int i = 0; ls_link_row(i); i++) {
        ls_link l;
        if (ls_link_find(ls_link_row(i)->name, &l) != LS_OK) continue;
        printf("%-24s %9.4g %7.2f %9.0f %8.0f  %s\n", l.name, l.bandwidth / 1e9, l.share, l.start_seconds * 1e6,
               l.latency_seconds * 1e6, l.source);
    }
}

/* Prints the table of stacks, the training programs that a plan can assume. */
static void print_stacks(void) {
    printf("%-24s %s\n", "program", "description");
    for (int i = 0; ls_stack_row(i); i++)
        printf("%-24s %s\n%-24s memory: %s\n", ls_stack_row(i)->name, ls_stack_row(i)->what, "",
               ls_stack_row(i)->memory_source);
}

/* Returns whether an option's value is the word "list"; false for NULL. */
static bool is_list(const char *value) { return value && strcmp(value, "list") == 0; }

/* Prints the list that --cluster, a link option or --stack asks for with the value "list"; returns false if none
 * does. */
static bool print_list(const ls_options *o) {
    bool links = is_list(o->node_link) || is_list(o->network) || is_list(o->link);
    if (is_list(o->cluster)) {
        print_chips();
        printf("\nto describe another one in a file, see docs/reference/planner.md\n");
    } else if (links) {
        print_links();
        printf("\nseveral in parallel: 4x100gbe; one shared by the node: 400gbe/node\n");
    } else if (is_list(o->stack)) {
        print_stacks();
    } else {
        return false;
    }
    return true;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* Returns a flat object as YAML, a line for each member (JSON scalars are YAML scalars), which the caller frees. NULL:
 * out of memory. */
static char *yaml_text(json_t *object) {
    char *text = NULL;
    size_t bytes;
    const char *name;
    json_t *value;
    FILE *out = open_memstream(&text, &bytes);
    bool is_whole = out != NULL;
    if (!out) return NULL;
    json_object_foreach(object, name, value) {
        char *one = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        is_whole &= one && fprintf(out, "%s: %s\n", name, one) >= 0;
        free(one);
    }
    if (fclose(out) == 0 && is_whole) return text;
    free(text);
    return NULL;
}

/* Returns the layout as YAML if the path ends in .yaml or .yml, else as JSON; the caller frees it. NULL: out of
 * memory. */
static char *layout_text(json_t *layout, const char *path) {
    char *text = NULL;
    if (!ls_json_is_format(path, "{", 1)) return yaml_text(layout);
    char *json = json_dumps(layout, JSON_INDENT(1));
    if (json && asprintf(&text, "%s\n", json) < 0) text = NULL;
    free(json);
    return text;
}

/* Writes the best layout, or with --robust the robust one, to the file of --out, which `train --layout` reads. */
static ls_status write_layout(const ls_plan *plan) {
    json_t *json = ls_plan_layout_json(plan, 0);
    char *text = json ? layout_text(json, plan->options->out) : NULL;
    json_decref(json);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for a layout");
    ls_status status = ls_file_write_atomic(plan->options->out, text, strlen(text));
    free(text);
    return status == LS_OK ? LS_OK : ls_fail_at(status, "--out: ");
}

/* Prints the whole plan as JSON; a plan for measured machines in one line. */
static ls_status print_plan_json(ls_plan *plan) {
    json_t *json;
    LS_TRY(ls_plan_whole_json(plan, &json));
    return (plan->is_native ? ls_cli_print_json : ls_cli_print_json_lines)(json_incref(json));
}

/* Prints a plan as text or JSON, after it has written the files of --out and --memo. A plan for a measured machine has
 * no memo. */
static ls_status answer(ls_plan *plan) {
    const ls_options *o = plan->options;
    if (o->out && ls_plan_count(plan) > 0) LS_TRY(write_layout(plan));
    if (o->memo && !plan->is_native) LS_TRY(ls_plan_memo_write(o->memo, &plan->answer));
    if (o->json) return print_plan_json(plan);
    if (plan->is_native)
        ls_plan_report_native(plan);
    else
        ls_plan_report(&plan->answer, o->robust);
    return LS_OK;
}

/* Runs `lockstep plan`, or the mode that --validate, --compare or --recovery selects, or prints a list of known chips,
 * links or programs. */
ls_status ls_cmd_plan(const ls_options *options) {
    ls_plan *plan = NULL;
    bool fits = options->leave_out || options->fit;
    if (options->validate && fits && options->calibrate)
        return ls_fail(LS_ERR_INPUT, "--calibrate and %s exclude each other", options->fit ? "--fit" : "--leave-out");
    if (options->validate) return fits ? ls_cmd_plan_fit(options) : ls_cmd_plan_validate(options);
    if (fits) return ls_fail(LS_ERR_INPUT, "%s requires --validate FILE", options->fit ? "--fit" : "--leave-out");
    if (options->calibrate) return ls_fail(LS_ERR_INPUT, "--calibrate requires --validate FILE");
    if (options->compare) return ls_cmd_plan_compare(options);
    if (print_list(options)) return LS_OK;
    if (options->recovery) return ls_cmd_plan_recovery(options);
    if (options->out) LS_TRY(ls_file_can_write(options->out));
    LS_TRY(ls_plan_make(options, &plan));
    ls_status status = answer(plan);
    ls_plan_destroy(plan);
    return status;
}
