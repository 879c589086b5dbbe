/* fuzz_machine.c: any bytes as a cluster file. What is accepted is a cluster that passes the check, has sane constants,
 * and reads back from what is written of it.
 *
 *     clang -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Iinclude -Isrc tests/fuzz/fuzz_machine.c … */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "plan/hardware/machine_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void read_back(const ls_cluster *cluster, json_t *measured) {
    ls_cluster back;
    json_t *json = ls_machine_to_json(cluster, measured), *again;
    if (!json || ls_machine_from_json("back", json, &back, &again) != LS_OK) abort();
    if (back.site[0].chips != cluster->site[0].chips || back.site[0].node != cluster->site[0].node ||
        back.site[0].chip.memory_bytes != cluster->site[0].chip.memory_bytes ||
        back.site[0].between.bandwidth != cluster->site[0].between.bandwidth ||
        (measured && !json_equal(measured, again)))
        abort();
    json_decref(again);
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    json_t *json, *measured;
    ls_cluster cluster;
    if (ls_json_load_text("a", (const char *)data, bytes, &json) != LS_OK) return 0;
    if (ls_machine_from_json("a", json, &cluster, &measured) == LS_OK) {
        const ls_chip *chip = &cluster.site[0].chip;
        if (ls_cluster_check(&cluster) != LS_OK) abort();
        if (!(chip->memory_bytes > chip->reserved_bytes && chip->memory_bandwidth > 0 && chip->units >= 1)) abort();
        if (!(cluster.site[0].inside.bandwidth > 0 && cluster.site[0].between.share > 0)) abort();
        read_back(&cluster, measured);
        json_decref(measured);
    }
    json_decref(json);
    return 0;
}
