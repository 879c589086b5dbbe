/* ops.h: what the tests of a device's operations share: tensors twice, on the device and plain for a direct call of the
 * portable kernels, and a device for every ISA of this CPU and 1, 2, 3 and 7 threads.
 *
 * Tensors are touched through the device alone, as layers have to do it. */
#ifndef LS_TESTS_OPS_H
#define LS_TESTS_OPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/rng.h"
#include "device/cpu/kernels.h"
#include "device/cuda/cuda.h"
#include "device/ops.h"
#include "sample.h"

enum { GUARD = 16, TWINS_MAX = 64 };

typedef struct twin {
    float *dev, *ref;
    size_t elems;
} twin;

static ls_kernels table, portable;
static int thread_count;
static ls_device *device;
static const ls_ops *ops;
static twin twins[TWINS_MAX];
static int n_twins;

/* Random numbers in −2 … 2, the same on both sides; guard areas too. */
static inline twin make(size_t elems) {
    assert_true(n_twins < TWINS_MAX);
    twin t = {.elems = elems};
    size_t all = elems + 2 * GUARD;
    ls_rng_key key = ls_rng_key_make(3, (uint32_t)n_twins, elems);
    t.ref = malloc(all * sizeof(float));
    assert_non_null(t.ref);
    for (size_t i = 0; i < all; i++) t.ref[i] = 4 * ls_rng_uniform_f32(key, i) - 2;
    void *memory;
    assert_int_equal(ls_device_alloc(device, all * sizeof(float), &memory), LS_OK);
    assert_int_equal(ls_device_copy_in(device, memory, t.ref, all * sizeof(float)), LS_OK);
    t.dev = (float *)memory + GUARD;
    t.ref += GUARD;
    return twins[n_twins++] = t;
}

/* The same, `shift` elements behind where the device would like it best. */
static inline twin make_shifted(size_t elems, size_t shift) {
    twin t = make(elems + shift);
    return (twin){t.dev + shift, t.ref + shift, elems};
}

/* Ids −2 … n+1 or, without strays, 0 … n−1. */
static inline twin make_ids(size_t elems, size_t n, int strays) {
    twin t = make(elems);
    int32_t *ids = (int32_t *)(void *)t.ref;
    for (size_t i = 0; i < elems; i++)
        ids[i] = (int32_t)ls_rng_below(ls_rng_key_make(4, 0, n), i, n + (strays ? 4 : 0)) - (strays ? 2 : 0);
    assert_int_equal(ls_device_copy_in(device, t.dev, ids, elems * sizeof *ids), LS_OK);
    return t;
}

static inline const int32_t *ids_of(const float *p) { return (const int32_t *)(const void *)p; }
static inline uint16_t *halves_of(float *p) { return (uint16_t *)(void *)p; }

static inline void release(void) {
    for (; n_twins > 0; n_twins--) {
        free(twins[n_twins - 1].ref - GUARD);
        ls_device_free(device, twins[n_twins - 1].dev - GUARD);
    }
}

static inline void ok(ls_status status) {
    if (status != LS_OK) fail_msg("%s", ls_status_message());
}

/* A GPU writes a NaN of its own. */
static inline int is_nan_of_gpu(uint32_t got, uint32_t want) {
    return table.isa && strcmp(table.isa, "cuda") == 0 && got == 0x7FFFFFFFu && (want & 0x7FFFFFFFu) > 0x7F800000u;
}

/* Compares all tensors of a case, also those that it should have left alone, and releases them. */
static inline void check(const char *what, size_t a, size_t b) {
    for (int i = 0; i < n_twins; i++) {
        size_t all = twins[i].elems + 2 * GUARD;
        uint32_t *got = malloc(all * sizeof *got), *want = (uint32_t *)(void *)(twins[i].ref - GUARD);
        assert_non_null(got);
        ok(ls_device_copy_out(device, got, twins[i].dev - GUARD, all * sizeof *got));
        for (size_t e = 0; e < all; e++)
            if (got[e] != want[e] && !is_nan_of_gpu(got[e], want[e]))
                fail_msg("%s (%zu, %zu), %s, %d threads: tensor %d element %zd is %08x, should be %08x", what, a, b,
                         table.isa, thread_count, i, (ssize_t)e - GUARD, got[e], want[e]);
        free(got);
    }
    release();
}

/* On a GPU, or a CPU that plays one (tests/cuda), where the environment says that there is one. */
static inline void on_cuda(void (*body)(void)) {
    if (!getenv("LS_TEST_CUDA")) return;
    table = (ls_kernels){.isa = "cuda"};
    thread_count = 1;
    ok(ls_device_open_cuda(0, &device));
    ops = device->ops;
    body();
    ls_device_destroy(device);
}

/* Calls `body` with `device` and `ops` set to each device in turn. */
static inline void on_every_device(void (*body)(void)) {
    static const int threads[] = {1, 2, 3, 7};
    ls_kernels_fill(&portable, 1u << LS_ISA_PORTABLE);
    for (int isa = 0; isa < LS_ISA_COUNT && sample_has_cpu(); isa++) {
        if (!ls_cpu_use((ls_isa)isa)) continue;
        ls_kernels_fill(&table, 1u << LS_ISA_PORTABLE | 1u << isa);
        for (size_t i = 0; i < sizeof threads / sizeof *threads; i += (size_t)sample_every(3)) {
            thread_count = threads[i];
            ok(ls_device_open_cpu(thread_count, NULL, &table, &device));
            ops = device->ops;
            body();
            ls_device_destroy(device);
        }
    }
    on_cuda(body);
}

/* test_NAME: all_NAME on every device. */
#define ON_EVERY_DEVICE(name)                                                                                          \
    static void test_##name(void **state) {                                                                            \
        (void)state;                                                                                                   \
        on_every_device(all_##name);                                                                                   \
    }

#endif
