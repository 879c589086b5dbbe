/* test_cuda_graphs.c: launches as CUDA graphs, with a driver of this test that writes down which kernel would run with
 * which argument: the same ones in the same order as one by one, whatever goes through graphs, and however they fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/cuda/graphs.h"
#include "device/device.h"

enum { RUNS_MAX = 1 << 16, ARGS = 24, NODES_MAX = LS_CUDA_BATCH, NO_CALL = -1 };

typedef struct args {
    uint64_t value[ARGS];
} args;

/* What ran: the kernel's handle, its blocks and the sum of its arguments. */
typedef struct ran {
    uintptr_t kernel;
    unsigned blocks;
    uint64_t sum;
} ran;

struct CUgraphNode_st {
    CUgraphNode before;
    ran ran;
};
struct CUgraph_st {
    struct CUgraphNode_st node[NODES_MAX];
    int count;
};
struct CUgraphExec_st {
    CUgraph of;
    ran ran[NODES_MAX];
    int count;
};

static struct {
    ran run[RUNS_MAX];
    int runs, launches, graph_launches, sets, made, live;
    const char *fails; /* this call fails */
    int fails_kernel;  /* this kernel cannot be launched */
    size_t free_bytes;
} seen;

static bool is_bad(const char *call) { return seen.fails && strcmp(seen.fails, call) == 0; }

static void run(const ran *what) {
    assert_true(seen.runs < RUNS_MAX);
    seen.run[seen.runs++] = *what;
}

static ran ran_of(CUfunction function, unsigned blocks, void *const *parameters) {
    const args *a = parameters[0];
    ran r = {(uintptr_t)function, blocks, 0};
    for (int i = 0; i < ARGS; i++) r.sum += a->value[i] * (uint64_t)(i + 1);
    return r;
}

static CUresult launch_kernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **parameters,
                              void **extra) {
    (void)y, (void)z, (void)block_x, (void)block_y, (void)block_z, (void)shared, (void)stream, (void)extra;
    if ((uintptr_t)function == (uintptr_t)seen.fails_kernel) return CUDA_ERROR_INVALID_VALUE;
    ran r = ran_of(function, x, parameters);
    run(&r);
    seen.launches++;
    return CUDA_SUCCESS;
}
static CUresult graph_create(CUgraph *out, unsigned flags) {
    (void)flags;
    if (is_bad("cuGraphCreate")) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = calloc(1, sizeof **out);
    seen.live++;
    return CUDA_SUCCESS;
}
static CUresult graph_destroy(CUgraph graph) {
    free(graph);
    seen.live--;
    return CUDA_SUCCESS;
}
static CUresult add_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
                         const CUDA_KERNEL_NODE_PARAMS *node) {
    if (is_bad("cuGraphAddKernelNode")) return CUDA_ERROR_INVALID_VALUE;
    assert_true(graph->count < NODES_MAX && count == (graph->count > 0));
    if (count) assert_ptr_equal(before[0], &graph->node[graph->count - 1]); /* a chain */
    assert_true(node->blockDimX == 128 && node->blockDimY == 1 && node->blockDimZ == 1 && node->gridDimY == 1);
    *out = &graph->node[graph->count++];
    (*out)->ran = ran_of(node->func, node->gridDimX, node->kernelParams);
    return CUDA_SUCCESS;
}
static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    (void)flags;
    if (is_bad("cuGraphInstantiateWithFlags")) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = calloc(1, sizeof **out);
    (*out)->of = graph;
    (*out)->count = graph->count;
    for (int i = 0; i < graph->count; i++) (*out)->ran[i] = graph->node[i].ran;
    seen.made++;
    seen.live++;
    seen.free_bytes -= 1000;
    return CUDA_SUCCESS;
}
static CUresult exec_destroy(CUgraphExec exec) {
    free(exec);
    seen.live--;
    return CUDA_SUCCESS;
}
static CUresult set_node(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
    if (is_bad("cuGraphExecKernelNodeSetParams")) return CUDA_ERROR_INVALID_VALUE;
    exec->ran[node - exec->of->node] = ran_of(params->func, params->gridDimX, params->kernelParams);
    seen.sets++;
    return CUDA_SUCCESS;
}
static CUresult graph_launch(CUgraphExec exec, CUstream stream) {
    (void)stream;
    if (is_bad("cuGraphLaunch")) return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < exec->count; i++) run(&exec->ran[i]);
    seen.graph_launches++;
    return CUDA_SUCCESS;
}
static CUresult param_info(CUfunction function, size_t index, size_t *offset, size_t *bytes) {
    (void)function, (void)index, (void)offset, (void)bytes;
    return CUDA_ERROR_INVALID_VALUE;
}
static CUresult mem_info(size_t *free_bytes, size_t *total) {
    *free_bytes = seen.free_bytes;
    *total = 1 << 30;
    return CUDA_SUCCESS;
}

