/* cmd_probe.c: `lockstep probe`: measures this machine for the planner and writes a cluster file. */
#include <stdio.h>

#include "api/plan.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "device/cuda/cuda.h"
#include "plan/hardware/machine_file.h"

enum { LARGE = LS_NATIVE_LINK_SIZES - 1 };

/* Returns the rate of a matmul of 1024 × 768 × 768 in GFLOP/s. */
static double matmul_rate(const ls_native_rates *r, int type) {
    return 2e-9 * 1024 * 768 * 768 / ls_native_matmul_seconds(r, LS_GEMM_NT, type, 1024, 768, 768, 1);
}

/* Prints a row for each measured number of workers: rates of matmuls (0 types that were not measured are left out),
 * attention, copies, AdamW, and the launch time. */
static void print_rates(const ls_native_machine *m) {
    printf("\n%7s %7s", "workers", "threads");
    for (int type = 0; type < LS_NATIVE_TYPES; type++)
        if (m->rates[0].law[LS_GEMM_NT][type].known) printf(" %16s", ls_native_type_name(type));
    printf(" %11s %11s %11s %9s\n%15s", "attention", "memory", "AdamW", "launch", "");
    for (int type = 0; type < LS_NATIVE_TYPES; type++)
        if (m->rates[0].law[LS_GEMM_NT][type].known) printf(" %16s", "GFLOP/s");
    printf(" %11s %11s %11s %9s\n", "GFLOP/s", "GB/s", "M elems/s", "us");
    for (int i = 0; i < m->counts; i++) {
        const ls_native_rates *r = &m->rates[i];
        double heads = 4e-9 * 64 * 1024.0 * 1024 / 2 / r->attention[0][0][1][LS_NATIVE_LENGTHS - 1];
        printf("%7d %7d", r->workers, r->threads);
        for (int type = 0; type < LS_NATIVE_TYPES; type++)
            if (m->rates[0].law[LS_GEMM_NT][type].known) printf(" %16.1f", matmul_rate(r, type));
        printf(" %11.1f %11.2f %11.1f %9.2f\n", heads, 1e-9 * r->copy_bytes_per_second,
               1e-6 * LS_NATIVE_PASS_LARGE / r->pass[LS_PASS_ADAMW][0][1], 1e6 * r->launch_seconds);
    }
}

/* Prints latency and bandwidth of each measured collective; nothing if one worker alone was measured. */
static void print_links(const ls_native_machine *m) {
    if (m->links == 0) return;
    printf("\n%7s %5s  %-14s %-9s %12s %12s\n", "workers", "group", "operation", "transport", "latency us", "GB/s");
    for (int i = 0; i < m->links; i++) {
        const ls_native_link *l = &m->link[i];
        printf("%7d %5d  %-14s %-9s %12.1f %12.2f\n", l->workers, l->group, ls_native_op_name(l->op), m->transport,
               1e6 * l->seconds[0], 1e-9 * (double)ls_native_link_bytes[LARGE] / l->seconds[LARGE]);
    }
}

/* Returns the bandwidth of an elementwise pass over large arrays in GB/s; `bytes`: moved per element. is_16: of 16-bit
 * numbers. */
static double pass_rate(const ls_native_rates *r, ls_native_pass pass, bool is_16, double bytes) {
    double elems = (double)r->sizes.pass[1];
    return 1e-9 * bytes * elems / r->pass[pass][is_16][1];
}

/* Returns the rate of attention in TFLOP/s by the work of its kernels: two matmuls forward, five backward, half of the
 * pairs. */
static double attention_rate(const ls_native_rates *r, int type, bool backward) {
    double T = (double)r->sizes.length[1], d = (double)r->sizes.head[0], flops = (backward ? 5 : 2) * T * T * d;
    return 1e-12 * flops / r->attention[backward][type][0][1];
}

