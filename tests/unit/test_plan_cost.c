/* test_plan_cost.c: single operations of the cost model against values worked out by hand, parameters and FLOPs against
 * published counts, chips, links and programs by the names that people write. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "config/options.h"
#include "model/model.h"
#include "model/shape_file.h"
#include "plan/cost/cost_case.h"

static void near_to(const char *what, double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance * fabs(expected)))
        fail_msg("%s: %.9g, expected %.9g within %g", what, got, expected, tolerance);
}

static ls_chip chip_named(const char *name) {
    ls_chip chip;
    if (ls_chip_find(name, &chip) != LS_OK) fail_msg("%s", ls_status_message());
    return chip;
}

static ls_link link_named(const char *name) {
    ls_link link;
    if (ls_link_find(name, &link) != LS_OK) fail_msg("%s", ls_status_message());
    return link;
}

static ls_shape gpt(size_t L, size_t C, size_t H, size_t V) {
    return (ls_shape){.arch = LS_ARCH_GPT2,
                      .L = L,
                      .C = C,
                      .H = H,
                      .V = V,
                      .kv_heads = H,
                      .head_size = C / H,
                      .hidden = 4 * C,
                      .T = 2048,
                      .tied = true};
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

/* A chip with round numbers: 100 units, 1e12 FLOPs a second all of them reached, 1e11 bytes a second. */
static ls_chip round_chip(void) {
    return (ls_chip){.peak_flops = {1e12, 1e12, 1e12, 1e12},
                     .share = {1, 1, 1, 1},
                     .units = 100,
                     .gemm_fill = 64,
                     .attention_share = .5,
                     .attention_back_share = .4,
                     .memory_bandwidth = 1e11,
                     .bandwidth_share = 1,
                     .launch_seconds = 1e-6,
                     .memory_bytes = 1e12};
}

static void test_product(void **state) {
    (void)state;
    ls_chip chip = round_chip();
    /* 1280 × 2560 in tiles of 128 × 256: 10 × 10, one for each unit: nothing is wasted but the fill of the depth. */
    double flops = 2. * 1280 * 2560 * 1024, bytes = 2. * (1280. * 1024 + 1024. * 2560 + 1280. * 2560);
    double expected = flops / (1e12 * 1024 / (1024 + 64)) + .7 * bytes / 1e11;
    near_to("a product that fills the chip", ls_plan_matmul_seconds(&chip, LS_PLAN_BF16, 1280, 2560, 1024, 1), expected,
            1e-12);
    /* One row more, too little depth to be cut, makes a second round of which a tenth is used; tiles of 128 × 128, two
     * at a time, do: 11 × 20 of 200 are two rounds as well; tiles of 64 × 64, six at a time: 21 × 40 = 840 of 1200 in 2
     * rounds of 600. */
    double share256 = 110. / 200 * 1281 / (11 * 128.), share128 = .95 * 220. / 400 * 1281 / (11 * 128.),
           share64 = .62 * 840. / 1200 * 1281 / (21 * 64.);
    double best = share256 > share128 ? share256 : share128;
    if (share64 > best) best = share64;
    bytes = 2. * (1281. * 512 + 512. * 2560 + 1281. * 2560);
    expected = 2. * 1281 * 2560 * 512 / (1e12 * best * 512 / (512 + 64)) + .7 * bytes / 1e11;
    near_to("a product with one row more", ls_plan_matmul_seconds(&chip, LS_PLAN_BF16, 1281, 2560, 512, 1), expected,
            1e-12);
    /* 5 × 5 tiles leave three units of four idle; cut in four there is one for each, and four results are added up. */
    bytes = 2. * (640. * 8192 + 8192. * 1280 + 640. * 1280);
    expected = 2. * 640 * 1280 * 8192 / (1e12 * 2048 / (2048 + 64)) + 8. * 640 * 1280 * 4 / 1e11 + .7 * bytes / 1e11;
    near_to("a product of few tiles", ls_plan_matmul_seconds(&chip, LS_PLAN_BF16, 640, 1280, 8192, 1), expected, 1e-12);
    /* 100 products of one tile each are one round; fp32 elements have four bytes. */
    bytes = 4. * (128. * 64 + 64. * 256 + 128. * 256) * 100;
    expected = 2. * 128 * 256 * 64 * 100 / (1e12 * .5) + .7 * bytes / 1e11;
    near_to("many small products", ls_plan_matmul_seconds(&chip, LS_PLAN_FP32, 128, 256, 64, 100), expected, 1e-12);
    near_to("a pass", ls_plan_pass_seconds(&chip, 5e10), .5, 1e-12);
}

