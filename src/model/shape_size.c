/* shape_size.c: a shape for a number of parameters, with the proportions of a family: heads of 128, about as many of
 * them as layers (GPT-3: 32 and 32, 40 and 40, 96 and 96; Llama: 32 and 32, 40 and 40, 60 and 52, 80 and 64). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/shape_file.h"

enum { HEAD = 128, HEADS_MAX = 512, FEW_KEYS = 8, HIDDEN_UNIT = 256 };

/* From this number of parameters on, groups of query heads share their keys (Llama 2 and later). */
static const double SHARED_KEYS_FROM = 2e10, LEAST = 1e8, MOST = 2e13;

/* Returns the parameters of the token table, and of the head if it is not tied. */
static double table_params(const ls_shape *s) { return (double)s->V * (double)s->C * (s->tied ? 1 : 2); }

/* Sets all sizes of a shape with so many heads and about `params` parameters; the number of layers makes up for the
 * width. */
static void set_width(bool llama, double params, size_t heads, ls_shape *s) {
    s->H = heads;
    s->C = heads * HEAD;
    s->kv_heads = llama && params >= SHARED_KEYS_FROM ? FEW_KEYS : heads;
    s->head_size = HEAD;
    s->hidden = llama ? (8 * s->C / 3 + HIDDEN_UNIT - 1) / HIDDEN_UNIT * HIDDEN_UNIT : 4 * s->C;
    double layers = (params - table_params(s)) / ls_shape_layer_matrix_elems(s);
    s->L = layers > 1 ? (size_t)llround(layers) : 1;
}

/* Returns by what factor layers and heads differ; 1 or more. */
static double apart(const ls_shape *s) {
    double a = (double)s->L, b = (double)s->H;
    return a > b ? a / b : b / a;
}

ls_status ls_shape_of_size(const char *family, double params, ls_shape *out) {
    bool llama = strcmp(family, "llama") == 0;
    if (!llama && strcmp(family, "gpt3") != 0)
        return ls_fail(LS_ERR_INPUT, "no family is called '%.64s'; choose llama or gpt3", family);
    if (!(params >= LEAST && params <= MOST))
        return ls_fail(LS_ERR_INPUT, "a %s of %g parameters is not known; use 100M to 20T", family, params);
    ls_shape best, s;
    LS_TRY(ls_shape_preset(llama ? "llama-30b" : "gpt3-175b", &best));
    s = best;
    bool any = false;
    for (size_t heads = 4; heads <= HEADS_MAX; heads += heads < 24 ? 4 : 8) {
        set_width(llama, params, heads, &s);
        if (any && apart(&s) >= apart(&best)) continue;
        best = s;
        any = true;
    }
    if (llama) best.T = 8192;
    if (params < 1e9)
        snprintf(best.name, sizeof best.name, "%s-%.4gm", family, params / 1e6);
    else
        snprintf(best.name, sizeof best.name, "%s-%.4gb", family, params / 1e9);
    *out = best;
    return LS_OK;
}
