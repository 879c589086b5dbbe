/* report.c: what `lockstep train` prints before the first step and after the last. Commands are printed so that they
 * can be pasted into a shell. */
#include "cli/train/report.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "cli/print.h"
#include "comm/launch/launcher.h"
#include "plan/hardware/machine.h"
#include "run/guard/state_check.h"
#include "run/recover/copies.h"
#include "run/settings.h"
#include "run/state_hash.h"

enum { LAYOUT_TEXT_MAX = 512, COPIES_TEXT_MAX = 256, WORD_MAX = 4 * PATH_MAX };

void ls_train_print_plan(const ls_plan *plan) {
    enum { NEXT = 3 };
    FILE *out = plan->options->json ? stderr : stdout;
    const ls_native_found *found = &plan->found;
    const ls_native_choice *best = &found->fits[0];
    char text[LAYOUT_TEXT_MAX];
    ls_layout_text(&best->layout, text, sizeof text);
    fprintf(out, "auto      %s: %.4g s per step predicted", text, best->prediction.seconds);
    if (found->one_seconds > 0 && ls_layout_workers(&best->layout) > 1)
        fprintf(out, " (%.2f times as fast as one worker)", found->one_seconds / best->prediction.seconds);
    fprintf(out, "\n          best of %d layouts on ", found->tried);
    if (plan->machine.is_gpus)
        fprintf(out, "%d × %s", plan->machine.gpu.count, plan->machine.gpu.name);
    else
        fprintf(out, "this machine");
    fprintf(out, ", %s", plan->measured_now ? "measured now" : "measured earlier");
    for (int i = 1; i < found->fitting && i <= NEXT; i++) {
        const ls_native_choice *c = &found->fits[i];
        fprintf(out, "%s dp %d × tp %d × pp %d, zero %d (+%.0f %% step time)", i == 1 ? "; next best:" : ",",
                c->layout.dp, c->layout.tp, c->layout.pp, c->layout.zero,
                100 * (c->prediction.seconds / best->prediction.seconds - 1));
    }
    fprintf(out, "\n");
    fflush(out); /* before workers are forked, which would inherit the buffer and print it again */
}

/* Prints model, data and batch of a language model. */
static void print_tokens(const ls_trainer *trainer) {
    const ls_settings *set = &trainer->settings;
    printf("model     %s: %.1f M parameters, vocabulary %zu, %zu layers of width %zu\n", set->shape.name,
           (double)ls_model_elems(trainer->model) / 1e6, set->shape.V, set->shape.L, set->shape.C);
    printf("data      %.3f M tokens, %llu sequences per epoch%s\n", (double)trainer->input.sampler.tokens / 1e6,
           (unsigned long long)trainer->input.sampler.windows, trainer->input.has_val ? "" : "; no validation data");
    printf("batch     %zu sequences of %zu tokens, micro-batch %zu, %d gradient groups, %d slices\n", set->B, set->T,
           trainer->layout.micro, set->groups, set->slices);
    char text[LAYOUT_TEXT_MAX];
    bool on_gpu = ls_device_is_gpu(set->options.device);
    if (on_gpu && ls_native_warn_slices(&set->policy, set->slices, trainer->layout.tp, text, sizeof text))
        printf("warning   %s\n", text);
}

/* Prints model, data and batch of an image model. */
static void print_images(const ls_trainer *trainer) {
    const ls_settings *set = &trainer->settings;
    const ls_images_about *about = ls_images_get_about(trainer->input.data.images);
    printf("model     %s: %zu parameters, %d blocks, %zu classes\n", set->shape.name,
           ls_model_learned_elems(trainer->model), trainer->model->nblocks, set->shape.V);
    printf("data      %s: %llu training images of %u × %u × %u, %llu test images\n", about->format,
           (unsigned long long)about->count, about->height, about->width, about->channels,
           (unsigned long long)trainer->input.val_sampler.windows);
    printf("batch     %zu images, micro-batch %zu, %d gradient groups\n", set->B, trainer->layout.micro, set->groups);
}

/* Prints how many gradient groups each replica got, beside its speed relative to the fastest. */
static void print_shares(const ls_layout *layout, const double *speeds) {
    double best = 0;
    for (int d = 0; d < layout->dp; d++) best = speeds[d] > best ? speeds[d] : best;
    printf("shares    gradient groups by measured speed:");
    for (int d = 0; d < layout->dp; d++)
        printf("%s %d (%.0f %%)", d > 0 ? "," : "", layout->share[d], 100 * speeds[d] / best);
    putchar('\n');
    fflush(stdout);
}