/* A large GEMM on an A100 is measured at 230 to 260 TFLOP/s, on an H100 at 600 to 700. */
static void test_product_rates(void **state) {
    (void)state;
    ls_chip a100 = chip_named("A100"), h100 = chip_named("H100");
    double flops = 2. * 8192 * 8192 * 8192;
    double a = flops / ls_plan_matmul_seconds(&a100, LS_PLAN_BF16, 8192, 8192, 8192, 1) / 1e12;
    double h = flops / ls_plan_matmul_seconds(&h100, LS_PLAN_BF16, 8192, 8192, 8192, 1) / 1e12;
    if (a < 215 || a > 265) fail_msg("A100: %.0f TFLOP/s", a);
    if (h < 520 || h > 720) fail_msg("H100: %.0f TFLOP/s", h);
}

static ls_plan_task round_task(const ls_knobs *layout, int node) {
    ls_plan_task task = {.seq = 1024, .global_batch = 1024};
    task.shape = gpt(12, 1024, 16, 51200);
    task.cluster.sites = 1;
    ls_site *site = &task.cluster.site[0];
    site->chip = round_chip();
    site->chips = ls_plan_chips(layout);
    site->node = node;
    site->inside = (ls_link){"inside", "", 1e11, .5, 10e-6, 1e-6, 0, false};
    site->between = (ls_link){"between", "", 1e10, .8, 20e-6, 3e-6, 0, false};
    if (ls_stack_find("megatron", &task.stack) != LS_OK) fail_msg("%s", ls_status_message());
    return task;
}

static void test_collectives(void **state) {
    (void)state;
    ls_knobs layout = {.dp = 32, .tp = 1, .pp = 1, .virtual_stages = 1, .context = 1, .micro = 1};
    ls_plan_task task = round_task(&layout, 8);
    ls_plan_case c = ls_plan_case_of(&task, &layout);
    double bytes = 1e9;
    assert_true(ls_plan_collective_seconds(&c, LS_ALL_REDUCE, 1, 1, bytes) == 0);
    near_to("all-reduce in a node", ls_plan_collective_seconds(&c, LS_ALL_REDUCE, 8, 8, bytes),
            10e-6 + 8e-6 + 2 * 7. / 8 * bytes / (5e10 * (1 - .65 / 64)), 1e-12);
    near_to("all-gather in a node", ls_plan_collective_seconds(&c, LS_ALL_GATHER, 4, 4, bytes),
            10e-6 + 4e-6 + 3. / 4 * bytes / (5e10 * (1 - .65 / 16)), 1e-12);
    /* Four nodes, two of the group in each: two adapters of 8 GB/s are slower than the node's 50. */
    near_to("reduce-scatter over nodes", ls_plan_collective_seconds(&c, LS_REDUCE_SCATTER, 8, 2, bytes),
            20e-6 + 4 * 2 * 3e-6 + 7. / 8 * bytes / (1.6e10 * (1 - .65 / 64)), 1e-12);
    /* Eight adapters reach 64 GB/s, more than the node. */
    near_to("all-reduce over whole nodes", ls_plan_collective_seconds(&c, LS_ALL_REDUCE, 32, 8, bytes),
            20e-6 + 4 * 2 * 3e-6 + 2 * 31. / 32 * bytes / (5e10 * (1 - .65 / 1024)), 1e-12);
    near_to("a send between nodes", ls_plan_send_seconds(&c, 0, 8e6), 20e-6 + 1e-3, 1e-12);
}

/* Measured on A100 (NCCL's own tests): an all-reduce of 1 GB goes at 193, 218 and 227 GB/s of bus bandwidth. */
static void test_measured_collective(void **state) {
    (void)state;
    ls_knobs layout = {.dp = 8, .tp = 1, .pp = 1, .virtual_stages = 1, .context = 1, .micro = 1};
    ls_plan_task task = round_task(&layout, 8);
    task.cluster.site[0].inside = link_named("nvlink3");
    ls_plan_case c = ls_plan_case_of(&task, &layout);
    const double measured[][2] = {{2, 193e9}, {4, 218e9}, {8, 227e9}};
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        int n = (int)measured[i][0];
        double bytes = 1e9, seconds = ls_plan_collective_seconds(&c, LS_ALL_REDUCE, n, n, bytes);
        near_to("bus bandwidth of NVLink 3", bytes * 2 * (n - 1) / n / seconds, measured[i][1], .02);
    }
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Counted one by one: the fewest chips of any group that share a node with each other. */
static int fewest_by_hand(int node, int stride, int size, int chips) {
    int fewest = size;
    for (int first = 0; first < chips; first++) {
        if (first / stride % size != 0) continue;
        for (int at = 0; at < chips / node + 1; at++) {
            int here = 0;
            for (int i = 0; i < size; i++) here += (first + i * stride) / node == at;
            if (here > 0 && here < fewest) fewest = here;
        }
    }
    return fewest;
}

