/* partition_tensors.c: copies the tensors of a partition to and from a safetensors file, piece by piece. */
#include "checkpoint/partition_tensors.h"

#include <stdio.h>
#include <stdlib.h>

enum { PIECE_ELEMS = 1 << 20 };

/* Fails with LS_ERR_RESOURCE: out of memory. */
static ls_status fail_tensor_list(int count) {
    return ls_fail(LS_ERR_RESOURCE, "out of memory for a list of %d tensors", count);
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

const ls_param *ls_partition_tensors_param(const ls_partition_tensors *t, int i) {
    return t->model->params[i / t->per_param];
}

ls_partition_tensor ls_partition_tensors_which(const ls_partition_tensors *t, int i) {
    return (ls_partition_tensor)((int)t->first + i % t->per_param);
}

/* Fills in name, shape and declaration of tensor i; vectors have one dimension, tables and matrices two. */
static void declare_tensor(ls_partition_tensors *t, int i) {
    static const char *const suffix[] = {
        [LS_TENSOR_WEIGHT] = "", [LS_TENSOR_MOMENT0] = ".m", [LS_TENSOR_MOMENT1] = ".v", [LS_TENSOR_GRAD] = ".grad"};
    const ls_param *param = ls_partition_tensors_param(t, i);
    snprintf(t->names[i], sizeof t->names[i], "%s%s", param->name, suffix[ls_partition_tensors_which(t, i)]);
    t->shapes[i][0] = (int64_t)param->rows;
    t->shapes[i][1] = (int64_t)param->columns;
    t->decls[i] = (ls_safetensors_decl){
        .name = t->names[i], .dtype = LS_F32, .dims = param->kind == LS_PARAM_VECTOR ? 1 : 2, .shape = t->shapes[i]};
}

ls_status ls_partition_tensors_open(const ls_model *model, ls_partition_tensor first, int per_param,
                                    ls_partition_tensors *out) {
    ls_partition_tensors t = {
        .model = model, .first = first, .per_param = per_param, .count = model->nparams * per_param};
    t.decls = calloc((size_t)t.count + 1, sizeof *t.decls);
    t.shapes = calloc((size_t)t.count + 1, sizeof *t.shapes);
    t.names = calloc((size_t)t.count + 1, sizeof *t.names);
    *out = t;
    if (!t.decls || !t.shapes || !t.names) {
        ls_partition_tensors_close(out);
        return fail_tensor_list(t.count);
    }
    for (int i = 0; i < t.count; i++) declare_tensor(&t, i);
    return LS_OK;
}

void ls_partition_tensors_close(ls_partition_tensors *t) {
    free(t->decls);
    free(t->shapes);
    free(t->names);
    *t = (ls_partition_tensors){.count = 0};
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* State of one pass over the tensors, which reads or writes: `file` is NULL while writing, `writer` while reading. */
typedef struct work {
    const ls_partition_tensors *t;
    ls_partition *partition;
    ls_safetensors_writer *writer; /* one of these two is set */
    const ls_safetensors *file;
    ls_partition_pieces pieces;
    float *host; /* buffer of PIECE_ELEMS elements */
} work;

/* Copies elements first … first + count − 1 of tensor i from the partition to w->host and writes them to the file. */
static ls_status write_piece(const work *w, int i, size_t first, size_t count) {
    LS_TRY(ls_partition_read(w->partition, ls_partition_tensors_param(w->t, i), ls_partition_tensors_which(w->t, i),
                             first, count, w->host));
    return ls_safetensors_write_at(w->writer, i, first, w->host, count * sizeof(float));
}

/* Reads elements first … first + count − 1 of tensor i from the file into w->host and copies them to the partition. */
static ls_status read_piece(const work *w, int i, const ls_safetensor *tensor, size_t first, size_t count) {
    LS_TRY(ls_safetensor_read(tensor, first * sizeof(float), w->host, count * sizeof(float)));
    return ls_partition_write(w->partition, ls_partition_tensors_param(w->t, i), ls_partition_tensors_which(w->t, i),
                              first, count, w->host);
}

/* Finds tensor i in the file; LS_ERR_INPUT unless it is there, with the declared shape and in fp32. */
static ls_status find_tensor(const work *w, int i, const ls_safetensor **tensor) {
    const ls_partition_tensors *t = w->t;
    LS_TRY(ls_safetensors_need(w->file, t->names[i], t->decls[i].dims, t->shapes[i], tensor));
    if ((*tensor)->is_readable && (*tensor)->dtype == LS_F32) return LS_OK;
    return ls_fail(LS_ERR_INPUT,
                   "%s: %s is not fp32; checkpoints hold fp32 tensors: this file was changed after it was saved",
                   ls_safetensors_path(w->file), t->names[i]);
}

/* Reads (if w->file is set), else writes, all elements of tensor i that belong to this partition, piece by piece. */
static ls_status move_tensor(work *w, int i) {
    const ls_safetensor *tensor = NULL;
    if (w->file) LS_TRY(find_tensor(w, i, &tensor));
    ls_partition_tensor which = w->file ? ls_partition_tensors_which(w->t, i) : LS_TENSOR_REPORTED;
    LS_TRY(ls_partition_pieces_list(w->partition, ls_partition_tensors_param(w->t, i), which, &w->pieces));
    for (size_t k = 0; k < w->pieces.count; k++) {
        const ls_partition_piece *piece = &w->pieces.piece[k];
        for (size_t done = 0; done < piece->count; done += PIECE_ELEMS) {
            size_t count = piece->count - done < PIECE_ELEMS ? piece->count - done : PIECE_ELEMS;
            LS_TRY(w->file ? read_piece(w, i, tensor, piece->first + done, count)
                           : write_piece(w, i, piece->first + done, count));
        }
    }
    return LS_OK;
}

/* Allocates the buffer, and reads or writes all tensors of the file; stops at the first failure. */
static ls_status move_all(work *w) {
    ls_status status = LS_OK;
    w->host = malloc(PIECE_ELEMS * sizeof *w->host);
    if (!w->host) return fail_tensor_list(w->t->count);
    for (int i = 0; i < w->t->count && status == LS_OK; i++) status = move_tensor(w, i);
    ls_partition_pieces_fini(&w->pieces);
    free(w->host);
    return status;
}

ls_status ls_partition_tensors_write(const ls_partition_tensors *t, ls_partition *partition,
                                     ls_safetensors_writer *writer) {
    work w = {.t = t, .partition = partition, .writer = writer};
    return move_all(&w);
}

ls_status ls_partition_tensors_read(const ls_partition_tensors *t, ls_partition *partition,
                                    const ls_safetensors *file) {
    work w = {.t = t, .partition = partition, .file = file};
    return move_all(&w);
}
