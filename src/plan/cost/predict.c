/* predict.c: predicts a step from its parts: the times of layers, the pipeline, the reduction between replicas, the
 * update. */
#include <string.h>

#include "plan/cost/cost_case.h"

/* Member of a JSON object, label in tables and charts, words in a sentence. The names are part of the file formats. */
static const struct {
    const char *name, *label, *phrase;
} time_words[LS_TIME_KINDS] = {
    [LS_TIME_MATMUL] = {"products", "matmuls", "matmuls"},
    [LS_TIME_ATTENTION] = {"attention", "attention", "attention"},
    [LS_TIME_SMALL] = {"small operations", "elementwise ops", "elementwise operations"},
    [LS_TIME_ENDS] = {"embedding and head", "embedding and head", "embedding, head and loss"},
    [LS_TIME_RECOMPUTE] = {"recompute", "recomputation", "recomputation"},
    [LS_TIME_TP] = {"tensor par.", "tensor parallel", "tensor-parallel collectives"},
    [LS_TIME_GATHER] = {"weight gathering", "weight all-gather", "all-gather of sharded weights"},
    [LS_TIME_P2P] = {"stage to stage", "stage to stage", "activations between stages"},
    [LS_TIME_BUBBLE] = {"bubble", "bubble", "the pipeline bubble"},
    [LS_TIME_DP] = {"data par.", "data parallel", "gradient reduction between replicas"},
    [LS_TIME_OPTIMIZER] = {"optimizer", "optimizer", "the optimizer"},
    [LS_TIME_OTHER] = {"other", "other", "fixed cost per step"},
};
static const struct {
    const char *name, *label;
} memory_words[LS_MEMORY_KINDS] = {
    [LS_MEMORY_WEIGHTS] = {"weights", "weights"},       [LS_MEMORY_GRADIENTS] = {"gradients", "gradients"},
    [LS_MEMORY_OPTIMIZER] = {"optimizer", "optimizer"}, [LS_MEMORY_ACTIVATIONS] = {"activations", "activations"},
    [LS_MEMORY_WORK] = {"work", "workspace"},           [LS_MEMORY_BUFFERS] = {"buffers", "comm. buffers"},
    [LS_MEMORY_WASTE] = {"waste", "fragmentation"},     [LS_MEMORY_RESERVED] = {"reserved", "reserved"},
};

const char *ls_time_kind_name(ls_time_kind kind) { return time_words[kind].name; }
const char *ls_time_kind_label(ls_time_kind kind) { return time_words[kind].label; }
const char *ls_time_kind_phrase(ls_time_kind kind) { return time_words[kind].phrase; }
const char *ls_memory_kind_name(ls_memory_kind kind) { return memory_words[kind].name; }
const char *ls_memory_kind_label(ls_memory_kind kind) { return memory_words[kind].label; }

double ls_plan_model_flops(const ls_shape *shape, double seq, double batch) {
    double L = (double)shape->L, head = (double)shape->V * (double)shape->C, n = seq * batch;
    double attention = 12 * n * seq * (double)ls_shape_query_width(shape) * L;
    return 6 * n * (ls_shape_layer_matrix_elems(shape) * L + head) + attention;
}

static bool is_better_even(const ls_plan_case *c);

ls_plan_case ls_plan_case_of(const ls_plan_task *task, const ls_knobs *layout) {
    const ls_cluster *cluster = &task->cluster;
    const ls_site *site = &cluster->site[0];
    if (cluster->sites > 1 &&
        ls_plan_rate(&cluster->site[1].chip, layout->type) < ls_plan_rate(&site->chip, layout->type))
        site = &cluster->site[1];
    ls_plan_case c = {.task = task, .layout = layout, .site = site, .t = layout->tp};
    c.C = (double)task->shape.C;
    c.hidden = (double)task->shape.hidden;
    c.gated = ls_shape_family(&task->shape)->gated;
    c.elem = ls_plan_elem_bytes(layout);
    double unit = 128.0 * layout->tp, V = (double)task->shape.V, rows = V / unit;
    c.vocabulary = unit * ((double)(long long)rows < rows ? (double)(long long)rows + 1 : (double)(long long)rows);
    c.table = c.vocabulary * c.C / c.t;
    c.tokens = (double)layout->micro * (double)task->seq / layout->context;
    c.width = (double)ls_shape_query_width(&task->shape);
    /* A key head is on one way at least: ways that are more than the heads have copies. */
    size_t ways = (size_t)layout->tp, heads = (task->shape.kv_heads + ways - 1) / ways * ways;
    c.keys = (double)(heads * task->shape.head_size);
    size_t whole = (size_t)layout->dp * layout->micro;
    c.micros = (int)((task->global_batch + whole - 1) / whole);
    ls_plan_place(&c);
    if (layout->stages_across && ls_plan_sites_differ(cluster)) {
        c.site = &cluster->site[0];
        c.far = &cluster->site[1];
        c.near_stages = c.site->chips / (layout->tp * layout->context * layout->dp);
        c.even_layers = is_better_even(&c);
    }
    return c;
}

