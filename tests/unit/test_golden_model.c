/* test_golden_model.c: whole models against PyTorch in float64, from files, and their bits, recorded.
 *
 * tests/parity/make_golden.py made the files: weights, tokens, loss, every gradient, and the weights after three steps
 * of AdamW. Here each model runs with several numbers of groups and slices, which change bits, and for each of them
 * with every ISA, micro-batch sizes and threads, which do not:
 *
 *     numbers   near those of the file (1e-5 of a gradient's length, 1e-3 of what a weight moved)
 *     bits      the hashes below, on ARM64 and on x86-64
 *
 * A hash that changes means that numbers of training runs change: then the arithmetic version of
 * docs/reference/arithmetic.md changes too. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/fpenv.h"
#include "base/hash.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "device/cpu/kernels.h"
#include "model/model.h"
#include "model/shape_file.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "parallel/partition/partition.h"
#include "sample.h"

#define FOLDER "tests/parity/golden/"

enum { PARAMS_MAX = 64, ELEMS_MAX = 1 << 14, IDS_MAX = 1 << 10, STEPS = 3, INIT_SEED = 5 };

static const double loss_limit = 1e-6, grad_limit = 1e-5, moved_limit = 1e-3;

/* Hashes of the gradients of all parameters, of the weights after STEPS steps, and of initial weights. */
typedef struct golden {
    const char *file;
    int G, S;
    const char *grads, *weights, *initial;
} golden;

