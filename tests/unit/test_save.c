/* Checkpoints of a trainer: what is in them, that a trainer loaded from one goes on to the same bits under any layout,
 * and that states which do not fit are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tiny_trainer.h"

static void open_fixture(fixture *f, const ls_shape *shape, ls_optimizer optimizer) {
    ls_settings settings = tiny_settings(shape, optimizer);
    put_tokens(shape->V);
    assert_int_equal(fixture_open(f, &settings), LS_OK);
}

static ls_trainer *open_trainer(fixture *f, size_t micro) {
    ls_trainer *trainer = NULL;
    ls_layout_request request = ls_layout_request_none();
    ls_knob_give(&request, LS_KNOB_micro, micro);
    assert_int_equal(trainer_open(f, NULL, &request, &trainer), LS_OK);
    return trainer;
}

static void run(ls_trainer *trainer, int64_t until) { assert_int_equal(trainer_run(trainer, until), LS_OK); }

static void hash_of(ls_trainer *trainer, char text[33]) {
    assert_int_equal(ls_partition_hash(trainer->partition, text), LS_OK);
}

static void save(fixture *f, ls_trainer *trainer, const char *dir) {
    ls_store *store = NULL;
    assert_int_equal(ls_store_open(in_folder(dir), LS_STORE_WRITE, &store), LS_OK);
    assert_int_equal(ls_save(store, trainer, f->identity, NULL), LS_OK);
    ls_store_close(store);
}

static ls_checkpoint *open_saved(const char *dir) {
    ls_checkpoint *checkpoint = NULL;
    assert_int_equal(ls_checkpoint_open(step_folder(dir, CUT), &checkpoint), LS_OK);
    return checkpoint;
}

static const ls_optimizer momentum = {.kind = LS_OPTIMIZER_SGD, .sgd = {.momentum = 0.9}};
static const ls_optimizer plain = {.kind = LS_OPTIMIZER_SGD};

/* ---- going on ---------------------------------------------------------------------------------------------------- */

static void goes_on(const ls_shape *shape, ls_optimizer optimizer, const char *dir) {
    fixture f;
    char at_cut[33], at_end[33], text[33];
    open_fixture(&f, shape, optimizer);
    ls_trainer *first = open_trainer(&f, 5);
    assert_int_equal(ls_partition_init_weights(first->partition, 11), LS_OK);
    run(first, CUT);
    save(&f, first, dir);
    hash_of(first, at_cut);
    run(first, STEPS);
    hash_of(first, at_end);
    assert_string_not_equal(at_cut, at_end);
    for (size_t micro = 1; micro <= 5; micro += 2) {
        ls_trainer *second = open_trainer(&f, micro);
        ls_checkpoint *checkpoint = open_saved(dir);
        assert_int_equal(ls_load(second, checkpoint), LS_OK);
        ls_checkpoint_close(checkpoint);
        assert_int_equal(second->step, CUT);
        assert_int_equal(second->updates, CUT);
        hash_of(second, text);
        assert_string_equal(text, at_cut);
        run(second, STEPS);
        hash_of(second, text);
        assert_string_equal(text, at_end);
        ls_trainer_destroy(second);
    }
    ls_trainer_destroy(first);
    fixture_close(&f);
}

static void any_optimizer_goes_on(void **state) {
    (void)state;
    ls_shape gpt2 = tiny_gpt2(), llama = tiny_llama();
    goes_on(&gpt2, adamw, "a");
    goes_on(&llama, adamw, "b");
    goes_on(&llama, momentum, "c");
    goes_on(&gpt2, plain, "d");
}

/* ---- what is in a checkpoint ------------------------------------------------------------------------------------- */

/* A checkpoint of CUT steps of the llama shape in `dir`. */
static void make(fixture *f, ls_optimizer optimizer, const char *dir) {
    ls_shape shape = tiny_llama();
    open_fixture(f, &shape, optimizer);
    ls_trainer *trainer = open_trainer(f, 5);
    assert_int_equal(ls_partition_init_weights(trainer->partition, 11), LS_OK);
    run(trainer, CUT);
    save(f, trainer, dir);
    ls_trainer_destroy(trainer);
}

