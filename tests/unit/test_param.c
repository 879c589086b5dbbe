/* Rows of parameters in memory and in canonical order, against a plain list made unit by unit; parameters by role. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/model.h"
#include "model/shape_file.h"
#include "nn/param.h"
#include "nn/shape.h"

enum { ROWS_MAX = 512 };

/* Canonical row of each row in memory: slices, in each the parts, in each the units. */
static size_t list_rows(const ls_param *p, int slices, size_t *canonical) {
    size_t count = 0;
    for (int s = 0; s < slices; s++) {
        size_t begin = p->units * (size_t)s / (size_t)slices, end = p->units * (size_t)(s + 1) / (size_t)slices;
        for (int part = 0; part < p->parts; part++)
            for (size_t unit = begin; unit < end; unit++)
                for (size_t r = 0; r < p->part[part].unit_rows; r++)
                    canonical[count++] = p->part[part].first_row + unit * p->part[part].unit_rows + r;
    }
    return count;
}

static ls_param fused(size_t units, int parts, const size_t *unit_rows) {
    size_t rows = 0;
    for (int i = 0; i < parts; i++) rows += units * unit_rows[i];
    ls_param p = ls_param_matrix("w", rows, 3, 0.02);
    p.split = true;
    p.units = units;
    p.parts = parts;
    size_t row = 0;
    for (int i = 0; i < parts; i++) {
        p.part[i] = (ls_param_part){row, unit_rows[i]};
        row += units * unit_rows[i];
    }
    return p;
}

static void check(const ls_param *p, int slices) {
    size_t canonical[ROWS_MAX], seen = 0;
    size_t count = list_rows(p, ls_param_slices(p, slices), canonical);
    ls_param_run run;
    assert_int_equal(count, p->rows);
    for (int i = 0; ls_param_run_get(p, slices, i, &run); i++) {
        assert_int_equal(run.memory_row, seen);
        for (size_t r = 0; r < run.rows; r++) assert_int_equal(canonical[seen + r], run.canonical_row + r);
        seen += run.rows;
    }
    assert_int_equal(seen, p->rows);
    assert_int_equal(ls_param_slice_row(p, slices, ls_param_slices(p, slices)), p->rows);
}

static void test_runs(void **state) {
    (void)state;
    for (size_t units = 1; units <= 25; units++)
        for (int slices = 1; slices <= 8; slices *= 2) {
            ls_param qkv = fused(units, 3, (size_t[]){6, 2, 2}), gated = fused(units, 2, (size_t[]){1, 1});
            ls_param plain = fused(units, 1, (size_t[]){4});
            check(&qkv, slices);
            check(&gated, slices);
            check(&plain, slices);
            plain.split = false;
            check(&plain, slices);
            assert_int_equal(ls_param_slices(&plain, slices), 1);
        }
}

/* The rows of neighbours in a row of workers follow on each other, and begin where a slice does. */
static void test_taking_slices(void **state) {
    (void)state;
    for (size_t units = 8; units <= 25; units++)
        for (int workers = 1; workers <= 8; workers *= 2) {
            ls_param p = fused(units, 3, (size_t[]){6, 2, 2}), whole = fused(units, 1, (size_t[]){4});
            size_t at = 0;
            whole.split = false;
            for (int t = 0; t < workers; t++) {
                int slices = 8 / workers;
                ls_param_take_slices(&p, 8, t * slices, slices);
                ls_param_take_slices(&whole, 8, t * slices, slices);
                assert_int_equal(p.first_row, at);
                assert_int_equal(p.first_row, units * (size_t)(t * slices) / 8 * 10);
                at += p.local_rows;
                assert_int_equal(p.own.begin + p.once.begin, 0);
                assert_int_equal(p.own.end, p.local_rows * 3);
                assert_int_equal(p.once.end, p.local_rows * 3);
                assert_int_equal(whole.first_row, 0);
                assert_int_equal(whole.local_rows, whole.rows);
            }
            assert_int_equal(at, p.rows);
        }
}

static void test_slice_begin_is_exact_for_large_numbers(void **state) {
    (void)state;
    size_t huge = SIZE_MAX - 5;
    for (int S = 1; S <= 64; S *= 2) {
        assert_int_equal(ls_slice_begin(huge, S, 0), 0);
        assert_int_equal(ls_slice_begin(huge, S, S), huge);
        if (S > 1) assert_int_equal(ls_slice_begin(huge, S, S / 2), huge / 2);
    }
    for (size_t n = 0; n < 300; n++)
        for (int S = 1; S <= 64; S++)
            for (int i = 0; i <= S; i++) assert_int_equal(ls_slice_begin(n, S, i), n * (size_t)i / (size_t)S);
}

/* ---- roles ------------------------------------------------------------------------------------------------------- */

static ls_model *model_of(const char *preset, bool biases) {
    ls_shape shape;
    ls_model *model;
    assert_int_equal(ls_shape_preset(preset, &shape), LS_OK);
    shape.attention_bias = shape.mlp_bias = biases;
    assert_int_equal(ls_model_create(&shape, 1, &model), LS_OK);
    return model;
}

