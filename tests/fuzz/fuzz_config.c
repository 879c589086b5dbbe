/* fuzz_config.c: any bytes as a config file, in JSON or YAML, for every command. Values that are accepted are accepted
 * again in the words in which they were kept, and give the same value. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const ls_options *options) {
    ls_options again;
    ls_options_defaults(&again);
    for (int i = 0; i < LS_OPTION_COUNT; i++) {
        const ls_option_source *source = &options->source[i];
        const ls_option_info *info = ls_option_info_get((ls_option_id)i);
        if (source->origin == LS_ORIGIN_DEFAULT) continue;
        if (ls_options_put(&again, (ls_option_id)i, source->text, LS_ORIGIN_FLAG, 0) != LS_OK) abort();
        if (info->kind == LS_OPTION_STRING) continue;
        size_t width = info->kind == LS_OPTION_BOOL     ? sizeof(bool)
                       : info->kind == LS_OPTION_CHOICE ? sizeof(int)
                                                        : sizeof(int64_t);
        if (memcmp((const char *)&again + info->offset, (const char *)options + info->offset, width) != 0) abort();
    }
    ls_options_fini(&again);
}

/* The first byte chooses format and command. A file is read with a NUL behind it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_options options;
    if (bytes == 0) return 0;
    char *text = malloc(bytes);
    if (!text) return 0;
    memcpy(text, data + 1, bytes - 1);
    text[bytes - 1] = 0;
    ls_options_defaults(&options);
    ls_command command = (ls_command)(data[0] / 2 % LS_COMMAND_COUNT);
    const char *path = data[0] % 2 ? "fuzz.yaml" : "fuzz.json";
    if (ls_options_read_text(&options, command, path, text, bytes - 1) == LS_OK) check(&options);
    ls_options_fini(&options);
    free(text);
    return 0;
}
