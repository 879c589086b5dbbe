/* wire.c: parses --slow-link, and books transfers on the emulated links of a slow network; see wire.h. Times are
 * monotonic nanoseconds. */
#include "comm/world/wire.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/meter.h"
#include "comm/world/comm.h"
#include "config/value.h"

/* ---- from text --------------------------------------------------------------------------------------------------- */

enum { PIECE_MAX = 48 };

typedef struct unit {
    const char *name;
    double latency_s, bytes_per_s; /* value of one unit; one of the two is 0 */
} unit;

static const unit units[] = {
    {"ns", 1e-9, 0},  {"us", 1e-6, 0},      {"µs", 1e-6, 0},      {"ms", 1e-3, 0},
    {"s", 1, 0},      {"kbit", 0, 1e3 / 8}, {"Mbit", 0, 1e6 / 8}, {"Gbit", 0, 1e9 / 8},
    {"kB/s", 0, 1e3}, {"MB/s", 0, 1e6},     {"GB/s", 0, 1e9},
};

static const double latency_max_s = 10, rate_min = 125, rate_max = 1e12;

/* Parses one value with its unit into *latency_s or *bytes_per_s, whichever the unit says; each is −1 until given.
 * LS_ERR_INPUT: no number, unknown unit, given twice, or out of range. */
static ls_status read_piece(const char *piece, double *latency_s, double *bytes_per_s) {
    size_t digits = strspn(piece, "0123456789.");
    char number[PIECE_MAX];
    double value = 0;
    if (piece[0] == '-') return ls_fail(LS_ERR_INPUT, "%s: latency and bandwidth cannot be negative", piece);
    snprintf(number, sizeof number, "%.*s", (int)digits, piece);
    if (digits == 0 || ls_value_parse_float(number, &value) != LS_OK)
        return ls_fail(LS_ERR_INPUT, "%s is neither a latency nor a bandwidth: write e.g. 1ms,100Mbit", piece);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(units[i].name, piece + digits) != 0) continue;
        bool is_time = units[i].latency_s > 0;
        double *to = is_time ? latency_s : bytes_per_s;
        if (*to >= 0)
            return ls_fail(LS_ERR_INPUT, "%s: %s is given twice", piece, is_time ? "the latency" : "the bandwidth");
        *to = value * (is_time ? units[i].latency_s : units[i].bytes_per_s);
        if (is_time && *to > latency_max_s)
            return ls_fail(LS_ERR_INPUT, "%s: the latency must be at most %g s", piece, latency_max_s);
        if (!is_time && !(*to >= rate_min && *to <= rate_max))
            return ls_fail(LS_ERR_INPUT, "%s: the bandwidth must be between 1kbit and 8000Gbit", piece);
        return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "%s needs a unit: ns, us, ms or s for latency; kbit, Mbit, Gbit or MB/s for bandwidth",
                   piece);
}

ls_status ls_wire_parse(const char *text, double *latency_s, double *bytes_per_s) {
    double latency = -1, rate = -1;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        char piece[PIECE_MAX];
        if (length == 0) return ls_fail(LS_ERR_INPUT, "must be a latency, a bandwidth or both, e.g. 1ms,100Mbit");
        if (length >= sizeof piece) return ls_fail(LS_ERR_INPUT, "is too long: write e.g. 1ms,100Mbit");
        snprintf(piece, sizeof piece, "%.*s", (int)length, at);
        LS_TRY(read_piece(piece, &latency, &rate));
        at += length;
        if (!*at) break;
    }
    *latency_s = latency > 0 ? latency : 0;
    *bytes_per_s = rate > 0 ? rate : 0;
    return LS_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

