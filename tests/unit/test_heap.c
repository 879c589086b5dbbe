/* test_heap.c: the shared heap: alignment, zeroing, reuse, merging, running out; and that two processes see one memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "comm/shm/heap.h"

#ifdef __SANITIZE_ADDRESS__
#    define LS_SANITIZED 1
#elif defined(__has_feature)
#    define LS_SANITIZED __has_feature(address_sanitizer)
#else
#    define LS_SANITIZED 0
#endif

enum { HEAP_BYTES = 4 << 20, BLOCKS = 60 };

static void open_heap(ls_segment *segment, ls_heap *heap) {
    assert_int_equal(ls_segment_create(2, HEAP_BYTES, 4096, segment), LS_OK);
    assert_int_equal(ls_heap_init(heap, segment, 1), LS_OK);
}

static void test_alignment_and_zero(void **state) {
    (void)state;
    ls_segment segment;
    ls_heap heap;
    open_heap(&segment, &heap);
    for (int round = 0; round < 3; round++) {
        void *small, *large;
        assert_int_equal(ls_heap_alloc(&heap, 100, false, &small), LS_OK);
        assert_int_equal(ls_heap_alloc(&heap, 100000, false, &large), LS_OK);
        assert_int_equal((uintptr_t)small % 64, 0);
        assert_int_equal((uintptr_t)large % 4096, 0);
        for (size_t i = 0; i < 100000; i++) assert_int_equal(((char *)large)[i], 0);
        memset(small, 1, 100);
        memset(large, 1, 100000);
        ls_heap_free(&heap, small);
        ls_heap_free(&heap, large);
    }
    assert_int_equal(heap.used_bytes, 0);
    ls_heap_fini(&heap);
    ls_segment_close(&segment);
}

/* Random sizes come and go; no two blocks overlap, and in the end everything fits in one piece again. */
static void test_random(void **state) {
    (void)state;
    ls_segment segment;
    ls_heap heap;
    open_heap(&segment, &heap);
    unsigned char *at[BLOCKS] = {0};
    size_t bytes[BLOCKS] = {0};
    ls_rng_key key = ls_rng_key_make(3, 3, 3);
    for (uint64_t turn = 0; turn < 4000; turn++) {
        size_t i = (size_t)ls_rng_below(key, 3 * turn, BLOCKS);
        if (at[i]) {
            for (size_t b = 0; b < bytes[i]; b++) assert_int_equal(at[i][b], i + 1);
            ls_heap_free(&heap, at[i]);
            at[i] = NULL;
        } else {
            bytes[i] = (size_t)ls_rng_below(key, 3 * turn + 1, turn % 3 ? 900 : 30000);
            void *memory;
            assert_int_equal(ls_heap_alloc(&heap, bytes[i], turn % 2, &memory), LS_OK);
            at[i] = memory;
            memset(memory, (int)i + 1, bytes[i]);
        }
    }
    for (int i = 0; i < BLOCKS; i++) ls_heap_free(&heap, at[i]);
    void *all;
    assert_int_equal(ls_heap_alloc(&heap, HEAP_BYTES, false, &all), LS_OK);
    ls_heap_fini(&heap);
    ls_segment_close(&segment);
}

static void test_running_out(void **state) {
    (void)state;
    ls_segment segment;
    ls_heap heap;
    open_heap(&segment, &heap);
    void *a, *b;
    assert_int_equal(ls_heap_alloc(&heap, HEAP_BYTES + 1, false, &a), LS_ERR_RESOURCE);
    assert_int_equal(ls_heap_alloc(&heap, SIZE_MAX, false, &a), LS_ERR_RESOURCE);
    assert_null(a);
    assert_int_equal(ls_heap_alloc(&heap, HEAP_BYTES / 2 + 4096, false, &a), LS_OK);
    assert_int_equal(ls_heap_alloc(&heap, HEAP_BYTES / 2, false, &b), LS_ERR_RESOURCE);
    assert_non_null(strstr(ls_status_message(), "--shm-heap"));
    ls_heap_fini(&heap);
    ls_segment_close(&segment);
}