/* Each parameter is what its block finds under the parameter's role. */
static void test_every_parameter_is_found_by_its_role(void **state) {
    static const char *const presets[] = {"gpt2-124m", "llama-8b", "lenet", "resnet18", "mlp"};
    (void)state;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        for (int biases = 0; biases < 2; biases++) {
            ls_model *model = model_of(presets[i], biases);
            for (int b = 0; b < model->nblocks; b++)
                for (int p = 0; p < model->blocks[b].nparams; p++) {
                    ls_param *param = &model->blocks[b].param[p];
                    assert_ptr_equal(ls_block_unit_param(&model->blocks[b], param->role, param->unit), param);
                }
            ls_model_destroy(model);
        }
}

static const char *name_of(ls_model *model, ls_role role) {
    const ls_param *param = ls_block_param(&model->blocks[1], role);
    return param ? param->name : "none";
}

static void test_roles_that_a_block_does_not_have_are_null(void **state) {
    (void)state;
    ls_model *gpt2 = model_of("gpt2-124m", false), *llama = model_of("llama-8b", true);
    assert_string_equal(name_of(gpt2, LS_ROLE_QKV_BIAS), "none");
    assert_string_equal(name_of(gpt2, LS_ROLE_MLP_NORM_BIAS), "blocks.0.mlp.norm.bias");
    assert_string_equal(name_of(gpt2, LS_ROLE_MLP_OUT), "blocks.0.mlp.out.weight");
    assert_string_equal(name_of(llama, LS_ROLE_QKV_BIAS), "blocks.0.attn.qkv.bias");
    assert_string_equal(name_of(llama, LS_ROLE_MLP_NORM_BIAS), "none");
    assert_string_equal(name_of(llama, LS_ROLE_MLP_OUT), "blocks.0.mlp.out.weight");
    assert_ptr_equal(ls_model_tokens(gpt2), ls_model_find(gpt2, "tokens.weight"));
    assert_true(ls_block_borrows_table(&gpt2->blocks[gpt2->nblocks - 1]));
    assert_false(ls_block_borrows_table(&llama->blocks[llama->nblocks - 1]));
    ls_model_destroy(gpt2);
    ls_model_destroy(llama);
}

/* ---- rows of gradients ------------------------------------------------------------------------------------------- */

/* Adds up which rows of a gradient the workers of a TP group compute. */
static void count_rows(const ls_param *param, int S, int tp, bool sequence_parallel, int *computed, size_t *all) {
    for (int t = 0; t < tp; t++) {
        ls_grad_rows rows = ls_param_grad_rows(param, S, S / tp * t, S / tp, sequence_parallel);
        *all = rows.all;
        assert_int_equal(rows.elems, ls_param_local_elems(param));
        for (size_t r = rows.first; r < rows.first + rows.count; r++) computed[r]++;
    }
}

/* What slices cut, and every gradient without sequence parallelism, each worker computes whole; of a vector of the
 * residual stream with it, and of the norms of q and k, each row has one worker. */
static void test_every_row_of_a_gradient_is_computed(void **state) {
    (void)state;
    enum { S = 8 };
    ls_model *models[2] = {model_of("gpt2-124m", true)};
    ls_shape heads;
    assert_int_equal(ls_shape_preset("llama-1b", &heads), LS_OK);
    heads.qk_norm = true;
    assert_int_equal(ls_model_create(&heads, S, &models[1]), LS_OK);
    int of_slices = 0;
    for (int m = 0; m < 2; m++)
        for (int tp = 1; tp <= S; tp *= 2)
            for (int sequence_parallel = 0; sequence_parallel <= (tp > 1); sequence_parallel++)
                for (int i = 0; i < models[m]->nparams; i++) {
                    const ls_param *param = models[m]->params[i];
                    bool is_vector = param->kind == LS_PARAM_VECTOR;
                    bool is_apart = param->of_slices || (sequence_parallel && is_vector && !param->split);
                    of_slices += param->of_slices;
                    int computed[S] = {0};
                    size_t all = 0;
                    count_rows(param, S, tp, sequence_parallel, computed, &all);
                    assert_int_equal(all, is_vector ? S : 1);
                    for (size_t r = 0; r < all; r++) assert_int_equal(computed[r], is_apart ? 1 : tp);
                }
    assert_int_equal(of_slices, 2 * 16 * 7); /* weights of a layer, layers, layouts */
    for (int m = 0; m < 2; m++) ls_model_destroy(models[m]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_taking_slices),
        cmocka_unit_test(test_slice_begin_is_exact_for_large_numbers),
        cmocka_unit_test(test_every_parameter_is_found_by_its_role),
        cmocka_unit_test(test_roles_that_a_block_does_not_have_are_null),
        cmocka_unit_test(test_every_row_of_a_gradient_is_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
