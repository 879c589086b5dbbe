/* worker.c: what each worker of `lockstep train` does. The first one has the folder, and speaks. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/files.h"
#include "base/fpenv.h"
#include "run/inputs/bos.h"
#include "cli/train/end.h"
#include "cli/train/options.h"
#include "cli/train/report.h"
#include "cli/train/session.h"
#include "comm/world.h"
#include "interop/copies.h"
#include "observe/trace.h"
#include "run/speed.h"
#include "run/progress/unit_hint.h"

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

/* The first worker tokenizes text that nobody has tokenized yet; the others find it done. */
static ls_status open_data(ls_train_session *s, ls_world *world) {
    if (s->corpus || s->images) return LS_OK;
    if (ls_world_rank(world) == 0) LS_TRY(ls_train_session_data(s));
    LS_TRY(ls_comm_barrier(ls_world_comm(world)));
    return s->corpus || s->images ? LS_OK : ls_train_session_data(s);
}

/* A layout that was made without workers has equal shares for --shares auto. */
static ls_status share_by_speed(ls_train_session *s, ls_world *world) {
    bool is_auto = s->request.shares && strcmp(s->request.shares, "auto") == 0;
    if (!is_auto || s->layout.dp == 1) return LS_OK;
    LS_TRY(ls_speed_of_rows(world, s->device, &s->settings.shape, &s->layout, s->speeds));
    s->request.speeds = s->speeds;
    return ls_train_session_layout(s);
}

static ls_status create_trainer(ls_train_session *s, ls_world *world) {
    LS_TRY(ls_device_open_cpu_pool(world->pool, NULL, &s->device));
    LS_TRY(share_by_speed(s, world));
    ls_trainer_place place = {.device = s->device, .world = world, .layout = s->layout};
    ls_trainer_data data = {.corpus = s->corpus,
                            .val_corpus = s->val_corpus,
                            .images = s->images,
                            .val_images = s->val_images,
                            .augment = s->augment};
    return ls_trainer_create(&s->settings, &place, &data, &s->trainer);
}

/* ---- where the run begins ---------------------------------------------------------------------------------------- */

static ls_status begin(ls_train_session *s) {
    if (s->opts->resume) {
        bool anew;
        return ls_run_start_resume(s->trainer, s->store, s->dir, s->start.weights, s->identity, &anew);
    }
    if (s->opts->fork) return ls_run_start_fork(s->trainer, s->start.weights, s->identity, &s->parent_identity);
    if (s->start.weights) return ls_run_start_weights(s->trainer, s->start.weights, s->identity);
    return ls_run_start_seed(s->trainer);
}

static ls_status open_store(ls_train_session *s) {
    LS_TRY(ls_store_open(s->out, LS_STORE_WRITE, &s->store));
    ls_store_set_keep(s->store, s->settings.keep);
    return LS_OK;
}

/* A new folder gets its checkpoints/ after its identity: a run that is killed in between must not look like one. */
static ls_status write_beginning(ls_train_session *s) {
    const ls_options *o = s->opts;
    ls_run_parent parent = {.path = o->fork, .step = s->trainer->step, .identity = s->parent_identity};
    LS_TRY(ls_run_dir_begin(s->dir, s->identity, o, LS_COMMAND_TRAIN, o->fork ? &parent : NULL));
    LS_TRY(ls_run_dir_write_layout(s->dir, ls_layout_to_json(&s->trainer->layout)));
    return o->resume ? LS_OK : open_store(s);
}

/* Files that came with the model and that no tokenizer knows of go along from checkpoint to checkpoint, so that export
 * writes them again. With another tokenizer those of the model's own tokenizer stay behind. */
static ls_status carry_from(ls_train_session *s, const char *folder) {
    static const char *const names[] = {LS_GENERATION_CONFIG, "chat_template.jinja", "added_tokens.json",
                                        "tokenizer.model"};
    size_t count = s->opts->tokenizer ? 1 : sizeof names / sizeof *names;
    for (size_t i = 0; i < count; i++) LS_TRY(ls_store_carry(s->store, folder, names[i]));
    return LS_OK;
}

