/* report.c: rows as they come, and their sum. */
#include "cli/verify/report.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/print_json.h"

static const char *const verdicts[] = {
    [LS_VERDICT_EQUAL] = "ok", [LS_VERDICT_DIFFERS] = "DIFFERS", [LS_VERDICT_FAILED] = "FAILED"};

static void bytes_text(uint64_t bytes, char text[24]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++) value /= 1024;
    snprintf(text, 24, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

void ls_verify_print_row(const ls_verify_result *r) {
    char traffic[24];
    bytes_text(r->totals.traffic_bytes, traffic);
    printf("%7d  %-32s  %8.3f  %10s  %-7s  %s\n", r->workers, r->totals.weights.text, r->totals.seconds, traffic,
           verdicts[r->verdict], r->layout);
    fflush(stdout);
}

void ls_verify_print_case(const ls_verify_case *c, const ls_verify_record *alone) {
    const ls_settings *s = &c->settings;
    ls_verify_result one = {.layout = "one worker", .workers = 1, .totals = *alone->totals};
    printf(
        "%s: %zu parameters, %zu layers, vocabulary %zu, %s; %lld step%s of %zu × %zu tokens, %d groups, %d slices\n",
        s->shape.name, ls_model_elems(c->model), s->shape.L, s->shape.V, s->shape.tied ? "tied" : "untied",
        (long long)c->steps, c->steps == 1 ? "" : "s", s->B, s->T, s->groups, s->slices);
    printf("loss %a … %a\n\n", alone->loss[0], alone->loss[c->steps - 1]);
    printf("%7s  %-32s  %8s  %10s  %-7s  %s\n", "workers", "weights (xxh128)", "time s", "traffic", "", "layout");
    ls_verify_print_row(&one);
}

void ls_verify_print_counts(const ls_verify_counts *n) {
    int minutes = (int)(n->seconds / 60);
    printf("\n%d layout%s in %d min %04.1f s: ", n->rows, n->rows == 1 ? "" : "s", minutes, n->seconds - 60 * minutes);
    if (n->different + n->failed == 0)
        printf("every loss, gradient and weight is bit-identical to one worker");
    else
        printf("%d are bit-identical to one worker, %d differ, %d failed", n->rows - n->different - n->failed,
               n->different, n->failed);
    if (n->before > 0) printf("; %d were verified before", n->before);
    putchar('\n');
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* A loss to the bit. */
static json_t *hex(double value) { return json_sprintf("%a", value); }

json_t *ls_verify_case_json(const ls_verify_case *c, const ls_verify_record *alone) {
    const ls_settings *s = &c->settings;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:o, s:s, s:f, s:[]}", "model", s->shape.name, "parameters",
                     (json_int_t)ls_model_elems(c->model), "steps", (json_int_t)c->steps, "global_batch",
                     (json_int_t)s->B, "seq", (json_int_t)s->T, "groups", s->groups, "slices", s->slices, "loss_hex",
                     hex(alone->loss[c->steps - 1]), "weights_xxh128", alone->totals->weights.text, "seconds",
                     alone->totals->seconds, "rows");
}

json_t *ls_verify_row_json(const ls_verify_case *c, const ls_verify_record *alone, const ls_verify_result *r) {
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:f, s:I, s:b, s:b}", "model", c->settings.shape.name, "reference",
                     alone->totals->weights.text, "layout", r->layout, "workers", r->workers, "weights_xxh128",
                     r->totals.weights.text, "seconds", r->totals.seconds, "traffic_bytes",
                     (json_int_t)r->totals.traffic_bytes, "equal", r->verdict == LS_VERDICT_EQUAL, "failed",
                     r->verdict == LS_VERDICT_FAILED);
}

ls_status ls_verify_print_json(json_t *cases, const ls_verify_counts *n) {
    json_t *all = json_pack("{s:O, s:i, s:i, s:i, s:i, s:f}", "models", cases, "layouts", n->rows, "before", n->before,
                            "different", n->different, "failed", n->failed, "seconds", n->seconds);
    return ls_cli_print_json_lines(all);
}

void ls_verify_progress(const char *model, int row, int total, const char *layout) {
    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r\033[K");
    if (total > 0) fprintf(stderr, "%s, layout %d of %d: %.80s", model, row, total, layout);
    fflush(stderr);
}
