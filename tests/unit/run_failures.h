/* run_failures.h: a run of run_maker.h, step by step, with what its failure does to it. */
#ifndef LS_TESTS_RUN_FAILURES_H
#define LS_TESTS_RUN_FAILURES_H

#include "run_maker.h"

/* ---- events ------------------------------------------------------------------------------------------------------ */

static inline void put_overflow(maker *m, int64_t step, const char *kind, int next) {
    char name[32];
    block_name(m, m->bad_block, name);
    put(m,
        "{\"step\":%lld,\"event\":\"%s\",\"scale\":%d,\"next_scale\":%d,\"tensor\":\"%s.mlp.in.weight\",\"block\":\"%"
        "s\"}\n",
        (long long)step, kind, m->scale, next, name, name);
}

static inline void put_outlier(maker *m, int64_t step, int worker, int64_t sample) {
    double median = m->norm * exp(0.2 * gauss(m)), norm = median * m->strength * exp(0.1 * gauss(m));
    put(m, "{\"step\":%lld,\"event\":\"outlier\",\"group\":%d,\"worker\":%d,\"first_sample\":%lld,\"samples\":4",
        (long long)step, 2 * worker, worker, (long long)sample);
    put_number(m, "norm", norm);
    put_number(m, "median", median);
    put_number(m, "spread", 0.2);
    put_number(m, "score", log(norm / median) / 0.2);
    put_number(m, "angle_deg", between(m, 20, 70));
    put_number(m, "length_with", 0.3 * norm);
    put_number(m, "length_without", 0.4 * median);
    put(m, ",\"action\":\"%s\"}\n", m->variant % 2 ? "warn" : "skip-group");
}

static inline void put_stopped(maker *m, int64_t step, const char *reason) {
    put(m, "{\"step\":%lld,\"event\":\"stopped\",\"reason\":\"%s\"}\n", (long long)step, reason);
    m->stopped = true;
}

/* ---- what a failure does ----------------------------------------------------------------------------------------- */

/* Steps since it began; negative before. */
static inline double since(const maker *m, int64_t step) { return (double)(step - m->when); }

static inline bool is_bad_step(const maker *m, int64_t step) {
    if (step < m->when) return false;
    /* Every so many steps, at places that only the seed knows. */
    uint64_t hash = ls_rng_u64(ls_rng_key_make(m->seed, 78, 0), (uint64_t)step);
    int64_t gap = (m->first + m->steps - m->when) / 12 + 1;
    return step == m->when || hash % (uint64_t)gap == 0;
}

static inline double loss_of(maker *m, int64_t step) {
    double loss = healthy_loss(m, step), noise = m->scatter * tailed(m), t = since(m, step);
    if (m->failure == LR_SEED && t >= 0) {
        double high = m->start * between(m, 0.9, 2.2);
        if (m->variant % 5 == 3) return healthy_loss(m, m->when) * (1 + m->scatter * tailed(m)); /* it stalls */
        if (m->variant % 5 == 4) { /* waves, one after the other */
            double phase = fmod(t, 60) / 25;
            double wave = 0.35 * loss * (phase < 0.4 ? phase / 0.4 : exp(-3 * (phase - 0.4)));
            return loss * (1 + noise) + wave;
        }
        m->excess += (high - loss - m->excess) * between(m, 0.01, 0.1);
        return loss + m->excess * (1 + 0.15 * gauss(m)) + loss * noise;
    }
    if ((m->failure == UNDERFLOW_SEED || m->failure == LOST_SEED) && t >= 0)
        loss = 0.85 * healthy_loss(m, m->when) + 0.15 * loss; /* it nearly stands still */
    if (m->failure == DATA_SEED && m->variant % 3 == 2 && t >= 0 && t < 8 + (double)(m->seed % 30))
        loss += m->strength * m->scatter * loss;
    if (m->failure == DATA_SEED && m->variant % 3 != 2 && is_bad_step(m, step))
        loss += m->strength * m->scatter * loss * between(m, 0.9, 1.6);
    if (m->failure == OUTLIER_SEED && m->variant % 3 == 1 && t > 0) /* the weights suffer */
        loss += 0.002 * t * loss * (t < 40 ? 1 : 40 / t);
    return loss * (1 + noise);
}