static const ls_cuda_driver driver = {.cuLaunchKernel = launch_kernel,
                                      .cuMemGetInfo = mem_info,
                                      .cuFuncGetParamInfo = param_info,
                                      .cuGraphCreate = graph_create,
                                      .cuGraphDestroy = graph_destroy,
                                      .cuGraphAddKernelNode = add_node,
                                      .cuGraphInstantiateWithFlags = instantiate,
                                      .cuGraphExecDestroy = exec_destroy,
                                      .cuGraphExecKernelNodeSetParams = set_node,
                                      .cuGraphLaunch = graph_launch};
static const CUstream streams[LS_QUEUES];

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static ran expected[RUNS_MAX];
static int expected_count;

static ls_cuda_graphs *open_graphs(void) {
    memset(&seen, 0, sizeof seen);
    seen.fails_kernel = NO_CALL;
    seen.free_bytes = 1 << 20;
    expected_count = 0;
    ls_cuda_graphs *g = ls_cuda_graphs_open(&driver, streams);
    assert_non_null(g);
    return g;
}

static CUresult launch(ls_cuda_graphs *g, int queue, int kernel, unsigned blocks, uint64_t argument) {
    const char *name;
    args a = {{argument, argument * 3, argument + 7}};
    a.value[ARGS - 1] = argument ^ 5;
    void *parameters[1] = {&a};
    const ls_cuda_start start = {
        .function = (CUfunction)(uintptr_t)kernel, .name = "a kernel", .grid = {blocks, 1, 1}, .threads = 128};
    expected[expected_count++] = ran_of(start.function, blocks, parameters);
    CUresult result = ls_cuda_graphs_add(g, queue, &start, &a, sizeof a, &name);
    memset(&a, 0, sizeof a); /* they were copied */
    return result;
}

static CUresult flush(ls_cuda_graphs *g, int queue) {
    const char *name;
    return ls_cuda_graphs_flush(g, queue, &name);
}

static void check_runs(void) {
    assert_int_equal(seen.runs, expected_count);
    for (int i = 0; i < seen.runs; i++)
        if (seen.run[i].kernel != expected[i].kernel || seen.run[i].blocks != expected[i].blocks ||
            seen.run[i].sum != expected[i].sum)
            fail_msg("launch %d is not what was asked for", i);
}

/* Two layers of the same kernels on other tensors, then more launches than a batch has; one argument is the step's. */
static void step(ls_cuda_graphs *g, uint64_t number) {
    for (uint64_t layer = 0; layer < 2; layer++) {
        for (int k = 1; k <= 10; k++)
            assert_int_equal(launch(g, 0, k, 5, k == 7 ? 1000 * number : 100 * layer + (uint64_t)k), CUDA_SUCCESS);
        assert_int_equal(flush(g, 0), CUDA_SUCCESS);
    }
    for (int k = 1; k <= LS_CUDA_BATCH + 20; k++)
        assert_int_equal(launch(g, 0, k, (unsigned)k, (uint64_t)k), CUDA_SUCCESS);
    for (int k = 1; k <= 3; k++) assert_int_equal(launch(g, 0, k, 1, 1), CUDA_SUCCESS);
    assert_int_equal(flush(g, 0), CUDA_SUCCESS);
    check_runs();
}