/* ---- sharded weights --------------------------------------------------------------------------------------------- */

/* ZeRO 3: seconds that a layer's passes become longer because they wait for its weights, or are slowed by fetching the
 * next; `first`: of the first chunk, for the table of tokens. */
typedef struct gather_time {
    double forward, backward, first;
} gather_time;

/* Returns by how many seconds fetching weights prolongs computing, with the framework's overlap. */
static double exposed_fetch(const ls_plan_case *c, double compute, double fetch) {
    const ls_stack *stack = &c->task->stack;
    double more = fetch > compute ? fetch : compute, less = fetch > compute ? compute : fetch;
    double seen = stack->gather_overlaps ? stack->contention : 1 - stack->gather_hidden;
    return more + seen * less - compute;
}

double ls_plan_gather_seconds(const ls_plan_case *c, ls_collective kind, double bytes) {
    int D = ls_plan_shards(c);
    if (c->task->stack.flat_gather) return ls_plan_ring_seconds(c, kind, D, bytes);
    return ls_plan_collective_seconds(c, kind, D, c->shard_inner, bytes);
}

/* Returns the exposed gathers and reduce-scatters of ZeRO 3 per layer; all 0 with other stages or one replica. */
static gather_time gathering(const ls_plan_case *c, const ls_layer_time *layer) {
    const ls_knobs *l = c->layout;
    gather_time out = {0};
    if (l->zero < 3 || l->dp * l->context < 2 || ls_plan_stays_whole(c)) return out;
    double params = ls_plan_layer_params(c);
    double elem = l->type == LS_PLAN_FP32 ? 4 : l->gather_8bit ? 1 : 2;
    double grad = l->pure_16bit || ls_plan_reduce_bytes(&c->task->stack, c->layout->type) < 4 ? 2 : 4;
    double fetch = ls_plan_gather_seconds(c, LS_ALL_GATHER, params * elem),
           give = ls_plan_gather_seconds(c, LS_REDUCE_SCATTER, params * grad);
    double backward = ls_pass_sum(&layer->backward) + layer->recompute;
    out.forward = exposed_fetch(c, ls_pass_sum(&layer->forward), fetch);
    out.backward = exposed_fetch(c, backward, fetch + give);
    out.first = ls_plan_gather_seconds(c, LS_ALL_GATHER, c->table * elem) +
                .5 * ls_plan_gather_seconds(c, LS_REDUCE_SCATTER, c->table * grad);
    return out;
}

/* ---- between replicas -------------------------------------------------------------------------------------------- */

/* Returns whether there are two sites, and stages (true) or replicas (false) are divided between them. */
static bool crosses_sites(const ls_plan_case *c, bool stages) {
    return c->task->cluster.sites > 1 && c->layout->stages_across == stages;
}

/* Sets the exposed time of what replicas do at the end of a step (gradient reduction, gathering of weights, tied
 * tables), and link_dp and hidden_dp. backward and forward: seconds of the busiest stage for a micro-batch, with which
 * it overlaps; params: of a chip. */