static inline double norm_of(maker *m, int64_t step) {
    double norm = healthy_norm(m, step), t = since(m, step);
    if (m->failure == LR_SEED && t >= 0 && m->variant % 5 != 3) norm *= 1 + 8 * (1 - exp(-t / 30));
    if (m->failure == OUTLIER_SEED && is_bad_step(m, step)) norm *= 1 + m->strength / 8;
    return norm;
}

static inline shares shares_of(maker *m, int64_t step, int b) {
    shares s = healthy_shares(m, step, b);
    double t = since(m, step);
    bool ends = b == 0 || b == m->blocks - 1;
    if (m->failure == OVERFLOW_SEED && b == m->bad_block && t > -50)
        s.high = fmin(0.2, s.high + 1e-4 * exp((t + 50) / 7));
    if (m->failure == UNDERFLOW_SEED && t >= 0) {
        double share = m->strength * (m->variant % 2 ? fmin(1, 0.2 + t / 80) : 1);
        s.flushed = fmin(0.97, share * between(m, 0.8, 1.3) * (ends ? 0.5 : 1));
    }
    if (m->failure == LOST_SEED && t >= 0) {
        s.lost = fmin(0.98, m->strength * between(m, 0.85, 1.15));
        s.ratio *= 0.2;
    }
    if (m->failure == LR_SEED) {
        double stays = m->variant % 5 == 3 ? 1 : exp(-fmax(0, t) / 100);
        s.ratio =
            m->strength * between(m, 0.8, 1.2) * stays * (step < m->warmup ? (double)step / (double)m->warmup : 1);
        if (t > 0) s.grad *= 1 + t / 20;
    }
    return s;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static inline void put_numerics(maker *m, int64_t step) {
    bool half = strcmp(m->precision, "fp32") != 0;
    for (int b = 0; b < m->blocks; b++) {
        char name[32];
        shares s = shares_of(m, step, b);
        block_name(m, b, name);
        put(m, "{\"step\":%lld,\"numerics\":\"%s\"", (long long)step, name);
        put_number(m, "grad_norm", s.grad);
        put_number(m, "weight_norm", 20 + b);
        put_number(m, "update_norm", s.ratio * (20 + b));
        put_number(m, "grad_flushed", 0.5 * s.flushed);
        put_number(m, "grad_high", 0.3 * s.high);
        if (half) put_number(m, "act_flushed", s.flushed);
        if (half) put_number(m, "act_high", s.high);
        put_number(m, "lost", s.lost);
        put(m, "}\n");
    }
    put(m,
        "{\"step\":%lld,\"noise\":true,\"groups\":8,\"grad_sq\":0.1,\"trace\":40,\"scale_tokens\":4000,\"scale_"
        "sequences\":"
        "60}\n",
        (long long)step);
}

static inline void put_usage(maker *m, int64_t step) {
    double busy[MAKER_WORKERS_MAX], longest = 0;
    if (m->workers < 2) return;
    for (int w = 0; w < m->workers; w++) {
        double bias = 1 + 0.05 * sin((double)(m->seed % 97) + 2.3 * w),
               stage = w / (m->workers / m->pp) % 2 ? m->stage_skew : 1;
        busy[w] = 100 * (m->share[w] ? m->share[w] : 1) * bias * stage * (1 + 0.04 * gauss(m)) *
                  (chance(m, 0.01) ? between(m, 1.3, 3) : 1);
        if (m->failure == SLOW_SEED && w == m->bad_worker && step >= m->when) busy[w] *= m->strength;
        if (busy[w] > longest) longest = busy[w];
    }
    for (int w = 0; w < m->workers; w++) put(m, "%s%.3f", w ? "," : ",\"busy_ms\":[", busy[w]);
    put(m, "]");
    for (int w = 0; m->tells_waiting && w < m->workers; w++)
        put(m, "%s%.3f", w ? "," : ",\"wait_ms\":[", longest - busy[w] + between(m, 2, 6));
    if (m->tells_waiting) put(m, "]");
}

static inline void put_step(maker *m, int64_t step, double loss, double norm, bool skipped) {
    put(m, "{\"step\":%lld", (long long)step);
    put_number(m, "loss", loss);
    if (isfinite(loss)) put(m, ",\"loss_hex\":\"%a\"", loss);
    put_number(m, "norm", norm);
    put_number(m, "lr", rate(m, step));
    put(m, ",\"ms\":%.3f,\"tokens_per_s\":12345.6", 110 + 5 * gauss(m));
    if (strcmp(m->precision, "fp16") == 0) put(m, ",\"scale\":%d", m->scale);
    if (skipped) put(m, ",\"skipped\":true");
    put_usage(m, step);
    put(m, "}\n");
}

/* ---- the loss scale ---------------------------------------------------------------------------------------------- */

static inline bool overflows(maker *m, int64_t step) {
    if (strcmp(m->precision, "fp16") != 0) return false;
    if (step - m->first < 2 * m->start_skips) return (step - m->first) % 2 == 0;
    double t = since(m, step);
    if (m->failure == OVERFLOW_SEED && t >= 0) return chance(m, t < 30 ? 0.6 : 0.4);
    if (m->failure == LR_SEED && t > 40 && m->variant % 5 < 3) return chance(m, 0.3);
    return false;
}

/* Whether the step is skipped; the scale moves on. */
static inline bool move_scale(maker *m, int64_t step, int *next) {
    bool skip = overflows(m, step);
    if (!skip && strcmp(m->precision, "fp16") == 0 && ++m->scale_good >= m->window && m->failure != UNDERFLOW_SEED) {
        m->scale_good = 0;
        skip = true; /* it had grown, and that was too much */
        *next = m->scale;
        return skip;
    }
    if (!skip) return false;
    m->scale_good = 0;
    *next = m->scale - 1;
    return true;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static inline void put_events(maker *m, int64_t step) {
    if (m->failure == OUTLIER_SEED && is_bad_step(m, step) && (m->variant % 3 != 0 || step == m->when))
        put_outlier(m, step, m->bad_worker, 16 * step + 4 * m->bad_worker);
    if (m->failure == DATA_SEED && m->variant % 3 == 1 && is_bad_step(m, step)) {
        int worker = (int)pick(m, 0, m->workers - 1);
        put_outlier(m, step, worker, 16 * step + 4 * worker);
    }
    if (m->failure == LR_SEED && m->variant % 7 == 2 && since(m, step) > 20 && chance(m, 0.05) && m->workers > 1)
        put_outlier(m, step, (int)pick(m, 0, m->workers - 1), 16 * step);
    if (m->failure == OVERFLOW_SEED && strcmp(m->precision, "fp16") != 0 && step == m->when) {
        char name[32];
        block_name(m, m->bad_block, name);
        put(m,
            "{\"step\":%lld,\"event\":\"non-finite\",\"worker\":%d,\"phase\":\"forward\",\"micro\":1,\"block\":\"%s\","
            "\"tensor\":\"output\","
            "\"index\":4711,\"value\":\"inf\",\"recurs\":true}\n",
            (long long)step, m->workers - 1, name);
        put_stopped(m, step, "a value is not finite");
    }
}

static inline void run_step(maker *m, int64_t step) {
    int next = m->scale;
    double loss = loss_of(m, step), norm = norm_of(m, step);
    bool skipped = move_scale(m, step, &next);
    bool broken = m->failure == LR_SEED && m->variant % 5 == 1 && since(m, step) > 80;
    put_events(m, step);
    if (skipped) put_overflow(m, step, "overflow", next);
    put_step(m, step, broken ? (double)NAN : loss, broken ? (double)NAN : skipped ? (double)INFINITY : norm, skipped);
    if (m->every > 0 && step % m->every == 0) put_numerics(m, step);
    if (step % 100 == 0)
        put(m, "{\"step\":%lld,\"val_loss\":%.9g,\"val_loss_hex\":\"%a\"}\n", (long long)step, loss, loss);
    if (broken) put_stopped(m, step, "loss or gradient is not finite");
    if (skipped && next < 0) {
        put_overflow(m, step, "floor", next);
        put_stopped(m, step, "the loss scale is at its floor");
    }
    m->scale = next;
}

static inline void make_run(maker *m) {
    m->used = 0;
    for (int64_t step = m->first; step < m->first + m->steps && !m->stopped; step++) run_step(m, step);
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static inline void set_failure(maker *m) {
    int64_t end = m->first + m->steps;
    m->when = m->first + pick(m, m->steps * 3 / 10, m->steps * 7 / 10);
    m->bad_worker = (int)pick(m, 0, m->workers - 1);
    m->bad_block = (int)pick(m, 1, m->blocks - 2);
    switch (m->failure) {
    case OVERFLOW_SEED:
        m->precision = m->variant % 4 == 3 ? "bf16" : "fp16";
        if (m->variant % 4 == 1) m->every = 0;
        break;
    case UNDERFLOW_SEED:
        m->precision = "fp16";
        m->start_skips = 0;
        m->scale = (int)pick(m, 0, 4);
        m->strength = between(m, 0.2, 0.8);
        if (m->variant % 2 == 0) m->when = m->first;
        break;
    case LOST_SEED:
        m->precision = "bf16";
        m->strength = between(m, 0.3, 0.9);
        m->when = m->first + pick(m, 0, m->steps / 3);
        break;
    case OUTLIER_SEED:
        m->strength = between(m, 5, 20);
        if (m->workers < 2) m->workers = 4;
        m->bad_worker = (int)pick(m, 0, m->workers - 1);
        break;
    case DATA_SEED: m->strength = between(m, 9, 25); break;
    case LR_SEED:
        m->lr *= 20;
        m->strength = between(m, 0.08, 0.4);
        m->when = m->first + m->warmup + pick(m, 0, m->steps / 4);
        if (m->variant % 5 == 0 && chance(m, 0.5)) m->every = 0;
        break;
    case SLOW_SEED:
        if (m->workers < 2) m->workers = (int)pick(m, 2, 8);
        m->pp = 1;
        m->bad_worker = (int)pick(m, 0, m->workers - 1);
        m->strength = between(m, 1.45, 4);
        m->when = m->variant % 2 ? m->first : m->when;
        m->tells_waiting = m->variant % 3 != 0;
        break;
    default: break;
    }
    if (m->when >= end) m->when = end - 1;
}

static inline void maker_init(maker *m, uint64_t seed, failure what, int variant) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    static const int counts[] = {1, 2, 4, 8};
    *m = (maker){.seed = seed, .failure = what, .variant = variant, .first = 1};
    m->steps = pick(m, 250, 900);
    m->warmup = pick(m, 10, 60);
    m->every = what == HEALTHY && chance(m, 0.3) ? 0 : pick(m, 1, 2) * 5;
    m->blocks = (int)pick(m, 4, 12);
    m->workers = counts[pick(m, 0, 3)];
    m->pp = 1;
    m->precision = precisions[pick(m, 0, 2)];
    m->start = between(m, 5.5, 10.8);
    m->floor = between(m, 1.2, 3.2);
    m->tau = between(m, 8, 40);
    m->power = between(m, 0.5, 1.1);
    m->scatter = between(m, 0.005, 0.03);
    m->lr = between(m, 3e-4, 2e-3);
    m->norm = between(m, 0.3, 1.5);
    m->stage_skew = 1;
    m->scale = (int)pick(m, 12, 20);
    m->start_skips = (int)pick(m, 0, 6);
    m->window = (int)pick(m, 60, 250);
    m->tells_waiting = true;
    if (what != HEALTHY) set_failure(m);
}

static inline void maker_free(maker *m) { free(m->text); }

#endif
