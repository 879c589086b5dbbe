/* train.c: trains a small model on the program's own data, and prints the losses. Own data is random access by number:
 * here token i is the last digit of i·i, which repeats every ten tokens, so that the loss falls quickly.
 *
 *   cc train.c $(pkg-config --cflags --libs lockstep) -o train && ./train [dp] [folder]
 *
 * The hash of the weights at the end is the same for every dp.
 */
#include <stdio.h>

#include <lockstep.h>

static ls_status read_tokens(void *ctx, uint64_t first, size_t count, int32_t *out) {
    (void)ctx;
    for (size_t i = 0; i < count; i++) out[i] = (int32_t)((first + i) * (first + i) % 10);
    return LS_OK;
}

/* Every worker runs this; all of them get the same numbers, and the first one prints. */
static ls_status train(ls_run *run, void *arg) {
    char hash[LS_HASH_CHARS];
    ls_step step = {.step = 0};
    ls_status status = LS_OK;
    ls_run_state state = ls_run_get_state(run);
    (void)arg;
    for (int64_t i = state.step; i < state.steps && status == LS_OK; i++) {
        status = ls_run_step(run, &step);
        if (status == LS_OK && state.rank == 0) printf("step %2d  loss %.4f\n", (int)step.step, step.loss);
    }
    if (status == LS_OK) status = ls_run_save(run);
    if (status == LS_OK) status = ls_run_hash(run, hash);
    if (status == LS_OK && state.rank == 0) printf("weights %s in %s\n", hash, state.folder);
    fflush(stdout); /* of a worker that is a process of its own */
    return status;
}

int main(int argc, char **argv) {
    ls_source digits = {.identity = "last digits of squares", .count = 20000, .tokens = read_tokens};
    const char *set[][2] = {{"model", "tiny"},
                            {"steps", "10"},
                            {"global-batch", "8"},
                            {"seq", "32"},
                            {"warmup", "0"},
                            {"dp", argc > 1 ? argv[1] : "1"},
                            {"out", argc > 2 ? argv[2] : "run"}};
    ls_options *options = NULL;
    ls_run *run = NULL;
    ls_status status = ls_options_create("train", &options);
    for (size_t i = 0; i < sizeof set / sizeof *set && status == LS_OK; i++)
        status = ls_options_set(options, set[i][0], set[i][1]);
    if (status == LS_OK) status = ls_run_open(&(ls_run_setup){.options = options, .data = &digits}, &run);
    if (status == LS_OK) status = ls_run_workers(run, train, NULL);
    if (status != LS_OK) fprintf(stderr, "error: %s\n", ls_status_message());
    ls_run_close(run);
    ls_options_destroy(options);
    return ls_status_exit_code(status);
}
