/* presets.c: well-known shapes by name. Each row holds what the published config of the model holds. */
#include <string.h>

#include "config/suggest.h"
#include "model/shape_file.h"

#define GPT2(NAME, VOCAB, WIDTH, LAYERS, HEADS, POSITIONS)                                                             \
    {                                                                                                                  \
        .name = NAME, .arch = LS_ARCH_GPT2, .V = VOCAB, .C = WIDTH, .L = LAYERS, .H = HEADS, .T = POSITIONS,           \
        .kv_heads = HEADS, .head_size = (WIDTH) / (HEADS), .hidden = 4 * (WIDTH), .tied = true,                        \
        .attention_bias = true, .mlp_bias = true, .eps = 1e-5, .init_std = 0.02                                        \
    }

/* The last arguments are the rotation, and fields that others do not have. */
#define LLAMA(NAME, VOCAB, WIDTH, LAYERS, HEADS, KV_HEADS, POSITIONS, HIDDEN, EPS, ...)                                \
    {                                                                                                                  \
        .name = NAME, .arch = LS_ARCH_LLAMA, .V = VOCAB, .C = WIDTH, .L = LAYERS, .H = HEADS, .T = POSITIONS,          \
        .kv_heads = KV_HEADS, .head_size = (WIDTH) / (HEADS), .hidden = HIDDEN, .eps = EPS, .init_std = 0.02,          \
        .rope = __VA_ARGS__                                                                                            \
    }

#define LLAMA_ROPE                                                                                                     \
    { .base = 10000 }
/* Llama 3.1 and 3.2; they differ in the factor. */
#define LLAMA3_ROPE(FACTOR)                                                                                            \
    { .base = 500000, .scaled = true, .factor = FACTOR, .low_factor = 1, .high_factor = 4, .original_T = 8192 }

/* Of image models: what ls_image_shape_fill() makes of the others. */
#define IMAGES(NAME, ARCH, LAYERS, WIDTH)                                                                              \
    .name = NAME, .arch = ARCH, .V = 10, .C = WIDTH, .L = LAYERS, .H = 1, .T = 1, .kv_heads = 1, .head_size = 1,       \
    .hidden = 1, .eps = 1e-5

static const ls_shape presets[] = {
    GPT2("tiny", 256, 128, 6, 8, 256),
    GPT2("gpt2-124m", 50257, 768, 12, 12, 1024),
    GPT2("gpt2-355m", 50257, 1024, 24, 16, 1024),
    GPT2("gpt2-774m", 50257, 1280, 36, 20, 1024),
    GPT2("gpt2-1558m", 50257, 1600, 48, 25, 1024),
    GPT2("gpt3-6.7b", 50257, 4096, 32, 32, 2048),
    GPT2("gpt3-13b", 50257, 5120, 40, 40, 2048),
    GPT2("gpt3-175b", 50257, 12288, 96, 96, 2048),
    LLAMA("llama-160m", 32000, 768, 12, 12, 12, 2048, 3072, 1e-6, LLAMA_ROPE),
    /* Its head has the table of the embedding. */
    LLAMA("llama-1b", 128256, 2048, 16, 32, 8, 131072, 8192, 1e-5, LLAMA3_ROPE(32), .tied = true),
    /* Llama 2. */
    LLAMA("llama-7b", 32000, 4096, 32, 32, 32, 4096, 11008, 1e-5, LLAMA_ROPE),
    LLAMA("llama-8b", 128256, 4096, 32, 32, 8, 131072, 14336, 1e-5, LLAMA3_ROPE(8)),
    LLAMA("llama-13b", 32000, 5120, 40, 40, 40, 4096, 13824, 1e-5, LLAMA_ROPE),
    LLAMA("llama-30b", 32000, 6656, 60, 52, 52, 2048, 17920, 1e-6, LLAMA_ROPE),
    /* The sizes of OLMo 2 32B, without its norms of queries and keys. */
    LLAMA("llama-32b", 100352, 5120, 64, 40, 8, 4096, 27648, 1e-6, {.base = 500000}),
    LLAMA("llama-70b", 128256, 8192, 80, 64, 8, 131072, 28672, 1e-5, LLAMA3_ROPE(8)),
    LLAMA("llama-405b", 128256, 16384, 126, 128, 8, 131072, 53248, 1e-5, LLAMA3_ROPE(8)),
    {IMAGES("lenet", LS_ARCH_LENET, 3, 84), .image = {.channels = 1, .height = 28, .width = 28}},
    {IMAGES("lenet-sigmoid", LS_ARCH_LENET, 3, 84),
     .image = {.channels = 1, .height = 28, .width = 28, .sigmoid = true}},
    {IMAGES("resnet18", LS_ARCH_RESNET18, 8, 512), .image = {.channels = 3, .height = 32, .width = 32, .small = true}},
    {IMAGES("resnet18-imagenet", LS_ARCH_RESNET18, 8, 512), .image = {.channels = 3, .height = 224, .width = 224}},
    {IMAGES("mlp", LS_ARCH_MLP, 0, 256), .image = {.channels = 1, .height = 28, .width = 28, .hidden = {256}}},
};
enum { PRESET_COUNT = sizeof presets / sizeof presets[0], LIST_BYTES = 400 };

const char *ls_shape_preset_name(int i) { return i >= 0 && i < PRESET_COUNT ? presets[i].name : NULL; }

/* Writes the names of all presets, as far as they fit. */
static void list_names(char list[LIST_BYTES]) {
    size_t used = 0;
    list[0] = '\0';
    for (int i = 0; i < PRESET_COUNT; i++) {
        int length = snprintf(list + used, LIST_BYTES - used, "%s%s", i ? ", " : "", presets[i].name);
        if (length > 0 && (size_t)length < LIST_BYTES - used) used += (size_t)length;
    }
}

ls_status ls_shape_preset(const char *name, ls_shape *out) {
    ls_suggest suggest;
    ls_suggest_init(&suggest, name);
    for (int i = 0; i < PRESET_COUNT; i++) {
        if (strcmp(presets[i].name, name) == 0) {
            *out = presets[i];
            return LS_OK;
        }
        ls_suggest_offer(&suggest, presets[i].name);
    }
    if (suggest.best) return ls_fail(LS_ERR_INPUT, "no preset is called '%.64s'; did you mean %s?", name, suggest.best);
    char list[LIST_BYTES];
    list_names(list);
    return ls_fail(LS_ERR_INPUT, "no preset is called '%.64s'; choose one of: %s", name, list);
}