static void test_chips_of_a_group_in_a_node(void **state) {
    (void)state;
    assert_int_equal(ls_plan_inner(8, 1, 8), 8);
    assert_int_equal(ls_plan_inner(8, 2, 32), 4);
    assert_int_equal(ls_plan_inner(8, 8, 4), 1);
    assert_int_equal(ls_plan_inner(8, 16, 4), 1);
    assert_int_equal(ls_plan_inner(8, 1, 12), 4); /* 8 and 4, then 4 and 8 */
    assert_int_equal(ls_plan_inner(8, 1, 6), 2);  /* 6; 2 and 4; 4 and 2; 6 */
    for (int node = 1; node <= 8; node *= 2)
        for (int stride = 1; stride <= 8; stride *= 2)
            for (int size = 1; size <= 12; size++) {
                int chips = 8 * stride * size, got = ls_plan_inner(node, stride, size);
                int want = fewest_by_hand(node, stride, size, chips);
                if (got != want) fail_msg("node %d, %d chips %d apart: %d, not %d", node, size, stride, got, want);
            }
}

/* Every chip of a stage and its peer in the next one, by their places. */
static void test_borders_between_stages(void **state) {
    (void)state;
    const int meshes[][4] = {{1, 1, 16, 8}, {2, 2, 4, 8}, {1, 2, 8, 8}, {8, 1, 4, 8}, {2, 3, 4, 8}, {4, 1, 2, 8}};
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        const int *m = meshes[i];
        ls_knobs layout = {.dp = m[1], .tp = m[0], .pp = m[2], .virtual_stages = 1, .context = 1, .micro = 1};
        ls_plan_task task = round_task(&layout, m[3]);
        ls_plan_case c = ls_plan_case_of(&task, &layout);
        for (int s = 0; s < layout.pp; s++) {
            int row = layout.tp * layout.dp, next = (s + 1) % layout.pp;
            bool leaves = false;
            for (int r = 0; r < row; r++) leaves |= (s * row + r) / m[3] != (next * row + r) / m[3];
            if (ls_plan_border_leaves(&c, s) != leaves) fail_msg("mesh %zu, stage %d: not %d", i, s, leaves);
            near_to("a send", ls_plan_send_seconds(&c, s, 8e6), leaves ? 20e-6 + 1e-3 : 10e-6 + 2 * 8e6 / 5e10, 1e-12);
        }
    }
}

