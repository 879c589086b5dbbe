/* safetensors_layout.c: from declared tensors to the header of a safetensors file.
 *
 * The tensors lie in the order they were declared in, without gaps, as the format demands. begin[] first counts from
 * the data and is moved behind the header when that is there. */
#include "checkpoint/safetensors_layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/safetensors_file.h"

enum { LENGTH_BYTES = 8, DATA_ALIGN = 64 };

static ls_status out_of_memory(void) { return ls_fail(LS_ERR_RESOURCE, "out of memory to lay out a safetensors file"); }

static ls_status tensor_bytes(const ls_safetensors_decl *decl, size_t *bytes) {
    if ((unsigned)decl->dtype >= LS_DTYPE_COUNT)
        return ls_fail(LS_ERR_INPUT, "tensor '%.100s': %d is not an element type", decl->name, (int)decl->dtype);
    *bytes = ls_dtype_bytes(decl->dtype);
    for (int i = 0; i < decl->dims; i++) {
        if (decl->shape[i] < 0)
            return ls_fail(LS_ERR_INPUT, "tensor '%.100s': dimension %d is %" PRId64, decl->name, i, decl->shape[i]);
        if (__builtin_mul_overflow(*bytes, (size_t)decl->shape[i], bytes) || *bytes > INT64_MAX)
            return ls_fail(LS_ERR_INPUT, "tensor '%.100s' is too large: it has more than 2^63 bytes", decl->name);
    }
    return LS_OK;
}

static ls_status place_tensor(ls_safetensors_layout *layout, const ls_safetensors_decl *decl, int i) {
    size_t bytes = 0;
    LS_TRY(tensor_bytes(decl, &bytes));
    if (__builtin_add_overflow(layout->begin[i], bytes, &layout->begin[i + 1]) || layout->begin[i + 1] > INT64_MAX)
        return ls_fail(LS_ERR_INPUT, "the tensors up to '%.100s' have more than 2^63 bytes", decl->name);
    layout->elem_bytes[i] = (unsigned char)ls_dtype_bytes(decl->dtype);
    layout->names[i] = strdup(decl->name);
    return layout->names[i] ? LS_OK : out_of_memory();
}

