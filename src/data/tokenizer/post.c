/* post.c: the post_processor of tokenizer.json: which tokens come around a text (data/frame.h).
 *
 * ByteLevel changes offsets and no ids. Only the template of a single text counts. In a Sequence, `tokenizers` takes
 * what a first template has made for a pair of texts, so that a second one is refused here. */
#include <string.h>

#include "data/tokenizer/parts.h"

enum { SHOWN = 60 };

static const char *type_of(const json_t *node) {
    const char *type = json_string_value(json_object_get(node, "type"));
    return type ? type : "(none)";
}

static int32_t added_id(const ls_tokenizer *tokenizer, const char *text) {
    for (size_t i = 0; text && i < tokenizer->added.count; i++) {
        if (strcmp(tokenizer->added.tokens[i].text, text) == 0) return tokenizer->added.tokens[i].id;
    }
    return -1;
}

static ls_status check_id(const ls_tokenizer *tokenizer, const json_t *value) {
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id >= 0 && id < tokenizer->vocab.size) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the post_processor names a token id that is not in the vocabulary");
}

/* At the end of a list of LS_FRAME_MAX. */
static ls_status push(int32_t *ids, size_t *count, int32_t id) {
    if (*count == LS_FRAME_MAX)
        return ls_fail(LS_ERR_INPUT, "the post_processor puts more than %d tokens on one side of a text", LS_FRAME_MAX);
    ids[(*count)++] = id;
    return LS_OK;
}

static ls_status set_frame(ls_tokenizer *tokenizer, const ls_frame *frame) {
    if (!ls_frame_is_empty(&tokenizer->frame))
        return ls_fail(LS_ERR_INPUT, "the post_processor has two templates, one behind the other");
    tokenizer->frame = *frame;
    return LS_OK;
}

/* {"SpecialToken": {"id": NAME}}: its ids are under special_tokens, and may be several. */
static ls_status read_special(const ls_tokenizer *tokenizer, const json_t *node, const char *name, int32_t *ids,
                              size_t *count) {
    const json_t *list =
        json_object_get(json_object_get(json_object_get(node, "special_tokens"), name ? name : ""), "ids");
    if (!name || json_array_size(list) == 0)
        return ls_fail(LS_ERR_INPUT, "the template of the post_processor names the token '%.*s' without its ids", SHOWN,
                       name ? name : "");
    for (size_t i = 0; i < json_array_size(list); i++) {
        LS_TRY(check_id(tokenizer, json_array_get(list, i)));
        LS_TRY(push(ids, count, (int32_t)json_integer_value(json_array_get(list, i))));
    }
    return LS_OK;
}

static ls_status read_template(ls_tokenizer *tokenizer, const json_t *node) {
    const json_t *single = json_object_get(node, "single");
    ls_frame frame = {0};
    int texts = 0;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *special = json_object_get(json_array_get(single, i), "SpecialToken");
        const char *name = json_string_value(json_object_get(special, "id"));
        if (!special)
            texts++;
        else if (texts)
            LS_TRY(read_special(tokenizer, node, name, frame.after, &frame.after_count));
        else
            LS_TRY(read_special(tokenizer, node, name, frame.before, &frame.before_count));
    }
    if (texts != 1)
        return ls_fail(LS_ERR_INPUT, "the template of the post_processor has the text %d times; it must have it once",
                       texts);
    LS_TRY(set_frame(tokenizer, &frame));
    /* The names of the tokens at the ends, where no other file knows better. */
    size_t count = json_array_size(single);
    const json_t *first = json_object_get(json_array_get(single, 0), "SpecialToken");
    const json_t *last = json_object_get(json_array_get(single, count - 1), "SpecialToken");
    if (first) tokenizer->bos = added_id(tokenizer, json_string_value(json_object_get(first, "id")));
    if (last && last != first) tokenizer->eot = added_id(tokenizer, json_string_value(json_object_get(last, "id")));
    return LS_OK;
}

/* BERT's way: [name, id] of a token in front and of one behind. */
static ls_status read_pair(ls_tokenizer *tokenizer, const json_t *node) {
    const json_t *cls = json_object_get(node, "cls"), *sep = json_object_get(node, "sep");
    ls_frame frame = {.before_count = 1, .after_count = 1};
    LS_TRY(check_id(tokenizer, json_array_get(cls, 1)));
    LS_TRY(check_id(tokenizer, json_array_get(sep, 1)));
    frame.before[0] = (int32_t)json_integer_value(json_array_get(cls, 1));
    frame.after[0] = (int32_t)json_integer_value(json_array_get(sep, 1));
    tokenizer->bos = added_id(tokenizer, json_string_value(json_array_get(cls, 0)));
    tokenizer->eot = added_id(tokenizer, json_string_value(json_array_get(sep, 0)));
    return set_frame(tokenizer, &frame);
}

ls_status ls_tokenizer_load_post(ls_tokenizer *tokenizer, const json_t *node) {
    const char *type = type_of(node);
    const json_t *list = json_object_get(node, "processors");
    if (!json_is_object(node)) return LS_OK;
    if (strcmp(type, "Sequence") == 0) {
        for (size_t i = 0; i < json_array_size(list); i++)
            LS_TRY(ls_tokenizer_load_post(tokenizer, json_array_get(list, i)));
        return LS_OK;
    }
    if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0)
        return read_pair(tokenizer, node);
    if (strcmp(type, "TemplateProcessing") == 0) return read_template(tokenizer, node);
    if (strcmp(type, "ByteLevel") == 0) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "the post_processor is of type %.*s; only Sequence, TemplateProcessing, ByteLevel, "
                   "RobertaProcessing and BertProcessing are known",
                   SHOWN, type);
}