/* Twelve stages on two nodes: the way of a micro-batch crosses the network once. */
static void test_only_borders_of_nodes_are_slow(void **state) {
    (void)state;
    ls_knobs layout = {.dp = 1,
                       .tp = 1,
                       .pp = 12,
                       .virtual_stages = 1,
                       .context = 1,
                       .micro = 1,
                       .schedule = LS_SCHEDULE_NAIVE,
                       .type = LS_PLAN_BF16};
    double seconds[2];
    for (int i = 0; i < 2; i++) {
        ls_plan_task task = round_task(&layout, i == 0 ? 12 : 6);
        ls_prediction p;
        task.global_batch = 1;
        task.shape.tied = false;
        assert_int_equal(ls_plan_predict(&task, &layout, &p), LS_OK);
        seconds[i] = p.seconds;
    }
    double bytes = 2. * 1024 * 1024;
    near_to("two nodes, one node", seconds[1] - seconds[0], 2 * (10e-6 + bytes / 8e9 - 2 * bytes / 5e10), 1e-9);
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static void test_params(void **state) {
    (void)state;
    ls_shape gpt3 = gpt(96, 12288, 96, 51200), shape;
    near_to("GPT-3 175B", ls_model_count_params(&gpt3), 174.6e9, .002); /* Narayanan et al. 2021, table 1 */
    ls_shape one_t = gpt(128, 25600, 160, 51200);
    near_to("1T of Narayanan et al.", ls_model_count_params(&one_t), 1008.0e9, .002);
    static const struct {
        const char *name;
        double params;
    } known[] = {{"llama-8b", 8030261248},
                 {"llama-70b", 70553706496},
                 {"llama-1b", 1235814400},
                 {"gpt2-124m", 124439808},
                 {"gpt2-1558m", 1557611200}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (ls_shape_preset(known[i].name, &shape) != LS_OK) fail_msg("%s", ls_status_message());
        assert_true(ls_model_count_params(&shape) == known[i].params);
    }
}

static void test_model_flops(void **state) {
    (void)state;
    static const size_t sizes[][3] = {{96, 12288, 96}, {24, 2304, 24}, {128, 25600, 160}, {1, 64, 4}};
    for (size_t i = 0; i < 4; i++) {
        ls_shape shape = gpt(sizes[i][0], sizes[i][1], sizes[i][2], 51200);
        double L = (double)shape.L, h = (double)shape.C, s = 2048, B = 512, V = 51200;
        near_to("72·B·s·L·h²(1 + s/6h + V/12Lh)", ls_plan_model_flops(&shape, s, B),
                72 * B * s * L * h * h * (1 + s / (6 * h) + V / (12 * L * h)), 1e-12);
    }
    /* 6 × parameters × tokens, without the attention and the embedding, which is looked up. */
    ls_shape llama;
    if (ls_shape_preset("llama-70b", &llama) != LS_OK) fail_msg("%s", ls_status_message());
    near_to("6·N·tokens of Llama 70B", ls_plan_model_flops(&llama, 1, 1), 6 * (70.554e9 - 128256. * 8192), .001);
}

/* The heaviest of the kinds of state: 18 bytes a parameter with fp32 gradients, 16 with those of 2021. */
static void test_state_bytes(void **state) {
    (void)state;
    ls_knobs layout = {.dp = 4,
                       .tp = 1,
                       .pp = 1,
                       .virtual_stages = 1,
                       .context = 1,
                       .micro = 1,
                       .schedule = LS_SCHEDULE_1F1B,
                       .type = LS_PLAN_BF16};
    ls_plan_task task = round_task(&layout, 8);
    double params = 12 * (12. * 1024 * 1024 + 4 * 1024) + 51200. * 1024;
    static const double per_param[] = {18, 6 + 12 / 4., 2 + 16 / 4.};
    for (int zero = 0; zero < 3; zero++) {
        ls_prediction p;
        layout.zero = zero;
        if (ls_plan_predict(&task, &layout, &p) != LS_OK) fail_msg("%s", ls_status_message());
        near_to("bytes of state",
                p.memory[LS_MEMORY_WEIGHTS] + p.memory[LS_MEMORY_GRADIENTS] + p.memory[LS_MEMORY_OPTIMIZER],
                per_param[zero] * params, .001);
    }
}

/* Three stages of equal chunks and hardly anything else: the step is m + p − 1 micro-batches. */
static void test_bubble(void **state) {
    (void)state;
    ls_knobs layout = {.dp = 1,
                       .tp = 1,
                       .pp = 3,
                       .virtual_stages = 1,
                       .context = 1,
                       .micro = 1,
                       .schedule = LS_SCHEDULE_1F1B,
                       .type = LS_PLAN_BF16};
    ls_plan_task task = round_task(&layout, 8);
    task.shape.V = 128;
    task.global_batch = 6;
    task.cluster.site[0].inside = (ls_link){"", "", 1e18, 1, 0, 0, 0, false};
    for (int i = 0; i < 2; i++) {
        ls_prediction p;
        if (i == 1) layout.schedule = LS_SCHEDULE_NAIVE;
        if (ls_plan_predict(&task, &layout, &p) != LS_OK) fail_msg("%s", ls_status_message());
        double busy = p.time[LS_TIME_MATMUL] + p.time[LS_TIME_ATTENTION] + p.time[LS_TIME_SMALL];
        near_to(i ? "idle with one micro-batch at a time" : "bubble", p.time[LS_TIME_BUBBLE],
                i ? 2 * busy : busy * 2 / 6, .01);
        assert_true(p.time[LS_TIME_P2P] < 1e-6);
    }
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void test_chip_names(void **state) {
    (void)state;
    static const char *const spellings[][2] = {{"A100", "A100-80GB-SXM"},
                                               {"a100-80gb", "A100-80GB-SXM"},
                                               {"A100 80GB SXM4", "A100-80GB-SXM"},
                                               {"A100-SXM (80 GB)", "A100-80GB-SXM"},
                                               {"a100 40gb", "A100-40GB-SXM"},
                                               {"A100 PCIe", "A100-80GB-PCIe"},
                                               {"H100", "H100-80GB-SXM"},
                                               {"H100 SXM5", "H100-80GB-SXM"},
                                               {"h100_pcie", "H100-80GB-PCIe"},
                                               {"H200", "H200-141GB-SXM"},
                                               {"B200", "B200-180GB"},
                                               {"GB200 NVL72", "GB200-NVL72"},
                                               {"V100", "V100-32GB-SXM"},
                                               {"MI300X", "MI300X-192GB"},
                                               {"mi300x-192gb", "MI300X-192GB"}};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
        assert_string_equal(chip_named(spellings[i][0]).name, spellings[i][1]);
    for (int i = 0; ls_chip_row(i); i++) {
        const ls_chip found = chip_named(ls_chip_row(i)->name), *row = &found;
        assert_string_equal(row->name, ls_chip_row(i)->name);
        assert_true(row->memory_bytes > 1e9 && row->memory_bandwidth > 1e9 && row->units >= 1 && row->source[0]);
        assert_true(row->reserved_bytes < row->memory_bytes && row->bandwidth_share <= 1);
        for (int t = 0; t < LS_PLAN_TYPES; t++) {
            assert_true(row->share[t] <= 1 && ls_plan_rate(row, (ls_plan_type)t) > 0);
            assert_true(ls_plan_rate(row, (ls_plan_type)t) >= ls_plan_rate(row, LS_PLAN_FP32) || row->is_cpu);
        }
    }
    ls_chip chip;
    assert_int_equal(ls_chip_find("TPU v4", &chip), LS_ERR_INPUT);
    for (int i = 0; ls_chip_row(i); i++) assert_non_null(strstr(ls_status_message(), ls_chip_row(i)->name));
    assert_non_null(strstr(ls_status_message(), "TPU v4"));
    assert_int_equal(ls_chip_find("", &chip), LS_ERR_INPUT);
    ls_cluster cluster;
    assert_int_equal(ls_cluster_of("H100", 64, 0, &cluster), LS_OK);
    assert_int_equal(cluster.site[0].node, 8);
    assert_int_equal(ls_cluster_chips(&cluster), 64);
}

static void test_link_names(void **state) {
    (void)state;
    near_to("HDR", link_named("HDR").bandwidth, 25e9, 0);
    near_to("NVLink 3", link_named("NVLink3").bandwidth, 300e9, 0);
    near_to("100 Gb Ethernet", link_named("100GbE").bandwidth, 12.5e9, 0);
    near_to("four of 25", link_named("4x25gbe").bandwidth, 12.5e9, 0);
    near_to("a half", link_named("0.5xndr").bandwidth, 25e9, 0);
    assert_string_equal(link_named("4X100GbE").name, "4X100GbE");
    near_to("Omni-Path", link_named("OmniPath").bandwidth, 12.5e9, 0);
    for (int i = 0; ls_link_row(i); i++) {
        const ls_link found = link_named(ls_link_row(i)->name), *row = &found;
        near_to(row->name, link_named(row->name).bandwidth, row->bandwidth, 0);
        assert_true(row->share > 0 && row->share <= 1 && row->latency_seconds > 0 && row->source[0]);
    }
    ls_link link;
    static const char *const wrong[] = {"token ring", "", "0x100gbe", "-2xhdr", "100xhdr", "4x", "nan", "infxhdr"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (ls_link_find(wrong[i], &link) != LS_ERR_INPUT) fail_msg("the link \"%s\" was found", wrong[i]);
    for (int i = 0; ls_link_row(i); i++) assert_non_null(strstr(ls_status_message(), ls_link_row(i)->name));
}

static void test_stack_names(void **state) {
    (void)state;
    ls_stack stack;
    for (int i = 0; ls_stack_row(i); i++) {
        assert_int_equal(ls_stack_find(ls_stack_row(i)->name, &stack), LS_OK);
        assert_true(stack.what[0] && stack.source[0]);
    }
    assert_int_equal(ls_stack_find("jax", &stack), LS_ERR_INPUT);
    for (int i = 0; ls_stack_row(i); i++) assert_non_null(strstr(ls_status_message(), ls_stack_row(i)->name));
    /* The help of --stack has the table, in its order and nothing else. */
    char list[256] = "";
    for (int i = 0; ls_stack_row(i); i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : ": ", ls_stack_row(i)->name);
    const char *help = strchr(ls_option_info_get(LS_OPT_stack)->help, ':');
    assert_non_null(help);
    assert_string_equal(help, list);
    for (int type = 0; type < LS_PLAN_TYPES; type++)
        assert_string_not_equal(ls_plan_type_name((ls_plan_type)type), "unknown");
}

/* ---- layouts that cannot be -------------------------------------------------------------------------------------- */

static void refuse(ls_knobs layout, size_t batch, const char *word) {
    ls_knobs good = {.dp = 2, .tp = 2, .pp = 2, .virtual_stages = 1, .context = 1, .micro = 1};
    ls_plan_task task = round_task(&good, 8);
    if (batch) task.global_batch = batch;
    if (ls_plan_check(&task, &layout) != LS_ERR_INPUT) fail_msg("not refused: %s", word);
    if (!strstr(ls_status_message(), word)) fail_msg("\"%s\" does not say %s", ls_status_message(), word);
}

/* Eight ways for two key heads: each has a copy of one, as if there were eight. */
static void test_key_heads_are_whole(void **state) {
    (void)state;
    ls_knobs layout = {.dp = 1, .tp = 8, .pp = 1, .virtual_stages = 1, .context = 1, .micro = 1, .type = LS_PLAN_BF16};
    ls_plan_task task = round_task(&layout, 8), as_many = task;
    ls_prediction few, many;
    task.shape.kv_heads = 2;
    as_many.shape.kv_heads = 8;
    ls_plan_case c = ls_plan_case_of(&task, &layout);
    near_to("columns of keys", c.keys, 8 * 64, 1e-12);
    near_to("parameters of a way", ls_plan_layer_params(&c), (1024. * (1024 + 2 * 512) + 1024. * 1024 * 9) / 8 + 4096,
            1e-12);
    assert_int_equal(ls_plan_check(&task, &layout), LS_OK);
    assert_int_equal(ls_plan_predict(&task, &layout, &few), LS_OK);
    assert_int_equal(ls_plan_predict(&as_many, &layout, &many), LS_OK);
    assert_true(few.seconds == many.seconds && few.memory_bytes == many.memory_bytes);
    task.shape.kv_heads = 3;
    assert_int_equal(ls_plan_check(&task, &layout), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "3 key/value heads"));
}

static void test_refused(void **state) {
    (void)state;
    const ls_knobs good = {
        .dp = 2, .tp = 2, .pp = 2, .virtual_stages = 1, .context = 1, .micro = 1, .schedule = LS_SCHEDULE_1F1B};
    ls_knobs l;
    refuse((l = good, l.dp = 0, l), 0, "dp is 0");
    refuse((l = good, l.pp = -1, l), 0, "pp is -1");
    refuse((l = good, l.micro = 0, l), 0, "micro-batch");
    refuse((l = good, l.zero = 4, l), 0, "zero is 4");
    refuse((l = good, l.tp = 3, l), 0, "16 attention heads");
    refuse((l = good, l.dp = 4, l), 0, "the cluster has 8");
    refuse((l = good, l.virtual_stages = 2, l), 0, "interleaved");
    refuse((l = good, l.pp = 13, l), 0, "12 layers");
    refuse((l = good, l.micro = 8, l), 15, "global batch of at least 16");
    refuse((l = good, l.tp = 1, l.sequence_parallel = true, l), 0, "sequence parallelism");
    refuse((l = good, l.schedule = LS_SCHEDULE_GPIPE, l), 1 << 24, "simulated");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product),
        cmocka_unit_test(test_product_rates),
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_measured_collective),
        cmocka_unit_test(test_chips_of_a_group_in_a_node),
        cmocka_unit_test(test_borders_between_stages),
        cmocka_unit_test(test_only_borders_of_nodes_are_slow),
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_model_flops),
        cmocka_unit_test(test_state_bytes),
        cmocka_unit_test(test_bubble),
        cmocka_unit_test(test_chip_names),
        cmocka_unit_test(test_link_names),
        cmocka_unit_test(test_stack_names),
        cmocka_unit_test(test_key_heads_are_whole),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
