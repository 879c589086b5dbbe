/* test_published_runs.c: measured runs are read as they are written, or refused with file, line and column; predictions
 * know nothing of what a row is called or what was measured. RUNS=FILE adds a file to those that are tried. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "measured_rows.h"
#include "plan/published/csv.h"
#include "plan/published/published_runs.h"
#include "plan/published/validate.h"

static char table[16384];

static const char *whole_table(void) {
    strcpy(table, MEASURED_NAMES);
    for (int i = 0; i < MEASURED_ROWS; i++) strcat(table, measured_rows[i]);
    return table;
}

static ls_status parse(const char *text, ls_rows *out) { return ls_rows_parse("t.csv", text, strlen(text), out); }

/* The table with one piece of text put for another, once. */
static const char *changed(const char *from, const char *to) {
    static char text[16384];
    const char *all = whole_table(), *at = strstr(all, from);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - all), all, to, at + strlen(from));
    return text;
}

static void refused(const char *from, const char *to, const char *message) {
    ls_rows rows;
    assert_int_equal(parse(changed(from, to), &rows), LS_ERR_INPUT);
    if (!strstr(ls_status_message(), message)) fail_msg("\"%s\" is not in \"%s\"", message, ls_status_message());
    assert_null(rows.row);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void test_a_row_is_read_as_written(void **state) {
    (void)state;
    ls_rows rows;
    assert_int_equal(parse(whole_table(), &rows), LS_OK);
    assert_int_equal(rows.count, MEASURED_ROWS);
    const ls_row *r = &rows.row[2];
    assert_string_equal(r->id, "n3");
    assert_string_equal(r->model, "GPT-145.6B");
    assert_int_equal(r->task.shape.L, 80);
    assert_int_equal(r->task.shape.head_size, 128);
    assert_int_equal(r->layout.dp, 24);
    assert_int_equal(r->layout.pp, 8);
    assert_int_equal(r->layout.virtual_stages, 2);
    assert_int_equal(r->layout.schedule, LS_SCHEDULE_INTERLEAVED);
    assert_int_equal(r->layout.recompute, LS_RECOMPUTE_FULL);
    assert_int_equal(r->task.cluster.site[0].chips, 1536);
    assert_string_equal(rows.row[3].source, "bigscience (02-21), single sample");
    /* An open knob is marked as such; key heads that are not given are the heads. */
    r = &rows.row[11];
    assert_true(r->free_micro && r->free_recompute && !r->free_virtual && !r->free_zero);
    assert_int_equal(r->task.shape.kv_heads, 32);
    ls_rows_free(&rows);
}

static void assert_near(double a, double b) { assert_true(a - b < 1e-9 * b && b - a < 1e-9 * b); }

/* 137 TFLOP/s of 32 chips, 512 sequences: 96·B·s·L·h²(1 + s/6h + V/16Lh) over 32·137e12, by hand: 3.53 s. */
static void test_every_metric_becomes_seconds(void **state) {
    (void)state;
    ls_rows rows;
    assert_int_equal(parse(whole_table(), &rows), LS_OK);
    double flops = 96.0 * 512 * 2048 * 24 * 2304 * 2304 * (1 + 2048 / (6.0 * 2304) + 51200 / (16.0 * 24 * 2304));
    assert_near(ls_row_measured(&rows.row[0]), flops / (32 * 137e12));
    assert_true(ls_row_measured(&rows.row[3]) == 143.31);
    assert_true(ls_row_measured(&rows.row[6]) == 29.0 * 1073741824);
    assert_near(ls_row_measured(&rows.row[9]), 32 * 2048 / (4767.0 * 16));
    double model = 72.0 * 1536 * 2048 * 32 * 4096 * 4096 * (1 + 2048 / (6.0 * 4096) + 50368 / (12.0 * 32 * 4096));
    assert_near(ls_row_measured(&rows.row[11]), model / (256 * .4415 * 989e12));
    ls_rows_free(&rows);
}

static void test_columns_may_stand_in_any_order_with_others_between(void **state) {
    (void)state;
    static const char text[] =
        "value,measured_metric,precision,sequence_parallel,recompute,zero_stage,global_batch_seqs,micro_batch,colour,"
        "interleave_v,pp,tp,dp,gpus_per_node,n_gpus,gpu_type,seq_len,vocab,ffn_hidden,kv_heads,heads,hidden,layers\r\n"
        "\r\n"
        "2.5,iteration_seconds,bf16,0,none,1,8,1,\"a \"\"b\"\",\nc\",1,1,1,8,8,8,h100,1024,32000,,,16,2048,24";
    ls_rows rows;
    assert_int_equal(parse(text, &rows), LS_OK);
    assert_int_equal(rows.count, 1);
    assert_string_equal(rows.row[0].id, "");
    assert_string_equal(rows.row[0].reason, "");
    assert_int_equal(rows.row[0].task.shape.hidden, 8192);
    assert_true(rows.row[0].value == 2.5);
    ls_rows_free(&rows);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void test_errors_name_file_line_and_column(void **state) {
    (void)state;
    refused("zero_stage,", "zero,", "t.csv has no column \"zero_stage\"");
    refused(",GPT-1.7B,24,", ",GPT-1.7B,2x4,", "t.csv, line 2: layers is \"2x4\"; it must be a whole number");
    refused(",GPT-1.7B,24,", ",GPT-1.7B,,", "t.csv, line 2: layers is \"\"");
    refused(",GPT-1.7B,24,2304,", ",GPT-1.7B,24,0,", "line 2: hidden is \"0\"; it is out of range");
    refused(",1536,8,24,8,8,", ",1536,8,-24,8,8,", "line 4: dp is \"-24\"");
    refused(",2304,24,24,", ",2304,25,24,", "line 2: heads is \"25\"; it does not divide hidden");
    refused("full,0,fp16,hw", "some,0,fp16,hw", "line 2: recompute is \"some\"; it must be none, selective or full");
    refused(",,200\n", ",,fast\n", "line 3: link_between_gbps_per_gpu is \"fast\"; it must be a number above 0");
    refused(",,200\n", ",,-1\n", "line 3: link_between_gbps_per_gpu is \"-1\"");
    refused(",,200\n", ",,200,0\n", "line 3: context_parallel is \"0\"; it is out of range");
    refused("hw_tflops_per_gpu,137", "furlongs,137", "line 2: measured_metric is \"furlongs\"");
    refused("hw_tflops_per_gpu,137", "hw_tflops_per_gpu,-137",
            "line 2: value is \"-137\"; it must be a number above 0");
    refused("hw_tflops_per_gpu,137", "hw_tflops_per_gpu,fast", "line 2: value is \"fast\"");
    refused("hw_tflops_per_gpu,137", "hw_tflops_per_gpu,nan", "line 2: value is \"nan\"");
    refused("hw_tflops_per_gpu,137", "hw_tflops_per_gpu,inf", "line 2: value is \"inf\"");
    refused("m2,", "\"m2,", "t.csv, line 12: unterminated quote");
    refused("n1,", "\"n1\"x,", "text after a closing quote");
    refused("8xHDR200\nn2", "8xHDR200,1\nn2", "line 2: more than 36 fields");
}

static void test_what_is_no_table_is_refused(void **state) {
    (void)state;
    static const char with_nul[] = "a,b\n1\0,2\n";
    ls_csv csv;
    ls_rows rows;
    assert_int_equal(ls_csv_parse("t.csv", with_nul, sizeof with_nul - 1, &csv), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "NUL"));
    assert_int_equal(parse("", &rows), LS_ERR_INPUT);
    assert_int_equal(parse(MEASURED_NAMES, &rows), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "no rows"));
    assert_int_equal(ls_rows_read("does-not-exist.csv", &rows), LS_ERR_INPUT);
    assert_non_null(strstr(ls_status_message(), "does-not-exist.csv"));
}

