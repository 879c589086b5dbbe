/* cmd_eval.c: `lockstep eval`: measures how well a model predicts data: loss, perplexity, bits per byte; of an image
 * model loss and accuracy over the test images. */
#include <unistd.h>

#include "api/run.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "numerics/elementary.h"
#include "run/stop.h"

/* Shows the share of evaluated windows on a terminal, at most every 0.2 s, and notices on standard error. A callback;
 * ctx: a double, the time at which it was last shown. */
static ls_status show(void *ctx, const ls_run_event *event) {
    double *shown = ctx, now = ls_clock_seconds();
    if (event->kind == LS_RUN_PREPARES) fprintf(stderr, "%s\n", event->text);
    if (event->kind != LS_RUN_SCORED || !isatty(STDERR_FILENO)) return LS_OK;
    if (now - *shown < 0.2 && event->done < event->all) return LS_OK;
    *shown = now;
    fprintf(stderr, "\r%3.0f %% of %llu windows%s", 100 * (double)event->done / (double)event->all,
            (unsigned long long)event->all, event->done < event->all ? "" : "\r\033[K");
    return LS_OK;
}

/* Prints the results of a language model, as text or JSON. bits_per_byte ≤ 0 means that it is unknown. */
static ls_status print_evaluation(const ls_run *run, const ls_evaluation *e) {
    const ls_loaded *l = &run->loaded;
    const char *precision = ls_dtype_word(l->policy.act), *unit = ls_unit_name(l->policy.unit);
    double perplexity = ls_exp_f64(e->loss);
    char hex[64];
    if (!run->options.json) {
        printf("loss        %.6f (%a)\n", e->loss, e->loss);
        printf("perplexity  %.4f\n", perplexity);
        if (e->bits_per_byte > 0)
            printf("bits/byte   %.4f\n", e->bits_per_byte);
        else
            printf("bits/byte   unknown: these token files do not record the size of their text\n");
        if (*run->chosen.about) printf("device      %s\n", run->chosen.about);
        printf("precision   %s, matrix unit %s\n", precision, unit);
        printf("windows     %llu of %zu tokens, stride %zu\n", (unsigned long long)l->windows.count,
               (size_t)l->windows.length, (size_t)l->windows.stride);
        printf("tokens      %llu scored in %.1f s (%.0f tok/s)\n", (unsigned long long)e->samples, e->seconds,
               (double)e->samples / e->seconds);
        return LS_OK;
    }
    snprintf(hex, sizeof hex, "%a", e->loss);
    return ls_cli_print_json(json_pack("{s:o, s:s, s:o, s:o, s:s, s:s, s:I, s:I, s:I, s:f}", "loss", json_real(e->loss),
                                       "loss_hex", hex, "perplexity", ls_cli_json_number(perplexity), "bits_per_byte",
                                       e->bits_per_byte > 0 ? json_real(e->bits_per_byte) : json_null(), "precision",
                                       precision, "matrix_unit", unit, "tokens", (json_int_t)e->samples, "seq",
                                       (json_int_t)l->windows.length, "stride", (json_int_t)l->windows.stride,
                                       "seconds", e->seconds));
}

/* Prints the results of an image model, loss and accuracy, as text or JSON. */
static ls_status print_images(const ls_run *run, const ls_evaluation *e) {
    char hex[64];
    if (!run->options.json) {
        printf("loss        %.6f (%a)\n", e->loss, e->loss);
        printf("accuracy    %.2f %%, %lld right\n", 100 * e->accuracy, (long long)run->loaded.right);
        if (*run->chosen.about) printf("device      %s\n", run->chosen.about);
        printf("images      %llu in %.1f s (%.0f img/s)\n", (unsigned long long)e->samples, e->seconds,
               (double)e->samples / e->seconds);
        return LS_OK;
    }
    snprintf(hex, sizeof hex, "%a", e->loss);
    return ls_cli_print_json(json_pack("{s:o, s:s, s:f, s:I, s:I, s:f}", "loss", json_real(e->loss), "loss_hex", hex,
                                       "accuracy", e->accuracy, "right", (json_int_t)run->loaded.right, "images",
                                       (json_int_t)e->samples, "seconds", e->seconds));
}

/* Opens the model and its data, evaluates and prints. An accuracy below 0 marks a language model. */
static ls_status evaluate(const ls_options *options) {
    ls_run *run = NULL;
    ls_evaluation result;
    double shown = 0;
    LS_TRY(ls_run_open(&(ls_run_setup){.options = options, .event = show, .event_ctx = &shown}, &run));
    ls_status status = ls_run_evaluate(run, &result);
    if (status == LS_OK) status = (result.accuracy < 0 ? print_evaluation : print_images)(run, &result);
    ls_run_close(run);
    return status;
}

/* Runs `lockstep eval` with handlers for signals that stop it, which are restored at the end. */
ls_status ls_cmd_eval(const ls_options *options) {
    LS_TRY(ls_stop_install());
    ls_status status = evaluate(options);
    ls_stop_restore();
    return status;
}