static void test_two_processes(void **state) {
    (void)state;
    ls_segment mine, joined;
    ls_heap heap;
    open_heap(&mine, &heap);
    void *memory;
    assert_int_equal(ls_heap_alloc(&heap, 5000, false, &memory), LS_OK);
    size_t offset = ls_segment_offset(&mine, memory);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        ls_segment_close(&(ls_segment){.fd = -1});
        if (ls_segment_join(parent, &mine, &joined) != LS_OK) _exit(1);
        strcpy(ls_segment_at(&joined, offset), "seen");
        ls_segment_fail(&joined, 1, LS_ERR_FAILED, "first");
        ls_segment_fail(&joined, 0, LS_ERR_INPUT, "second");
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_string_equal(memory, "seen");
    assert_true(ls_segment_failed(&mine));
    assert_string_equal(mine.header->failure.message, "first");
    assert_int_equal(mine.header->failure.status, LS_ERR_FAILED);
    ls_heap_fini(&heap);
    ls_segment_close(&mine);
}

/* 512-byte blocks that the system holds for the segment, in bytes. */
static size_t backed_bytes(const ls_segment *segment) {
    struct stat info;
    assert_int_equal(fstat(segment->file[0], &info), 0);
    return (size_t)info.st_blocks * 512;
}

/* The tail goes back to the system, comes again as zeros, and nothing in front of it is touched. */
static void test_trim(void **state) {
    (void)state;
    enum { LARGE = 32 << 20 };
    ls_segment segment;
    ls_heap heap;
    assert_int_equal(ls_segment_create(1, 2 * (size_t)LARGE, 4096, &segment), LS_OK);
    assert_int_equal(ls_heap_init(&heap, &segment, 0), LS_OK);
    void *first, *second;
    assert_int_equal(ls_heap_alloc(&heap, 5000, false, &first), LS_OK);
    memset(first, 1, 5000);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ls_heap_alloc(&heap, LARGE, false, &second), LS_OK);
        assert_true(backed_bytes(&segment) >= LARGE);
        for (size_t i = 0; i < LARGE; i += 997) assert_int_equal(((char *)second)[i], 0);
        memset(second, 2, LARGE);
        ls_heap_trim(&heap); /* in use: stays */
        assert_int_equal(((char *)second)[LARGE - 1], 2);
        ls_heap_free(&heap, second);
        assert_true(backed_bytes(&segment) >= LARGE);
        ls_heap_trim(&heap);
        assert_true(backed_bytes(&segment) < LARGE / 4);
        assert_true(heap.reserved_until < heap.begin + LARGE / 4);
        for (size_t i = 0; i < 5000; i++) assert_int_equal(((char *)first)[i], 1);
    }
    ls_heap_fini(&heap);
    ls_segment_close(&segment);
}

/* In a process of its own: 3 MiB more than it has, of which 2 are taken. Ends with 0 when the limit held. */
static _Noreturn void live_with_a_limit(void) {
    enum { MIB = 1 << 20 };
    size_t kib = 0;
    char line[128];
    ls_segment segment;
    ls_heap heap;
    void *memory;
    if (ls_segment_create(2, HEAP_BYTES, 4096, &segment) != LS_OK || ls_heap_init(&heap, &segment, 1) != LS_OK)
        _exit(1);
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmData: %zu kB", &kib) == 1) break;
    struct rlimit limit = {.rlim_cur = (kib << 10) + 3 * MIB, .rlim_max = RLIM_INFINITY};
    if (setrlimit(RLIMIT_DATA, &limit) != 0) _exit(2);
    if (ls_heap_alloc(&heap, 2 * MIB, false, &memory) != LS_OK) _exit(3);
    if (ls_heap_alloc(&heap, 2 * MIB - 4096, false, &memory) != LS_ERR_RESOURCE) _exit(4);
    if (!strstr(ls_status_message(), "ulimit -d")) _exit(5);
    ls_heap_free(&heap, ls_segment_at(&segment, heap.begin));
    if (ls_heap_alloc(&heap, 2 * MIB, false, &memory) != LS_OK) _exit(6); /* what it has counts once */
    _exit(0);
}

static void test_data_limit(void **state) {
    (void)state;
    if (LS_SANITIZED) skip(); /* it maps terabytes of its own */
    pid_t child = fork();
    if (child == 0) live_with_a_limit();
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alignment_and_zero), cmocka_unit_test(test_random), cmocka_unit_test(test_running_out),
        cmocka_unit_test(test_two_processes),      cmocka_unit_test(test_trim),   cmocka_unit_test(test_data_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
