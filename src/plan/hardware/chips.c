/* chips.c: accelerators and generic CPU cores, with where the figures come from.
 *
 * Peaks, memory and bandwidth are the makers' data sheets, dense rates. Shares are what large matmuls, passes and
 * attention reach in training; they were set from whole tables of measured runs together (docs/planner.md), one number
 * for a chip. A group of chips costs NCCL's buffers: 24 channels with a ring and a tree, about 5 MB each way. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "plan/hardware/machine.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

/* The fp32, fp16, bf16, fp8 columns; a chip without fp8 runs bf16. */
#define RATES(f32, h16, f8) EACH((f32)*1e12, (h16)*1e12, (h16)*1e12, (f8)*1e12)
#define EACH(f32, f16, b16, f8)                                                                                        \
    { (f32), (f16), (b16), (f8) }
#define SHARES(s, s8) EACH(s, s, s, s8)

/* All of an ls_chip, in its order. */
#define CHIP(...)                                                                                                      \
    { __VA_ARGS__ }

typedef struct chip_row {
    const char *aliases; /* names as people write them, without anything but letters and digits */
    const char *inside, *between;
    int node;
    ls_chip chip;
} chip_row;

static const chip_row rows[] = {
    {"v100 v10032gb v100sxm v10032gbsxm v100sxm2 v100sxm3", "nvlink2", "hdr100", 8,
     CHIP("V100-32GB-SXM", "NVIDIA V100 data sheet; DGX-2 user guide", 32 * GIB, EACH(15.7e12, 125e12, 0, 0),
          EACH(.9, .92, .92, 0), 80, 64, .40, .35, 900e9, .90, 2e-6, 1.0 * GIB, .45 * GIB, false)},
    {"a100 a10080gb a100sxm a10080gbsxm a10080gbsxm4 a100sxm480gb a10080", "nvlink3", "hdr", 8,
     CHIP("A100-80GB-SXM", "NVIDIA A100 data sheet", 80 * GIB, RATES(19.5, 312, 0), SHARES(.81, 0), 108, 64, .50, .41,
          2039e9, .82, 2e-6, 1.5 * GIB, .45 * GIB, false)},
    {"a10040gb a10040gbsxm a10040gbsxm4 a10040", "nvlink3", "hdr", 8,
     CHIP("A100-40GB-SXM", "NVIDIA A100 data sheet", 40 * GIB, RATES(19.5, 312, 0), SHARES(.81, 0), 108, 64, .50, .41,
          1555e9, .82, 2e-6, 1.5 * GIB, .45 * GIB, false)},
    {"a100pcie a10080gbpcie", "pcie4", "hdr100", 8,
     CHIP("A100-80GB-PCIe", "NVIDIA A100 data sheet; 300 W instead of 400 W lowers the achieved rates", 80 * GIB,
          RATES(19.5, 312, 0), SHARES(.68, 0), 108, 64, .43, .36, 1935e9, .82, 2e-6, 1.5 * GIB, .45 * GIB, false)},
    {"a10040gbpcie", "pcie4", "hdr100", 8,
     CHIP("A100-40GB-PCIe", "NVIDIA A100 data sheet; 250 W instead of 400 W lowers the achieved rates", 40 * GIB,
          RATES(19.5, 312, 0), SHARES(.65, 0), 108, 64, .43, .36, 1555e9, .82, 2e-6, 1.5 * GIB, .45 * GIB, false)},
    {"h100 h10080gb h100sxm h10080gbsxm h10080gbhbm3 h100sxm5", "nvlink4", "ndr", 8,
     CHIP("H100-80GB-SXM", "NVIDIA H100 data sheet", 79.6 * GIB, RATES(67, 989, 1979), SHARES(.62, .60), 132, 64, .40,
          .27, 3350e9, .82, 2e-6, 2.0 * GIB, .45 * GIB, false)},
    {"h100pcie h10080gbpcie", "pcie5", "ndr", 8,
     CHIP("H100-80GB-PCIe", "NVIDIA H100 data sheet; 350 W", 79.6 * GIB, RATES(51, 756, 1513), SHARES(.54, .52), 114,
          64, .36, .25, 2000e9, .82, 2e-6, 2.0 * GIB, .45 * GIB, false)},
    {"h10096gb h10096gbhbm2e h10096gbhbm2e500w", "nvlink4", "ndr", 8,
     CHIP("H100-96GB-HBM2e-500W",
          "torchtitan benchmarks: H100 with HBM2e, limited to 500 W; efficiencies fitted to its tables", 95 * GIB,
          RATES(67, 989, 1979), SHARES(.475, .465), 132, 64, .38, .30, 2400e9, .82, 2e-6, 2.0 * GIB, .45 * GIB, false)},
    {"h200 h200sxm h200141gb h200141gbsxm", "nvlink4", "ndr", 8,
     CHIP("H200-141GB-SXM", "NVIDIA H200 data sheet", 140.4 * GIB, RATES(67, 989, 1979), SHARES(.62, .60), 132, 64, .40,
          .27, 4800e9, .82, 2e-6, 2.0 * GIB, .45 * GIB, false)},
    {"b200 b200180gb b200192gb b200sxm hgxb200", "nvlink5", "ndr", 8,
     CHIP("B200-180GB", "NVIDIA HGX B200 data sheet; efficiencies of H100", 179 * GIB, RATES(75, 2250, 4500),
          SHARES(.62, .60), 148, 64, .40, .27, 7700e9, .82, 2e-6, 2.5 * GIB, .45 * GIB, false)},
    {"gb200 gb200nvl72 nvl72", "nvlink5", "ndr", 72,
     CHIP("GB200-NVL72", "NVIDIA GB200 NVL72 data sheet; efficiencies of H100", 184 * GIB, RATES(80, 2500, 5000),
          SHARES(.62, .60), 148, 64, .40, .27, 8000e9, .82, 2e-6, 2.5 * GIB, .45 * GIB, false)},
    {"mi300x mi300x192gb mi300", "infinity-fabric", "ndr", 8,
     CHIP("MI300X-192GB", "AMD MI300X data sheet; efficiency from published GEMM measurements", 191 * GIB,
          RATES(163, 1307, 2615), SHARES(.50, .45), 304, 64, .30, .22, 5300e9, .80, 3e-6, 2.5 * GIB, .45 * GIB, false)},
    {"cpuarm64 cpuarm64core arm64 neoverse graviton3 cpu", "shm", "100gbe", 64,
     CHIP("CPU-ARM64-core", "Neoverse V1 core at 2.6 GHz: two 256-bit FMA units; matmuls measured with lockstep bench",
          4 * GIB, EACH(83e9, 83e9, 333e9, 0), EACH(.80, .76, .66, 0), 1, 8, .60, .50, 12e9, .80, 2e-6, 0.02 * GIB, 0,
          true)},
    {"cpux8664 cpux8664core x8664 avx512 cpux86", "shm", "100gbe", 64,
     CHIP("CPU-x86-64-core", "AVX-512 core at 2.7 GHz: two 512-bit FMA units; matmuls measured with lockstep bench",
          4 * GIB, EACH(173e9, 173e9, 173e9, 0), EACH(.75, .70, .70, 0), 1, 8, .55, .45, 12e9, .80, 2e-6, 0.02 * GIB, 0,
          true)},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

const ls_chip *ls_chip_row(int i) { return i >= 0 && i < ROWS ? &rows[i].chip : NULL; }

/* Letters and digits alone, in lower case; what is in parentheses is left out. */
static void simplify(const char *name, char *out, size_t capacity) {
    size_t n = 0;
    int depth = 0;
    for (; *name && n + 1 < capacity; name++) {
        if (*name == '(') depth++;
        if (depth == 0 && isalnum((unsigned char)*name)) out[n++] = (char)tolower((unsigned char)*name);
        if (*name == ')' && depth > 0) depth--;
    }
    out[n] = '\0';
}

static bool is_alias(const char *aliases, const char *name) {
    size_t length = strlen(name);
    for (const char *at = aliases; *at;) {
        size_t word = strcspn(at, " ");
        if (word == length && memcmp(at, name, length) == 0) return true;
        at += word;
        at += strspn(at, " ");
    }
    return false;
}

static const chip_row *find(const char *name) {
    char key[2 * LS_MACHINE_NAME_MAX], own[LS_MACHINE_NAME_MAX];
    simplify(name, key, sizeof key);
    for (int i = 0; i < ROWS; i++) {
        simplify(rows[i].chip.name, own, sizeof own);
        if (strcmp(own, key) == 0 || is_alias(rows[i].aliases, key)) return &rows[i];
    }
    return NULL;
}

void ls_names_add(char *list, size_t capacity, const char *name) {
    size_t used = strlen(list);
    snprintf(list + used, capacity - used, "%s%s", used > 0 ? ", " : "", name);
}

static ls_status unknown(const char *name) {
    char list[1024] = "";
    for (int i = 0; i < ROWS; i++) ls_names_add(list, sizeof list, rows[i].chip.name);
    return ls_fail(LS_ERR_INPUT,
                   "unknown chip \"%s\"; choose one of: %s; or describe yours in a cluster file (docs/planner.md) and "
                   "name the file",
                   name, list);
}

ls_status ls_chip_find(const char *name, ls_chip *out) {
    const chip_row *row = find(name);
    if (!row) return unknown(name);
    *out = row->chip;
    return LS_OK;
}

double ls_chip_datasheet_flops(const char *gpu, bool is_16) {
    static const char maker[] = "NVIDIA ";
    const chip_row *row = strncmp(gpu, maker, strlen(maker)) == 0 ? find(gpu + strlen(maker)) : NULL;
    return row ? row->chip.peak_flops[is_16 ? LS_PLAN_BF16 : LS_PLAN_FP32] : 0;
}

ls_status ls_cluster_of(const char *chip, int chips, int node, ls_cluster *out) {
    const chip_row *row = find(chip);
    if (!row) return unknown(chip);
    memset(out, 0, sizeof *out);
    out->sites = 1;
    snprintf(out->name, sizeof out->name, "%s", row->chip.name);
    ls_site *site = &out->site[0];
    site->chip = row->chip;
    site->node = node > 0 ? node : row->node;
    site->chips = chips;
    LS_TRY(ls_link_find(row->inside, &site->inside));
    return ls_link_find(row->between, &site->between);
}

/* ---- clusters that cannot be ------------------------------------------------------------------------------------- */

static int node_that_divides(int chips, int most) {
    while (chips % most != 0) most--;
    return most;
}

static ls_status check_site(const ls_site *site) {
    if (site->chips < 1 || site->chips > LS_CHIPS_MAX)
        return ls_fail(LS_ERR_INPUT, "a cluster of %d chips is not possible; use 1 to %d", site->chips, LS_CHIPS_MAX);
    if (site->node < 1) return ls_fail(LS_ERR_INPUT, "a node of %d chips is not possible; use 1 or more", site->node);
    if (site->chips > site->node && site->chips % site->node != 0) {
        int whole = site->chips / site->node * site->node;
        return ls_fail(
            LS_ERR_INPUT,
            "%d chips in nodes of %d make %.4g nodes; use %d or %d chips, or say how many are in a node with "
            "--gpus-per-node (%d would do)",
            site->chips, site->node, (double)site->chips / site->node, whole, whole + site->node,
            node_that_divides(site->chips, site->node));
    }
    return LS_OK;
}

ls_status ls_cluster_check(const ls_cluster *cluster) {
    if (cluster->sites < 1 || cluster->sites > LS_SITES_MAX)
        return ls_fail(LS_ERR_INPUT, "a cluster of %d sites is not possible; use 1 or %d", cluster->sites,
                       LS_SITES_MAX);
    for (int i = 0; i < cluster->sites; i++) LS_TRY(check_site(&cluster->site[i]));
    if (cluster->sites > 1 && !(cluster->across.bandwidth > 0))
        return ls_fail(LS_ERR_INPUT, "two clusters require a link between them (--link)");
    return LS_OK;
}
