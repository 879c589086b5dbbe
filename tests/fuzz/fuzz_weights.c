/* fuzz_weights.c: any bytes as weights of others. The first byte chooses what the rest is:
 *
 *     0   a model file of llm.c
 *     1   numbers 1 … 7 of the header of such a file; it gets all the bytes that they ask for
 *     2   model.safetensors.index.json of a folder with one sound shard
 *
 * What is accepted has the length that its header asks for, gives every row of every parameter once and in order, and
 * holds no tensor that is not in its shard.
 *
 *     clang -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Iinclude -Isrc tests/fuzz/fuzz_weights.c … */
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "interop/weights.h"

enum { HEADER_BYTES = 1024, FILE_BYTES_MAX = 1 << 20, SHARD_TENSORS = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(int holds) {
    if (!holds) abort();
}

static void write_all(int fd, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes > 0) {
        ssize_t put = write(fd, at, bytes);
        check(put > 0);
        at += put;
        bytes -= (size_t)put;
    }
}

/* ---- llm.c ------------------------------------------------------------------------------------------------------- */

/* Bytes of a GPT-2 file with this header, from the format's definition; 0: more than is tried here. */
static size_t llmc_bytes(const int32_t *header) {
    double T = header[2], L = header[4], C = header[6], padded = header[7], unit = header[1] == 5 ? 2 : 4;
    double elems = padded * C + T * C + L * (12 * C * C + 13 * C) + 2 * C;
    return elems >= 0 && elems * unit < FILE_BYTES_MAX ? HEADER_BYTES + (size_t)(elems * unit) : 0;
}

typedef struct taken {
    int param;
    size_t row, elems;
    unsigned bits;
} taken;

static ls_status take(void *ctx, const ls_param *param, size_t first_row, size_t rows, const float *data) {
    taken *t = ctx;
    if (first_row == 0) t->param++;
    check((int)param->number == t->param && first_row == (first_row ? t->row : 0) && rows > 0);
    check(rows <= param->rows - first_row);
    t->row = first_row + rows;
    t->elems += rows * param->columns;
    for (size_t i = 0; i < rows * param->columns; i++) {
        uint32_t word;
        memcpy(&word, data + i, sizeof word);
        t->bits |= word;
    }
    return LS_OK;
}

static void load(ls_weights *weights, size_t file_bytes) {
    const ls_model *model = ls_weights_model(weights);
    taken t = {.param = -1};
    check(ls_weights_load(weights, model, take, &t) == LS_OK);
    check(t.param == ls_model_params(model) - 1 && t.elems == ls_model_elems(model));
    check(t.elems * 2 <= file_bytes - HEADER_BYTES);
}

static void open_llmc(const uint8_t *data, size_t bytes, size_t file_bytes) {
    char path[64];
    ls_shape shape;
    ls_weights *weights = NULL;
    int32_t header[HEADER_BYTES / 4];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    check(fd >= 0);
    write_all(fd, data, bytes);
    check(ftruncate(fd, (off_t)file_bytes) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ls_status status = ls_weights_resolve(path, &shape, &weights);
    check(status == LS_OK || (!weights && ls_status_message()[0] != '\0'));
    if (weights) {
        check(ls_weights_kind_of(weights) == LS_WEIGHTS_LLMC && bytes >= sizeof header);
        memcpy(header, data, sizeof header);
        check(llmc_bytes(header) == file_bytes || file_bytes > FILE_BYTES_MAX);
        load(weights, file_bytes);
    }
    ls_weights_close(weights);
    (void)close(fd);
}

static void open_header(const uint8_t *data, size_t bytes) {
    int32_t header[HEADER_BYTES / 4] = {20240326};
    uint8_t file[HEADER_BYTES];
    memcpy(header + 1, data, bytes < 28 ? bytes : 28);
    memcpy(file, header, sizeof file);
    size_t wanted = llmc_bytes(header);
    open_llmc(file, sizeof file, wanted ? wanted : HEADER_BYTES);
}

/* ---- an index ---------------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/lockstep-fuzz-XXXXXX";
static char index_path[PATH_MAX], shard_path[PATH_MAX];

static void remove_folder(void) {
    (void)unlink(index_path);
    (void)unlink(shard_path);
    (void)rmdir(folder);
}

static void write_file(const char *path, const void *data, size_t bytes) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(fd >= 0);
    write_all(fd, data, bytes);
    check(close(fd) == 0);
}

static void make_folder(void) {
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]}}";
    uint8_t shard[8 + sizeof header - 1 + 12] = {(uint8_t)(sizeof header - 1)};
    if (index_path[0]) return;
    check(mkdtemp(folder) != NULL);
    snprintf(index_path, sizeof index_path, "%s/model.safetensors.index.json", folder);
    snprintf(shard_path, sizeof shard_path, "%s/s", folder);
    check(atexit(remove_folder) == 0);
    memcpy(shard + 8, header, sizeof header - 1);
    write_file(shard_path, shard, sizeof shard);
}

static void open_index(const uint8_t *data, size_t bytes) {
    ls_safetensors *set = NULL;
    make_folder();
    write_file(index_path, data, bytes);
    if (ls_safetensors_open_set(folder, &set) != LS_OK) {
        check(!set && ls_status_message()[0] != '\0');
        return;
    }
    int count = ls_safetensors_count(set);
    check(count <= SHARD_TENSORS);
    for (int i = 0; i < count; i++) {
        const ls_safetensor *tensor = ls_safetensors_get(set, i);
        uint8_t value[8];
        check(tensor->bytes <= sizeof value && ls_safetensors_find(set, tensor->name) == tensor);
        check(ls_safetensor_read(tensor, 0, value, tensor->bytes) == LS_OK);
    }
    ls_safetensors_close(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes == 0) return 0;
    switch (data[0] % 3) {
    case 0: open_llmc(data + 1, bytes - 1, bytes - 1); break;
    case 1: open_header(data + 1, bytes - 1); break;
    default: open_index(data + 1, bytes - 1); break;
    }
    return 0;
}