/* A layout that cannot be is no error of the file. */
static void test_rows_that_cannot_be_modelled_say_why(void **state) {
    (void)state;
    ls_rows rows;
    ls_prediction p;
    assert_int_equal(parse(changed(",32,8,32,1,1,1,16,", ",32,8,31,1,1,1,16,"), &rows), LS_OK);
    assert_string_equal(rows.row[0].reason, "dp 31 × tp 1 × pp 1 is 31 chips; the cluster has 32");
    assert_int_equal(ls_row_predict(&rows.row[0], NULL, &p), LS_ERR_INPUT);
    ls_rows_free(&rows);
    assert_int_equal(parse(changed(",32,8,32,1,1,1,16,", ",32,8,,,,,16,"), &rows), LS_OK);
    assert_string_equal(rows.row[0].reason, "its layout is not given");
    ls_rows_free(&rows);
}

/* Row 3 (n2) with one piece changed: it is kept, with this reason; the others are as they were. */
static void not_modelled(const char *from, const char *to, size_t row, const char *reason) {
    ls_rows rows;
    ls_validation v;
    assert_int_equal(parse(changed(from, to), &rows), LS_OK);
    assert_string_equal(rows.row[row].reason, reason);
    assert_int_equal(ls_validate(&rows, false, &v), LS_OK);
    assert_int_equal(v.rows, MEASURED_ROWS);
    assert_int_equal(v.modelled, MEASURED_ROWS - 1);
    ls_validation_free(&v);
    ls_rows_free(&rows);
}

