/* end.c: the last lines of a run. Commands are printed so that they can be pasted into a shell. */
#include "cli/train/end.h"

#include <limits.h>
#include <stdio.h>

#include "cli/shell_word.h"

enum { WORD_MAX = 4 * PATH_MAX };

static void print_eval(const ls_options *o, const char *heading, const char *program, const char *run) {
    char word[WORD_MAX];
    const char *data = o->val_data ? o->val_data : o->data; /* a part of --data was held out; images need no file */
    printf("%s %s eval --model %s", heading, program, run);
    if (data) printf(" --data %s", ls_shell_word(data, word, sizeof word));
    if (data && o->source[LS_OPT_text_field].origin != LS_ORIGIN_DEFAULT)
        printf(" --text-field %s", ls_shell_word(o->text_field, word, sizeof word));
    putchar('\n');
}

static void print_next(const ls_train_session *s, bool is_images) {
    char program[WORD_MAX], run[WORD_MAX];
    ls_shell_program(program, sizeof program);
    ls_shell_word(s->out, run, sizeof run);
    const char *heading = "next     ";
    if (!is_images && s->tokenizer) {
        printf("%s %s generate --model %s\n", heading, program, run);
        heading = "         ";
    }
    print_eval(s->opts, heading, program, run);
    printf("          %s doctor %s\n", program, run);
}

void ls_train_print_end(const ls_train_session *s, const ls_run_summary *summary) {
    char line[LS_RUN_SUMMARY_LINE_MAX];
    ls_run_summary_time_text(summary, line);
    printf("time      %s\n", line);
    const ls_validation *v = &s->trainer->validation;
    if (v->best_step >= 0)
        printf("best      validation loss %.4f at step %lld\n", v->best_loss, (long long)v->best_step);
    printf("saved     %s/checkpoints/step-%09lld\n", s->out, (long long)s->trainer->step);
    print_next(s, summary->is_images);
}

ls_status ls_train_stopped(const ls_train_session *s, ls_status status) {
    char program[WORD_MAX], run[WORD_MAX];
    return ls_fail(status, "stopped at step %lld, checkpoint saved; continue with: %s train --out %s --resume",
                   (long long)s->trainer->step, ls_shell_program(program, sizeof program),
                   ls_shell_word(s->out, run, sizeof run));
}
