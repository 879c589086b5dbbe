/* snapshot.c: plans and takes a copy of a worker's part of a checkpoint in memory, and writes it from there. */
#include "checkpoint/snapshot.h"

#include <stdlib.h>

#include "base/memory.h"

enum { WRITE_ELEMS = 1 << 18, PAGE_BYTES = 4096 }; /* the bytes of a write stay in the cache from its sum to its copy */

/* Appends the pieces of one tensor to the plan, each behind the one before in the copy. */
static ls_status add_pieces(ls_snapshot *s, int file, int tensor, const ls_partition_pieces *pieces) {
    for (size_t k = 0; k < pieces->count; k++) {
        ls_snapshot_piece *list = ls_list_grow(s->piece, s->count, &s->capacity, sizeof *list);
        if (!list) return ls_fail(LS_ERR_RESOURCE, "out of memory for the list of what a snapshot holds");
        s->piece = list;
        list[s->count++] = (ls_snapshot_piece){.file = file,
                                               .tensor = tensor,
                                               .first = pieces->piece[k].first,
                                               .count = pieces->piece[k].count,
                                               .at = s->bytes / sizeof(float)};
        s->bytes += pieces->piece[k].count * sizeof(float);
    }
    return LS_OK;
}

ls_status ls_snapshot_plan(const ls_partition *partition, const ls_partition_tensors *const *files, int count,
                           ls_snapshot *out) {
    ls_partition_pieces pieces = {.count = 0};
    ls_status status = LS_OK;
    *out = (ls_snapshot){.count = 0};
    for (int f = 0; f < count; f++)
        for (int i = 0; i < files[f]->count && status == LS_OK; i++) {
            status = ls_partition_pieces_list(partition, ls_partition_tensors_param(files[f], i), LS_TENSOR_REPORTED,
                                              &pieces);
            if (status == LS_OK) status = add_pieces(out, f, i, &pieces);
        }
    ls_partition_pieces_fini(&pieces);
    if (status != LS_OK) ls_snapshot_fini(out);
    return status;
}

ls_status ls_snapshot_alloc(ls_snapshot *s, ls_device *device) {
    void *memory = NULL;
    LS_TRY(ls_device_host_alloc(device, s->bytes, &memory));
    s->data = memory;
    s->device = device;
    return LS_OK;
}

void ls_snapshot_touch(const ls_snapshot *s) {
    for (size_t at = 0; at < s->bytes; at += PAGE_BYTES) ((volatile float *)s->data)[at / sizeof(float)] = 0;
}

ls_status ls_snapshot_take(const ls_snapshot *s, const ls_partition_tensors *const *files, ls_partition *partition) {
    for (size_t i = 0; i < s->count; i++) {
        const ls_snapshot_piece *p = &s->piece[i];
        const ls_partition_tensors *file = files[p->file];
        LS_TRY(ls_partition_read(partition, ls_partition_tensors_param(file, p->tensor),
                                 ls_partition_tensors_which(file, p->tensor), p->first, p->count, s->data + p->at));
    }
    return LS_OK;
}

ls_status ls_snapshot_write(const ls_snapshot *s, int file, ls_safetensors_writer *writer) {
    for (size_t i = 0; i < s->count; i++) {
        const ls_snapshot_piece *p = &s->piece[i];
        if (p->file != file) continue;
        for (size_t done = 0; done < p->count; done += WRITE_ELEMS) {
            size_t n = p->count - done < WRITE_ELEMS ? p->count - done : WRITE_ELEMS;
            LS_TRY(
                ls_safetensors_write_at(writer, p->tensor, p->first + done, s->data + p->at + done, n * sizeof(float)));
        }
    }
    return LS_OK;
}

void ls_snapshot_fini(ls_snapshot *s) {
    if (s->data) ls_device_host_free(s->device, s->data, s->bytes);
    free(s->piece);
    *s = (ls_snapshot){.count = 0};
}

bool ls_snapshot_fits(const ls_snapshot_need *needs, int workers, int *short_of) {
    for (int r = 0; r < workers; r++) {
        int64_t bytes = 0, available = needs[r].available;
        for (int other = 0; other < workers; other++) {
            if (needs[other].host != needs[r].host) continue;
            bytes += needs[other].bytes;
            if (needs[other].available < available) available = needs[other].available;
        }
        *short_of = r;
        if (bytes > available - available / 8) return false;
    }
    *short_of = -1;
    return true;
}
