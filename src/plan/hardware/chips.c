/* chips.c: accelerators and generic CPU cores, with where the figures come from.
 *
 * Peaks, memory and bandwidth are the makers' data sheets, dense rates; memory is what the driver shows where that is
 * known (nvidia-smi: 81,559 MiB on H100, 143,771 on H200, 97,871 on H20, 183,359 on B200, 46,068 on L40S). What large
 * matmuls, passes and attention reach of them in training is the same for all chips of a generation (plan/fitted), less
 * where the power limit is lower; chips that no generation speaks for have what matmuls alone were measured to reach.
 * A group of chips costs NCCL's buffers: 24 channels with a ring and a tree, about 5 MB each way.
 *
 * "not verified" in a source says which figures no public document at hand confirms. "MAMF" is the table of maximum
 * achievable matmul FLOPS in Bekman, Machine Learning Engineering; "torch test data" is the table of large PyTorch
 * matmuls, chip by chip, of torch-performance-test-data. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "plan/fitted/fitted.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

/* The fp32, fp16, bf16, fp8, mxfp8 columns; a chip without a type runs the one before. */
#define EACH(f32, f16, b16, f8, m8)                                                                                    \
    { (f32), (f16), (b16), (f8), (m8) }
#define RATES(f32, h16, f8, m8) EACH((f32)*1e12, (h16)*1e12, (h16)*1e12, (f8)*1e12, (m8)*1e12)

/* Of a generation whose shares are fitted: GiB, GB/s, its watts, those of its generation's largest for the same peak,
 * GiB reserved. */
#define GPU(chip_name, from, kind, gib, rates, processors, gb_s, watts, most_watts, reserved)                          \
    {                                                                                                                  \
        .name = chip_name, .source = from, .generation = LS_GENERATION_##kind, .memory_bytes = (gib)*GIB,              \
        .peak_flops = rates, .units = (processors), .gemm_fill = 64, .memory_bandwidth = (gb_s)*1e9,                   \
        .power_share = (double)(watts) / (most_watts), .launch_seconds = 2e-6, .reserved_bytes = (reserved)*GIB,       \
        .group_bytes = .45 * GIB                                                                                       \
    }
/* Of a chip that no generation with measured runs speaks for: the shares of matmuls in 16 and in 8 bits, and of passes
 * over arrays, as measured alone. Attention reaches as much of that as elsewhere. */
#define ALONE(chip_name, from, gib, rates, processors, gb_s, share_16, share_8, passes, launch, reserved)              \
    {                                                                                                                  \
        .name = chip_name, .source = from, .memory_bytes = (gib)*GIB, .peak_flops = rates,                             \
        .share = EACH(share_16, share_16, share_16, share_8, share_8), .units = (processors), .gemm_fill = 64,         \
        .attention_share = .60 * (share_16), .attention_back_share = .45 * (share_16), .memory_bandwidth = (gb_s)*1e9, \
        .bandwidth_share = (passes), .launch_seconds = (launch), .reserved_bytes = (reserved)*GIB,                     \
        .group_bytes = .45 * GIB                                                                                       \
    }
#define CPU(chip_name, from, rates, shares, attention_, back)                                                          \
    {                                                                                                                  \
        .name = chip_name, .source = from, .memory_bytes = 4 * GIB, .peak_flops = rates, .share = shares, .units = 1,  \
        .gemm_fill = 8, .attention_share = (attention_), .attention_back_share = (back), .memory_bandwidth = 12e9,     \
        .bandwidth_share = .80, .launch_seconds = 2e-6, .reserved_bytes = .02 * GIB, .is_cpu = true                    \
    }

/* What a chip has of its host: the link to it, and its part of the memory's bandwidth, as far as programs
 * reach them. */