/* Prints what the GPU of this worker holds beside the tensors; nothing if that is not known. */
static void print_usage(ls_device *device) {
    ls_device_usage u;
    if (ls_device_get_usage(device, &u) != LS_OK) return;
    printf("          on %s (%.1f GiB), which also holds: CUDA context and other processes %.1f MiB, kernels %.1f MiB, "
           "kernel arguments %.1f MiB; pinned host memory %.1f MiB\n",
           device->name, (double)u.total / 0x1p30, (double)u.others / 0x1p20, (double)u.modules / 0x1p20,
           (double)u.lists / 0x1p20, (double)u.pinned / 0x1p20);
}

/* Returns from where the state of a lost worker is restored, as the end of a sentence. */
static const char *recovery_text(const ls_trainer *t) {
    if (t->device->is_host) return "its state survives in shared memory, so at most one step is repeated";
    if (!ls_device_rescues(t->device)) return "training resumes from the newest checkpoint";
    if (ls_layout_workers(&t->layout) > 1 && t->layout.dp > 1 && t->layout.zero == 0)
        return "replicas hold its state, so at most one step is repeated";
    if (t->recover.copies) return "copies hold its state, so at most one step is repeated";
    return "its GPU memory is lost with it, so training resumes from the newest checkpoint";
}

/* Prints whether lost workers are replaced, and the copies of state that allow it. */
static void print_recovery(const ls_run *run) {
    int64_t restarts = run->options.restarts;
    if (run->attempts && restarts > 0)
        printf("recovery  a lost worker is replaced (at most %lld time%s); %s\n", (long long)restarts,
               restarts == 1 ? "" : "s", recovery_text(run->trainer));
    char copies[COPIES_TEXT_MAX] = "";
    if (run->options.state_copies > 0) ls_copies_text(&run->trainer->recover, copies, sizeof copies);
    if (*copies) printf("copies    %s\n", copies);
}

void ls_train_print_header(const ls_run *run) {
    const ls_trainer *trainer = run->trainer;
    const ls_settings *set = &trainer->settings;
    const ls_arena *arena = ls_partition_arena(trainer->partition);
    int workers = ls_layout_workers(&trainer->layout);
    char layout[LAYOUT_TEXT_MAX], lr[LS_SETTINGS_LR_TEXT_MAX], watch[LS_WATCH_TEXT_MAX], check[LS_CHECK_TEXT_MAX];
    char out[PATH_MAX];
    ls_layout_text(&trainer->layout, layout, sizeof layout);
    if (ls_shape_sees_images(&set->shape))
        print_images(trainer);
    else
        print_tokens(trainer);
    ls_settings_lr_text(set, lr);
    if (*lr) printf("lr        %s\n", lr);
    if (trainer->origin.lr_start > 0)
        printf("schedule  %s, from the fork at step %lld to step %lld, with %lld steps of warm-up\n",
               ls_lr_kind_name(set->lr.kind), (long long)trainer->origin.lr_start, (long long)set->options.steps,
               (long long)set->lr.warmup_steps);
    if (*run->chosen.about) printf("device    %s\n", run->chosen.about);
    if (workers > 1) printf("layout    %d workers: %s\n", workers, layout);
    printf("memory    %.1f MiB%s: parameters %.1f MiB, gradients %.1f MiB, optimizer state %.1f MiB, activations %.1f "
           "MiB\n",
           (double)arena->peak / 0x1p20, workers > 1 ? " on worker 0" : "",
           (double)(ls_arena_kind_bytes(arena, "parameters") + ls_arena_kind_bytes(arena, "16-bit parameters")) /
               0x1p20,
           (double)ls_arena_kind_bytes(arena, "gradients") / 0x1p20,
           (double)ls_arena_kind_bytes(arena, "optimizer state") / 0x1p20,
           (double)ls_arena_kind_bytes(arena, "activations") / 0x1p20);
    if (trainer->room.known) print_usage(trainer->device);
    printf("run       %s, %s, matrix unit %s, %d thread%s%s%s\n", ls_cli_visible(run->out, out, sizeof out),
           ls_dtype_word(set->policy.act), ls_unit_name(set->policy.unit), trainer->threads,
           trainer->threads == 1 ? "" : "s", workers > 1 ? " per worker" : "", run->options.resume ? ", resumed" : "");
    if (*run->hint) printf("          %s\n", run->hint);
    if (*run->agree_hint) printf("          %s\n", run->agree_hint);
    print_recovery(run);
    ls_watch_text(ls_watch_choose(set, &trainer->layout), set, &trainer->layout, watch);
    printf("guards    %s\n", watch);
    ls_check_text(set, &trainer->layout, check);
    printf("          %s\n", check);
    fflush(stdout);
    if (run->request.speeds) print_shares(&run->layout, run->speeds);
}

