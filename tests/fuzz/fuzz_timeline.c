/* fuzz_timeline.c: any bytes as a trace. What is accepted is measured, predicted and drawn, for every step that is
 * asked for; the parts of a worker's time make up the whole. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/timeline.h"
#include "report/charts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const ls_timeline *line) {
    if (line->stages < 1 || line->stages * line->pipelines != line->workers) abort();
    if (line->step < line->first_step || line->step > line->last_step) abort();
    if ((line->prediction != NULL) == (line->no_prediction[0] != '\0')) abort();
    for (int r = 0; r < line->workers; r++) {
        const ls_timeline_worker *w = &line->worker[r];
        if (!(fabs(w->busy + w->waiting + w->bubble - 1) < 1e-6)) abort();
        if (isnan(w->predicted_bubble) != (line->prediction == NULL)) abort();
        if (!(w->reductions.under_way >= 0) || !(w->reductions.exposed >= 0)) abort();
    }
}

static void draw(const ls_timeline *line, const char *title) {
    char *svg = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&svg, &bytes);
    if (!out) return;
    ls_timeline_svg(line, title, out);
    if (fclose(out) == 0 && (bytes < 7 || strcmp(svg + bytes - 7, "</svg>\n") != 0)) abort();
    free(svg);
}

static void try_step(const ls_trace *trace, int64_t step) {
    ls_timeline line;
    if (ls_timeline_make(trace, "fuzz", step, &line) != LS_OK) return;
    check(&line);
    draw(&line, "fuzz");
    ls_timeline_set_mesh(&line, line.pipelines, 1, line.stages);
    draw(&line, "<&");
    ls_timeline_free(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_trace trace;
    char *text = malloc(bytes ? bytes : 1); /* no room behind the last byte */
    if (!text) return 0;
    memcpy(text, data, bytes);
    if (ls_trace_parse("fuzz", text, bytes, &trace) == LS_OK) {
        try_step(&trace, 0);
        try_step(&trace, 1);
        ls_trace_free(&trace);
    }
    free(text);
    return 0;
}