typedef enum host_kind { HOST_PCIE3, HOST_PCIE4, HOST_PCIE5, HOST_GRACE, HOST_SELF } host_kind;
static const struct {
    double link, bandwidth; /* GB/s */
} hosts[] = {
    [HOST_PCIE3] = {12, 22},   /* two sockets of 6 × DDR4-2666, 8 chips, 70 % */
    [HOST_PCIE4] = {24, 36},   /* two of 8 × DDR4-3200 */
    [HOST_PCIE5] = {48, 54},   /* two of 8 × DDR5-4800 */
    [HOST_GRACE] = {380, 190}, /* NVLink-C2C; LPDDR5X of a Grace for two chips */
    [HOST_SELF] = {10, 10},
};

typedef struct chip_row {
    const char *aliases; /* names as people write them, without anything but letters and digits */
    const char *inside, *between;
    int node;
    host_kind host;
    ls_chip chip;
} chip_row;

static const chip_row rows[] = {
    {"v100 v10032gb v100sxm v10032gbsxm v100sxm2 v100sxm3", "nvlink2", "hdr100", 8, HOST_PCIE3,
     GPU("V100-32GB-SXM", "NVIDIA V100 data sheet (SXM2)", VOLTA, 32, EACH(15.7e12, 125e12, 0, 0, 0), 80, 900, 300, 300,
         1.0)},
    {"a100 a10080gb a100sxm a10080gbsxm a10080gbsxm4 a100sxm480gb a10080", "nvlink3", "hdr", 8, HOST_PCIE4,
     GPU("A100-80GB-SXM", "NVIDIA A100 data sheet", AMPERE, 80, RATES(19.5, 312, 0, 0), 108, 2039, 400, 400, 1.5)},
    {"a10040gb a10040gbsxm a10040gbsxm4 a10040", "nvlink3", "hdr", 8, HOST_PCIE4,
     GPU("A100-40GB-SXM", "NVIDIA A100 data sheet", AMPERE, 40, RATES(19.5, 312, 0, 0), 108, 1555, 400, 400, 1.5)},
    {"a100pcie a10080gbpcie", "pcie4", "hdr100", 8, HOST_PCIE4,
     GPU("A100-80GB-PCIe", "NVIDIA A100 data sheet; 300 W", AMPERE, 80, RATES(19.5, 312, 0, 0), 108, 1935, 300, 400,
         1.5)},
    {"a10040gbpcie", "pcie4", "hdr100", 8, HOST_PCIE4,
     GPU("A100-40GB-PCIe", "NVIDIA A100 data sheet; 250 W", AMPERE, 40, RATES(19.5, 312, 0, 0), 108, 1555, 250, 400,
         1.5)},
    {"l40s l40s48gb", "pcie4", "hdr", 8, HOST_PCIE4,
     ALONE("L40S-48GB", "NVIDIA L40S data sheet; matmuls: torch test data, 264 to 269 TFLOP/s; in 8 bits not verified",
           45, RATES(91.6, 362, 733, 0), 142, 864, .74, .70, .85, 2e-6, 1.0)},
    {"rtx4090 4090 geforcertx4090 rtx409024gb", "pcie4", "25gbe", 8, HOST_PCIE4,
     ALONE(
         "RTX-4090-24GB",
         "NVIDIA Ada GPU Architecture paper: rates with sums in fp32; matmuls: torch test data, 159 to 173 TFLOP/s; in "
         "8 bits not verified; no peer access",
         23.6, RATES(82.6, 165.2, 330.3, 0), 128, 1008, .95, .90, .85, 2e-6, 1.0)},
    {"h100 h10080gb h100sxm h10080gbsxm h10080gbhbm3 h100sxm5", "nvlink4", "ndr", 8, HOST_PCIE5,
     GPU("H100-80GB-SXM", "NVIDIA H100 data sheet", HOPPER, 79.6, RATES(67, 989, 1979, 0), 132, 3350, 700, 700, 2.0)},
    {"h100pcie h10080gbpcie", "pcie5", "ndr", 8, HOST_PCIE5,
     GPU("H100-80GB-PCIe", "NVIDIA H100 data sheet; 350 W, with a lower peak", HOPPER, 79.6, RATES(51, 756, 1513, 0),
         114, 2000, 350, 535, 2.0)},
    {"h10096gb h10096gbhbm2e h10096gbhbm2e500w", "nvlink4", "ndr", 8, HOST_PCIE5,
     GPU("H100-96GB-HBM2e-500W",
         "torchtitan, llama3_h100_202412: 96 GB of HBM2e, 2.4 TB/s, 500 W; its peak not verified", HOPPER, 95,
         RATES(67, 989, 1979, 0), 132, 2400, 500, 700, 2.0)},
    {"h200 h200sxm h200141gb h200141gbsxm", "nvlink4", "ndr", 8, HOST_PCIE5,
     GPU("H200-141GB-SXM", "NVIDIA H200 data sheet", HOPPER, 140.4, RATES(67, 989, 1979, 0), 132, 4800, 700, 700, 2.0)},
    {"h20 h2096gb h20sxm", "nvlink4", "ndr", 8, HOST_PCIE5,
     ALONE(
         "H20-96GB",
         "NVIDIA has no public data sheet: figures of resellers that agree; matmuls: torch test data, 142 TFLOP/s; in "
         "8 bits not verified",
         95.6, RATES(44, 148, 296, 0), 78, 4000, .94, .90, .85, 2e-6, 2.0)},
    {"b200 b200180gb b200192gb b200sxm hgxb200", "nvlink5", "ndr", 8, HOST_PCIE5,
     GPU("B200-180GB", "NVIDIA Blackwell data sheet: HGX B200", BLACKWELL, 179, RATES(75, 2250, 4500, 4500), 148, 7700,
         1000, 1260, 2.5)},
    {"gb200 gb200nvl72 nvl72", "nvlink5", "ndr", 72, HOST_GRACE,
     GPU("GB200-NVL72", "NVIDIA Blackwell data sheet: GB200 NVL72", BLACKWELL, 184, RATES(80, 2500, 5000, 5000), 148,
         8000, 1200, 1400, 2.5)},
    {"b300 b300288gb b300sxm hgxb300", "nvlink5", "xdr", 8, HOST_PCIE5,
     GPU("B300-288GB",
         "NVIDIA Blackwell Ultra data sheet: HGX B300; bandwidth 7.7 or 8 TB/s, depending on the document; units not "
         "verified",
         BLACKWELL, 268, RATES(75, 2250, 4500, 4500), 148, 8000, 1100, 1260, 2.5)},
    {"gb300 gb300nvl72", "nvlink5", "xdr", 72, HOST_GRACE,
     GPU("GB300-NVL72", "NVIDIA Blackwell Ultra data sheet: GB300 NVL72; units and what the driver shows not verified",
         BLACKWELL, 276, RATES(80, 2500, 5000, 5000), 148, 8000, 1400, 1400, 2.5)},
    {"mi300x mi300x192gb mi300", "infinity-fabric", "ndr", 8, HOST_PCIE5,
     ALONE("MI300X-192GB", "AMD MI300X data sheet; matmuls: MAMF, 668 TFLOP/s; in 8 bits not verified", 191,
           RATES(163.4, 1307, 2615, 0), 304, 5300, .51, .45, .80, 3e-6, 2.5)},
    {"mi325x mi325x256gb mi325", "infinity-fabric", "ndr", 8, HOST_PCIE5,
     ALONE("MI325X-256GB", "AMD MI325X data sheet; matmuls: MAMF, 785 TFLOP/s; in 8 bits not verified", 255,
           RATES(163.4, 1307, 2615, 0), 304, 6000, .60, .50, .80, 3e-6, 2.5)},
    {"mi355x mi355x288gb mi355", "infinity-fabric4", "ndr", 8, HOST_PCIE5,
     ALONE("MI355X-288GB", "AMD MI355X data sheet, ROCm GPU specifications; shares of MI325X, not verified", 287,
           RATES(157.3, 2517, 5033, 5033), 256, 8000, .60, .50, .80, 3e-6, 2.5)},
    {"cpuarm64 cpuarm64core arm64 neoverse graviton3 cpu", "shm", "100gbe", 64, HOST_SELF,
     CPU("CPU-ARM64-core", "Neoverse V1 core at 2.6 GHz: two 256-bit FMA units; matmuls measured with lockstep bench",
         EACH(83e9, 83e9, 333e9, 0, 0), EACH(.80, .76, .66, 0, 0), .60, .50)},
    {"cpux8664 cpux8664core x8664 avx512 cpux86", "shm", "100gbe", 64, HOST_SELF,
     CPU("CPU-x86-64-core", "AVX-512 core at 2.7 GHz: two 512-bit FMA units; matmuls measured with lockstep bench",
         EACH(173e9, 173e9, 173e9, 0, 0), EACH(.75, .70, .70, 0, 0), .55, .45)},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

const ls_chip *ls_chip_row(int i) { return i >= 0 && i < ROWS ? &rows[i].chip : NULL; }

/* Copies letters and digits alone, in lower case; leaves out text in parentheses. */
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

/* Returns whether the simplified name is one of the words of `aliases`. */
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

/* Returns the row of a chip whose name or alias this is, spelled freely; NULL: unknown. */
static const chip_row *find_chip(const char *name) {
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

/* Returns LS_ERR_INPUT with a message that lists the names. */
static ls_status fail_unknown_chip(const char *name) {
    char list[1024] = "";
    for (int i = 0; i < ROWS; i++) ls_names_add(list, sizeof list, rows[i].chip.name);
    return ls_fail(
        LS_ERR_INPUT,
        "unknown chip \"%s\"; choose one of: %s; or describe yours in a cluster file (docs/reference/planner.md) and "
        "name the file",
        name, list);
}

/* Returns the row's chip with host figures and fitted shares filled in. */
static ls_chip chip_of(const chip_row *row) {
    ls_chip chip = row->chip;
    chip.host_link = hosts[row->host].link * 1e9;
    chip.host_bandwidth = hosts[row->host].bandwidth * 1e9;
    ls_fitted_chip(ls_fitted_values(), &chip);
    return chip;
}

ls_status ls_chip_find(const char *name, ls_chip *out) {
    const chip_row *row = find_chip(name);
    if (!row) return fail_unknown_chip(name);
    *out = chip_of(row);
    return LS_OK;
}

double ls_chip_datasheet_flops(const char *gpu, bool is_16) {
    static const char maker[] = "NVIDIA ";
    const chip_row *row = strncmp(gpu, maker, strlen(maker)) == 0 ? find_chip(gpu + strlen(maker)) : NULL;
    return row ? row->chip.peak_flops[is_16 ? LS_PLAN_BF16 : LS_PLAN_FP32] : 0;
}

ls_status ls_cluster_of(const char *chip, int chips, int node, ls_cluster *out) {
    const chip_row *row = find_chip(chip);
    if (!row) return fail_unknown_chip(chip);
    memset(out, 0, sizeof *out);
    out->sites = 1;
    snprintf(out->name, sizeof out->name, "%s", row->chip.name);
    ls_site *site = &out->site[0];
    site->chip = chip_of(row);
    site->node = node > 0 ? node : row->node;
    site->chips = chips;
    LS_TRY(ls_link_find(row->inside, &site->inside));
    return ls_link_find(row->between, &site->between);
}

/* Returns the largest number up to `most` that divides the chips: a node size for the message. */
static int node_that_divides(int chips, int most) {
    while (chips % most != 0) most--;
    return most;
}

/* Checks that a site has chips, and whole nodes of them. */
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
        return ls_fail(LS_ERR_INPUT, "the cluster has %d sites; a plan supports 1 or %d", cluster->sites, LS_SITES_MAX);
    for (int i = 0; i < cluster->sites; i++) LS_TRY(check_site(&cluster->site[i]));
    if (cluster->sites > 1 && !(cluster->across.bandwidth > 0))
        return ls_fail(LS_ERR_INPUT, "two clusters require a link between them (--link)");
    return LS_OK;
}
