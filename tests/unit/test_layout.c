/* test_layout.c: layouts are made as asked for or refused with the nearest legal one, and JSON gives back the same
 * layout. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ask.h"
#include "base/status.h"
#include "model/model.h"
#include "model/shape_file.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/make.h"

enum { TEXT_MAX = 512 };

/* 6 layers: 8 blocks with embedding and head; 8 slices of 8 heads, 8 groups of 16 sequences. */
static ls_model *tiny;
static ls_layout_task task;

static int set_up(void **state) {
    (void)state;
    ls_shape shape;
    if (ls_shape_preset("tiny", &shape) != LS_OK) return -1;
    shape.H = shape.kv_heads = 16;
    shape.head_size = shape.C / 16;
    if (ls_model_create(&shape, 8, &tiny) != LS_OK) return -1;
    task = (ls_layout_task){.model = tiny, .B = 16, .T = 64, .G = 8};
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    ls_model_destroy(tiny);
    return 0;
}

/* A request from JSON text, which the caller releases. */
static ls_layout_request request_of(const char *text, json_t **json) {
    ls_layout_request request;
    *json = json_loads(text, 0, NULL);
    assert_non_null(*json);
    if (ls_layout_request_from_json("test.json", *json, &request) != LS_OK)
        fail_msg("%s: %s", text, ls_status_message());
    return request;
}

static ls_layout make(const char *text) {
    json_t *json;
    ls_layout layout;
    ls_layout_request request = request_of(text, &json);
    ls_status status = ls_layout_make(&request, &task, &layout);
    json_decref(json);
    if (status != LS_OK) fail_msg("%s: %s", text, ls_status_message());
    assert_int_equal(ls_layout_check(&layout, &task), LS_OK);
    return layout;
}

static void refuse_for(const ls_layout_task *what, const char *text, const char *message) {
    json_t *json;
    ls_layout layout = {.dp = 77};
    ls_layout_request request = request_of(text, &json);
    ls_status status = ls_layout_make(&request, what, &layout);
    json_decref(json);
    if (status != LS_ERR_INPUT) fail_msg("%s gave %s", text, ls_status_name(status));
    assert_string_equal(ls_status_message(), message);
    assert_int_equal(layout.dp, 77);
}

static void refuse(const char *text, const char *message) { refuse_for(&task, text, message); }

static void assert_numbers(const int *numbers, int count, const char *expected) {
    char text[TEXT_MAX];
    ls_layout_list_text(numbers, count, text, sizeof text);
    assert_string_equal(text, expected);
}