static void add_replica_times(const ls_plan_case *c, double params, double backward, double forward,
                              ls_prediction *out) {
    const ls_knobs *l = c->layout;
    const ls_stack *stack = &c->task->stack;
    int D = l->dp * l->context;
    double seen = 0, grad = l->type == LS_PLAN_FP32 ? 4 : ls_plan_reduce_bytes(&c->task->stack, c->layout->type);
    if (D > 1 && (l->zero < 3 || ls_plan_stays_whole(c))) {
        ls_collective kind = l->zero == 0 || stack->reduce_whole ? LS_ALL_REDUCE : LS_REDUCE_SCATTER;
        double reduce = ls_plan_collective_seconds(c, kind, D, c->dp_inner, params * grad);
        double spread =
            l->zero > 0 ? ls_plan_collective_seconds(c, LS_ALL_GATHER, D, c->dp_inner, params * c->elem) : 0;
        if (crosses_sites(
                c, false)) /* each site adds up on its own; half of the bytes of an all-reduce cross, once each way */
            reduce += ls_plan_across_seconds(c, params * grad, ls_cluster_chips(&c->task->cluster) / (double)D);
        double late = stack->reduce_overlaps ? reduce - .9 * backward : reduce;
        if (late < .05 * reduce) late = .05 * reduce;
        if (l->zero == 2 &&
            !ls_plan_stays_whole(c)) { /* no chip keeps a whole gradient, so each micro-batch's is reduced at once */
            late *= c->micros;
            reduce *= c->micros;
        }
        double wait = stack->gather_overlaps ? (spread > forward ? spread - forward : 0) : spread;
        seen = late + wait;
        out->link_dp = reduce + spread;
        out->hidden_dp = out->link_dp - seen;
    }
    int S = ls_plan_shards(c);
    if (l->zero == 3 && S < D && !ls_plan_stays_whole(c)) { /* copies of the shards add up once, behind backward */
        int inner = ls_plan_inner(c->site->node, l->tp * S, D / S);
        double sum = ls_plan_collective_seconds(c, LS_ALL_REDUCE, D / S, inner, params * grad / S);
        double late = sum - .9 * backward;
        seen += late < .05 * sum ? .05 * sum : late;
        out->link_dp += sum;
        out->hidden_dp += sum - (late < .05 * sum ? .05 * sum : late);
    }
    if (l->zero == 3 && !ls_plan_stays_whole(c) && crosses_sites(c, false)) { /* shards stay in their site */
        double across = ls_plan_across_seconds(c, params * grad, ls_cluster_chips(&c->task->cluster) / (double)D);
        seen += across;
        out->link_dp += across;
    }
    if (l->pp > 1 && c->task->shape.tied) { /* both ends of the pipeline add up the gradients of their tables */
        double tables = ls_plan_send_seconds(c, l->pp - 1, c->table * grad);
        seen += tables;
        out->link_dp += tables;
    }
    out->time[LS_TIME_DP] = seen;
}

/* Returns the seconds of an update on the host: gradients go there and weights come back, each over the link to the
 * host, and the update passes over the host's memory; sending the gradients overlaps with the backward pass and is not
 * counted. */
static double host_seconds(const ls_plan_case *c, double owned, double moved) {
    const ls_chip *chip = &c->site->chip;
    return owned * c->elem / chip->host_link + owned * moved / chip->host_bandwidth;
}

/* Returns the seconds of the update, limited by memory: the chip's own shard, and 6 bytes for each other parameter that
 * it keeps (none with ZeRO 3). Moments in fewer bits move fewer bytes. */
