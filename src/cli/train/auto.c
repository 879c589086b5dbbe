/* auto.c: measures (or remembers) the machine, compares layouts, takes the best. */
#include "cli/train/auto.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/files.h"
#include "cli/cli.h"
#include "cli/progress.h"

enum { TEXT_MAX = 256, NEXT = 3 };

/* A launcher's workers can be joined once, which is for training. */
static ls_status get_machine(const ls_run *s, ls_native_machine *machine, bool *measured) {
    char path[PATH_MAX];
    ls_probe_options options = ls_cli_probe_options(&s->options, 0);
    if (!s->launched) return ls_probe_file_get(&options, s->options.probe_again, machine, measured);
    *measured = false;
    LS_TRY(ls_probe_file_path(path));
    if (!ls_file_exists(path) || ls_probe_file_read(path, machine) != LS_OK || !ls_probe_is_current(machine))
        return ls_fail(LS_ERR_INPUT, "--auto-layout: this machine has not been measured yet; run lockstep probe "
                                     "first, without mpirun or srun");
    return LS_OK;
}

/* ", 1.8 times as fast as one worker": nothing where one worker was not compared, or is chosen. */
static void faster_text(const ls_native_found *found, char text[TEXT_MAX]) {
    const ls_native_choice *best = &found->fits[0];
    text[0] = '\0';
    if (found->one_seconds > 0 && ls_layout_workers(&best->layout) > 1)
        snprintf(text, TEXT_MAX, ", %.2f times as fast as one worker", found->one_seconds / best->prediction.seconds);
}

static void print_choice(FILE *out, const ls_native_found *found, bool measured) {
    const ls_native_choice *best = &found->fits[0];
    char text[TEXT_MAX], faster[TEXT_MAX];
    ls_layout_text(&best->layout, text, sizeof text);
    faster_text(found, faster);
    fprintf(out, "auto     %s: %.4g s a step predicted%s\n", text, best->prediction.seconds, faster);
    fprintf(out, "         best of %d layouts on the machine as %s", found->tried,
            measured ? "measured now" : "measured before");
    for (int i = 1; i < found->fitting && i <= NEXT; i++) {
        const ls_native_choice *c = &found->fits[i];
        fprintf(out, "%s dp %d × tp %d × pp %d, zero %d +%.0f %%", i == 1 ? "; next" : ",", c->layout.dp, c->layout.tp,
                c->layout.pp, c->layout.zero, 100 * (c->prediction.seconds / best->prediction.seconds - 1));
    }
    fprintf(out, "\n");
    fflush(out); /* before workers are forked, who have its buffer too */
}

ls_status ls_train_auto(ls_run *s) {
    ls_native_machine *machine = malloc(sizeof *machine);
    ls_native_found *found = malloc(sizeof *found);
    ls_status status = LS_OK;
    bool measured = false;
    if (!machine || !found) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for the figures of a machine");
        goto out;
    }
    LS_TRY_OUT(get_machine(s, machine, &measured));
    LS_TRY_OUT(ls_native_complete(machine, &s->settings, &s->request, found));
    if (ls_launcher_place().rank == 0) print_choice(s->options.json ? stderr : stdout, found, measured);
out:
    free(machine);
    free(found);
    return status;
}
