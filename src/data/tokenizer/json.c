/* json.c: reads tokenizer.json of Hugging Face `tokenizers`, as far as byte-level BPE needs it. Unknown features that
 * would change the ids are refused by name, never ignored. Truncation, padding and the decoder do not change ids. */
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer/inside.h"

enum { SHOWN = 60 };

/* Returns the string of the member "type", which lives as long as the node; "(none)" if there is no such string. */
static const char *type_of(const json_t *node) {
    const char *type = json_string_value(json_object_get(node, "type"));
    return type ? type : "(none)";
}

/* Returns a Boolean field; `otherwise` if it is absent. */
static bool flag_of(const json_t *node, const char *key, bool otherwise) {
    const json_t *value = json_object_get(node, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* ---- model ------------------------------------------------------------------------------------------------------- */

/* Refuses all but byte-level BPE without dropout. */
static ls_status check_model(const json_t *model) {
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *type = json_object_get(model, "type");
    const json_t *dropout = json_object_get(model, "dropout");
    if (type && strcmp(type_of(model), "BPE") != 0)
        return ls_fail(LS_ERR_INPUT, "the model is of type %.*s; only byte-level BPE can be used", SHOWN,
                       type_of(model));
    if (flag_of(model, "byte_fallback", false))
        return ls_fail(LS_ERR_INPUT,
                       "the model is SentencePiece's BPE (byte_fallback); only byte-level BPE can be used");
    if (json_is_number(dropout) && json_number_value(dropout) > 0)
        return ls_fail(LS_ERR_INPUT, "the model has dropout, so the same text would give other ids each time");
    for (size_t i = 0; i < sizeof affixes / sizeof *affixes; i++) {
        const char *affix = json_string_value(json_object_get(model, affixes[i]));
        if (affix && *affix)
            return ls_fail(LS_ERR_INPUT, "the model has %s '%.*s', which byte-level BPE does not have", affixes[i],
                           SHOWN, affix);
    }
    return LS_OK;
}

/* Reads a merge: "left right", or a list of the two. */
static ls_status read_merge(ls_tokenizer *tokenizer, const json_t *merge, uint32_t rank) {
    const char *left = json_string_value(json_is_array(merge) ? json_array_get(merge, 0) : merge);
    const char *right = json_is_array(merge) ? json_string_value(json_array_get(merge, 1)) : NULL;
    size_t left_bytes = left ? strlen(left) : 0;
    if (json_is_string(merge)) {
        right = strchr(left, ' ');
        if (right) left_bytes = (size_t)(right++ - left);
    }
    if (!left || !right || (json_is_array(merge) && json_array_size(merge) != 2))
        return ls_fail(LS_ERR_INPUT, "merge %u is not a pair of tokens", rank + 1);
    return ls_tokenizer_load_merge(tokenizer, left, left_bytes, right, strlen(right), rank);
}

/* Reads vocabulary and merges. */
static ls_status read_model(ls_tokenizer *tokenizer, const json_t *root) {
    json_t *model, *vocab, *merges;
    LS_TRY(ls_json_get_object(root, "model", &model));
    LS_TRY(check_model(model));
    LS_TRY(ls_json_get_object(model, "vocab", &vocab));
    LS_TRY(ls_json_get_array(model, "merges", &merges));
    LS_TRY(ls_tokenizer_load_vocab(tokenizer, vocab));
    size_t count = json_array_size(merges);
    LS_TRY(ls_bpe_init(&tokenizer->bpe, &tokenizer->vocab, count, flag_of(model, "ignore_merges", false)));
    for (size_t i = 0; i < count; i++) LS_TRY(read_merge(tokenizer, json_array_get(merges, i), (uint32_t)i));
    return LS_OK;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* Adds an empty step to the pre-tokenizer, and sets *step to it. */
static ls_status next_step(ls_tokenizer *tokenizer, ls_pretok **step) {
    if (tokenizer->step_count == LS_PRETOK_STEPS_MAX)
        return ls_fail(LS_ERR_INPUT, "the pre_tokenizer has more than %d steps", LS_PRETOK_STEPS_MAX);
    *step = &tokenizer->steps[tokenizer->step_count++];
    **step = (ls_pretok){0};
    return LS_OK;
}

/* Reads a step "Split". Text that it leaves out stays a piece here, because no text may be lost. So "Removed" is
 * accepted only if it removes what the pattern does not match, which is nothing for a pattern of all text. */
static ls_status read_split(ls_tokenizer *tokenizer, const char *name, const json_t *node) {
    const char *behavior = json_string_value(json_object_get(node, "behavior"));
    const json_t *pattern = json_object_get(node, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *plain = json_string_value(json_object_get(pattern, "String"));
    bool keeps = behavior && (strcmp(behavior, "Isolated") == 0 ||
                              (strcmp(behavior, "Removed") == 0 && flag_of(node, "invert", false)));
    if (!keeps)
        return ls_fail(LS_ERR_INPUT, "the pre_tokenizer Split has the behavior %.*s%s; only Isolated can be used",
                       SHOWN, behavior ? behavior : "(none)", flag_of(node, "invert", false) ? ", inverted" : "");
    if (!regex && !plain) return ls_fail(LS_ERR_INPUT, "the pre_tokenizer Split has no pattern");
    ls_pretok *step = NULL;
    LS_TRY(next_step(tokenizer, &step));
    return ls_pretok_init(step, name, regex ? regex : plain, !regex);
}

/* Reads the step ByteLevel: the prefix space and, with use_regex, GPT-2's pattern. */
static ls_status read_byte_level(ls_tokenizer *tokenizer, const json_t *node, bool *is_byte_level) {
    ls_pretok *step = NULL;
    tokenizer->add_prefix_space = flag_of(node, "add_prefix_space", true);
    if (tokenizer->add_prefix_space && tokenizer->step_count)
        return ls_fail(LS_ERR_INPUT, "the pre_tokenizer ByteLevel has add_prefix_space behind another step");
    *is_byte_level = true;
    if (!flag_of(node, "use_regex", true)) return LS_OK;
    LS_TRY(next_step(tokenizer, &step));
    step->kind = LS_PRETOK_GPT2;
    return LS_OK;
}

/* Reads a pre_tokenizer or a sequence of them; sets *is_byte_level if ByteLevel, which must be the last, was among
 * them. */
static ls_status read_pretok(ls_tokenizer *tokenizer, const char *name, const json_t *node, bool *is_byte_level) {
    const char *type = type_of(node);
    if (strcmp(type, "Sequence") == 0) {
        json_t *steps;
        LS_TRY(ls_json_get_array(node, "pretokenizers", &steps));
        for (size_t i = 0; i < json_array_size(steps); i++)
            LS_TRY(read_pretok(tokenizer, name, json_array_get(steps, i), is_byte_level));
        return LS_OK;
    }
    if (*is_byte_level)
        return ls_fail(LS_ERR_INPUT, "the pre_tokenizer has the step %.*s behind ByteLevel", SHOWN, type);
    if (strcmp(type, "ByteLevel") == 0) return read_byte_level(tokenizer, node, is_byte_level);
    if (strcmp(type, "Split") == 0) return read_split(tokenizer, name, node);
    if (strcmp(type, "Digits") == 0) {
        ls_pretok *step = NULL;
        LS_TRY(next_step(tokenizer, &step));
        step->kind = LS_PRETOK_DIGITS;
        step->digits_max = flag_of(node, "individual_digits", false) ? 1 : SIZE_MAX;
        return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT,
                   "the pre_tokenizer is of type %.*s; only Sequence, Split, Digits and ByteLevel are known", SHOWN,
                   type);
}

/* Refuses every normalizer but an empty sequence. */
static ls_status check_normalizer(const json_t *node) {
    const json_t *parts = json_object_get(node, "normalizers");
    if (!json_is_object(node) || (strcmp(type_of(node), "Sequence") == 0 && json_array_size(parts) == 0)) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "the normalizer is of type %.*s; text is taken as it is here, so such a tokenizer cannot "
                   "be used",
                   SHOWN, type_of(node));
}

/* ---- added tokens ------------------------------------------------------------------------------------------------ */

/* Reads an added token. */
static ls_status read_added(ls_tokenizer *tokenizer, const json_t *node) {
    const char *text = NULL;
    int64_t id = -1;
    LS_TRY(ls_json_get_i64(node, "id", &id));
    LS_TRY(ls_json_get_text(node, "content", &text));
    if (flag_of(node, "single_word", false))
        return ls_fail(LS_ERR_INPUT, "the added token '%.*s' is marked single_word, which is not supported", SHOWN,
                       text);
    if (id < 0 || id >= LS_VOCAB_MAX)
        return ls_fail(LS_ERR_INPUT, "the added token '%.*s' has id %lld", SHOWN, text, (long long)id);
    ls_added_token token = {.id = (int32_t)id,
                            .text = text,
                            .bytes = strlen(text),
                            .special = flag_of(node, "special", false),
                            .lstrip = flag_of(node, "lstrip", false),
                            .rstrip = flag_of(node, "rstrip", false),
                            .late = flag_of(node, "normalized", false)};
    return ls_tokenizer_load_added(tokenizer, &token);
}

/* ---- post-processor ---------------------------------------------------------------------------------------------- */

/* The post_processor of tokenizer.json defines the tokens around a text (data/tokenizer/frame.h).
 *
 * ByteLevel changes offsets but no ids. Only the template of a single text is used. In a Sequence, `tokenizers` treats
 * the result of a first template as a pair of texts, so a second template is refused here. */

/* Fails unless the value is an id of the vocabulary. */
static ls_status check_id(const ls_tokenizer *tokenizer, const json_t *value) {
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id >= 0 && id < tokenizer->vocab.size) return LS_OK;
    return ls_fail(LS_ERR_INPUT, "the post_processor names a token id that is not in the vocabulary");
}

/* Appends an id to a list of at most LS_FRAME_MAX. */
static ls_status push_frame_id(int32_t *ids, size_t *count, int32_t id) {
    if (*count == LS_FRAME_MAX)
        return ls_fail(
            LS_ERR_INPUT,
            "the post_processor adds more than %d tokens before or after a text; lockstep supports at most that many",
            LS_FRAME_MAX);
    ids[(*count)++] = id;
    return LS_OK;
}

/* Sets the frame; LS_ERR_INPUT if there is one already. */
static ls_status set_frame(ls_tokenizer *tokenizer, const ls_frame *frame) {
    if (!ls_frame_is_empty(&tokenizer->frame))
        return ls_fail(LS_ERR_INPUT, "the post_processor has two templates, one behind the other");
    tokenizer->frame = *frame;
    return LS_OK;
}

/* Reads {"SpecialToken": {"id": NAME}}; its ids, one or more, are under special_tokens. */
static ls_status read_special(const ls_tokenizer *tokenizer, const json_t *node, const char *name, int32_t *ids,
                              size_t *count) {
    const json_t *list =
        json_object_get(json_object_get(json_object_get(node, "special_tokens"), name ? name : ""), "ids");
    if (!name || json_array_size(list) == 0)
        return ls_fail(LS_ERR_INPUT, "the template of the post_processor names the token '%.*s' without its ids", SHOWN,
                       name ? name : "");
    for (size_t i = 0; i < json_array_size(list); i++) {
        LS_TRY(check_id(tokenizer, json_array_get(list, i)));
        LS_TRY(push_frame_id(ids, count, (int32_t)json_integer_value(json_array_get(list, i))));
    }
    return LS_OK;
}

/* Reads the template of a single text into the frame, and BOS and end-of-text from its first and last token. */
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
    /* The tokens at both ends name BOS and end-of-text, unless another file does. */
    size_t count = json_array_size(single);
    const json_t *first = json_object_get(json_array_get(single, 0), "SpecialToken");
    const json_t *last = json_object_get(json_array_get(single, count - 1), "SpecialToken");
    if (first) tokenizer->bos = ls_added_id(&tokenizer->added, json_string_value(json_object_get(first, "id")));
    if (last && last != first)
        tokenizer->eot = ls_added_id(&tokenizer->added, json_string_value(json_object_get(last, "id")));
    return LS_OK;
}

/* Reads BERT's form, [name, id] of a token before and of one after, as frame, BOS and end-of-text. */
static ls_status read_pair(ls_tokenizer *tokenizer, const json_t *node) {
    const json_t *cls = json_object_get(node, "cls"), *sep = json_object_get(node, "sep");
    ls_frame frame = {.before_count = 1, .after_count = 1};
    LS_TRY(check_id(tokenizer, json_array_get(cls, 1)));
    LS_TRY(check_id(tokenizer, json_array_get(sep, 1)));
    frame.before[0] = (int32_t)json_integer_value(json_array_get(cls, 1));
    frame.after[0] = (int32_t)json_integer_value(json_array_get(sep, 1));
    tokenizer->bos = ls_added_id(&tokenizer->added, json_string_value(json_array_get(cls, 0)));
    tokenizer->eot = ls_added_id(&tokenizer->added, json_string_value(json_array_get(sep, 0)));
    return set_frame(tokenizer, &frame);
}

/* Reads the post_processor, which may be a sequence. */
static ls_status load_post(ls_tokenizer *tokenizer, const json_t *node) {
    const char *type = type_of(node);
    const json_t *list = json_object_get(node, "processors");
    if (!json_is_object(node)) return LS_OK;
    if (strcmp(type, "Sequence") == 0) {
        for (size_t i = 0; i < json_array_size(list); i++) LS_TRY(load_post(tokenizer, json_array_get(list, i)));
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

/* ---- the file ---------------------------------------------------------------------------------------------------- */

ls_status ls_tokenizer_load_json(ls_tokenizer *tokenizer, const char *name, const json_t *root) {
    const json_t *pretok = json_object_get(root, "pre_tokenizer"), *added = json_object_get(root, "added_tokens");
    bool is_byte_level = false;
    if (!json_is_object(root)) return ls_fail(LS_ERR_INPUT, "it must be an object with the field \"model\"");
    LS_TRY(read_model(tokenizer, root));
    LS_TRY(check_normalizer(json_object_get(root, "normalizer")));
    if (json_is_object(pretok)) LS_TRY(read_pretok(tokenizer, name, pretok, &is_byte_level));
    if (!is_byte_level)
        return ls_fail(LS_ERR_INPUT, "the pre_tokenizer has no step ByteLevel; only byte-level BPE can be used");
    for (size_t i = 0; i < json_array_size(added); i++) LS_TRY(read_added(tokenizer, json_array_get(added, i)));
    LS_TRY(load_post(tokenizer, json_object_get(root, "post_processor")));
    ls_tokenizer_complete(tokenizer);
    return LS_OK;
}