ls_status ls_wire_open(ls_world *world, const ls_workers_options *options) {
    ls_wire *wire = &world->wire;
    *wire = (ls_wire){.wake_ns = LS_WIRE_NEVER};
    wire->slow = world->size > 1 && (options->link_latency_s > 0 || options->link_bytes_per_s > 0);
    if (!wire->slow) return LS_OK;
    if (world->machines.local_size != world->size)
        return ls_fail(LS_ERR_INPUT,
                       "--slow-link emulates a link between workers that share one machine's memory; here only %d of "
                       "%d workers do: omit --slow-link (and --node-size)",
                       world->machines.local_size, world->size);
    wire->latency_ns = (uint64_t)(options->link_latency_s * 1e9);
    wire->ns_per_byte = options->link_bytes_per_s > 0 ? 1e9 / options->link_bytes_per_s : 0;
    /* Lets sleeps end on time: by default the system may add 50 µs. */
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    return LS_OK;
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

static uint64_t later_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Books `bytes` on a link from start_ns on, behind its earlier transfers. Returns when the last byte has passed, which
 * is also when the link is free again. */
static uint64_t occupy_link(uint64_t *free_ns, uint64_t start_ns, double bytes, double ns_per_byte) {
    *free_ns = later_of(*free_ns, start_ns) + (uint64_t)(bytes * ns_per_byte);
    return *free_ns;
}

/* Tells the local members until when a transfer is in flight, so that their deadlines wait for it. */
static void announce_transfer(ls_world *world, uint64_t until_ns) {
    _Atomic uint64_t *last = &world->segment.header->wire_until_ns;
    uint64_t seen = atomic_load_explicit(last, memory_order_relaxed);
    while (seen < until_ns && !atomic_compare_exchange_weak(last, &seen, until_ns)) continue;
}

/* Adds the time in which this transfer is in flight to the worker's measurements (base/meter.h), if they are on; time
 * that an earlier transfer has counted is not counted again. */
static void meter_transfer(ls_wire *wire, const ls_request *r, uint64_t start_ns) {
    uint64_t from = later_of(start_ns, wire->counted_ns);
    if (!ls_meter_now.on || r->arrives_ns <= from) return;
    ls_meter_now.link_ns[r->kind] += r->arrives_ns - from;
    wire->counted_ns = r->arrives_ns;
}

/* Sets the time at which the transfer arrives: one latency after `passed_ns`, when both links have carried its bytes.
 * Adds the time from start_ns to the arrival to the meter, and announces the arrival to the local members, whose
 * deadlines then wait for it. */
static void book_transfer(ls_request *r, uint64_t start_ns, uint64_t passed_ns) {
    ls_world *world = r->comm->world;
    r->arrives_ns = passed_ns + world->wire.latency_ns;
    r->blocked_on = -1;
    ls_world_moved(world);
    meter_transfer(&world->wire, r, start_ns);
    announce_transfer(world, r->arrives_ns);
}

/* Returns whether the booked transfer has arrived, and then forgets the booking; before, makes the next sleep end at
 * its arrival. */
static bool has_arrived(ls_request *r) {
    ls_world *world = r->comm->world;
    if (ls_clock_ns() >= r->arrives_ns) {
        r->arrives_ns = 0;
        ls_world_moved(world);
        return true;
    }
    if (r->arrives_ns < world->wire.wake_ns) world->wire.wake_ns = r->arrives_ns;
    r->blocked_on = -1;
    return false;
}

uint64_t ls_wire_published_ns(const ls_request *r, uint64_t stage, int from) {
    const ls_comm *comm = r->comm;
    uint64_t last = 0;
    for (int l = 0; l < comm->local_size; l++) {
        if (from >= 0 && l != from) continue;
        last =
            later_of(last, atomic_load_explicit(&ls_comm_slot(comm, r, l)->ready_ns[stage > 1], memory_order_relaxed));
    }
    return last;
}

bool ls_wire_arrived(ls_request *r, uint64_t stage, int from, ls_wire_load_fn load) {
    ls_wire *wire = &r->comm->world->wire;
    if (!wire->slow || !r->comm->control) return true;
    if (!r->arrives_ns) {
        uint64_t start = ls_wire_published_ns(r, stage, from);
        ls_wire_load l = load ? load(r) : (ls_wire_load){0};
        uint64_t in = occupy_link(&wire->in_free_ns, start, l.in_bytes, wire->ns_per_byte);
        uint64_t out = occupy_link(&wire->out_free_ns, start, l.out_bytes, wire->ns_per_byte);
        uint64_t most = start + (uint64_t)(l.most_bytes * wire->ns_per_byte);
        book_transfer(r, start, later_of(later_of(in, out), most));
    }
    return has_arrived(r);
}

uint64_t ls_wire_send(ls_world *world, uint64_t bytes) {
    ls_wire *wire = &world->wire;
    if (!wire->slow) return ls_clock_ns();
    return occupy_link(&wire->out_free_ns, ls_clock_ns(), (double)bytes, wire->ns_per_byte);
}

bool ls_wire_received(ls_request *r, uint64_t leaves_ns, uint64_t bytes) {
    ls_wire *wire = &r->comm->world->wire;
    if (!wire->slow) return true;
    if (!r->arrives_ns) {
        uint64_t takes = (uint64_t)((double)bytes * wire->ns_per_byte);
        uint64_t start = leaves_ns - takes;
        book_transfer(r, start, occupy_link(&wire->in_free_ns, start, (double)bytes, wire->ns_per_byte));
    }
    return has_arrived(r);
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Waking up takes time, so a sleep ends this early and the rest is spun. */
static const uint64_t wake_early_ns = 30000;

uint64_t ls_wire_nap_ns(const ls_world *world, uint64_t most_ns) {
    uint64_t wake = world->wire.wake_ns, now;
    if (wake == LS_WIRE_NEVER) return most_ns;
    now = ls_clock_ns();
    if (wake <= now + wake_early_ns) return 0;
    return wake - now - wake_early_ns < most_ns ? wake - now - wake_early_ns : most_ns;
}

bool ls_wire_is_busy(const ls_world *world, uint64_t now_ns) {
    return world->wire.slow && world->segment.base &&
           now_ns < atomic_load_explicit(&world->segment.header->wire_until_ns, memory_order_relaxed);
}
