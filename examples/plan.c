/* plan.c: plans a layout for four workers, shows what it would cost, trains one step with it, and checks that it gives
 * the bits of one worker.
 *
 *   cc plan.c $(pkg-config --cflags --libs lockstep) -o plan && ./plan CHIP TEXT_FILE [folder]
 */
#include <stdio.h>

#include <lockstep.h>

static ls_status set_all(ls_options *options, const char *const (*set)[2], size_t count) {
    ls_status status = LS_OK;
    for (size_t i = 0; i < count && status == LS_OK; i++) status = ls_options_set(options, set[i][0], set[i][1]);
    return status;
}

static ls_status one_step(ls_run *run, void *arg) {
    ls_step step;
    ls_status status = ls_run_step(run, &step);
    (void)arg;
    if (status == LS_OK && ls_run_get_state(run).rank == 0)
        printf("trained a step on %d workers: loss %.4f\n", ls_run_get_state(run).workers, step.loss);
    fflush(stdout);
    return status;
}

int main(int argc, char **argv) {
    const char *const asked[][2] = {{"model", "tiny"},     {"cluster", argc > 1 ? argv[1] : "A100"},
                                    {"gpus", "4"},         {"seq", "32"},
                                    {"global-batch", "8"}, {"virtual-stages", "1"}};
    const char *const trained[][2] = {{"model", "tiny"},   {"data", argc > 2 ? argv[2] : "text.txt"},
                                      {"seq", "32"},       {"global-batch", "8"},
                                      {"steps", "1"},      {"warmup", "0"},
                                      {"eval-every", "0"}, {"out", argc > 3 ? argv[3] : "planned"}};
    ls_options *question = NULL, *train = NULL;
    ls_plan *plan = NULL;
    ls_run *run = NULL;
    ls_status status = ls_options_create("plan", &question);
    if (status == LS_OK) status = set_all(question, asked, sizeof asked / sizeof *asked);
    if (status == LS_OK) status = ls_plan_make(question, &plan);
    if (status == LS_OK && ls_plan_count(plan) == 0) status = ls_fail(LS_ERR_RESOURCE, "no layout fits");
    if (status == LS_OK)
        printf("best: dp %.0f × tp %.0f × pp %.0f, %.3g s a step, %.3g MiB\n", ls_plan_number(plan, 0, "dp"),
               ls_plan_number(plan, 0, "tp"), ls_plan_number(plan, 0, "pp"), ls_plan_number(plan, 0, "seconds"),
               ls_plan_number(plan, 0, "memory_bytes") / (1 << 20));
    fflush(stdout); /* before workers are forked, who have its buffer too */
    if (status == LS_OK) status = ls_options_create("train", &train);
    if (status == LS_OK) status = set_all(train, trained, sizeof trained / sizeof *trained);
    if (status == LS_OK) status = ls_plan_apply(plan, 0, train);
    ls_run_setup setup = {.options = train};
    if (status == LS_OK) status = ls_run_open(&setup, &run);
    if (status == LS_OK) status = ls_run_workers(run, one_step, NULL);
    ls_run_close(run);
    if (status == LS_OK) status = ls_verify(&setup, 1);
    if (status == LS_OK) printf("the same bits as one worker\n");
    if (status != LS_OK) fprintf(stderr, "error: %s\n", ls_status_message());
    ls_plan_destroy(plan);
    ls_options_destroy(question);
    ls_options_destroy(train);
    return ls_status_exit_code(status);
}
