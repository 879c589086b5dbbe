/* knobs.c: the table of knobs (the numbers and switches of a layout), their values by number, and knobs as text and
 * JSON. */
#include "parallel/layout/knobs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

enum { VALUE_MAX = 32 };

static const ls_knob_info table[LS_KNOBS] = {
#define LS_KNOB(field, KIND, name, neutral, last, always, words, brief)                                                \
    {LS_KNOB_KIND_##KIND, LS_KNOB_OURS, LS_OPT_##name, NULL, neutral, last, always, words, brief},
#define LS_KNOB_OTHERS(field, KIND, name, neutral, last, always, words, brief)                                         \
    {LS_KNOB_KIND_##KIND, LS_KNOB_OF_OTHERS, LS_OPTION_COUNT, name, neutral, last, always, words, brief},
#define LS_KNOB_TASK(field, KIND, name, neutral, last, always, words, brief)                                           \
    {LS_KNOB_KIND_##KIND, LS_KNOB_OF_TASK, LS_OPTION_COUNT, name, neutral, last, always, words, brief},
#include "parallel/layout/knobs.def"
};

const ls_knob_info *ls_knob_info_get(ls_knob knob) { return &table[knob]; }

const char *ls_knob_name(ls_knob knob) {
    return table[knob].member ? table[knob].member : ls_option_info_get(table[knob].option)->name;
}

double ls_knob_get(const ls_knobs *knobs, ls_knob knob) {
#define LS_KNOB(field, ...)                                                                                            \
    if (knob == LS_KNOB_##field) return (double)knobs->field;
#include "parallel/layout/knobs.def"
    return 0;
}

void ls_knob_set(ls_knobs *knobs, ls_knob knob, double value) {
#define LS_KNOB(field, KIND, ...)                                                                                      \
    if (knob == LS_KNOB_##field) knobs->field = (LS_KNOB_TYPE_##KIND)value;
#include "parallel/layout/knobs.def"
}

ls_knobs ls_knobs_neutral(void) {
    return (ls_knobs){
#define LS_KNOB(field, KIND, name, neutral, ...) .field = neutral,
#include "parallel/layout/knobs.def"
    };
}

bool ls_knobs_equal(const ls_knobs *a, const ls_knobs *b) {
    bool equal = true;
#define LS_KNOB(field, ...) equal = equal && a->field == b->field;
#include "parallel/layout/knobs.def"
    return equal;
}

/* ---- names of values --------------------------------------------------------------------------------------------- */

const char *ls_knob_value_name(ls_knob knob, int value) {
    switch (table[knob].kind) {
    case LS_KNOB_KIND_SCHEDULE: return ls_schedule_kind_name((ls_schedule_kind)value);
    case LS_KNOB_KIND_RECOMPUTE: return ls_recompute_name((ls_recompute)value);
    case LS_KNOB_KIND_TYPE: return ls_plan_type_name((ls_plan_type)value);
    case LS_KNOB_KIND_SITES: return value ? "stages" : "replicas";
    default: return NULL;
    }
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Appends to a text, cut off at its end. */
__attribute__((format(printf, 3, 4))) static void add(char *text, size_t room, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, room - used, format, args);
    va_end(args);
}

/* Appends the table's words for a knob, with its value for %; nothing for a neutral value that is not always
 * written. */
static void add_knob(const ls_knobs *knobs, ls_knob knob, ls_words style, char *text, size_t room) {
    const ls_knob_info *info = &table[knob];
    const char *words = style == LS_WORDS_BRIEF ? info->brief : info->words, *at = strchr(words, '%');
    double value = ls_knob_get(knobs, knob);
    const char *name = ls_knob_value_name(knob, (int)value);
    if (!info->always && value == info->neutral) return;
    if (!at)
        add(text, room, "%s", words);
    else if (name)
        add(text, room, "%.*s%s%s", (int)(at - words), words, name, at + 1);
    else
        add(text, room, "%.*s%.0f%s", (int)(at - words), words, value, at + 1);
}

void ls_knobs_text(const ls_knobs *knobs, ls_words style, const char *shares, const char *stages, char *text,
                   size_t room) {
    static const ls_knob before_micro[] = {
        [LS_WORDS_LAYOUT] = LS_KNOBS, [LS_WORDS_PLAN] = LS_KNOB_pp, [LS_WORDS_BRIEF] = LS_KNOB_virtual_stages};
    if (room == 0) return;
    text[0] = '\0';
    for (int k = 0; k < LS_KNOBS; k++) {
        ls_knob knob = (ls_knob)k;
        bool early = knob == LS_KNOB_micro && style != LS_WORDS_LAYOUT;
        bool task = table[k].owner == LS_KNOB_OF_TASK && style == LS_WORDS_LAYOUT;
        bool no_pipeline = knob == LS_KNOB_schedule && knobs->pp == 1;
        if (!early && !task && !no_pipeline) add_knob(knobs, knob, style, text, room);
        if (knob == before_micro[style]) add_knob(knobs, LS_KNOB_micro, style, text, room);
        if (knob == LS_KNOB_pp && shares) add(text, room, ", shares %s", shares);
        if (knob == LS_KNOB_virtual_stages && stages) add(text, room, ", blocks %s", stages);
    }
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Returns the value as JSON: a name, a boolean or a number; NULL: no memory. */
static json_t *value_to_json(ls_knob knob, double value) {
    const char *name = ls_knob_value_name(knob, (int)value);
    if (name) return json_string(name);
    if (table[knob].kind == LS_KNOB_KIND_BOOL) return json_boolean(value != 0);
    if (table[knob].kind == LS_KNOB_KIND_REAL) return json_real(value);
    return json_integer((json_int_t)value);
}

/* Returns whether the JSON of a layout has the knob: one of ours, but micro-batch, keep-activations and loss-chunk only
 * if not neutral; one of others if not neutral; and of others and the task any whose bit is in `also`. */
static bool is_written(const ls_knobs *knobs, ls_knob knob, unsigned also) {
    bool neutral = ls_knob_get(knobs, knob) == table[knob].neutral;
    bool is_rare = knob == LS_KNOB_micro || knob == LS_KNOB_keep_activations || knob == LS_KNOB_loss_chunk;
    if (table[knob].owner == LS_KNOB_OURS) return !is_rare || !neutral;
    return (also >> knob & 1) || (table[knob].owner == LS_KNOB_OF_OTHERS && !neutral);
}

/* Adds the knob's member if it is written; not 0: no memory. */
static int put_knob(json_t *object, const ls_knobs *knobs, ls_knob knob, unsigned also) {
    if (!is_written(knobs, knob, also)) return 0;
    return json_object_set_new(object, ls_knob_name(knob), value_to_json(knob, ls_knob_get(knobs, knob)));
}

/* Adds a list as a text member; NULL: none. Not 0: no memory. */
static int put_list(json_t *object, ls_option_id option, const char *list) {
    return list ? json_object_set_new(object, ls_option_info_get(option)->name, json_string(list)) : 0;
}

json_t *ls_knobs_to_json(const ls_knobs *knobs, const char *shares, const char *stages, unsigned also) {
    json_t *json = json_object();
    int bad = 0;
#define LS_KNOB(field, ...) bad |= put_knob(json, knobs, LS_KNOB_##field, also);
#define LS_KNOB_LIST(option) bad |= put_list(json, LS_OPT_##option, option);
#include "parallel/layout/knobs.def"
    if (!bad) return json;
    json_decref(json);
    return NULL;
}