static void test_unknown_chips_types_and_programs_are_not_modelled(void **state) {
    (void)state;
    not_modelled("A100-80GB-SXM,32,", "A800,32,", 0, "unknown chip \"A800\"");
    not_modelled("fp16,hw", "int4,hw", 0, "unknown precision \"int4\"");
    not_modelled("fp16,hw", "fp160,hw", 0, "unknown precision \"fp160\"");
    not_modelled("megatron-2021,,200\n", "mine,,200\n", 1, "unknown program \"mine\"");
    not_modelled(",,200\n", ",string,200\n", 1, "unknown link \"string\"");
    not_modelled(",,200\n", ",,200,,quick\n", 1, "unknown attention \"quick\"");
    not_modelled(",,200\n", ",,200,,,reduce sends\n", 1, "unknown overlap \"sends\"");
    not_modelled(",,200\n", ",,200,,,,,block\n", 1, "unknown fp8_scaling \"block\"");
    not_modelled(",,200\n", ",,200,,,,,,guess\n", 1, "unknown memory_metric \"guess\"");
}

static void test_columns_say_program_links_and_overlap(void **state) {
    (void)state;
    ls_rows rows;
    assert_int_equal(parse(whole_table(), &rows), LS_OK);
    assert_string_equal(rows.row[0].group, "narayanan-2021");
    assert_string_equal(rows.row[3].task.stack.name, "megatron-2021");
    assert_string_equal(rows.row[3].task.cluster.site[0].inside.name, "nvlink3-no-switch");
    assert_true(rows.row[3].task.cluster.site[0].between.bandwidth == 50e9 / 8);
    assert_string_equal(rows.row[8].task.stack.name, "native");
    assert_true(rows.row[10].layout.pure_16bit && !rows.row[9].layout.pure_16bit);
    /* Without the column the program follows from type, sharding and chip. */
    assert_string_equal(rows.row[11].task.stack.name, "fsdp");
    ls_rows_free(&rows);
    assert_int_equal(parse(changed("megatron-2021,,200\n", ",,,4,flash,reduce tp,1,row,nvidia-smi\n"), &rows), LS_OK);
    const ls_row *r = &rows.row[1];
    assert_string_equal(r->task.stack.name, "megatron");
    assert_true(r->task.cluster.site[0].between.bandwidth == 25e9);
    assert_int_equal(r->layout.context, 4);
    assert_true(r->task.stack.reduce_overlaps && r->layout.tp_overlap && r->layout.gather_8bit && r->with_context);
    ls_rows_free(&rows);
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

static void same_prediction(const ls_row *a, const ls_row *b) {
    ls_prediction p, q;
    ls_knobs x, y;
    assert_string_equal(a->reason, b->reason);
    if (a->reason[0]) return;
    assert_int_equal(ls_row_predict(a, &x, &p), LS_OK);
    assert_int_equal(ls_row_predict(b, &y, &q), LS_OK);
    assert_true(p.seconds > 0 && p.memory_bytes > 0);
    assert_memory_equal(&p, &q, sizeof p);
    assert_int_equal(x.micro, y.micro);
    assert_int_equal(x.virtual_stages, y.virtual_stages);
    assert_int_equal(x.recompute, y.recompute);
}

static bool is_blanked(const char *name) {
    return !strcmp(name, "id") || !strcmp(name, "source") || !strcmp(name, "source_group") || !strcmp(name, "model") ||
           !strcmp(name, "value");
}

/* The table again with id, source, source_group, model and value empty. */
static char *blanked(const ls_csv *csv) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    for (size_t r = 0; r < csv->rows; r++) {
        for (size_t c = 0; c < csv->columns; c++) {
            const char *field = csv->field[r * csv->columns + c];
            fprintf(out, c ? ",\"" : "\"");
            if (r > 0 && is_blanked(csv->field[c])) field = "";
            for (; *field; field++) fprintf(out, *field == '"' ? "\"\"" : "%c", *field);
            fprintf(out, "\"");
        }
        fprintf(out, "\n");
    }
    assert_int_equal(fclose(out), 0);
    return text;
}