/* Prints the rates of the GPU with one worker: matmuls and attention by type in TFLOP/s, passes in GB/s, latencies. */
static void print_gpu_rates(const ls_native_gpu *g) {
    const ls_native_rates *r = &g->rates;
    printf("\n%-17s %15s %17s %17s\n", "GPU, one worker", "matmul TFLOP/s", "attention forward", "backward");
    for (int type = 0; type < LS_NATIVE_TYPES; type++) {
        if (!r->law[LS_GEMM_NT][type].known) continue;
        double seconds = ls_native_matmul_seconds(r, LS_GEMM_NT, type, 16384, 3072, 768, 1);
        printf("%-17s %15.1f %17.1f %17.1f\n", ls_native_type_name(type), 2e-12 * 16384 * 3072 * 768 / seconds,
               attention_rate(r, type, false), attention_rate(r, type, true));
    }
    printf("%-17s norm %.0f, GELU %.0f, loss %.0f, AdamW %.0f GB/s; a copy reaches %.0f GB/s\n", "passes, fp32",
           pass_rate(r, LS_PASS_NORM, false, 8), pass_rate(r, LS_PASS_GELU, false, 8),
           pass_rate(r, LS_PASS_LOSS, false, 8), pass_rate(r, LS_PASS_ADAMW, false, 28),
           1e-9 * g->copy_bytes_per_second);
    printf("%-17s kernel launch %.2f us; read a number back %.1f us; start the device %.2f s\n", "times",
           1e6 * r->launch_seconds, 1e6 * g->read_seconds, g->open_seconds);
}

/* Prints latency and bandwidth of the collectives between workers on GPUs. */
static void print_gpu_links(const ls_native_gpu *g) {
    if (g->links == 0) {
        printf("no second worker could be started on this GPU, so plans use one worker\n");
        return;
    }
    printf("\n%7s %5s  %-14s %-13s %12s %12s\n", "workers", "group", "operation", "on", "latency us", "GB/s");
    for (int i = 0; i < g->links; i++) {
        const ls_native_link *l = &g->link[i];
        printf("%7d %5d  %-14s %-13s %12.1f %12.2f\n", l->workers, l->group, ls_native_op_name(l->op),
               g->count > 1 ? "several GPUs" : "one GPU", 1e6 * l->seconds[0],
               1e-9 * (double)g->link_bytes[LARGE] / l->seconds[LARGE]);
    }
}

/* Prints what was measured of the GPU; nothing on a machine without one. */
static void print_gpu(const ls_native_gpu *g) {
    if (g->count == 0) return;
    printf("\nGPU      %d × %s, compute capability %d.%d, %.1f GiB (%.1f GiB free)\n", g->count, g->name,
           g->capability / 10, g->capability % 10, g->memory_bytes / 0x1p30, g->free_bytes / 0x1p30);
    printf("         per GPU, fp32: matmuls %.3g TFLOP/s (peak %.3g TFLOP/s); copies within the GPU %.4g GB/s, host to "
           "GPU %.4g GB/s, GPU to host %.4g GB/s\n",
           1e-12 * g->matmul_flops_per_second, 1e-12 * g->peak_flops_per_second, 1e-9 * g->copy_bytes_per_second,
           1e-9 * g->to_bytes_per_second, 1e-9 * g->from_bytes_per_second);
    if (g->unit_flops_per_second > 0)
        printf("         matrix unit %s, 16 bits: %.3g TFLOP/s at most\n", ls_unit_name(ls_cuda_unit_of(g->capability)),
               1e-12 * g->unit_flops_per_second);
    if (g->rates.workers == 0) return;
    print_gpu_rates(g);
    print_gpu_links(g);
}

/* Prints all measurements as text. seconds: that the probe took. */
static void print_machine(const ls_native_machine *m, const char *path, double seconds) {
    printf("machine  %s, %d core%s, %s kernels, %.1f GiB\n", m->cpu, m->cores, m->cores == 1 ? "" : "s", m->isa,
           m->memory_bytes / (1024.0 * 1024 * 1024));
    printf("rates per worker, all workers at the same time: large matmuls, attention heads of 64 over 1024 tokens, "
           "large arrays\n");
    print_rates(m);
    print_links(m);
    print_gpu(&m->gpu);
    printf("\nmeasured in %.1f s; written to %s\n", seconds, path);
}

/* Prints the cluster file itself, with all measurements, as JSON. */
static ls_status print_machine_json(const ls_native_machine *m) {
    ls_cluster cluster;
    json_t *measured = ls_native_machine_to_json(m);
    ls_probe_cluster(m, &cluster);
    json_t *whole = measured ? ls_machine_to_json(&cluster, measured) : NULL;
    json_decref(measured);
    return ls_cli_print_json_lines(whole);
}

/* Runs `lockstep probe`: measures, writes the cluster file, and prints the measurements. Under a launcher only the
 * first process prints. */
ls_status ls_cmd_probe(const ls_options *o) {
    double begin = ls_clock_seconds();
    char path[PATH_MAX];
    bool first;
    static ls_native_machine machine;
    LS_TRY(ls_plan_probe(o, ls_cli_progress_probe, path, &machine, &first));
    if (first && o->json) return print_machine_json(&machine);
    if (first) print_machine(&machine, path, ls_clock_seconds() - begin);
    return LS_OK;
}