static ls_status place_tensors(ls_safetensors_layout *layout, const ls_safetensors_plan *plan) {
    size_t room = (size_t)plan->count + 1;
    layout->begin = calloc(room, sizeof *layout->begin);
    layout->elem_bytes = calloc(room, sizeof *layout->elem_bytes);
    layout->names = calloc(room, sizeof *layout->names);
    if (!layout->begin || !layout->elem_bytes || !layout->names) return out_of_memory();
    layout->count = plan->count;
    for (int i = 0; i < plan->count; i++) LS_TRY(place_tensor(layout, &plan->tensors[i], i));
    return LS_OK;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* jansson refuses text that is not UTF-8; it is asked first, so that a later failure can only be memory. */
static ls_status check_text(const char *what, int index, const char *text) {
    json_t *value = json_string(text);
    if (!value) return ls_fail(LS_ERR_INPUT, "the %s of number %d is not UTF-8: '%.100s'", what, index, text);
    json_decref(value);
    return LS_OK;
}

static ls_status add_metadata(json_t *root, const ls_safetensors_plan *plan) {
    if (plan->metadata_count == 0) return LS_OK;
    json_t *metadata = json_object();
    if (json_object_set_new(root, "__metadata__", metadata) != 0) return out_of_memory();
    for (int i = 0; i < plan->metadata_count; i++) {
        const ls_safetensors_text *text = &plan->metadata[i];
        LS_TRY(check_text("metadata key", i, text->key));
        LS_TRY(check_text("metadata value", i, text->value));
        if (json_object_get(metadata, text->key))
            return ls_fail(LS_ERR_INPUT, "the metadata '%.100s' is declared twice", text->key);
        if (json_object_set_new(metadata, text->key, json_string(text->value)) != 0) return out_of_memory();
    }
    return LS_OK;
}

static ls_status add_tensor(json_t *root, const ls_safetensors_decl *decl, int index, size_t begin, size_t end) {
    LS_TRY(check_text("tensor name", index, decl->name));
    if (strcmp(decl->name, "__metadata__") == 0)
        return ls_fail(LS_ERR_INPUT, "a tensor cannot be called __metadata__: the format uses that name");
    if (json_object_get(root, decl->name))
        return ls_fail(LS_ERR_INPUT, "tensor '%.100s' is declared twice", decl->name);
    json_t *entry = json_object(), *shape = json_array();
    bool is_made = json_object_set_new(root, decl->name, entry) == 0;
    for (int i = 0; i < decl->dims && is_made; i++)
        is_made = json_array_append_new(shape, json_integer(decl->shape[i])) == 0;
    if (!is_made) {
        json_decref(shape);
        return out_of_memory();
    }
    is_made = json_object_set_new(entry, "dtype", json_string(ls_safetensors_type_of(decl->dtype)->name)) == 0;
    is_made &= json_object_set_new(entry, "shape", shape) == 0;
    json_t *offsets = json_pack("[I,I]", (json_int_t)begin, (json_int_t)end);
    is_made &= json_object_set_new(entry, "data_offsets", offsets) == 0;
    return is_made ? LS_OK : out_of_memory();
}

static ls_status make_text(const ls_safetensors_layout *layout, const ls_safetensors_plan *plan, char **text) {
    json_t *root = json_object();
    ls_status status = root ? add_metadata(root, plan) : out_of_memory();
    for (int i = 0; i < plan->count && status == LS_OK; i++)
        status = add_tensor(root, &plan->tensors[i], i, layout->begin[i], layout->begin[i + 1]);
    if (status == LS_OK) {
        *text = json_dumps(root, JSON_COMPACT);
        if (!*text) status = out_of_memory();
    }
    json_decref(root);
    return status;
}

/* Length, text and spaces; then begin[] counts from the start of the file. */
static ls_status make_header(ls_safetensors_layout *layout, const char *text) {
    size_t used = strlen(text);
    size_t bytes = (LENGTH_BYTES + used + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN;
    if (bytes - LENGTH_BYTES > LS_SAFETENSORS_HEADER_MAX)
        return ls_fail(LS_ERR_INPUT, "the header of %d tensors takes %zu bytes; the format allows %u", layout->count,
                       used, LS_SAFETENSORS_HEADER_MAX);
    if (layout->begin[layout->count] > (size_t)INT64_MAX - bytes)
        return ls_fail(LS_ERR_INPUT, "header and tensors have more than 2^63 bytes");
    layout->header = malloc(bytes);
    if (!layout->header) return out_of_memory();
    for (int i = 0; i < LENGTH_BYTES; i++)
        layout->header[i] = (char)(((uint64_t)(bytes - LENGTH_BYTES) >> 8 * i) & 255);
    memcpy(layout->header + LENGTH_BYTES, text, used);
    memset(layout->header + LENGTH_BYTES + used, ' ', bytes - LENGTH_BYTES - used);
    for (int i = 0; i <= layout->count; i++) layout->begin[i] += bytes;
    return LS_OK;
}

ls_status ls_safetensors_layout_init(ls_safetensors_layout *layout, const ls_safetensors_plan *plan) {
    char *text = NULL;
    ls_status status;
    *layout = (ls_safetensors_layout){.count = 0};
    LS_TRY_OUT(place_tensors(layout, plan));
    LS_TRY_OUT(make_text(layout, plan, &text));
    LS_TRY_OUT(make_header(layout, text));
out:
    free(text);
    if (status != LS_OK) ls_safetensors_layout_fini(layout);
    return status;
}

void ls_safetensors_layout_fini(ls_safetensors_layout *layout) {
    for (int i = 0; i < layout->count; i++) free(layout->names[i]);
    free(layout->names);
    free(layout->elem_bytes);
    free(layout->begin);
    free(layout->header);
    *layout = (ls_safetensors_layout){.count = 0};
}

ls_status ls_safetensors_plan_bytes(const ls_safetensors_plan *plan, size_t *bytes) {
    ls_safetensors_layout layout;
    LS_TRY(ls_safetensors_layout_init(&layout, plan));
    *bytes = layout.begin[layout.count];
    ls_safetensors_layout_fini(&layout);
    return LS_OK;
}