/* Prints the command that evaluates the run. program, run: quoted for a shell. */
static void print_eval(const ls_options *o, const char *heading, const char *program, const char *run) {
    char word[WORD_MAX];
    const char *data = o->val_data ? o->val_data : o->data; /* a part of --data was held out; images need no file */
    printf("%s %s eval --model %s", heading, program, run);
    if (data) printf(" --data %s", ls_shell_word(data, word, sizeof word));
    /* A resumed run has every option from its config.json, also those that were left at their default. */
    if (data && strcmp(o->text_field, ls_option_info_get(LS_OPT_text_field)->value) != 0)
        printf(" --text-field %s", ls_shell_word(o->text_field, word, sizeof word));
    putchar('\n');
}

/* Prints the commands to run next: generate (for text models), eval, doctor. */
static void print_next(const ls_run *r, bool is_images) {
    char program[WORD_MAX], run[WORD_MAX];
    ls_shell_program(program, sizeof program);
    ls_shell_word(r->out, run, sizeof run);
    const char *heading = "next     ";
    if (!is_images && r->tokenizer) {
        printf("%s %s generate --model %s\n", heading, program, run);
        heading = "         ";
    }
    print_eval(&r->options, heading, program, run);
    printf("          %s doctor %s\n", program, run);
}

void ls_train_print_end(const ls_run *r, bool has_saved) {
    const ls_run_summary *summary = &r->loop.summary;
    char line[LS_RUN_SUMMARY_LINE_MAX], out[PATH_MAX];
    ls_run_summary_time_text(summary, line);
    printf("time      %s\n", line);
    const ls_validation *v = &r->trainer->validation;
    if (v->best_step >= 0)
        printf("best      validation loss %.4f at step %lld\n", v->best_loss, (long long)v->best_step);
    if (has_saved)
        printf("saved     %s/checkpoints/step-%09lld\n", ls_cli_visible(r->out, out, sizeof out),
               (long long)r->trainer->step);
    print_next(r, summary->is_images);
}

void ls_train_print_finished(const ls_run *r) {
    char out[PATH_MAX], program[WORD_MAX], run[WORD_MAX];
    long long step = r->trainer->step;
    printf("finished  %s has completed all %lld steps already; nothing was trained or saved\n",
           ls_cli_visible(r->out, out, sizeof out), step);
    printf("next      %s train --fork %s --steps %lld\n", ls_shell_program(program, sizeof program),
           ls_shell_word(r->out, run, sizeof run), step > 0 ? 2 * step : 100);
}

ls_status ls_train_stopped(const ls_run *r, ls_status status) {
    char launch[64], program[WORD_MAX], run[WORD_MAX], given_up[WORD_MAX] = "";
    long long step = r->trainer->step;
    if (r->loop.saves.saved_step != step)
        return ls_fail(status, "stopped before the first step was done, so nothing was saved; start the run again");
    if (r->loop.gave_up)
        snprintf(given_up, sizeof given_up, " (step %lld was abandoned to stop within --grace)", step + 1);
    ls_launcher_command(launch, sizeof launch);
    return ls_fail(status, "stopped at step %lld%s, checkpoint saved; continue with: %s%s train --out %s --resume",
                   step, given_up, launch, ls_shell_program(program, sizeof program),
                   ls_shell_word(r->out, run, sizeof run));
}

/* Gathers the bytes of memory for tensors of each worker on all workers (collective). bytes[r]: of rank r. */
static ls_status gather_arenas(const ls_trainer *trainer, uint64_t bytes[LS_WORKERS_MAX]) {
    size_t each[LS_WORKERS_MAX];
    bytes[trainer->rank] = ls_partition_arena(trainer->partition)->peak;
    if (!trainer->world) return LS_OK;
    for (int r = 0; r < ls_layout_workers(&trainer->layout); r++) each[r] = sizeof *bytes;
    return ls_comm_all_gather(ls_world_comm(trainer->world), &bytes[trainer->rank], bytes, each);
}

/* Returns a worker's bytes as a new number. A callback of ls_cli_json_list(). */
static json_t *arena_json(const void *bytes, int rank) {
    return json_integer((json_int_t)((const uint64_t *)bytes)[rank]);
}

/* Gathers what each worker's GPU holds beside the tensors on all workers (collective); does nothing if that is not
 * known. */