static void assert_blocks(const ls_layout *layout, const char *expected) {
    int blocks[LS_CHUNKS_MAX], chunks = ls_layout_chunks(layout);
    for (int c = 0; c < chunks; c++) blocks[c] = layout->chunk_first[c + 1] - layout->chunk_first[c];
    assert_int_equal(layout->chunk_first[0], 0);
    assert_numbers(blocks, chunks, expected);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static void test_defaults(void **state) {
    (void)state;
    ls_layout layout = make("{}"), one = ls_layout_one(&task, 0);
    assert_true(ls_knobs_equal(&layout.knobs, &one.knobs)); /* padding may differ */
    assert_memory_equal(layout.share, one.share, sizeof one.share);
    assert_memory_equal(layout.chunk_first, one.chunk_first, sizeof one.chunk_first);
    assert_true(one.dp == 1 && one.tp == 1 && one.pp == 1 && one.share[0] == 8 && one.virtual_stages == 1);
    assert_true(one.zero == 0 && one.recompute == LS_RECOMPUTE_NONE && !one.sequence_parallel && one.micro == 0);
    assert_true(one.schedule == LS_SCHEDULE_1F1B);
    assert_blocks(&one, "8");
    one = ls_layout_one(&task, 5);
    assert_int_equal(one.micro, 5);
    assert_int_equal(ls_layout_check(&one, &task), LS_OK);
}

static void test_workers(void **state) {
    (void)state;
    ls_layout layout = make("{\"workers\": 4}");
    assert_true(layout.dp == 4 && layout.tp == 1 && layout.pp == 1 && layout.zero == 1);
    layout = make("{\"workers\": 24, \"tp\": 2, \"pp\": 4}");
    assert_true(layout.dp == 3 && layout.tp == 2 && layout.pp == 4);
    layout = make("{\"workers\": 6, \"dp\": 3, \"tp\": 2}");
    assert_true(layout.dp == 3 && layout.tp == 2 && layout.pp == 1);
    layout = make("{\"tp\": 4, \"pp\": 8, \"dp\": 5}");
    assert_int_equal(ls_layout_workers(&layout), 160);
}

static void test_places(void **state) {
    (void)state;
    ls_layout layout = make("{\"tp\": 4, \"pp\": 5, \"dp\": 3}");
    int rank = 0;
    for (int p = 0; p < 5; p++)
        for (int d = 0; d < 3; d++)
            for (int t = 0; t < 4; t++, rank++) {
                ls_place_in_layout place = ls_layout_place(&layout, rank);
                assert_true(place.dp == d && place.tp == t && place.pp == p);
            }
}

static void test_schedules(void **state) {
    (void)state;
    ls_layout layout = make("{\"pp\": 2, \"virtual-stages\": 3}");
    assert_true(layout.schedule == LS_SCHEDULE_INTERLEAVED && layout.virtual_stages == 3);
    layout = make("{\"pp\": 4, \"schedule\": \"interleaved\"}");
    assert_int_equal(layout.virtual_stages, 2);
    assert_int_equal(ls_layout_chunks(&layout), 8);
    static const char *const others[] = {"naive", "gpipe", "1f1b", "zero-bubble"};
    for (int i = 0; i < 4; i++)
        for (int pp = 1; pp <= 8; pp++) {
            char text[TEXT_MAX];
            snprintf(text, sizeof text, "{\"pp\": %d, \"schedule\": \"%s\", \"recompute\": \"full\"}", pp, others[i]);
            layout = make(text);
            assert_string_equal(ls_schedule_kind_name(layout.schedule), others[i]);
            assert_true(layout.virtual_stages == 1 && layout.recompute == LS_RECOMPUTE_FULL);
        }
}

static void test_the_rest(void **state) {
    (void)state;
    ls_layout layout = make("{\"dp\": 1, \"zero\": 3}");
    assert_int_equal(layout.zero, 3);
    layout = make("{\"dp\": 2, \"zero\": 0, \"recompute\": \"selective\", \"micro-batch\": 16}");
    assert_true(layout.zero == 0 && layout.recompute == LS_RECOMPUTE_SELECTIVE && layout.micro == 16);
    layout = make("{\"tp\": 8, \"sequence-parallel\": true}");
    assert_true(layout.sequence_parallel && layout.zero == 0);
    layout = make("{\"tp\": 8, \"sequence_parallel\": false}");
    assert_false(layout.sequence_parallel);
    layout = make("{\"tensor-model-parallel-size\": 2, \"pipeline_model_parallel_size\": 3}");
    assert_true(layout.tp == 2 && layout.pp == 3);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void test_mesh_refusals(void **state) {
    (void)state;
    refuse("{\"dp\": 12}",
           "--dp 12 exceeds the 8 gradient groups; use --dp 8 or less, or --groups 12 (changes the result)");
    refuse("{\"workers\": 24, \"tp\": 2}",
           "--workers 24: dp 12 exceeds the 8 gradient groups; use --workers 16 or fewer, or "
           "--groups 12 (changes the result)");
    refuse("{\"dp\": 17}",
           "--dp 17 exceeds the batch of 16 sequences; use --dp 8 or less, or a larger --global-batch with "
           "--groups 17 (changes the result)");
    refuse("{\"tp\": 3}", "--tp 3 does not divide the 8 slices of a layer; use --tp 2 or --tp 4");
    refuse("{\"tp\": 7}", "--tp 7 does not divide the 8 slices of a layer; use --tp 4 or --tp 8");
    refuse("{\"tp\": 16}",
           "--tp 16 exceeds the 8 slices of a layer; use --tp 8 or less, or --slices 16 (changes the result)");
    refuse("{\"tp\": 32}", "--tp 32 exceeds the 8 slices of a layer; use --tp 8 or less");
    refuse("{\"pp\": 9}",
           "--pp 9 exceeds the blocks of tiny: it has 8 (embedding, 6 layers, head); use --pp 8 or less");
    refuse("{\"dp\": 8, \"tp\": 8, \"pp\": 512}",
           "--dp 8 --tp 8 --pp 512 is 32768 workers, but the limit is 512; lower one of them");
    refuse("{\"workers\": 6, \"tp\": 2, \"pp\": 2}",
           "--workers 6: --tp 2 × --pp 2 needs 4 workers per data-parallel replica: use --workers 4 or 8");
    refuse("{\"workers\": 3, \"tp\": 4}",
           "--workers 3: --tp 4 × --pp 1 needs 4 workers per data-parallel replica: use --workers 4");
    refuse("{\"workers\": 6, \"dp\": 2, \"tp\": 2}",
           "--workers 6: dp 2 × tp 2 × pp 1 is 4 workers; use --workers 4, or omit --workers");
    refuse("{\"workers\": 4, \"tp\": 3}", "--tp 3 does not divide the 8 slices of a layer; use --tp 2 or --tp 4");
}

/* Workers that mpirun has started cannot be changed by a flag. */
static void test_launcher_refusals(void **state) {
    (void)state;
    const struct {
        int workers, dp, tp;
        const char *message;
    } rows[] = {
        {3, 2, 0, "mpirun started 3 workers, but --dp 2 × tp 1 × pp 1 is 2: start 2, or use --dp 3"},
        {3, 1, 2, "mpirun started 3 workers, but --dp 1 × tp 2 × pp 1 is 2: start 2"},
        {3, 0, 2, "mpirun started 3 workers: --tp 2 × --pp 1 needs 2 workers per data-parallel replica: start 2 or 4"},
        {24, 0, 2,
         "mpirun started 24 workers: dp 12 exceeds the 8 gradient groups; start 16 workers or fewer, or --groups 12 "
         "(changes the result)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_layout layout;
        ls_layout_request request = ls_layout_request_none();
        request.launcher = "mpirun";
        request.workers = rows[i].workers;
        ask(&request, LS_KNOB_dp, rows[i].dp);
        ask(&request, LS_KNOB_tp, rows[i].tp);
        assert_int_equal(ls_layout_make(&request, &task, &layout), LS_ERR_INPUT);
        assert_string_equal(ls_status_message(), rows[i].message);
    }
}

static void test_requests_out_of_range(void **state) {
    (void)state;
    ls_layout layout;
    ls_layout_request request = ls_layout_request_none();
    ls_knob_give(&request, LS_KNOB_dp, -1);
    assert_int_equal(ls_layout_make(&request, &task, &layout), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "--dp -1: must be between 1 and 512");
    request = ls_layout_request_none();
    ls_knob_give(&request, LS_KNOB_pp, 513);
    assert_int_equal(ls_layout_make(&request, &task, &layout), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "--pp 513: must be between 1 and 512");
    request = ls_layout_request_none();
    ls_knob_give(&request, LS_KNOB_zero, 4);
    assert_int_equal(ls_layout_make(&request, &task, &layout), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "--zero 4: must be between 0 and 3");
    request = ls_layout_request_none();
    ls_knob_give(&request, LS_KNOB_schedule, LS_SCHEDULE_KINDS);
    assert_int_equal(ls_layout_make(&request, &task, &layout), LS_ERR_INPUT);
    request = ls_layout_request_none();
    ls_knob_give(&request, LS_KNOB_recompute, LS_RECOMPUTE_KINDS);
    assert_int_equal(ls_layout_make(&request, &task, &layout), LS_ERR_INPUT);
    request = ls_layout_request_none();
    ls_knob_give(&request, LS_KNOB_virtual_stages, -2);
    assert_int_equal(ls_layout_make(&request, &task, &layout), LS_ERR_INPUT);
}

static void test_schedule_refusals(void **state) {
    (void)state;
    refuse("{\"schedule\": \"interleaved\"}",
           "--schedule interleaved requires a pipeline; use --pp 2 or more, or omit --schedule and --virtual-stages");
    refuse("{\"virtual-stages\": 2}",
           "--schedule interleaved requires a pipeline; use --pp 2 or more, or omit --schedule and --virtual-stages");
    refuse("{\"pp\": 2, \"schedule\": \"gpipe\", \"virtual-stages\": 2}",
           "--virtual-stages 2 requires --schedule interleaved, not gpipe; use that, or omit --virtual-stages");
    refuse("{\"pp\": 2, \"schedule\": \"interleaved\", \"virtual-stages\": 1}",
           "--virtual-stages 1: --schedule interleaved requires 2 or more; use --virtual-stages 2, or --schedule 1f1b");
    refuse("{\"pp\": 2, \"virtual-stages\": 5}",
           "--virtual-stages 5: 2 stages allow at most 8 chunks of tiny in all; use --virtual-stages 4 or less");
    refuse("{\"pp\": 5, \"schedule\": \"interleaved\"}",
           "--schedule interleaved: 5 stages with at least 2 chunks each need 10 blocks, but tiny has 8; use --pp 4, "
           "or --schedule 1f1b");
}

static void test_list_refusals(void **state) {
    (void)state;
    refuse("{\"pp\": 3, \"stages\": \"5,4\"}",
           "--stages 5,4 lists 2 chunks, but --pp 3 with 1 virtual stage has 3; use e.g. --stages 3,2,3");
    refuse("{\"pp\": 3, \"stages\": \"5,4,4\"}",
           "--stages 5,4,4 sums to 13, but tiny has 8 blocks (embedding, 6 layers, head); use e.g. --stages 3,2,3");
    refuse("{\"stages\": \"4\"}",
           "--stages 4: with one stage it can only be 8, the number of blocks; use --pp to set the number of stages");
    static const char *const bad[] = {"",  ",",     "5,",  ",5",   "5,,4",       "5, 4",
                                      "x", "costs", "0,8", "-1,9", "3000000000", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_layout layout;
        char message[TEXT_MAX];
        ls_layout_request request = ls_layout_request_none();
        request.stages = bad[i];
        assert_int_equal(ls_layout_make(&request, &task, &layout), LS_ERR_INPUT);
        snprintf(message, sizeof message,
                 "--stages %s: must be cost, count, or the number of blocks of each chunk, e.g. 5,4,4", bad[i]);
        assert_string_equal(ls_status_message(), message);
        request.stages = NULL;
        request.shares = bad[i];
        assert_int_equal(ls_layout_make(&request, &task, &layout), LS_ERR_INPUT);
        snprintf(message, sizeof message,
                 "--shares %s: must be auto, or the number of gradient groups of each data-parallel replica, at least "
                 "1 each, e.g. 3,2,2",
                 bad[i]);
        assert_string_equal(ls_status_message(), message);
    }
    refuse("{\"dp\": 3, \"shares\": \"3,2,2\"}",
           "--shares 3,2,2 sums to 7, but a step has 8 gradient groups; use e.g. --shares 4,2,2");
    refuse("{\"dp\": 3, \"shares\": \"6,1,5\"}",
           "--shares 6,1,5 sums to 12, but a step has 8 gradient groups; use e.g. --shares 4,1,3");
    refuse("{\"shares\": \"3,3,2\"}", "--shares 3,3,2 lists 3 shares, but --dp is 1: use --dp 3, or use 1 share");
    refuse("{\"dp\": 2, \"shares\": \"1,1,1,1,1,1,1,1,1\"}",
           "--shares 1,1,1,1,1,1,1,1,1 lists 9 shares, but --dp is 2: use 2 shares");
}

/* A list with more numbers than there is room for. */
static void test_long_lists(void **state) {
    (void)state;
    char text[4 * LS_CHUNKS_MAX] = "1";
    for (int i = 0; i < LS_CHUNKS_MAX; i++) strcat(text, ",1");
    ls_layout layout;
    ls_layout_request request = ls_layout_request_none();
    request.shares = text;
    assert_int_equal(ls_layout_make(&request, &task, &layout), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "lists more than 512 numbers"));
    request.shares = NULL;
    request.stages = text;
    assert_int_equal(ls_layout_make(&request, &task, &layout), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "lists more than 1024 numbers"));
    int numbers[] = {100, 200, 300};
    static const struct {
        size_t room;
        const char *text;
    } rows[] = {{12, "100,200,300"}, {11, "100,…"}, {8, "100,…"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char short_text[16];
        ls_layout_list_text(numbers, 3, short_text, rows[i].room);
        assert_string_equal(short_text, rows[i].text);
    }
}

static void test_refusals_of_the_rest(void **state) {
    (void)state;
    refuse("{\"micro-batch\": 17}", "--micro-batch 17 exceeds the batch of 16 sequences; use --micro-batch 16 or less");
    refuse("{\"sequence-parallel\": true}", "--sequence-parallel divides tokens among tensor-parallel workers and --tp "
                                            "is 1: use --tp 2 or more, or omit it");
    ls_layout_task other = task;
    other.T = 3;
    refuse_for(&other, "{\"tp\": 4, \"sequence-parallel\": true}",
               "--sequence-parallel: a sequence of 3 tokens is too short for --tp 4; use --seq 4 or more, or omit it");
    other = task;
    other.G = 17;
    refuse_for(&other, "{}", "--groups 17: a batch of 16 sequences allows 1 to 16 gradient groups");
}

/* Layouts that no request gives. */
static void test_check(void **state) {
    (void)state;
    ls_layout sound = make("{\"dp\": 2, \"pp\": 3}"), layout = sound;
    layout.chunk_first[1] = layout.chunk_first[2];
    assert_int_equal(ls_layout_check(&layout, &task), LS_ERR_INPUT);
    assert_string_equal(
        ls_status_message(),
        "--stages: the 3 chunks must cover all 8 blocks of tiny in order, at least one block each; use --stages cost");
    layout = sound;
    layout.chunk_first[3] = 7;
    assert_int_equal(ls_layout_check(&layout, &task), LS_ERR_INPUT);
    layout = sound;
    layout.chunk_first[0] = 1;
    assert_int_equal(ls_layout_check(&layout, &task), LS_ERR_INPUT);
    layout = sound;
    layout.share[0] = 8;
    layout.share[1] = 0;
    assert_int_equal(ls_layout_check(&layout, &task), LS_ERR_INPUT);
    assert_string_equal(ls_status_message(), "--shares 8,0: data-parallel replica 1 has 0 groups; it needs at least 1");
    layout = sound;
    layout.share[1] = INT32_MAX;
    assert_int_equal(ls_layout_check(&layout, &task), LS_ERR_INPUT);
    layout = sound;
    layout.tp = 0;
    assert_int_equal(ls_layout_check(&layout, &task), LS_ERR_INPUT);
    layout = sound;
    layout.virtual_stages = 0;
    assert_int_equal(ls_layout_check(&layout, &task), LS_ERR_INPUT);
    layout = sound;
    ls_layout_task other = task;
    other.G = 4; /* a layout of another task */
    assert_int_equal(ls_layout_check(&layout, &other), LS_ERR_INPUT);
    assert_int_equal(ls_layout_check(&sound, &task), LS_OK);
}

/* ---- dividing blocks --------------------------------------------------------------------------------------------- */

static void test_stages(void **state) {
    (void)state;
    ls_layout layout = make("{\"pp\": 3}");
    assert_blocks(&layout, "3,2,3"); /* the embedding costs nothing, the head a sixth of a layer */
    layout = make("{\"pp\": 3, \"stages\": \"cost\"}");
    assert_blocks(&layout, "3,2,3");
    layout = make("{\"pp\": 3, \"stages\": \"count\"}");
    assert_blocks(&layout, "3,3,2");
    layout = make("{\"pp\": 3, \"stages\": \"1,6,1\"}");
    assert_blocks(&layout, "1,6,1");
    layout = make("{\"pp\": 8}");
    assert_blocks(&layout, "1,1,1,1,1,1,1,1");
    layout = make("{\"pp\": 3, \"virtual-stages\": 2, \"stages\": \"count\"}");
    assert_blocks(&layout, "2,2,1,1,1,1");
    layout = make("{\"pp\": 3, \"virtual-stages\": 2}");
    assert_blocks(&layout, "2,1,1,1,1,2");
    assert_int_equal(layout.chunk_first[6], 8);
}

/* ---- dividing groups --------------------------------------------------------------------------------------------- */

static void test_shares(void **state) {
    (void)state;
    ls_layout layout = make("{\"dp\": 3}");
    assert_numbers(layout.share, 3, "2,3,3");
    layout = make("{\"dp\": 5}");
    assert_numbers(layout.share, 5, "1,2,1,2,2");
    layout = make("{\"dp\": 8, \"shares\": \"auto\"}");
    assert_numbers(layout.share, 8, "1,1,1,1,1,1,1,1");
    layout = make("{\"dp\": 3, \"shares\": \"6,1,1\"}");
    assert_numbers(layout.share, 3, "6,1,1");
}

static void test_shares_by_speed(void **state) {
    (void)state;
    static const struct {
        double speeds[4];
        const char *shares;
    } rows[] = {{{1, 1, 1, 1}, "2,2,2,2"},          {{1, 1, 1, 0.6}, "3,2,2,1"}, {{10, 1, 1, 1}, "5,1,1,1"},
                {{1e-300, 1e300, 1, 1}, "1,5,1,1"}, {{3, 1, 2, 2}, "3,1,2,2"},   {{100, 99, 101, 98}, "2,2,2,2"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_layout layout;
        ls_layout_request request = ls_layout_request_none();
        ls_knob_give(&request, LS_KNOB_dp, 4);
        request.shares = "auto";
        request.speeds = rows[i].speeds;
        assert_int_equal(ls_layout_make(&request, &task, &layout), LS_OK);
        assert_numbers(layout.share, 4, rows[i].shares);
    }
    static const double bad[][2] = {{1, 0}, {1, -1}, {1, (double)NAN}, {1, (double)INFINITY}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_layout layout;
        ls_layout_request request = ls_layout_request_none();
        ls_knob_give(&request, LS_KNOB_dp, 2);
        request.shares = "auto";
        request.speeds = bad[i];
        assert_int_equal(ls_layout_make(&request, &task, &layout), LS_ERR_INPUT);
        assert_non_null(strstr(ls_status_message(), "--shares auto: the measured speed of data-parallel replica 1"));
    }
}

/* ---- text and JSON ----------------------------------------------------------------------------------------------- */

static void assert_text(const char *request, const char *expected) {
    char text[TEXT_MAX], cut[10];
    ls_layout layout = make(request);
    ls_layout_text(&layout, text, sizeof text);
    assert_string_equal(text, expected);
    ls_layout_text(&layout, cut, sizeof cut);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    ls_layout_text(&layout, NULL, 0);
}

static void test_text(void **state) {
    (void)state;
    assert_text("{}", "dp 1 × tp 1 × pp 1, zero 0");
    assert_text("{\"dp\": 4, \"tp\": 2, \"micro-batch\": 2}", "dp 4 × tp 2 × pp 1, zero 1, micro-batch 2");
    assert_text("{\"dp\": 3, \"tp\": 2, \"pp\": 2, \"virtual-stages\": 2, \"zero\": 3, \"sequence-parallel\": true, "
                "\"recompute\": \"full\"}",
                "dp 3 × tp 2 × pp 2, shares 2,3,3, interleaved with 2 virtual stages, blocks 3,2,1,2, zero 3, full "
                "recomputation, sequence parallel");
    assert_string_equal(ls_recompute_name(LS_RECOMPUTE_SELECTIVE), "selective");
}

static void test_round_trip(void **state) {
    (void)state;
    static const char *const requests[] = {
        "{}",
        "{\"workers\": 8}",
        "{\"dp\": 3, \"tp\": 2, \"pp\": 4, \"shares\": \"4,3,1\", \"zero\": 2, \"micro-batch\": 3}",
        "{\"pp\": 2, \"virtual-stages\": 4, \"sequence-parallel\": true, \"tp\": 8, \"recompute\": \"selective\"}",
        "{\"pp\": 5, \"schedule\": \"zero-bubble\", \"stages\": \"count\", \"zero\": 3, \"recompute\": \"full\"}",
        "{\"pp\": 2, \"schedule\": \"naive\", \"stages\": \"1,7\"}",
        "{\"pp\": 1, \"schedule\": \"gpipe\", \"dp\": 2, \"zero\": 0}"};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        ls_layout layout = make(requests[i]);
        json_t *json = ls_layout_to_json(&layout);
        assert_non_null(json);
        char *text = json_dumps(json, JSON_COMPACT);
        assert_non_null(text);
        ls_layout back = make(text);
        assert_true(ls_knobs_equal(&back.knobs, &layout.knobs)); /* there are bytes between knobs */
        assert_memory_equal(back.share, layout.share, sizeof layout.share);
        assert_memory_equal(back.chunk_first, layout.chunk_first, sizeof layout.chunk_first);
        free(text);
        json_decref(json);
    }
    ls_layout layout = make(requests[2]);
    json_t *json = ls_layout_to_json(&layout);
    char *text = json_dumps(json, JSON_COMPACT);
    assert_string_equal(text,
                        "{\"dp\":3,\"tp\":2,\"pp\":4,\"shares\":\"4,3,1\",\"schedule\":\"1f1b\",\"virtual-stages\":1,"
                        "\"stages\":\"3,2,1,2\",\"zero\":2,\"recompute\":\"none\",\"sequence-parallel\":false,"
                        "\"micro-batch\":3}");
    free(text);
    json_decref(json);
}

static void test_json_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"[]", "f.json: must be an object of names and values, e.g. {\"dp\": 2, \"tp\": 2}"},
        {"{\"ddp\": 2}", "f.json: unknown name 'ddp'; did you mean dp?"},
        {"{\"frobnicate\": 2}", "f.json: unknown name 'frobnicate'"},
        {"{\"lr\": 2}", "f.json: lr is not part of a layout; omit it"},
        {"{\"layout\": \"g.json\"}", "f.json: layout is not part of a layout; omit it"},
        {"{\"dp\": 0}", "f.json: dp: 0: must be between 1 and 1048576"},
        {"{\"dp\": 1e30}", "f.json: dp: 1e+30: must be a whole number, such as 4"},
        {"{\"dp\": 9223372036854775807}", "f.json: dp: 9223372036854775807: must be between 1 and 1048576"},
        {"{\"dp\": null}", "f.json: dp: must be a single value, not null, a list or an object"},
        {"{\"dp\": [2]}", "f.json: dp: must be a single value, not null, a list or an object"},
        {"{\"dp\": true}", "f.json: dp: true: must be a whole number, such as 4"},
        {"{\"shares\": [3, 2]}", "f.json: shares: must be a string, quoted even where it is a single number"},
        {"{\"stages\": 8}", "f.json: stages: must be a string, quoted even where it is a single number"},
        {"{\"stages\": \"\"}", "f.json: stages: '': must not be empty"},
        {"{\"zero\": 4}", "f.json: zero: 4: must be between 0 and 3"},
        {"{\"schedule\": \"2f2b\"}", "f.json: schedule: 2f2b: must be naive, gpipe, 1f1b, interleaved or zero-bubble"},
        {"{\"recompute\": \"some\"}", "f.json: recompute: some: must be none, selective or full"},
        {"{\"sequence-parallel\": 7}", "f.json: sequence-parallel: 7: must be true or false"},
        {"{\"virtual-stages\": 2, \"virtual_stages\": 2}", "f.json: virtual-stages is given twice; keep one"},
        {"{\"tp\": 2, \"tensor-model-parallel-size\": 2}", "f.json: tp is given twice; keep one"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_layout_request request = {.workers = 77};
        json_t *json = json_loads(rows[i].text, 0, NULL);
        assert_non_null(json);
        assert_int_equal(ls_layout_request_from_json("f.json", json, &request), LS_ERR_INPUT);
        assert_string_equal(ls_status_message(), rows[i].message);
        assert_int_equal(request.workers, 77);
        json_decref(json);
    }
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void test_options(void **state) {
    (void)state;
    char *argv[] = {(char[]){"--tp=2"},           (char[]){"--zero-stage=0"}, (char[]){"--no-sequence-parallel"},
                    (char[]){"--schedule=gpipe"}, (char[]){"--shares=auto"},  (char[]){"--stages=count"}};
    ls_options options;
    assert_int_equal(ls_options_parse(&options, LS_COMMAND_TRAIN, 0, argv), LS_OK);
    ls_layout_request request = ls_layout_request_none(), none = request;
    ls_layout_request_add(&options, LS_ORIGIN_FILE, &request);
    assert_memory_equal(&request, &none, sizeof none);
    ls_options_fini(&options);

    assert_int_equal(ls_options_parse(&options, LS_COMMAND_TRAIN, 6, argv), LS_OK);
    assert_int_equal(ls_options_put(&options, LS_OPT_dp, "4", LS_ORIGIN_FILE, 0), LS_OK);
    assert_int_equal(ls_options_put(&options, LS_OPT_pp, "3", LS_ORIGIN_ENV, 0), LS_OK);
    ls_layout_request_add(&options, LS_ORIGIN_ENV, &request);
    unsigned given = 1u << LS_KNOB_tp | 1u << LS_KNOB_pp | 1u << LS_KNOB_zero | 1u << LS_KNOB_sequence_parallel |
                     1u << LS_KNOB_schedule;
    assert_true(request.given == given && request.workers == 0);
    assert_true(request.knobs.tp == 2 && request.knobs.pp == 3 && request.knobs.zero == 0);
    assert_true(request.knobs.schedule == LS_SCHEDULE_GPIPE && !request.knobs.sequence_parallel);
    assert_string_equal(request.shares, "auto");
    assert_string_equal(request.stages, "count");
    ls_layout_request_add(&options, LS_ORIGIN_FILE, &request);
    assert_int_equal(request.knobs.dp, 4);
    ls_options_fini(&options);
    assert_true(ls_layout_is_option(LS_OPT_micro_batch) && ls_layout_is_option(LS_OPT_workers));
    assert_false(ls_layout_is_option(LS_OPT_layout) || ls_layout_is_option(LS_OPT_seed));
}

int main(void) {
    /* LS_* variables that the developer has exported must not change the tests. */
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        char env[LS_OPTION_ENV_MAX];
        ls_option_env_name(ls_option_info_get(id), env);
        unsetenv(env);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_workers),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_the_rest),
        cmocka_unit_test(test_mesh_refusals),
        cmocka_unit_test(test_launcher_refusals),
        cmocka_unit_test(test_requests_out_of_range),
        cmocka_unit_test(test_schedule_refusals),
        cmocka_unit_test(test_list_refusals),
        cmocka_unit_test(test_long_lists),
        cmocka_unit_test(test_refusals_of_the_rest),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_shares_by_speed),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_json_refusals),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
