/* test_machine_file.c: cluster files are read as machine_file.h says, written so that they can be read, and refused
 * with the member that is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/json.h"
#include "plan/hardware/machine_file.h"

static ls_status read_text(const char *text, ls_cluster *out, json_t **measured) {
    json_t *json;
    LS_TRY(ls_json_load_text("f", text, strlen(text), &json));
    ls_status status = ls_machine_from_json("f", json, out, measured);
    json_decref(json);
    return status;
}

static void test_a_name_is_the_chip_of_the_table(void **state) {
    (void)state;
    ls_cluster cluster, table;
    json_t *measured;
    assert_int_equal(read_text("{\"chip\": \"h100\", \"chips\": 64}", &cluster, &measured), LS_OK);
    assert_int_equal(ls_cluster_of("H100", 64, 0, &table), LS_OK);
    assert_null(measured);
    assert_int_equal(cluster.sites, 1);
    assert_int_equal(cluster.site[0].chips, 64);
    assert_int_equal(cluster.site[0].node, 8);
    assert_string_equal(cluster.site[0].chip.name, "H100-80GB-SXM");
    assert_true(cluster.site[0].chip.memory_bandwidth == 3350e9);
    assert_string_equal(cluster.site[0].inside.name, "nvlink4");
    assert_string_equal(cluster.name, table.name);
}

static void test_members_override_what_like_gives(void **state) {
    (void)state;
    ls_cluster cluster;
    assert_int_equal(
        read_text("{\"name\": \"lab\", \"chip\": {\"like\": \"A100\", \"name\": \"mine\", \"memory-bytes\": 96e9,"
                  " \"share_bf16\": 0.5}, \"chips_per_node\": 4, \"inside\": \"pcie4\","
                  " \"between\": {\"like\": \"hdr\", \"bandwidth_bytes_per_second\": 3e9}}",
                  &cluster, NULL),
        LS_OK);
    const ls_site *site = &cluster.site[0];
    ls_chip table;
    ls_link hdr;
    assert_int_equal(ls_chip_find("A100", &table), LS_OK);
    assert_int_equal(ls_link_find("hdr", &hdr), LS_OK);
    assert_string_equal(cluster.name, "lab");
    assert_string_equal(site->chip.name, "mine");
    assert_true(site->chip.memory_bytes == 96e9);
    assert_true(site->chip.share[LS_PLAN_BF16] == .5);
    assert_true(site->chip.share[LS_PLAN_FP16] == table.share[LS_PLAN_FP16]);
    assert_true(site->chip.memory_bandwidth == 2039e9);
    assert_int_equal(site->node, 4);
    assert_int_equal(site->chips, 4);
    assert_string_equal(site->inside.name, "pcie4");
    assert_true(site->between.bandwidth == 3e9);
    assert_true(site->between.share == hdr.share);
}

static void test_a_chip_of_ones_own(void **state) {
    (void)state;
    ls_cluster cluster;
    assert_int_equal(
        read_text("{\"chip\": {\"name\": \"X1\", \"memory_bytes\": 64e9, \"memory_bandwidth_bytes_per_second\": 2e12,"
                  " \"peak_bf16_flops_per_second\": 5e14}, \"inside\": {\"bandwidth_bytes_per_second\": 2e11},"
                  " \"between\": \"ndr\", \"chips\": 16}",
                  &cluster, NULL),
        LS_OK);
    assert_string_equal(cluster.site[0].chip.name, "X1");
    assert_true(cluster.site[0].chip.peak_flops[LS_PLAN_BF16] == 5e14);
    assert_true(cluster.site[0].chip.share[LS_PLAN_BF16] > 0);
    assert_true(cluster.site[0].inside.share > 0);
}

static void test_what_is_written_can_be_read(void **state) {
    (void)state;
    char path[] = "/tmp/test_machine_XXXXXX";
    int file = mkstemp(path);
    ls_cluster cluster, again;
    json_t *measured = json_pack("{s:[f,f]}", "curve", 1.5, 2.5), *back;
    assert_true(file >= 0);
    close(file);
    for (int i = 0; ls_chip_row(i); i++) {
        assert_int_equal(ls_cluster_of(ls_chip_row(i)->name, 1, 0, &cluster), LS_OK);
        cluster.site[0].chips = 3 * cluster.site[0].node;
        assert_int_equal(ls_machine_file_write(path, &cluster, measured), LS_OK);
        assert_int_equal(ls_machine_file_read(path, &again, &back), LS_OK);
        assert_true(json_equal(back, measured));
        json_decref(back);
        cluster.site[0].chip.source = again.site[0].chip.source = NULL;
        cluster.site[0].inside.source = again.site[0].inside.source = NULL;
        cluster.site[0].between.source = again.site[0].between.source = NULL;
        json_t *a = ls_machine_to_json(&cluster, NULL), *b = ls_machine_to_json(&again, NULL);
        char *left = json_dumps(a, JSON_REAL_PRECISION(12)), *right = json_dumps(b, JSON_REAL_PRECISION(12));
        assert_string_equal(left, right);
        free(left);
        free(right);
        json_decref(a);
        json_decref(b);
    }
    json_decref(measured);
    unlink(path);
}

static void test_what_is_wrong_is_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"[]", "f: must be an object"},
        {"{}", "f: \"chip\" is missing"},
        {"{\"chip\": 3}", "f: chip: must be the name of a chip or an object"},
        {"{\"chip\": \"Z80\"}", "unknown chip \"Z80\""},
        {"{\"chip\": \"H100\", \"chip_per_node\": 4}", "did you mean \"chips_per_node\"?"},
        {"{\"chip\": \"H100\", \"chips\": 0}", "\"chips\" is 0; it must be between 1 and"},
        {"{\"chip\": \"H100\", \"chips\": 28}", "28 chips in nodes of 8 make 3.5 nodes; use 24 or 32 chips"},
        {"{\"chip\": \"H100\", \"chips\": 8.5}", "chips"},
        {"{\"chip\": {\"like\": \"H100\", \"memory_bytes\": -1}}", "chip: \"memory_bytes\" is -1"},
        {"{\"chip\": {\"like\": \"H100\", \"share_bf16\": 1.5}}", "\"share_bf16\" is 1.5; it must be between 0 and 1"},
        {"{\"chip\": {\"like\": \"H100\", \"reserved_bytes\": 1e12}}", "must be less than \"memory_bytes\""},
        {"{\"chip\": {\"memory_bytes\": 1e10}, \"inside\": \"shm\", \"between\": \"hdr\"}",
         "\"memory_bandwidth_bytes_per_second\" is missing"},
        {"{\"chip\": {\"memory_bytes\": 1e10, \"memory_bandwidth_bytes_per_second\": 1e12}, \"inside\": \"shm\","
         " \"between\": \"hdr\"}",
         "no peak rate is given"},
        {"{\"chip\": {\"memory_bytes\": 1e10}}", "needs its links, \"inside\" and \"between\""},
        {"{\"chip\": \"H100\", \"inside\": \"wire\"}", "inside: unknown link \"wire\""},
        {"{\"chip\": \"H100\", \"between\": {\"share\": 0.5}}", "between: \"bandwidth_bytes_per_second\" is missing"},
        {"{\"chip\": \"H100\", \"measured\": 3}", "measured: must be an object"},
        {"{\"chip\": \"H100\", \"chips-per-node\": 8, \"chips_per_node\": 8}", "is given twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_cluster cluster;
        json_t *measured = NULL;
        assert_int_equal(read_text(rows[i].text, &cluster, &measured), LS_ERR_INPUT);
        assert_null(measured);
        if (!strstr(ls_status_message(), rows[i].said)) fail_msg("%s: %s", rows[i].text, ls_status_message());
    }
    ls_cluster cluster;
    assert_int_equal(ls_machine_file_read("/nonexistent/file", &cluster, NULL), LS_ERR_INPUT);
}

#ifdef LS_HAVE_YAML
static void test_yaml_means_the_same(void **state) {
    (void)state;
    char path[] = "/tmp/test_machine_XXXXXX.yaml";
    static const char text[] = "chip:\n  like: H100\n  memory-bytes: 1.0e11\nchips: 16\nbetween: 4x100gbe\n";
    int file = mkstemps(path, 5);
    ls_cluster cluster;
    assert_true(file >= 0);
    close(file);
    assert_int_equal(ls_file_write_atomic(path, text, strlen(text)), LS_OK);
    assert_int_equal(ls_machine_file_read(path, &cluster, NULL), LS_OK);
    assert_int_equal(cluster.site[0].chips, 16);
    assert_true(cluster.site[0].chip.memory_bytes == 1e11);
    assert_true(cluster.site[0].between.bandwidth == 50e9);
    unlink(path);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_is_the_chip_of_the_table),
        cmocka_unit_test(test_members_override_what_like_gives),
        cmocka_unit_test(test_a_chip_of_ones_own),
        cmocka_unit_test(test_what_is_written_can_be_read),
        cmocka_unit_test(test_what_is_wrong_is_named),
#ifdef LS_HAVE_YAML
        cmocka_unit_test(test_yaml_means_the_same),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
