/* tree_sum.c: the stack machine behind every ordered sum.
 *
 * The stack holds pointers: to a source's block, or to a scratch block of its depth. The last addition goes straight to
 * the outputs where it can. */
#include "device/cpu/tree_sum.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/kernels.h"

enum { BLOCK_BYTES = LS_TREE_BLOCK * 8 };

/* The stack machine: a value on the stack is a block of up to LS_TREE_BLOCK numbers. */
typedef struct machine {
    const ls_add_kernels *kernels;
    const ls_convert_kernels *convert;
    const ls_tree_source *sources;
    bool integers;
    size_t width; /* bytes of a value on the stack */
    const void *stack[LS_TREE_DEPTH_MAX];
    _Alignas(64) char scratch[LS_TREE_DEPTH_MAX][BLOCK_BYTES];
} machine;

/* Pushes elements at … at+n−1 of a source at `depth`: in place, or widened to the stack's own memory. */
static void push(machine *m, int depth, const ls_tree_source *source, size_t at, size_t n) {
    if (source->dtype == LS_BF16 || source->dtype == LS_F16) {
        float *to = (float *)(void *)m->scratch[depth];
        const uint16_t *half = (const uint16_t *)source->data + at;
        if (source->dtype == LS_BF16)
            m->kernels->widen_bf16(to, half, n);
        else
            m->convert->f16_to_f32(to, half, n);
        m->stack[depth] = to;
        return;
    }
    m->stack[depth] = (const char *)source->data + at * m->width;
}

/* Adds n numbers, as fp32 or as int64. */
static void add(const machine *m, void *out, const void *a, const void *b, size_t n) {
    if (m->integers)
        m->kernels->add_i64(out, a, b, n);
    else
        m->kernels->add_f32(out, a, b, n);
}

/* Runs all steps of the program but a last addition, for elements at … at+n−1. Returns the depth of the stack: 1, or 2
 * if that addition is left for write_block(). */
static int run_block(machine *m, const ls_tree_program *program, size_t at, size_t n) {
    int depth = 0;
    for (int i = 0; i < program->length; i++) {
        if (program->steps[i] >= 0) {
            push(m, depth++, &m->sources[program->steps[i]], at, n);
        } else if (i + 1 < program->length) {
            add(m, m->scratch[depth - 2], m->stack[depth - 2], m->stack[depth - 1], n);
            m->stack[depth - 2] = m->scratch[depth - 2];
            depth--;
        }
    }
    return depth;
}

/* Copies a block to an output, past the caches if `stream`; nothing to do if it is there already. */
static void copy_out(const machine *m, void *out, const void *from, size_t bytes, bool stream) {
    if (out == from) return;
    if (stream)
        m->kernels->copy_stream(out, from, bytes);
    else
        memcpy(out, from, bytes);
}

/* Writes a block's result to the outputs, with the last addition if `depth` is 2. All sources were read before, except
 * by that addition, which reads and writes element by element. */
static void write_block(machine *m, int depth, void *const *outs, int n_outs, bool stream, size_t at, size_t n) {
    size_t offset = at * m->width, bytes = n * m->width;
    const void *value = m->stack[0];
    if (depth == 2) {
        const void *a = m->stack[0], *b = m->stack[1];
        void *first = (char *)outs[0] + offset;
        if (n_outs == 1 && !stream) {
            add(m, first, a, b, n);
            return;
        }
        if (n_outs == 2 && !stream && !m->integers) {
            m->kernels->add_two_f32(first, (float *)(void *)((char *)outs[1] + offset), a, b, n);
            return;
        }
        add(m, m->scratch[0], a, b, n);
        value = m->scratch[0];
    } else if (value != m->scratch[0] && n_outs > 1) {
        /* A single source may itself be an output; its block is set aside before the others are written. */
        memcpy(m->scratch[0], value, bytes);
        value = m->scratch[0];
    }
    for (int o = 0; o < n_outs; o++) copy_out(m, (char *)outs[o] + offset, value, bytes, stream);
}

void ls_tree_sum_run(const ls_tree_program *program, const ls_tree_source *sources, bool integers, void *const *outs,
                     int n_outs, bool stream, size_t elems) {
    assert(program->length > 0 && program->depth <= LS_TREE_DEPTH_MAX);
    machine m;
    m.kernels = &ls_kernels_get()->add;
    m.convert = &ls_kernels_get()->convert;
    m.sources = sources;
    m.integers = integers;
    m.width = integers ? 8 : 4;
    for (size_t at = 0; at < elems; at += LS_TREE_BLOCK) {
        size_t n = elems - at < LS_TREE_BLOCK ? elems - at : LS_TREE_BLOCK;
        int depth = run_block(&m, program, at, n);
        write_block(&m, depth, outs, n_outs, stream, at, n);
    }
    if (stream) m.kernels->fence_stream();
}

ls_status ls_tree_sum(const float *const *contributions, int leaves, float *out, size_t elems) {
    if (leaves < 1 || leaves > LS_GROUPS_MAX)
        return ls_fail(LS_ERR_INPUT, "a sum of %d contributions: must be between 1 and %d", leaves, LS_GROUPS_MAX);
    ls_status status;
    ls_tree_program program = {.length = 0};
    ls_tree_node *nodes = malloc(sizeof *nodes * (size_t)leaves);
    ls_tree_source *sources = malloc(sizeof *sources * (size_t)leaves);
    if (!nodes || !sources) {
        status = ls_fail(LS_ERR_RESOURCE, "out of memory for a sum of %d contributions", leaves);
        goto out;
    }
    for (int i = 0; i < leaves; i++) {
        nodes[i] = (ls_tree_node){i, 1};
        sources[i] = (ls_tree_source){contributions[i], LS_F32};
    }
    LS_TRY_OUT(ls_tree_program_make((ls_tree_node){0, leaves}, nodes, leaves, &program));
    void *outs[1] = {out};
    ls_tree_sum_run(&program, sources, false, outs, 1, false, elems);
out:
    ls_tree_program_free(&program);
    free(nodes);
    free(sources);
    return status;
}
