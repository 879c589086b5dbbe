/* row_notes.c: the notes of a measured run say what its columns cannot: which network, which kernels.
 *
 * A phrase is looked for, whatever stands around it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plan/cost/cost_case.h"
#include "plan/published/published_runs.h"

static bool says(const char *notes, const char *phrase) { return strcasestr(notes, phrase) != NULL; }

/* The number in front of a phrase: "800 Gb/s inter-node"; 0: not there. */
static double number_before(const char *notes, const char *phrase) {
    const char *at = strcasestr(notes, phrase);
    if (!at) return 0;
    while (at > notes && at[-1] == ' ') at--;
    const char *from = at;
    while (from > notes && ((from[-1] >= '0' && from[-1] <= '9') || from[-1] == '.')) from--;
    return from == at ? 0 : strtod(from, NULL);
}

static double number_behind(const char *notes, const char *phrase) {
    const char *at = strcasestr(notes, phrase);
    return at ? strtod(at + strlen(phrase), NULL) : 0;
}

static ls_status links(const char *notes, ls_site *site) {
    double rate = number_before(notes, "Gb/s inter-node");
    if (rate <= 0) rate = number_before(notes, "Gbps inter-node");
    if (rate <= 0) rate = number_before(notes, "Gbps node-node");
    if (rate > 0) site->between.bandwidth = rate / 8 * 1e9 / site->node;
    double each = number_before(notes, "Gb/s RDMA per GPU");
    if (each <= 0) each = number_before(notes, "Gb/s CX-7 per GPU");
    if (each <= 0) each = number_before(notes, "Gb/s per GPU");
    if (each > 0) site->between.bandwidth = each / 8 * 1e9;
    if (says(notes, "8xHDR")) LS_TRY(ls_link_find("hdr", &site->between));
    double fibres = number_behind(notes, "Omni-Path ");
    if (fibres > 0) {
        LS_TRY(ls_link_find("omni-path", &site->between));
        LS_TRY(ls_link_find("nvlink3-no-switch", &site->inside)); /* nodes with that fabric came without the switch */
        site->between.bandwidth *= fibres / site->node;
    }
    return LS_OK;
}

/* Chips of before and after the time when attention began to keep its scores on the chip. */
static bool is_new_chip(const ls_chip *chip) { return chip->peak_flops[LS_PLAN_FP8] > 0; }

static const char *stack_of(const char *notes, const char *precision, const ls_row *row) {
    if (says(notes, "C/CUDA")) return "native";
    if (strstr(precision, "-amp") || strstr(precision, "-pure")) return "fsdp";
    if (row->layout.zero == 3 && !row->free_zero) {
        if (row->layout.type == LS_PLAN_FP16) return "deepspeed-2021";
        return says(notes, "compile") || says(notes, "Float8") || strncmp(precision, "fp8", 3) == 0 ? "fsdp-compile"
                                                                                                    : "fsdp";
    }
    return is_new_chip(&row->task.cluster.site[0].chip) || says(notes, "flash") ? "megatron" : "megatron-2021";
}

ls_status ls_row_read_notes(const char *notes, const char *precision, ls_row *row) {
    ls_plan_layout *layout = &row->layout;
    LS_TRY(links(notes, &row->task.cluster.site[0]));
    LS_TRY(ls_stack_find(stack_of(notes, precision, row), &row->task.stack));
    double context = number_behind(notes, "CP=");
    if (context >= 1 && context <= 1024) layout->context = (int)context;
    if (says(notes, "(overlapped)")) row->task.stack.reduce_overlaps = true;
    row->with_context = says(notes, "nvidia-smi");
    layout->tp_overlap = says(notes, "async TP") || says(notes, "AsyncTP");
    layout->gather_8bit = says(notes, "float8 all-gather");
    layout->pure_16bit = strstr(precision, "-pure") != NULL;
    const ls_chip *chip = &row->task.cluster.site[0].chip;
    if (says(notes, "fp8row")) /* scales by rows make products no faster than in 16 bits; the casts are there */
        layout->type_slowdown = ls_plan_rate(chip, LS_PLAN_FP8) / ls_plan_rate(chip, LS_PLAN_BF16);
    return LS_OK;
}