static void test_steps(void **state) {
    (void)state;
    ls_cuda_graphs *g = open_graphs();
    step(g, 1);
    assert_int_equal(seen.graph_launches, 0);
    step(g, 2);
    assert_int_equal(seen.made, 4); /* a layer each, a full batch, and the rest */
    assert_int_equal(ls_cuda_graphs_bytes(g), 4000);
    int launches = seen.launches, sets = seen.sets;
    for (uint64_t i = 3; i < 10; i++) step(g, i);
    assert_int_equal(seen.launches, launches); /* none by itself any more */
    assert_int_equal(seen.sets - sets, 2 * 7); /* what changed and nothing else */
    assert_int_equal(seen.made, 4);
    ls_cuda_graphs_close(g);
    assert_int_equal(seen.live, 0);
}

/* Another grid is another graph, as are other kernels and another queue. */
static void test_others(void **state) {
    (void)state;
    ls_cuda_graphs *g = open_graphs();
    for (int turn = 0; turn < 3; turn++)
        for (int other = 0; other < 3; other++) {
            for (int k = 1; k <= 8; k++)
                assert_int_equal(launch(g, other == 2, k + 8 * (other == 1 && k == 8), other ? 5 : 6, 1), CUDA_SUCCESS);
            assert_int_equal(flush(g, other == 2), CUDA_SUCCESS);
            check_runs();
        }
    assert_int_equal(seen.made, 3);
    assert_int_equal(seen.sets, 0);
    ls_cuda_graphs_close(g);
}

/* Batches that never come again are no graphs; nor do they drive out those that do. */
static void test_new_ones(void **state) {
    (void)state;
    ls_cuda_graphs *g = open_graphs();
    for (uint64_t i = 0; i < 500; i++) {
        for (int k = 1; k <= 8; k++) assert_int_equal(launch(g, 0, k, 1, 1000 * i + (uint64_t)k), CUDA_SUCCESS);
        assert_int_equal(flush(g, 0), CUDA_SUCCESS);
        for (int k = 1; k <= 8; k++) assert_int_equal(launch(g, 0, k, 2, (uint64_t)k), CUDA_SUCCESS);
        assert_int_equal(flush(g, 0), CUDA_SUCCESS);
    }
    check_runs();
    assert_int_equal(seen.made, 1);
    assert_int_equal(seen.graph_launches, 499);
    ls_cuda_graphs_close(g);
    assert_int_equal(seen.live, 0);
}

/* Whatever fails in graphs, all launches are made, and graphs are not tried again. */
static void test_fallback(void **state) {
    (void)state;
    static const char *const calls[] = {"cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiateWithFlags",
                                        "cuGraphExecKernelNodeSetParams", "cuGraphLaunch"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        ls_cuda_graphs *g = open_graphs();
        seen.fails = calls[i];
        for (uint64_t number = 1; number < 5; number++) step(g, number);
        seen.fails = NULL;
        int before = seen.graph_launches;
        for (uint64_t number = 5; number < 9; number++) step(g, number);
        assert_int_equal(seen.graph_launches, before);
        ls_cuda_graphs_close(g);
        assert_int_equal(seen.live, 0);
    }
}

/* A kernel that cannot be launched is named, by every call from then on, and nothing behind it runs. */
static void test_failure(void **state) {
    (void)state;
    ls_cuda_graphs *g = open_graphs();
    const char *name = NULL;
    seen.fails_kernel = 3;
    for (int k = 1; k <= 8; k++) assert_int_equal(launch(g, 0, k, 1, 1), CUDA_SUCCESS);
    assert_int_equal(seen.runs, 0);
    assert_int_equal(ls_cuda_graphs_flush(g, 0, &name), CUDA_ERROR_INVALID_VALUE);
    assert_string_equal(name, "a kernel");
    seen.fails_kernel = NO_CALL;
    assert_int_equal(ls_cuda_graphs_flush(g, 1, &name), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch(g, 0, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(seen.runs, 2);
    ls_cuda_graphs_close(g);
}

static void test_without(void **state) {
    (void)state;
    ls_cuda_driver old = driver;
    old.cuGraphExecKernelNodeSetParams = NULL;
    assert_null(ls_cuda_graphs_open(&old, streams));
    ls_cuda_graphs_close(NULL);
    assert_int_equal(ls_cuda_graphs_bytes(NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),    cmocka_unit_test(test_others),  cmocka_unit_test(test_new_ones),
        cmocka_unit_test(test_fallback), cmocka_unit_test(test_failure), cmocka_unit_test(test_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