/* From the checkpoint that the run goes on from, else from where its weights come from. */
static ls_status carry(ls_train_session *s) {
    char *own = NULL;
    if (s->opts->resume) LS_TRY(ls_store_folder(s->store, s->trainer->step, &own));
    const char *folder = own && ls_file_exists(own) ? own : s->start.weights ? ls_weights_path(s->start.weights) : NULL;
    ls_status status = folder ? carry_from(s, folder) : LS_OK;
    free(own);
    return status;
}

/* What a fork began with is saved at once, since nobody could begin it anew. */
static ls_status open_run(ls_train_session *s, ls_world *world) {
    bool first = s->trainer->rank == 0;
    if (first && !s->dir) LS_TRY(ls_train_session_dir(s));
    if (first && s->opts->resume) LS_TRY(ls_run_dir_check_checkpoints(s->dir));
    if (first && s->opts->resume) LS_TRY(open_store(s));
    LS_TRY(ls_save_check_shared(world, s->out));
    LS_TRY(begin(s));
    if (first) LS_TRY(write_beginning(s));
    if (first) LS_TRY(carry(s));
    if (s->opts->fork) LS_TRY(ls_save(s->store, s->trainer, s->identity, s->tokenizer));
    return first ? ls_run_dir_open_metrics(s->dir, s->trainer->step, &s->metrics) : LS_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* As the documents are that the model learns from. */
static ls_status encode_prompt(ls_train_session *s) {
    const char *text = s->opts->prompt ? s->opts->prompt : "";
    ls_frame frame = s->frame;
    if (!s->tokenizer) return LS_OK;
    if (!ls_corpus_has_text(s->corpus)) LS_TRY(ls_bos_option(s->opts, s->tokenizer, &frame));
    LS_TRY(ls_frame_prompt(s->tokenizer, &frame, text, strlen(text), 0, &s->prompt));
    if (s->prompt.count > 0) return LS_OK;
    int32_t eot = ls_tokenizer_eot(s->tokenizer);
    return eot >= 0 ? ls_tokens_push(&s->prompt, eot) : ls_tokenizer_encode(s->tokenizer, "\n", 1, 0, &s->prompt);
}

/* Of all workers' devices, with the matrix unit in use, measured at the same time. */
static ls_status peak_of_all(ls_train_session *s, double *flops_s) {
    int64_t peak = (int64_t)s->device->ops->peak_flops_s(s->device, s->trainer->settings.policy.unit);
    LS_TRY(ls_partition_sum(s->trainer->partition, &peak, 1));
    *flops_s = (double)peak;
    return LS_OK;
}

/* A run that goes on keeps its unit, whatever there is. */
static ls_status find_hint(ls_train_session *s, char hint[LS_UNIT_HINT_MAX]) {
    int64_t having[LS_UNITS];
    hint[0] = '\0';
    if (s->opts->resume || !ls_unit_hint_is_of_use(&s->settings.policy)) return LS_OK;
    ls_unit_hint_count(having);
    LS_TRY(ls_partition_sum(s->trainer->partition, having, LS_UNITS));
    ls_unit_hint_text(having, ls_layout_workers(&s->trainer->layout), hint);
    return LS_OK;
}

/* A stop by signal is an orderly end. */
static bool is_stop(ls_status status) { return status == LS_ERR_INTERRUPTED || status == LS_ERR_TERMINATED; }

/* The loop drops what cannot be printed; a full disk is told here, once the run is saved. A reader that has gone away
 * is no error. A forked worker's stream is not the one that main() looks at. */
static ls_status end_output(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return LS_OK;
    if (errno == EPIPE) return LS_OK;
    if (errno != 0) return ls_fail_errno(LS_ERR_RESOURCE, "cannot write to standard output; the run itself is saved");
    return ls_fail(LS_ERR_RESOURCE, "cannot write all of the output to standard output; the run itself is saved");
}

static ls_status run(ls_train_session *s) {
    const ls_options *o = s->opts;
    bool speaks = s->trainer->rank == 0 && !o->json;
    double peak_flops_s;
    char hint[LS_UNIT_HINT_MAX];
    LS_TRY(encode_prompt(s));
    LS_TRY(peak_of_all(s, &peak_flops_s));
    LS_TRY(find_hint(s, hint));
    ls_loop loop = {.trainer = s->trainer,
                    .identity = s->identity,
                    .saves = true,
                    .store = s->store,
                    .metrics = s->metrics,
                    .tokenizer = s->tokenizer,
                    .sample = {.temperature = o->temperature,
                               .top_k = o->top_k,
                               .top_p = o->top_p,
                               .seed = (uint64_t)o->seed,
                               .max_tokens = o->max_tokens},
                    .prompt = s->prompt.ids,
                    .prompt_tokens = s->prompt.count,
                    .peak_flops_s = peak_flops_s,
                    .log_every = o->log_every,
                    .out = o->json ? stderr : stdout};
    if (speaks) ls_train_print_header(s->trainer, s->out, o->resume, hint);
    if (speaks && s->request.speeds) ls_train_print_shares(&s->layout, s->speeds);
    ls_status status = ls_loop_run(&loop);
    if (is_stop(status)) return ls_train_stopped(s, status);
    LS_TRY(status);
    if (speaks) ls_train_print_end(s, &loop.summary);
    LS_TRY(ls_train_print_done(s->trainer, s->identity, s->out, o->json));
    return s->trainer->rank == 0 ? end_output() : LS_OK;
}

/* NULL in *path: no trace. The first worker writes it. */
static ls_status find_trace(const ls_train_session *s, char room[PATH_MAX], const char **path) {
    *path = s->opts->trace;
    if (!*path || strcmp(*path, "run") != 0) return LS_OK;
    if (snprintf(room, PATH_MAX, "%s/trace.json", s->out) >= PATH_MAX)
        return ls_options_fail(s->opts, LS_OPT_trace, "the path of the run folder is too long");
    *path = room;
    return LS_OK;
}

/* The timeline of a run that was stopped is written too. */
static bool is_orderly(ls_status status) { return status == LS_OK || is_stop(status); }

static ls_status work(ls_train_session *s, ls_world *world) {
    char room[PATH_MAX];
    const char *trace;
    LS_TRY(ls_fault_read(ls_world_rank(world)));
    if (s->launched) LS_TRY(ls_start_open_together(world, ls_train_model_name(s->opts), &s->start));
    LS_TRY(open_data(s, world));
    if (s->launched) LS_TRY(ls_run_start_agree(world, s->identity));
    LS_TRY(create_trainer(s, world));
    LS_TRY(open_run(s, world));
    LS_TRY(find_trace(s, room, &trace));
    LS_TRY(ls_trace_begin(trace));
    ls_status status = run(s);
    if (!is_orderly(status)) return status;
    char message[LS_MESSAGE_MAX];
    snprintf(message, sizeof message, "%s", ls_status_message());
    LS_TRY(ls_trace_end(world, trace));
    return status == LS_OK ? LS_OK : ls_fail(status, "%s", message);
}

ls_status ls_train_worker(ls_world *world, void *session) {
    ls_train_session *s = session;
    ls_fpenv_set();
    ls_status status = work(s, world), closed = ls_metrics_close(s->metrics);
    if (status == LS_OK) status = closed;
    if (!is_orderly(status))
        ls_world_fail(world, status); /* or the others would be waited for while communicators end */
    ls_tokens_fini(&s->prompt);
    ls_trainer_destroy(s->trainer);
    ls_store_close(s->store);
    /* Here too: of forked workers the first one has made the folder, and the parent does not know. */
    if (status != LS_OK && ls_world_rank(world) == 0) ls_train_session_abandon(s);
    ls_device_destroy(s->device);
    ls_identity_destroy(s->parent_identity);
    return status;
}
