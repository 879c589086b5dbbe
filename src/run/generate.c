/* generate.c: draws tokens from logits, and generates texts token by token. */
#include "run/generate.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "numerics/elementary.h"

enum { PURPOSE_DRAW = 0x44524157 };

/* ---- one draw ---------------------------------------------------------------------------------------------------- */

/* Orders choices by descending logit, then by ascending id. */
static int compare_choices(const void *left, const void *right) {
    const ls_choice *a = left, *b = right;
    if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Returns the id with the largest logit, the lowest of equal ones. */
static int32_t find_largest(const ls_choice *choices, size_t count) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (choices[i].logit > choices[best].logit) best = i;
    return choices[best].id;
}

/* Lists the ids that have text, with their logits, and returns their number; 0 if one of these logits is not finite. */
static size_t list_choices(const ls_tokenizer *tokenizer, const float *logits, size_t V, ls_choice *choices) {
    size_t count = 0;
    for (size_t i = 0; i < V; i++) {
        if (tokenizer && !ls_tokenizer_has_text(tokenizer, (int32_t)i)) continue;
        if (!isfinite(logits[i])) return 0;
        choices[count++] = (ls_choice){logits[i], (int32_t)i};
    }
    return count;
}

int32_t ls_generate_draw(const ls_generate_options *options, const float *logits, size_t V, uint64_t position,
                         ls_choice *scratch) {
    size_t count = list_choices(options->tokenizer, logits, V, scratch);
    if (count == 0) return -1;
    if (options->temperature <= 0) return find_largest(scratch, count);
    qsort(scratch, count, sizeof *scratch, compare_choices);
    if (options->top_k > 0 && (size_t)options->top_k < count) count = (size_t)options->top_k;
    double total = 0, kept = 0;
    for (size_t i = 0; i < count; i++)
        total += ls_exp_f64(((double)scratch[i].logit - (double)scratch[0].logit) / options->temperature);
    for (size_t i = 0; i < count && options->top_p < 1; i++) {
        kept += ls_exp_f64(((double)scratch[i].logit - (double)scratch[0].logit) / options->temperature);
        if (kept >= options->top_p * total) {
            count = i + 1;
            total = kept;
        }
    }
    ls_rng_key key = ls_rng_key_make(options->seed, PURPOSE_DRAW, 0);
    double point = (double)(ls_rng_u64(key, position) >> 11) * 0x1p-53 * total, sum = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        sum += ls_exp_f64(((double)scratch[i].logit - (double)scratch[0].logit) / options->temperature);
        if (point < sum) return scratch[i].id;
    }
    return scratch[count - 1].id;
}

/* ---- a text ------------------------------------------------------------------------------------------------------ */

/* A text under way. */
typedef struct text {
    int32_t *ids; /* those the model sees; room for T */
    size_t count;
    size_t seen; /* that have gone through the model */
} text;

/* Keeps only the last T / 2 tokens when all T positions are used; they must then run through the model again. */
static void make_room(text *t, size_t T) {
    if (t->count <= T) return;
    size_t keep = T / 2 > 0 ? T / 2 : 1;
    memmove(t->ids, t->ids + (t->count - keep), keep * sizeof *t->ids);
    t->count = keep;
    t->seen = 0;
}

ls_status ls_generate(ls_partition *partition, size_t T, const ls_generate_options *options, const int32_t *prompt,
                      size_t prompt_tokens, ls_generate_sink sink, void *ctx) {
    ls_status status = LS_OK;
    size_t V = ls_partition_model(partition)->shape.V;
    size_t first = prompt_tokens > T ? prompt_tokens - T : 0;
    text t = {.ids = malloc((T + 1) * sizeof *t.ids)};
    float *logits = malloc(V * sizeof *logits);
    ls_choice *scratch = malloc(V * sizeof *scratch);
    bool stop = false;
    assert(prompt_tokens >= 1);
    if (!t.ids || !logits || !scratch) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory to generate with %zu positions", T);
        goto out;
    }
    t.count = prompt_tokens - first;
    memcpy(t.ids, prompt + first, t.count * sizeof *t.ids);
    for (int64_t i = 0; i < options->max_tokens && !stop; i++) {
        if (i > 0) make_room(&t, T);
        if (options->no_cache || !ls_partition_keeps_keys(partition)) t.seen = 0;
        LS_TRY_OUT(ls_partition_extend(partition, t.seen, t.count - t.seen, t.ids + t.seen, logits));
        t.seen = t.count;
        int32_t id = ls_generate_draw(options, logits, V, (uint64_t)i, scratch);
        t.ids[t.count++] = id >= 0 ? id : 0; /* if the sink goes on, the workers stay in step */
        LS_TRY_OUT(sink(ctx, id, &stop));
    }
out:
    free(t.ids);
    free(logits);
    free(scratch);
    return status;
}