static void names_do_not_matter(const ls_csv *csv, const ls_rows *rows) {
    char *text = blanked(csv);
    ls_rows bare;
    assert_int_equal(ls_rows_parse("blanked", text, strlen(text), &bare), LS_OK);
    assert_int_equal(bare.count, rows->count);
    for (size_t i = 0; i < rows->count; i++) {
        assert_string_equal(bare.row[i].source, "");
        assert_true(bare.row[i].value == 0);
        same_prediction(&rows->row[i], &bare.row[i]);
    }
    ls_rows_free(&bare);
    free(text);
}

static void test_predictions_do_not_know_names_and_values(void **state) {
    (void)state;
    const char *text = whole_table(), *file = getenv("RUNS");
    ls_csv csv;
    ls_rows rows;
    assert_int_equal(ls_csv_parse("t.csv", text, strlen(text), &csv), LS_OK);
    assert_int_equal(parse(text, &rows), LS_OK);
    names_do_not_matter(&csv, &rows);
    ls_rows_free(&rows);
    ls_csv_free(&csv);
    if (!file || !*file) return;
    assert_int_equal(ls_csv_read(file, &csv), LS_OK);
    assert_int_equal(ls_rows_read(file, &rows), LS_OK);
    names_do_not_matter(&csv, &rows);
    ls_rows_free(&rows);
    ls_csv_free(&csv);
}

/* Published rows: a mean far off would be a mistake of the model, not of the measurements. */
static void test_published_times_are_met(void **state) {
    (void)state;
    ls_rows rows;
    double sum = 0;
    int n = 0;
    assert_int_equal(parse(whole_table(), &rows), LS_OK);
    for (size_t i = 0; i < rows.count; i++) {
        ls_prediction p;
        assert_int_equal(ls_row_predict(&rows.row[i], NULL, &p), LS_OK);
        if (rows.row[i].metric == LS_ROW_MEMORY) continue;
        double error = p.seconds / ls_row_measured(&rows.row[i]) - 1;
        assert_true(error > -.2 && error < .25);
        sum += error < 0 ? -error : error;
        n++;
    }
    assert_true(sum / n < .08);
    ls_rows_free(&rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_row_is_read_as_written),
        cmocka_unit_test(test_every_metric_becomes_seconds),
        cmocka_unit_test(test_columns_may_stand_in_any_order_with_others_between),
        cmocka_unit_test(test_errors_name_file_line_and_column),
        cmocka_unit_test(test_what_is_no_table_is_refused),
        cmocka_unit_test(test_rows_that_cannot_be_modelled_say_why),
        cmocka_unit_test(test_unknown_chips_types_and_programs_are_not_modelled),
        cmocka_unit_test(test_columns_say_program_links_and_overlap),
        cmocka_unit_test(test_predictions_do_not_know_names_and_values),
        cmocka_unit_test(test_published_times_are_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