static void identity_and_position_come_back(void **state) {
    (void)state;
    fixture f;
    ls_identity *identity = NULL;
    int64_t samples = 0;
    make(&f, adamw, "e");
    ls_checkpoint *checkpoint = open_saved("e");
    assert_int_equal(ls_checkpoint_verify(checkpoint, NULL, NULL), LS_OK);
    assert_int_equal(ls_saved_identity(checkpoint, &identity), LS_OK);
    assert_int_equal(ls_identity_diff(f.identity, identity, NULL, 0), 0);
    assert_int_equal(ls_saved_samples(checkpoint, &samples), LS_OK);
    assert_int_equal(samples, CUT * 5);
    ls_identity_destroy(identity);
    ls_checkpoint_close(checkpoint);
    fixture_close(&f);
}

static void count_tensors(const ls_checkpoint *checkpoint, const char *file, const ls_model *model,
                          const char *suffix) {
    ls_safetensors *tensors = NULL;
    assert_int_equal(ls_checkpoint_open_tensors(checkpoint, file, &tensors), LS_OK);
    for (int i = 0; i < ls_model_params(model); i++) {
        const ls_param *param = ls_model_param(model, i);
        const ls_safetensor *tensor;
        int64_t shape[2] = {(int64_t)param->rows, (int64_t)param->columns};
        char name[LS_PARAM_NAME_MAX + 8];
        snprintf(name, sizeof name, "%s%s", param->name, suffix);
        assert_int_equal(ls_safetensors_need(tensors, name, param->kind == LS_PARAM_VECTOR ? 1 : 2, shape, &tensor),
                         LS_OK);
        assert_int_equal(tensor->dtype, LS_F32);
    }
    ls_safetensors_close(tensors);
}

static void tensors_are_whole_and_named(void **state) {
    (void)state;
    fixture f;
    ls_model *model = NULL;
    make(&f, adamw, "f");
    assert_int_equal(ls_model_create(&f.settings.shape, 1, &model), LS_OK);
    ls_checkpoint *checkpoint = open_saved("f");
    count_tensors(checkpoint, LS_CHECKPOINT_WEIGHTS, model, "");
    count_tensors(checkpoint, LS_CHECKPOINT_OPTIMIZER, model, ".m");
    count_tensors(checkpoint, LS_CHECKPOINT_OPTIMIZER, model, ".v");
    ls_checkpoint_close(checkpoint);
    ls_model_destroy(model);
    fixture_close(&f);
}

/* The file has the canonical order: a stage with other slices reads the same values, element by element. */
static void slices_are_not_in_the_file(void **state) {
    (void)state;
    fixture f;
    tiny one, two;
    make(&f, adamw, "g");
    ls_partition_setup setup = {.B = 1, .T = 4, .layout.micro = 1, .G = 1};
    tiny_open(&one, &f.settings.shape, 1, 1, &setup);
    tiny_open(&two, &f.settings.shape, 2, 1, &setup);
    ls_checkpoint *checkpoint = open_saved("g");
    assert_int_equal(ls_load_weights(one.partition, checkpoint), LS_OK);
    assert_int_equal(ls_load_weights(two.partition, checkpoint), LS_OK);
    ls_checkpoint_close(checkpoint);
    for (int i = 0; i < ls_model_params(one.model); i++) {
        const ls_param *a = ls_model_param(one.model, i), *b = ls_model_param(two.model, i);
        size_t elems = ls_param_elems(a);
        float *x = malloc(elems * sizeof *x), *y = malloc(elems * sizeof *y);
        assert_int_equal(ls_partition_read(one.partition, a, LS_TENSOR_WEIGHT, 0, elems, x), LS_OK);
        assert_int_equal(ls_partition_read(two.partition, b, LS_TENSOR_WEIGHT, 0, elems, y), LS_OK);
        assert_memory_equal(x, y, elems * sizeof *x);
        free(x);
        free(y);
    }
    tiny_close(&one);
    tiny_close(&two);
    fixture_close(&f);
}

/* ---- what does not fit ------------------------------------------------------------------------------------------- */

/* Loads a checkpoint whose state is `state`, with the files of `dir` beside it. */
static void refuse_state(fixture *f, const char *dir, const char *text, const char *part) {
    ls_store *store = NULL;
    ls_store_save *pending = NULL;
    char command[512];
    ls_trainer *trainer = open_trainer(f, 5);
    assert_int_equal(ls_store_open(in_folder("bad"), LS_STORE_WRITE, &store), LS_OK);
    assert_int_equal(ls_store_begin(store, CUT, &pending), LS_OK);
    snprintf(command, sizeof command, "cp %s/%s/checkpoints/step-%09d/*.safetensors %s", folder, dir, CUT,
             ls_store_save_folder(pending));
    assert_int_equal(system(command), 0);
    assert_int_equal(ls_store_add_file(pending, LS_CHECKPOINT_WEIGHTS), LS_OK);
    assert_int_equal(ls_store_add_file(pending, LS_CHECKPOINT_OPTIMIZER), LS_OK);
    assert_int_equal(ls_store_put_bytes(pending, LS_CHECKPOINT_STATE, text, strlen(text)), LS_OK);
    assert_int_equal(ls_store_commit(pending), LS_OK);
    ls_store_close(store);
    ls_checkpoint *checkpoint = open_saved("bad");
    int64_t samples;
    ls_status status = ls_load(trainer, checkpoint);
    if (status == LS_OK) status = ls_saved_samples(checkpoint, &samples);
    assert_refused(status, part);
    ls_checkpoint_close(checkpoint);
    ls_trainer_destroy(trainer);
}

