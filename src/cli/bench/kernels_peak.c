/* kernels_peak.c: the rate of multiply-adds that matrix products are compared with. */
#include "cli/bench/comm.h"
#include "cli/bench/kernels.h"
#include "device/cpu/peak.h"

double ls_kbench_peak(const ls_kbench_env *env) { return ls_cpu_peak(env->pool, LS_UNIT_CHAIN, env->sample_s); }

double ls_kbench_fma_rate(const ls_kbench_env *env) {
    double rates[LS_CPU_PEAK_TRIES];
    return ls_cpu_peak_measure(env->pool, LS_UNIT_CHAIN, env->sample_s, rates)
               ? ls_bench_median(rates, LS_CPU_PEAK_TRIES)
               : 0;
}
