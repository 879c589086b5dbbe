/* validate_json.c: the JSON of `lockstep plan --validate`. */
#include <jansson.h>

#include "cli/plan/validate.h"
#include "cli/print_json.h"

static json_t *layout_json(const ls_knobs *l) {
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:I, s:i, s:s, s:b, s:s}", "dp", l->dp, "tp", l->tp, "pp", l->pp,
                     "virtual_stages", l->virtual_stages, "context", l->context, "micro", (json_int_t)l->micro, "zero",
                     l->zero, "recompute", ls_recompute_name(l->recompute), "sequence_parallel", l->sequence_parallel,
                     "precision", ls_plan_type_name(l->type));
}

static json_t *row_json(const ls_validation *v, const ls_validate_row *r) {
    const ls_row *row = r->row;
    if (!r->modelled)
        return json_pack("{s:s, s:s, s:s, s:b, s:s}", "id", row->id, "source", v->source[r->source], "model",
                         row->model, "modelled", 0, "reason", row->reason);
    json_t *json = json_pack("{s:s, s:s, s:s, s:b, s:s, s:f, s:f, s:b, s:o}", "id", row->id, "source",
                             v->source[r->source], "model", row->model, "modelled", 1, "kind",
                             row->metric == LS_ROW_MEMORY ? "memory_bytes" : "seconds", "predicted", r->predicted,
                             "measured", r->measured, "fitted", r->fitted, "layout", layout_json(&r->layout));
    if (json && r->judged) json_object_set_new(json, "error", json_real(r->error));
    if (json && r->judged && row->metric != LS_ROW_MEMORY)
        json_object_set_new(json, "baseline_error", json_real(r->baseline_error));
    return json;
}

static json_t *score_json(const ls_validate_score *s) {
    return json_pack("{s:I, s:f, s:f}", "rows", (json_int_t)s->rows, "mae", s->mae, "bias", s->bias);
}

static json_t *line_json(const ls_validate_line *line) {
    return json_pack("{s:s, s:b, s:o, s:o, s:o, s:{s:I, s:f, s:f}}", "name", line->name, "part", line->is_part, "time",
                     score_json(&line->time), "constant_mfu", score_json(&line->baseline), "memory",
                     score_json(&line->memory), "regret", "tasks", (json_int_t)line->tasks, "mean", line->regret,
                     "worst", line->worst_regret);
}

static json_t *regret_json(const ls_validation *v, const ls_validate_regret *g) {
    return json_pack("{s:s, s:s, s:i, s:I, s:s, s:s, s:f}", "source", v->source[g->source], "model",
                     g->best->row->model, "chips", ls_cluster_chips(&g->best->row->task.cluster), "layouts",
                     (json_int_t)g->layouts, "chosen", g->chosen->row->id, "best", g->best->row->id, "regret",
                     g->regret);
}

static json_t *cluster_json(const ls_validation *v, const ls_validate_cluster *c) {
    return json_pack("{s:s, s:s, s:I, s:I, s:f, s:f}", "source", v->source[c->source], "chip", c->chip, "rows",
                     (json_int_t)c->rows, "fitted", (json_int_t)c->fitted, "factor", c->factor, "baseline_efficiency",
                     c->baseline_efficiency);
}

ls_status ls_plan_validate_json(const ls_validation *v) {
    json_t *rows = json_array(), *lines = json_array(), *regrets = json_array(), *clusters = json_array();
    for (size_t i = 0; i < v->rows; i++) json_array_append_new(rows, row_json(v, &v->row[i]));
    for (size_t i = 0; i < v->lines; i++) json_array_append_new(lines, line_json(&v->line[i]));
    for (size_t i = 0; i < v->regrets; i++) json_array_append_new(regrets, regret_json(v, &v->regret[i]));
    for (size_t i = 0; i < v->clusters; i++) json_array_append_new(clusters, cluster_json(v, &v->cluster[i]));
    const ls_validate_line *all = &v->line[v->lines - 1];
    return ls_cli_print_json_lines(json_pack("{s:b, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o}", "calibrated",
                                             v->calibrated, "rows_read", (json_int_t)v->rows, "modelled",
                                             (json_int_t)v->modelled, "mae", all->time.mae, "bias", all->time.bias,
                                             "mae_memory", all->memory.mae, "regret", all->regret, "rows", rows,
                                             "sources", lines, "regrets", regrets, "clusters", clusters));
}