static void states_that_do_not_fit_are_refused(void **state) {
    (void)state;
    fixture f;
    make(&f, adamw, "h");
    refuse_state(&f, "h", "{}", "step");
    refuse_state(&f, "h", "[3]", "step");
    refuse_state(&f, "h", "{\"step\": 3", "near end of file");
    refuse_state(&f, "h", "{\"step\": \"3\", \"updates\": 3}", "step");
    refuse_state(&f, "h", "{\"step\": -1, \"updates\": -1}", "contradict each other");
    refuse_state(&f, "h", "{\"step\": 3, \"updates\": 4}", "contradict each other");
    refuse_state(&f, "h", "{\"step\": 3, \"updates\": 3}", "samples");
    refuse_state(&f, "h", "{\"step\": 3, \"updates\": 3, \"samples\": -5}", "below zero");
    fixture_close(&f);
}

static void moments_that_are_not_there_are_told(void **state) {
    (void)state;
    fixture f;
    make(&f, plain, "i");
    f.settings.optimizer = adamw;
    ls_trainer *trainer = open_trainer(&f, 5);
    ls_checkpoint *checkpoint = open_saved("i");
    assert_refused(ls_load(trainer, checkpoint), "has no optimizer state; use --model to start from its weights");
    ls_checkpoint_close(checkpoint);
    ls_trainer_destroy(trainer);
    fixture_close(&f);
}

/* The last update is followed by no loss, so a checkpoint would be the first to show it. */
static void values_that_are_not_finite_are_not_saved(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY};
    fixture f;
    ls_shape shape = tiny_llama();
    open_fixture(&f, &shape, adamw);
    for (int i = 0; i < 2; i++) {
        ls_store *store = NULL;
        ls_trainer *trainer = open_trainer(&f, 5);
        const ls_param *param = ls_model_param(trainer->model, 2);
        assert_int_equal(ls_partition_init_weights(trainer->partition, 11), LS_OK);
        run(trainer, CUT);
        assert_int_equal(
            ls_partition_write(trainer->partition, param, i ? LS_TENSOR_MOMENT1 : LS_TENSOR_WEIGHT, 3, 1, &bad[i]),
            LS_OK);
        assert_int_equal(ls_partition_settle(trainer->partition), LS_OK);
        trainer->state.is_summed = false; /* as if the update had written it */
        assert_int_equal(ls_store_open(in_folder("ruined"), LS_STORE_WRITE, &store), LS_OK);
        assert_int_equal(ls_save(store, trainer, f.identity, NULL), LS_ERR_FAILED);
        assert_non_null(strstr(ls_status_message(), param->name));
        assert_non_null(strstr(ls_status_message(), "are not finite"));
        assert_int_equal(access(in_folder("ruined/checkpoints/step-000000003"), F_OK), -1);
        ls_store_close(store);
        ls_trainer_destroy(trainer);
    }
    fixture_close(&f);
}

static void another_shape_is_told(void **state) {
    (void)state;
    fixture f;
    make(&f, adamw, "j");
    f.settings.shape.hidden++;
    ls_trainer *trainer = open_trainer(&f, 5);
    ls_checkpoint *checkpoint = open_saved("j");
    assert_refused(ls_load(trainer, checkpoint), "mlp");
    ls_checkpoint_close(checkpoint);
    ls_trainer_destroy(trainer);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_optimizer_goes_on),
        cmocka_unit_test(identity_and_position_come_back),
        cmocka_unit_test(tensors_are_whole_and_named),
        cmocka_unit_test(slices_are_not_in_the_file),
        cmocka_unit_test(states_that_do_not_fit_are_refused),
        cmocka_unit_test(moments_that_are_not_there_are_told),
        cmocka_unit_test(values_that_are_not_finite_are_not_saved),
        cmocka_unit_test(another_shape_is_told),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
