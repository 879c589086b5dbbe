/* links.c: links by name. Bandwidth is of one chip, one direction; a number in front ("4x100GbE") makes several of one.
 *
 * Share: what NCCL's large collectives reach of the wire; that of InfiniBand is fitted (plan/fitted). Start and hop:
 * measured small collectives. Shares, starts and hops without a measurement in the source are not verified. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/fitted/fitted.h"

static const ls_link rows[] = {
    {"nvlink2", "NVIDIA V100: six links of 25 GB/s", 150e9, .73, 20e-6, 4e-6, 0, false},
    {"nvlink3",
     "NVIDIA A100: twelve links of 25 GB/s; all-reduce measured: 46 us + 193 GB/s (2), 54 + 218 (4), 79 + 227 (8)",
     300e9, .77, 35e-6, 5.5e-6, 0, false},
    {"nvlink4",
     "NVIDIA H100: 18 links of 25 GB/s; 370 GB/s by NCCL's maintainers, 480 where the switch adds, which is not "
     "modelled",
     450e9, .82, 20e-6, 3e-6, 0, false},
    {"nvlink5", "NVIDIA B200: 18 links of 50 GB/s; the share is not verified", 900e9, .95, 20e-6, 3e-6, 0, false},
    {"nvlink3-no-switch",
     "HPE Apollo 6500: four links of 25 GB/s to each neighbour, no switch; start and hop latency as nvlink3", 100e9,
     .72, 35e-6, 5.5e-6, 0, false},
    {"infinity-fabric", "AMD MI300X: seven links of 64 GB/s", 448e9, .70, 25e-6, 4e-6, 0, false},
    {"infinity-fabric4", "AMD MI355X: seven links of 76.8 GB/s", 538e9, .70, 25e-6, 4e-6, 0, false},
    {"pcie3", "16 lanes of 1 GB/s", 15.75e9, .75, 25e-6, 6e-6, 0, false},
    {"pcie4", "16 lanes of 2 GB/s", 31.5e9, .75, 25e-6, 6e-6, 0, false},
    {"pcie5", "16 lanes of 4 GB/s", 63e9, .75, 25e-6, 6e-6, 0, false},
    {"edr", "InfiniBand EDR, 100 Gb/s", 12.5e9, .83, 25e-6, 5e-6, 0, true},
    {"hdr100", "InfiniBand HDR100, 100 Gb/s", 12.5e9, .83, 25e-6, 5e-6, 0, true},
    {"hdr", "InfiniBand HDR, 200 Gb/s", 25e9, .83, 25e-6, 5e-6, 0, true},
    {"ndr", "InfiniBand NDR, 400 Gb/s", 50e9, .83, 25e-6, 5e-6, 0, true},
    {"xdr", "InfiniBand XDR, 800 Gb/s", 100e9, .83, 25e-6, 5e-6, 0, true},
    {"omni-path", "Omni-Path 100, 100 Gb/s", 12.5e9, .83, 25e-6, 6e-6, 0, true},
    {"1gbe", "1 Gb/s", .125e9, .80, 60e-6, 30e-6, 0, false},
    {"10gbe", "10 Gb/s", 1.25e9, .80, 50e-6, 25e-6, 0, false},
    {"25gbe", "25 Gb/s", 3.125e9, .80, 40e-6, 15e-6, 0, false},
    {"50gbe", "50 Gb/s", 6.25e9, .80, 40e-6, 15e-6, 0, false},
    {"100gbe", "100 Gb/s", 12.5e9, .80, 35e-6, 10e-6, 0, false},
    {"200gbe", "200 Gb/s, RoCE", 25e9, .80, 30e-6, 8e-6, 0, false},
    {"400gbe", "400 Gb/s, RoCE", 50e9, .80, 30e-6, 8e-6, 0, false},
    {"800gbe", "800 Gb/s, RoCE", 100e9, .80, 30e-6, 8e-6, 0, false},
    {"shm", "shared memory between worker processes of one machine", 6e9, .80, 5e-6, 1e-6, 0, false},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

const ls_link *ls_link_row(int i) { return i >= 0 && i < ROWS ? &rows[i] : NULL; }

/* Compares without case, dashes, spaces and underscores. */
static bool is_same_name(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a == '-' || *a == ' ' || *a == '_') a++;
        while (*b == '-' || *b == ' ' || *b == '_') b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
        if (!*a) return true;
    }
}

ls_status ls_link_find(const char *name, ls_link *out) {
    char *rest;
    double count = strtod(name, &rest);
    const char *plain = name;
    if (rest != name && (*rest == 'x' || *rest == 'X') && count > 0 && count <= 64)
        plain = rest + 1;
    else
        count = 1;
    for (int i = 0; i < ROWS; i++) {
        if (!is_same_name(rows[i].name, plain)) continue;
        *out = rows[i];
        ls_fitted_link(ls_fitted_values(), out);
        out->bandwidth *= count;
        snprintf(out->name, sizeof out->name, "%s", name);
        return LS_OK;
    }
    char list[768] = "";
    for (int i = 0; i < ROWS; i++) ls_names_add(list, sizeof list, rows[i].name);
    return ls_fail(LS_ERR_INPUT, "unknown link \"%s\"; choose one of: %s; several in parallel: 4x100gbe", name, list);
}

/* Networks are given in bits per second, links inside nodes in bytes; links of a cluster file, whose source does not
 * say, in bytes. */
ls_link_text ls_link_rate_text(const ls_link *link, double times) {
    ls_link_text out;
    bool bits = link->source && strstr(link->source, "Gb/s");
    double each = times * link->bandwidth * (link->shared_by > 0 ? link->shared_by : 1) * (bits ? 8 : 1) / 1e9;
    const char *per = link->shared_by > 1 ? " per node" : bits && link->shared_by == 0 ? " per chip" : "";
    snprintf(out.text, sizeof out.text, "%.4g %s/s%s", each, bits ? "Gb" : "GB", per);
    return out;
}
