/* times.c: `lockstep doctor --times FILE`: reads measured times, explains them, and prints what came out. */
#include "cli/doctor/times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/cluster.h"
#include "run/inputs/model.h"

static ls_status read_cluster(const ls_options *options, ls_cluster *out) {
    json_t *measured;
    bool is_file;
    if (strchr(options->cluster, ','))
        return ls_options_fail(options, LS_OPT_cluster,
                               "--times works with one cluster; times across two clusters are not modelled");
    *out = (ls_cluster){.sites = 1};
    LS_TRY(ls_cluster_option_site(options, options->cluster, &out->site[0], &is_file, &measured));
    json_decref(measured);
    snprintf(out->name, sizeof out->name, "%s", out->site[0].chip.name);
    return LS_OK;
}

/* What the rows are predicted for. */
static ls_status read_model(const ls_options *options, ls_times_model *model, char *name, size_t room) {
    ls_start start;
    LS_TRY(ls_start_look(options->model, &start));
    model->task.shape = start.shape;
    ls_start_close(&start);
    size_t T = model->task.shape.T;
    model->task.seq = options->seq > 0 ? (size_t)options->seq : T < 1024 ? T : 1024;
    model->global_batch = options->global_batch > 0 ? (size_t)options->global_batch : 0;
    LS_TRY(read_cluster(options, &model->task.cluster));
    bool cpu = model->task.cluster.site[0].chip.is_cpu;
    LS_TRY(ls_stack_find(options->stack ? options->stack : cpu ? "native" : "megatron", &model->task.stack));
    model->layout = (ls_knobs){.zero = 1, .sequence_parallel = true, .type = cpu ? LS_PLAN_FP32 : LS_PLAN_BF16};
    snprintf(name, room, "%s, sequences of %zu, on %s", options->model, model->task.seq, model->task.cluster.name);
    return LS_OK;
}

static ls_status make_basis(const ls_options *options, ls_times_case *c) {
    if (!options->model && !options->cluster) {
        c->node_assumed = options->gpus_per_node <= 0;
        ls_times_basis_make(&c->times, (int)options->gpus_per_node, &c->basis);
        return LS_OK;
    }
    if (!options->model || !options->cluster)
        return ls_fail(LS_ERR_INPUT, "--model and --cluster must be given together: predictions need both");
    ls_times_model *model = calloc(1, sizeof *model);
    if (!model) return ls_fail(LS_ERR_RESOURCE, "out of memory for a prediction");
    ls_status status = read_model(options, model, c->model, sizeof c->model);
    if (status == LS_OK) status = ls_times_basis_predict(&c->times, model, &c->basis);
    free(model);
    return status;
}

static ls_status run(const ls_options *options, ls_times_case *c) {
    LS_TRY(ls_times_read(options->times, &c->times));
    LS_TRY(make_basis(options, c));
    if (c->times.labels == 2) {
        LS_TRY(ls_times_compare(&c->times, &c->basis, &c->comparison));
        /* The rest is about the times as they are now, where they are enough. */
        int after = 0;
        for (int i = 0; i < c->times.count; i++) after += c->times.row[i].label == 1;
        for (int i = 0; after > 1 && i < c->times.count; i++)
            if (c->times.row[i].label == 0) c->basis.fit.weight[i] = 0;
    }
    LS_TRY(ls_times_explain(&c->times, &c->basis, &c->answer));
    if (options->json) return ls_doctor_times_print_json(options->times, c);
    ls_doctor_times_print(options->times, c);
    return LS_OK;
}

ls_status ls_doctor_times(const ls_options *options) {
    ls_times_case *c = calloc(1, sizeof *c);
    if (!c) return ls_fail(LS_ERR_RESOURCE, "out of memory for a table of times");
    ls_status status = run(options, c);
    free(c);
    return status;
}