static ls_status gather_usage(const ls_trainer *trainer, ls_device_usage all[LS_WORKERS_MAX]) {
    ls_device_usage mine;
    size_t each[LS_WORKERS_MAX];
    if (!trainer->room.known) return LS_OK;
    LS_TRY(ls_device_get_usage(trainer->device, &mine));
    all[0] = mine;
    if (!trainer->world) return LS_OK;
    for (int r = 0; r < ls_layout_workers(&trainer->layout); r++) each[r] = sizeof *all;
    return ls_comm_all_gather(ls_world_comm(trainer->world), &mine, all, each);
}

/* Returns a worker's GPU memory as a new object. A callback of ls_cli_json_list(). */
static json_t *usage_json(const void *all, int rank) {
    const ls_device_usage *u = (const ls_device_usage *)all + rank;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "memory_bytes", (json_int_t)u->total,
                     "context_and_others_bytes", (json_int_t)u->others, "kernels_bytes", (json_int_t)u->modules,
                     "lists_bytes", (json_int_t)u->lists, "scratch_outside_arena_bytes", (json_int_t)u->scratch,
                     "pinned_host_bytes", (json_int_t)u->pinned, "collectives_bytes", (json_int_t)u->shared,
                     "links_bytes", (json_int_t)u->links);
}

/* Returns the FLOP/s that data sheets promise for all GPUs of the run in this type, each counted once; 0: unknown. */
static double datasheet_flops_s(const ls_trainer *trainer, const ls_device_usage *all) {
    const char *about = trainer->device->about, *model = about ? strstr(about, ", ") : NULL;
    char name[LS_MACHINE_NAME_MAX];
    int gpus = 0;
    if (!model) return 0;
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(model + 2, ","), model + 2);
    for (int r = 0; r < trainer->room.workers; r++) {
        int first = 0;
        while (memcmp(all[first].id, all[r].id, sizeof all[r].id) != 0) first++;
        gpus += first == r;
    }
    return gpus * ls_chip_datasheet_flops(name, ls_policy_is_16(&trainer->settings.policy));
}

/* Adds the MFU over all steps: of the measured peak, and of the data sheet's, as far as these are known. */
static void add_mfu(json_t *object, const ls_run *run, const ls_device_usage *all) {
    const ls_run_summary *summary = &run->loop.summary;
    double rate = summary->step_s > 0 ? run->loop.flops * (double)summary->steps / summary->step_s : 0;
    double sheet = datasheet_flops_s(run->trainer, all);
    if (run->loop.peak_flops_s > 0 && rate > 0)
        json_object_set_new(object, "mfu", json_real(rate / run->loop.peak_flops_s));
    if (sheet > 0 && rate > 0) json_object_set_new(object, "mfu_of_datasheet", json_real(rate / sheet));
}

ls_status ls_train_print_done(const ls_run *run) {
    const ls_trainer *trainer = run->trainer;
    char weights[LS_HASH_CHARS];
    double loss = trainer->last_loss;
    uint64_t arenas[LS_WORKERS_MAX];
    static ls_device_usage usages[LS_WORKERS_MAX];
    LS_TRY(gather_usage(trainer, usages));
    LS_TRY(ls_partition_hash(trainer->partition, weights));
    LS_TRY(ls_trainer_prove_state(run->trainer)); /* afterwards, so that memory was still right when it was hashed */
    LS_TRY(gather_arenas(trainer, arenas));
    if (trainer->rank > 0) return LS_OK;
    if (!run->options.json) {
        char text[64] = "none"; /* no step was done */
        if (!isnan(loss)) snprintf(text, sizeof text, "%a", loss);
        printf("done: steps=%lld loss=%s weights=xxh128:%s identity=%s\n", (long long)trainer->step, text, weights,
               run->identity_hash);
        return LS_OK;
    }
    char hex[64];
    snprintf(hex, sizeof hex, "%a", loss);
    json_t *object =
        json_pack("{s:I, s:o, s:s?, s:s, s:s, s:s, s:o}", "steps", (json_int_t)trainer->step, "loss",
                  isfinite(loss) ? json_real(loss) : json_null(), "loss_hex", isnan(loss) ? NULL : hex,
                  "weights_xxh128", weights, "identity", run->identity_hash, "out", run->out, "arena_bytes",
                  ls_cli_json_list(ls_layout_workers(&trainer->layout), arena_json, arenas));
    if (trainer->room.known)
        json_object_set_new(object, "gpu", ls_cli_json_list(ls_layout_workers(&trainer->layout), usage_json, usages));
    if (trainer->room.known) add_mfu(object, run, usages);
    return ls_cli_print_json(object);
}
