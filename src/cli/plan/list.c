/* list.c: the tables of chips, links and programs, for people. */
#include <stdio.h>
#include <string.h>

#include "cli/plan/command.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

static void print_chips(void) {
    printf("%-24s %9s %12s %12s %10s  %s\n", "chip", "GiB", "16 bit, TF/s", "fp8, TF/s", "GB/s", "source");
    for (int i = 0; ls_chip_row(i); i++) {
        const ls_chip *c = ls_chip_row(i);
        double half = c->peak_flops[LS_PLAN_BF16] > 0 ? c->peak_flops[LS_PLAN_BF16] : c->peak_flops[LS_PLAN_FP16];
        printf("%-24s %9.1f %12.4g %12.4g %10.0f  %s\n", c->name, c->memory_bytes / GIB, half / 1e12,
               c->peak_flops[LS_PLAN_FP8] / 1e12, c->memory_bandwidth / 1e9, c->source);
    }
}

static void print_links(void) {
    printf("%-24s %9s %7s %9s %9s  %s\n", "link", "GB/s", "share", "start, µs", "hop, µs", "source");
    for (int i = 0; ls_link_row(i); i++) {
        const ls_link *l = ls_link_row(i);
        printf("%-24s %9.4g %7.2f %9.0f %8.0f  %s\n", l->name, l->bandwidth / 1e9, l->share, l->start_seconds * 1e6,
               l->latency_seconds * 1e6, l->source);
    }
}

static void print_stacks(void) {
    printf("%-24s %s\n", "program", "description");
    for (int i = 0; ls_stack_row(i); i++) printf("%-24s %s\n", ls_stack_row(i)->name, ls_stack_row(i)->what);
}

static bool is_list(const char *value) { return value && strcmp(value, "list") == 0; }

bool ls_plan_list_print(const ls_options *o) {
    bool links = is_list(o->node_link) || is_list(o->network) || is_list(o->link);
    if (is_list(o->cluster)) {
        print_chips();
        printf("\nto describe another one in a file, see docs/planner.md\n");
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
