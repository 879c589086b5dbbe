/* dry_json.c: a dry run as one JSON object. */
#include "cli/print_json.h"
#include "cli/train/dry.h"

static json_t *json_bytes(uint64_t bytes) { return json_integer((json_int_t)bytes); }

/* {"dp": {"all-reduce": {"calls": …, "bytes": …}}}, without what there is none of. */
static json_t *json_traffic(const ls_step_traffic *traffic) {
    json_t *axes = json_object();
    for (int a = 0; a < LS_TRAFFIC_AXES; a++) {
        json_t *kinds = json_object();
        for (int k = 0; k < LS_TRAFFIC_KINDS; k++) {
            const ls_traffic *of = &traffic->of[a][k];
            if (of->calls > 0)
                json_object_set_new(
                    kinds, ls_traffic_kind_name((ls_traffic_kind)k),
                    json_pack("{s:o, s:o}", "calls", json_bytes(of->calls), "bytes", json_bytes(of->bytes)));
        }
        json_object_set_new(axes, ls_traffic_axis_name(a), kinds);
    }
    return axes;
}

static json_t *json_worker(const ls_dry_worker *worker, int rank) {
    json_t *kinds = json_object();
    for (int k = 0; k < LS_DRY_KINDS; k++)
        json_object_set_new(kinds, ls_dry_kind_names[k], json_bytes(worker->kind[k]));
    return json_pack("{s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o}", "worker", rank, "dp", worker->place.dp, "tp",
                     worker->place.tp, "pp", worker->place.pp, "bytes", json_bytes(worker->arena), "kinds", kinds,
                     "outside_bytes", json_bytes(worker->outside), "traffic", json_traffic(&worker->traffic));
}

static json_t *json_stage(const ls_dry_run *dry, int s) {
    const ls_layout *layout = &dry->layout;
    json_t *chunks = json_array();
    for (int c = 0; c < layout->virtual_stages; c++) {
        int number = c * layout->pp + s, first = layout->chunk_first[number];
        json_array_append_new(chunks, json_pack("{s:i, s:i, s:i, s:i}", "first_block", first, "blocks",
                                                layout->chunk_first[number + 1] - first, "slots",
                                                ls_schedule_slots(&dry->schedule, s, c), "kept_slots",
                                                ls_schedule_kept(&dry->schedule, s, c)));
    }
    return json_pack("{s:i, s:o, s:f}", "stage", s, "chunks", chunks, "bubble",
                     ls_simulation_bubble(&dry->simulation, s));
}

static json_t *json_schedule(const ls_dry_run *dry) {
    json_t *micros = json_array(), *stages = json_array();
    for (int d = 0; d < dry->layout.dp; d++) json_array_append_new(micros, json_integer(dry->micros[d]));
    for (int s = 0; s < dry->layout.pp; s++) json_array_append_new(stages, json_stage(dry, s));
    return json_pack("{s:s, s:o, s:i, s:o, s:f}", "kind", ls_schedule_kind_name(dry->layout.schedule), "micro_batches",
                     micros, "row", dry->row, "stages", stages, "bubble", ls_dry_bubble(dry));
}

static json_t *json_types(const ls_settings *s) {
    ls_dry_types types = ls_dry_types_of(&s->policy);
    json_t *rows = json_array();
    for (int i = 0; i < types.count; i++)
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s}", "what", types.row[i].what, "type", types.row[i].type,
                                              "why", types.row[i].why));
    return json_pack("{s:s, s:s, s:o}", "precision", types.precision, "matrix_unit", types.unit, "kept", rows);
}

ls_status ls_dry_print_json(const ls_dry_run *dry) {
    json_t *workers = json_array();
    for (int r = 0; r < dry->workers; r++) json_array_append_new(workers, json_worker(&dry->worker[r], r));
    json_t *object =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "layout", ls_layout_to_json(&dry->layout), "types",
                  json_types(dry->settings), "workers", workers, "bytes", json_bytes(dry->arena), "outside_bytes",
                  json_bytes(dry->outside), "traffic", json_traffic(&dry->traffic), "schedule", json_schedule(dry));
    return ls_cli_print_json(object);
}