static const golden cases[] = {
    {"gpt2-tied", 1, 1, "627d20e393f188560e812b53aa79bd03", "ac24b4c1817b185d072e2952db26bfbf",
     "2c4f6138a78de4f49a0876db500a5c27"},
    {"gpt2-tied", 4, 4, "b80bb9e5d5e782c43c9332a6f18a82df", "1373a686f76d673c522cd3fcd4fe64a5",
     "3898a25b5c2fdbdcd04c60aff09f58ef"},
    {"gpt2-untied-odd", 1, 2, "a3a70dde45e9638d5c04d2b4d47b9318", "5a205b85557bcd894a4cd2b149b480c7",
     "99d4345cd198a2840b7de5987ba675b2"},
    {"gpt2-untied-odd", 3, 1, "9aabc1afd305ef4541bd1ed02412a4e4", "6d8d4f2d607e635a31e7734b2fc19487",
     "676928e21238f47e7941665db6eb2a65"},
    {"llama-grouped", 5, 1, "199ba1c449deac5dad61aeadc89b062b", "b9231e487043e3ce4adde5d3a68d67c5",
     "50436fd067fb8fa63a0ef865cdf1f38d"},
    {"llama-grouped", 2, 2, "211deee4ebb2fe680c29a009c856e586", "38579eee2c97e76ef1fc3e2301f2e800",
     "27ce008ee69bed751f4068981d5537c6"},
    {"llama-tied-rope", 1, 1, "03333f2dcc66319e1339c232538e7d54", "eb347ef798b24051b73a484ccfd9ea14",
     "d9182cb7f2b1a123d8348ef1843c832c"},
    {"llama-tied-rope", 4, 4, "14a236297e8239dba39badb6a1ac5690", "27743d1e78e6f3a5c58e954617453181",
     "c04933cbe6102df01f4f707d71dc368b"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

typedef struct fixture {
    const golden *golden;
    ls_safetensors *file;
    json_t *about;
    ls_shape shape;
    size_t B, T;
    int32_t ids[IDS_MAX], targets[IDS_MAX];
    ls_model *model;
    ls_device *device;
    ls_partition *partition;
    const char *layout;
    int wrong;
} fixture;

static void must(ls_status status) {
    if (status != LS_OK) fail_msg("%s", ls_status_message());
}

static double number(const fixture *f, const char *key) {
    double value = 0;
    must(ls_json_get_f64(f->about, key, &value));
    return value;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void read_tokens(fixture *f) {
    const ls_safetensor *tensor = ls_safetensors_find(f->file, "tokens");
    int64_t all[2 * IDS_MAX];
    assert_non_null(tensor);
    assert_true(tensor->dtype == LS_I64 && tensor->dims == 2 && tensor->bytes <= sizeof all);
    must(ls_safetensor_read(tensor, 0, all, tensor->bytes));
    f->B = (size_t)tensor->shape[0];
    f->T = (size_t)tensor->shape[1] - 1;
    assert_true(f->B * f->T <= IDS_MAX);
    for (size_t i = 0; i < f->B * f->T; i++) {
        size_t at = i / f->T * (f->T + 1) + i % f->T;
        f->ids[i] = (int32_t)all[at];
        f->targets[i] = (int32_t)all[at + 1];
    }
}

static void open_file(fixture *f, const char *name) {
    char path[128];
    json_t *shape;
    snprintf(path, sizeof path, FOLDER "%s.safetensors", name);
    must(ls_safetensors_open(path, &f->file));
    const char *text = ls_safetensors_metadata_find(f->file, "golden");
    assert_non_null(text);
    must(ls_json_load_text(path, text, strlen(text), &f->about));
    must(ls_json_get_object(f->about, "shape", &shape));
    must(ls_shape_from_json(shape, path, &f->shape));
    read_tokens(f);
}

static void close_file(fixture *f) {
    json_decref(f->about);
    ls_safetensors_close(f->file);
}

/* "grad/blocks.0.attn.qkv.weight" of the file, in canonical order. */
static const float *read_tensor(const fixture *f, const char *kind, const ls_param *p, float *to) {
    char name[LS_PARAM_NAME_MAX + 16];
    int64_t shape[2] = {(int64_t)p->rows, (int64_t)p->columns};
    const ls_safetensor *tensor;
    assert_true(ls_param_elems(p) <= ELEMS_MAX);
    snprintf(name, sizeof name, "%s/%s", kind, p->name);
    must(ls_safetensors_need(f->file, name, p->kind == LS_PARAM_VECTOR ? 1 : 2, shape, &tensor));
    must(ls_safetensor_read(tensor, 0, to, ls_param_elems(p) * sizeof *to));
    return to;
}

/* ---- a model ----------------------------------------------------------------------------------------------------- */

static void open_model(fixture *f, const ls_kernels *kernels, int threads, size_t micro) {
    const golden *g = f->golden;
    ls_partition_setup setup = {.train = true, .B = f->B, .T = f->T, .G = g->G, .moments = 2};
    must(ls_model_create(&f->shape, g->S, &f->model));
    ls_layout_task task = {.model = f->model, .B = f->B, .T = f->T, .G = g->G};
    setup.layout = ls_layout_one(&task, micro);
    must(ls_device_open_cpu(threads, NULL, kernels, &f->device));
    must(ls_partition_create(f->model, f->device, &setup, &f->partition));
}

static void close_model(fixture *f) {
    ls_partition_destroy(f->partition);
    ls_device_destroy(f->device);
    ls_model_destroy(f->model);
}

static void load_weights(fixture *f) {
    static float host[ELEMS_MAX];
    for (int i = 0; i < ls_model_params(f->model); i++) {
        const ls_param *p = ls_model_param(f->model, i);
        must(ls_partition_write(f->partition, p, LS_TENSOR_WEIGHT, 0, ls_param_elems(p),
                                read_tensor(f, "weight", p, host)));
    }
}

static ls_status feed(void *ctx, size_t begin, size_t end, int32_t *ids, int32_t *targets) {
    const fixture *f = ctx;
    memcpy(ids, f->ids + begin * f->T, (end - begin) * f->T * sizeof *ids);
    memcpy(targets, f->targets + begin * f->T, (end - begin) * f->T * sizeof *targets);
    return LS_OK;
}

static double run_batch(fixture *f, uint64_t step) {
    ls_loss_sum loss = {0};
    float start = ls_clip_backward_start((int64_t)(f->B * f->T), 0);
    must(ls_partition_step(f->partition, step, start, &(ls_partition_feed){.read = feed, .ctx = f}));
    must(ls_partition_losses(f->partition, &loss));
    assert_int_equal(loss.bad, 0);
    return ls_loss_sum_mean(&loss);
}

static void update(fixture *f, ls_adamw_powers *powers, int64_t updates) {
    ls_optimizer optimizer = {.kind = LS_OPTIMIZER_ADAMW, .weight_decay = number(f, "decay")};
    ls_exact_sum squares = {0};
    optimizer.adamw =
        (ls_adamw_options){.beta1 = number(f, "beta1"), .beta2 = number(f, "beta2"), .epsilon = number(f, "eps")};
    must(ls_partition_square_norm(f->partition, NULL, &squares, NULL));
    ls_clip clip = ls_clip_factor(ls_exact_sum_value(&squares), ls_exact_sum_non_finite(&squares),
                                  ls_clip_token_scale((int64_t)(f->B * f->T), 0), number(f, "clip"));
    assert_true(clip.finite && clip.clipped);
    ls_adamw_powers_move(powers, &optimizer.adamw, updates);
    ls_optimizer_update update = ls_optimizer_update_at(&optimizer, powers, number(f, "lr"), clip.factor);
    must(ls_optimizer_step(&update, f->device, &(ls_policy){0}, f->model));
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void report(fixture *f, const char *what, const char *name, double error) {
    print_error("%s, G %d, S %d, %s: %s of %s is off by %.2e\n", f->golden->file, f->golden->G, f->golden->S, f->layout,
                what, name, error);
    f->wrong++;
}

static void check_loss(fixture *f, double loss) {
    double error = fabs(loss - number(f, "loss")) / number(f, "loss");
    if (!(error <= loss_limit)) report(f, "the loss", "the model", error);
}

/* ‖scale·ours − reference‖ / ‖reference − origin‖; origin NULL: zero */
static double distance(const float *ours, double scale, const float *reference, const float *origin, size_t n) {
    double off = 0, length = 0;
    for (size_t i = 0; i < n; i++) {
        double d = scale * (double)ours[i] - (double)reference[i];
        double r = (double)reference[i] - (origin ? (double)origin[i] : 0);
        off += d * d;
        length += r * r;
    }
    assert_true(length > 0);
    return sqrt(off / length);
}

/* The hash of all gradients; their distances are looked at when `near` is asked for. */
static void check_grads(fixture *f, bool near, char hash[LS_HASH_TEXT_BYTES]) {
    static float ours[ELEMS_MAX], reference[ELEMS_MAX];
    ls_hash128 hashes[PARAMS_MAX];
    int count = ls_model_params(f->model);
    double scale = ls_clip_token_scale((int64_t)(f->B * f->T), 0);
    assert_true(count <= PARAMS_MAX);
    for (int i = 0; i < count; i++) {
        const ls_param *p = ls_model_param(f->model, i);
        size_t n = ls_param_elems(p);
        read_tensor(f, "grad", p, reference);
        must(ls_partition_read(f->partition, p, LS_TENSOR_GRAD, 0, n, ours));
        hashes[i] = ls_hash_f32(ours, n);
        double error = near ? distance(ours, scale, reference, NULL, n) : 0;
        if (!(error <= grad_limit)) report(f, "the gradient", p->name, error);
    }
    ls_hash_text(ls_hash_combine(hashes, (size_t)count), hash);
}

static void check_weights(fixture *f) {
    static float ours[ELEMS_MAX], reference[ELEMS_MAX], start[ELEMS_MAX];
    for (int i = 0; i < ls_model_params(f->model); i++) {
        const ls_param *p = ls_model_param(f->model, i);
        size_t n = ls_param_elems(p);
        read_tensor(f, "after", p, reference);
        read_tensor(f, "weight", p, start);
        must(ls_partition_read(f->partition, p, LS_TENSOR_WEIGHT, 0, n, ours));
        double error = distance(ours, 1, reference, start, n);
        if (!(error <= moved_limit)) report(f, "the weight", p->name, error);
    }
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

static void compare_hash(fixture *f, const char *what, const char *found, const char *expected) {
    if (strcmp(found, expected) == 0) return;
    print_error("%s, G %d, S %d, %s: %s have the hash %s\n", f->golden->file, f->golden->G, f->golden->S, f->layout,
                what, found);
    f->wrong++;
}

static void check_layout(fixture *f, bool near) {
    char hash[LS_HASH_TEXT_BYTES];
    ls_adamw_powers powers = {0};
    must(ls_partition_init_weights(f->partition, INIT_SEED));
    must(ls_partition_hash(f->partition, hash));
    compare_hash(f, "initial weights", hash, f->golden->initial);
    load_weights(f);
    assert_int_equal((int)number(f, "steps"), STEPS);
    for (int step = 0; step < STEPS; step++) {
        double loss = run_batch(f, (uint64_t)step);
        if (step == 0) {
            check_loss(f, loss);
            check_grads(f, near, hash);
            compare_hash(f, "gradients", hash, f->golden->grads);
        }
        update(f, &powers, step + 1);
    }
    if (near) check_weights(f);
    must(ls_partition_hash(f->partition, hash));
    compare_hash(f, "trained weights", hash, f->golden->weights);
}

static void check_isa(fixture *f, const ls_kernels *kernels) {
    static const int threads[] = {1, 3};
    size_t micros[] = {f->B, 1, 2, 3};
    for (size_t m = 0; m < sizeof micros / sizeof *micros; m += (size_t)sample_every(2)) {
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            char layout[64];
            snprintf(layout, sizeof layout, "%s, micro-batch %zu, %d threads", kernels->isa, micros[m], threads[t]);
            f->layout = layout;
            open_model(f, kernels, threads[t], micros[m]);
            check_layout(f, m == 0 && t == 0);
            close_model(f);
        }
    }
}

static void test_golden(void **state) {
    (void)state;
    static fixture f;
    int wrong = 0;
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        ls_kernels kernels;
        if (!ls_cpu_use((ls_isa)isa)) continue;
        ls_kernels_fill(&kernels, (2u << isa) - 1);
        print_message("kernels: %s\n", kernels.isa);
        for (int c = 0; c < N_CASES; c++) {
            f = (fixture){.golden = &cases[c]};
            open_file(&f, cases[c].file);
            check_isa(&f, &kernels);
            close_file(&f);
            wrong += f.wrong;
        }
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    ls_fpenv_set();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