static double optimizer_seconds(const ls_plan_case *c, double params) {
    const ls_chip *chip = &c->site->chip;
    double owned = params / (c->layout->zero >= 1 ? ls_plan_shards(c) : 1);
    double moved = c->task->stack.optimizer_bytes - 4 * (4 - ls_plan_state_bytes(c->layout));
    double rest = c->layout->zero == 3 ? 0 : 6 * (params - owned) / (chip->memory_bandwidth * .7);
    if (c->layout->offload) return host_seconds(c, owned, moved) + rest;
    return (owned * moved + 6 * owned) / (chip->memory_bandwidth * .7) + rest;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* Sets the seconds of sending a micro-batch's activations from each stage to the next, with the host's pause if stages
 * have several chunks; 0 with one stage. */
static void fill_sends(const ls_plan_case *c, double *send) {
    double bytes = c->elem * c->tokens * c->C / c->t;
    double pause = c->layout->virtual_stages > 1 ? c->task->stack.chunk_pause_seconds : 0;
    ls_plan_case at = ls_plan_case_at_stage(c, 0);
    for (int s = 0; s < c->layout->pp; s++) {
        if (c->far && s == c->near_stages) at = ls_plan_case_at_stage(c, s);
        send[s] = c->layout->pp > 1 ? ls_plan_send_seconds(&at, s, bytes) + pause : 0;
    }
}

/* Times of a micro-batch. */
typedef struct part_times {
    ls_layer_time layer;
    gather_time gather;
    ls_ends_time ends;
} part_times;

/* Of the near stages and of the far ones, where sites are unlike. */
typedef struct site_parts {
    part_times at[2];
    double forward[2], backward[2]; /* of a layer */
} site_parts;

/* Fills part i, that of the near (0) or the far (1) site, from a case at that site. */
static void fill_site_parts(const ls_plan_case *c, int i, site_parts *out) {
    part_times *parts = &out->at[i];
    parts->layer = ls_plan_layer(c);
    parts->ends = ls_plan_ends(c);
    parts->gather = gathering(c, &parts->layer);
    out->forward[i] = ls_pass_sum(&parts->layer.forward) + parts->gather.forward;
    out->backward[i] = ls_pass_sum(&parts->layer.backward) + parts->layer.recompute + parts->gather.backward;
}

/* Fills layers from first: the blocks of each chunk without embedding and head. */
static void count_layers(const ls_plan_case *c, ls_plan_chunks *out) {
    int chunks = c->layout->pp * c->layout->virtual_stages;
    for (int g = 0; g < chunks; g++) out->layers[g] = out->first[g + 1] - out->first[g] - (g == 0) - (g == chunks - 1);
}

/* Divides the layers into chunks: evenly on one site; on two unlike ones so that both take the same time, as far as the
 * memory of each allows, which is tried again with fewer layers on a full stage. */
static void divide_between_sites(const ls_plan_case *c, const site_parts *parts, ls_plan_chunks *out) {
    int L = (int)c->task->shape.L, most[2] = {L, L};
    double cost[2][3];
    for (int i = 0; i < 2; i++) {
        const ls_ends_time *ends = &parts->at[i].ends;
        cost[i][0] = ends->embed_forward + ends->embed_backward;
        cost[i][1] = parts->forward[i] + parts->backward[i];
        cost[i][2] = ends->head_forward + ends->head_backward;
    }
    if (!c->far || c->even_layers) {
        (void)ls_layout_divide(LS_DIVIDE_LAYERS, cost[0], L + 2, c->layout->pp * c->layout->virtual_stages, out->first);
        count_layers(c, out);
        return;
    }
    for (bool again = true; again;) {
        again = false;
        ls_plan_divide_unlike(c, cost, most, out->first);
        count_layers(c, out);
        for (int s = 0; s < c->layout->pp; s++) {
            int far = s >= c->near_stages, held = ls_plan_layers_held(c, s, out->layers), has = 0;
            for (int g = s; g < c->layout->pp * c->layout->virtual_stages; g += c->layout->pp) has += out->layers[g];
            again = again || (held < has && held < most[far]);
            if (held < has && held < most[far]) most[far] = held;
        }
    }
}

/* Fills the chunks and the times of the parts at both sites (equal ones if there is one). */
static void fill_chunks(const ls_plan_case *c, ls_plan_chunks *out, site_parts *parts) {
    int pp = c->layout->pp, chunks = pp * c->layout->virtual_stages;
    ls_plan_case near = ls_plan_case_at_stage(c, 0);
    fill_site_parts(&near, 0, parts);
    parts->at[1] = parts->at[0];
    parts->forward[1] = parts->forward[0];
    parts->backward[1] = parts->backward[0];
    if (c->far) {
        ls_plan_case far = ls_plan_case_at_stage(c, pp - 1);
        fill_site_parts(&far, 1, parts);
    }
    fill_sends(c, out->send);
    divide_between_sites(c, parts, out);
    for (int g = 0; g < chunks; g++) {
        int far = c->far && g % pp >= c->near_stages;
        out->forward[g] = out->layers[g] * parts->forward[far] + ls_plan_blocked_seconds(c, out->send, g);
        out->backward[g] = out->layers[g] * parts->backward[far] + ls_plan_blocked_seconds(c, out->send, g - 1);
    }
    out->forward[0] += parts->at[0].ends.embed_forward + parts->at[0].gather.first;
    out->backward[0] += parts->at[0].ends.embed_backward;
    out->forward[chunks - 1] += parts->at[1].ends.head_forward;
    out->backward[chunks - 1] += parts->at[1].ends.head_backward;
    out->most_layers = 0;
    for (int s = 0; s < pp; s++) {
        int own = 0;
        for (int g = s; g < chunks; g += pp) own += out->layers[g];
        if (own > out->most_layers) out->most_layers = own;
    }
    int tables = pp == 1 && !c->task->shape.tied ? 2 : 1;
    out->params = out->most_layers * ls_plan_layer_params(c) + c->table * tables;
}

/* Sets the times by kind of the stage with the most work, for all its micro-batches, in *out, and its seconds for one
 * micro-batch in *forward and *backward. Returns the seconds of all its micro-batches. */
static double busiest(const ls_plan_case *c, const site_parts *parts, const ls_plan_chunks *chunks, ls_prediction *out,
                      double *forward, double *backward) {
    int pp = c->layout->pp, v = c->layout->virtual_stages, at = 0, own = 0;
    double most = -1;
    for (int s = 0; s < pp; s++) {
        double f = 0, b = 0;
        for (int k = 0; k < v; k++) f += chunks->forward[k * pp + s], b += chunks->backward[k * pp + s];
        if (f + b > most) most = f + b, at = s, *forward = f, *backward = b;
    }
    const part_times *own_parts = &parts->at[c->far && at >= c->near_stages];
    const ls_layer_time *layer = &own_parts->layer;
    const gather_time *gather = &own_parts->gather;
    const ls_ends_time *ends = &own_parts->ends;
    double waits = 0;
    for (int k = 0; k < v; k++) {
        int g = k * pp + at;
        own += chunks->layers[g];
        waits += ls_plan_blocked_seconds(c, chunks->send, g) + ls_plan_blocked_seconds(c, chunks->send, g - 1);
    }
    double times = (double)own * c->micros, m = c->micros;
    out->time[LS_TIME_MATMUL] = times * (layer->forward.matmuls + layer->backward.matmuls);
    out->time[LS_TIME_ATTENTION] = times * (layer->forward.attention + layer->backward.attention);
    out->time[LS_TIME_SMALL] = times * (layer->forward.small + layer->backward.small);
    out->time[LS_TIME_TP] = times * (layer->forward.tp + layer->backward.tp);
    out->time[LS_TIME_RECOMPUTE] = times * layer->recompute;
    out->time[LS_TIME_P2P] = m * waits;
    out->time[LS_TIME_GATHER] = times * (gather->forward + gather->backward) + (at == 0 ? m * gather->first : 0);
    if (at == 0) out->time[LS_TIME_ENDS] += m * (ends->embed_forward + ends->embed_backward);
    if (at == pp - 1) out->time[LS_TIME_ENDS] += m * (ends->head_forward + ends->head_backward);
    return most * m;
}

/* Computes for each stage how long one micro-batch takes from a chunk of the stage to the last chunk and back, added
 * up over the stage's chunks. */
static void fill_trips(const ls_plan_case *c, const ls_plan_chunks *chunks, double *trips) {
    const ls_knobs *l = c->layout;
    int last = l->pp * l->virtual_stages - 1;
    double back = l->schedule == LS_SCHEDULE_ZERO_BUBBLE ? .5 : 1, trip = 0;
    for (int s = 0; s < l->pp; s++) trips[s] = 0;
    for (int g = last; g >= 0; g--) {
        trip += chunks->forward[g] + back * chunks->backward[g] + (g < last ? 2 * chunks->send[g % l->pp] : 0);
        trips[g % l->pp] += trip;
    }
}

/* Returns a lower bound of the time of any schedule. A stage waits for its first micro-batch, works on all of them, and
 * the stages before it complete the last one. Memory limits the number of micro-batches in flight, each until its
 * gradient returns from the last stage, which sets the pace if links are slow. With 1f1b the next one starts when the
 * first one in flight has returned. */
static double least_course(const ls_plan_case *c, const ls_plan_chunks *chunks) {
    int pp = c->layout->pp, v = c->layout->virtual_stages;
    double ahead = 0, least = 0, back = c->layout->schedule == LS_SCHEDULE_ZERO_BUBBLE ? 0 : 1, trips[LS_CHUNKS_MAX];
    fill_trips(c, chunks, trips);
    for (int s = 0; s < pp; s++) {
        double busy = 0, held = ls_plan_in_flight(c, s);
        for (int k = 0; k < v; k++) busy += chunks->forward[k * pp + s] + chunks->backward[k * pp + s];
        double course = ahead + c->micros * busy, rounds = c->micros * trips[s] / held;
        if (c->layout->schedule == LS_SCHEDULE_1F1B) rounds = ahead + ((c->micros - 1) / (int)held + 1) * trips[s];
        if (course > least) least = course;
        if (rounds > least) least = rounds;
        ahead += chunks->forward[s] + chunks->send[s] + back * (chunks->backward[s] + chunks->send[s]);
    }
    return least;
}

/* Adds the gradient reduction and the update at the end of the step. If the sites differ, the slower one counts. */
static void price_step_end(const ls_plan_case *c, double params, double backward, double forward, ls_prediction *out) {
    ls_plan_case near = ls_plan_case_at_stage(c, 0);
    add_replica_times(&near, params, backward, forward, out);
    out->time[LS_TIME_OPTIMIZER] = optimizer_seconds(&near, params);
    if (!c->far) return;
    ls_plan_case far = ls_plan_case_at_stage(c, c->layout->pp - 1);
    ls_prediction other = {0};
    add_replica_times(&far, params, backward, forward, &other);
    double update = optimizer_seconds(&far, params);
    if (update > out->time[LS_TIME_OPTIMIZER]) out->time[LS_TIME_OPTIMIZER] = update;
    if (other.time[LS_TIME_DP] <= out->time[LS_TIME_DP]) return;
    out->time[LS_TIME_DP] = other.time[LS_TIME_DP];
    out->link_dp = other.link_dp;
    out->hidden_dp = other.hidden_dp;
}

/* Adds the times and sets the memory of a case. `out` must be zero but for micros and model_flops. is_bound: replaces
 * the simulation by a lower bound. */
static ls_status predict(const ls_plan_case *c, bool is_bound, ls_prediction *out) {
    ls_plan_chunks chunks;
    site_parts parts;
    double forward = 0, backward = 0, course, bubble = 0;
    fill_chunks(c, &chunks, &parts);
    double busy = busiest(c, &parts, &chunks, out, &forward, &backward);
    if (is_bound)
        course = least_course(c, &chunks);
    else
        LS_TRY(ls_plan_pipeline_seconds(c, chunks.forward, chunks.backward, chunks.send, &course, &bubble));
    if (crosses_sites(c, true)) { /* all rows send over the one link, while the stages work on other micro-batches */
        double bytes = c->elem * c->tokens * c->C, link = ls_plan_across_seconds(c, bytes, c->layout->dp);
        int times = 2 * c->layout->virtual_stages - 1; /* each way, with several chunks to and fro */
        double least = c->micros * link * times;
        course = (course > least ? course : least) + 2 * link * times;
    }
    double idle = course > busy ? course - busy : 0;
    out->time[LS_TIME_BUBBLE] = bubble < idle ? bubble : idle;
    out->time[LS_TIME_P2P] += idle - out->time[LS_TIME_BUBBLE];
    price_step_end(c, chunks.params, backward, forward, out);
    out->time[LS_TIME_OTHER] = c->task->stack.step_seconds;
    for (int k = 0; k < LS_TIME_KINDS; k++) out->seconds += out->time[k];
    ls_plan_memory(c, chunks.layers, out);
    return LS_OK;
}

/* Returns whether equal layers are better: with fewer layers at the slower site, the faster site holds and reduces
 * more. */
static bool is_better_even(const ls_plan_case *c) {
    ls_plan_case even = *c;
    ls_prediction p[2];
    memset(p, 0, sizeof p);
    even.even_layers = true;
    if (predict(c, true, &p[0]) != LS_OK || predict(&even, true, &p[1]) != LS_OK) return false;
    bool fits[2] = {ls_prediction_fits(&p[0]), ls_prediction_fits(&p[1])};
    return fits[0] == fits[1] ? p[1].seconds < p[0].seconds : fits[1];
}

/* Divides the micro-batches between the replicas of two sites so that both end together. The step of a site takes a
 * fixed time and a time per micro-batch, which two predictions determine. */
static ls_status share_micros(const ls_plan_case *c, ls_plan_case at[2]) {
    double each[2], once[2];
    int micros[2];
    bool is_bound = c->layout->schedule != LS_SCHEDULE_NAIVE; /* which needs no simulation */
    for (int i = 0; i < 2; i++) {
        ls_prediction few = {0}, many = {0};
        at[i] = ls_plan_case_at_site(c, &c->task->cluster.site[i], c->micros);
        LS_TRY(predict(&at[i], is_bound, &few));
        at[i].micros = 2 * c->micros;
        LS_TRY(predict(&at[i], is_bound, &many));
        each[i] = (many.seconds - few.seconds) / c->micros;
        once[i] = few.seconds - each[i] * c->micros;
    }
    ls_plan_site_micros(c, each, once, micros);
    for (int i = 0; i < 2; i++) at[i].micros = micros[i];
    return LS_OK;
}

/* Returns whether replicas are divided between sites that differ, so that they get unequal numbers of micro-batches. */
static bool has_unlike_replicas(const ls_plan_task *task, const ls_knobs *layout) {
    return !layout->stages_across && layout->dp > 1 && ls_plan_sites_differ(&task->cluster);
}

/* Predicts replicas on two unlike sites: the times of the slower site, the memory of the fuller one. */
static ls_status predict_unlike(const ls_plan_case *c, bool is_bound, double flops, ls_prediction *out) {
    ls_plan_case at[2];
    ls_prediction p[2];
    LS_TRY(share_micros(c, at));
    for (int i = 0; i < 2; i++) {
        p[i] = (ls_prediction){.micros = at[i].micros, .model_flops = flops};
        LS_TRY(predict(&at[i], is_bound, &p[i]));
    }
    int slower = p[1].seconds > p[0].seconds;
    const ls_prediction *full = &p[p[1].memory_bytes - p[1].capacity_bytes > p[0].memory_bytes - p[0].capacity_bytes];
    *out = p[slower];
    memcpy(out->memory, full->memory, sizeof out->memory);
    out->memory_bytes = full->memory_bytes;
    out->capacity_bytes = full->capacity_bytes;
    out->heaviest_stage = full->heaviest_stage;
    return LS_OK;
}

/* Predicts a layout or its bound; overwrites *out. */
static ls_status predict_case(const ls_plan_task *task, const ls_knobs *layout, bool is_bound, ls_prediction *out) {
    ls_plan_case c = ls_plan_case_of(task, layout);
    double flops = ls_plan_model_flops(&task->shape, (double)task->seq, (double)task->global_batch);
    if (has_unlike_replicas(task, layout)) return predict_unlike(&c, is_bound, flops, out);
    *out = (ls_prediction){.micros = c.micros, .model_flops = flops};
    return predict(&c, is_bound, out);
}

ls_status ls_plan_predict(const ls_plan_task *task, const ls_knobs *layout, ls_prediction *out) {
    return predict_case(task, layout, false, out);
}

ls_status ls_plan_bound(const ls_plan_task *task, const ls_knobs *layout, ls_prediction *out) {
    return predict_case(task, layout, true, out);
}

void ls_plan_chunks_of(const ls_plan_case *c, ls_plan_chunks *out) {
    site_parts parts;
    fill_chunks(c, out, &parts);
}

void ls_plan_blocks(const ls_plan_task *task, const ls_knobs *layout, int *chunk_first) {
    ls_plan_case c = ls_plan_case_of(task, layout);
    ls_plan_chunks chunks;
    ls_plan_chunks_of(&c, &chunks);
    memcpy(chunk_first, chunks.first, sizeof chunks.first);
}

bool ls_plan_shares(const ls_plan_task *task, const ls_knobs *layout, int *replicas, int *micros) {
    if (!has_unlike_replicas(task, layout)) return false;
    ls_plan_case c = ls_plan_case_of(task, layout), at[2];
    (void)share_micros(&c, at); /* bounds need no memory */
    for (int i = 0; i < 2; i++) {
        replicas[i] = ls_plan_site_replicas(&c, i);
        micros[i] = at[i].micros;
    }
    return true;
}
