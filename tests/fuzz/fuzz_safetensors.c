/* fuzz_safetensors.c: any bytes as a safetensors file. A file that is accepted must keep the promises of safetensors.h:
 * every byte of the data belongs to exactly one tensor and can be read.
 *
 * The bytes are taken twice: as a whole file, and as two bytes that tell how much data there is, and the header; in the
 * second form a change of the header does not also need one of its length.
 *
 *     clang -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Iinclude -Isrc tests/fuzz/fuzz_safetensors.c … */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(int holds) {
    if (!holds) abort();
}

static unsigned read_tensor(const ls_safetensors *file, const ls_safetensor *tensor) {
    uint8_t *bytes = malloc(tensor->bytes + 1);
    unsigned sum = 0;
    uint64_t elems = 1;
    for (int i = 0; i < tensor->dims; i++) elems *= (uint64_t)tensor->shape[i];
    check(elems == tensor->elems);
    check(ls_safetensors_find(file, tensor->name) == tensor);
    check(bytes != NULL);
    check((ls_safetensor_read(tensor, 0, bytes, tensor->bytes) == LS_OK) == tensor->is_readable);
    if (tensor->is_readable) {
        check(tensor->bytes == tensor->elems * ls_dtype_bytes(tensor->dtype));
        for (size_t i = 0; i < tensor->bytes; i++) sum += bytes[i];
    }
    free(bytes);
    return sum;
}

static void parse(const uint8_t *data, size_t bytes) {
    ls_safetensors *file = NULL;
    if (ls_safetensors_parse("fuzz", data, bytes, &file) != LS_OK) {
        check(file == NULL && ls_status_message()[0] != '\0');
        return;
    }
    uint64_t header = 0, data_bytes = 0;
    static volatile unsigned sink;
    for (int i = 7; i >= 0; i--) header = header << 8 | data[i];
    for (int i = 0; i < ls_safetensors_count(file); i++) {
        data_bytes += ls_safetensors_get(file, i)->bytes;
        sink = read_tensor(file, ls_safetensors_get(file, i));
    }
    (void)sink;
    check(8 + header + data_bytes == bytes);
    ls_safetensors_close(file);
}

static void parse_header(const uint8_t *data, size_t bytes) {
    size_t header_bytes = bytes - 2, data_bytes = data[0] | (size_t)data[1] << 8;
    uint8_t *file = calloc(8 + header_bytes + data_bytes, 1);
    check(file != NULL);
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)header_bytes >> 8 * i);
    memcpy(file + 8, data + 2, header_bytes);
    parse(file, 8 + header_bytes + data_bytes);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    parse(data, bytes);
    if (bytes >= 2) parse_header(data, bytes);
    return 0;
}
