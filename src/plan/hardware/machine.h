/* machine.h: chips (accelerators, or CPU workers), links and clusters: the planner's model of hardware.
 *
 * Constants come from tables with their sources (chips.c, links.c) or from a file of the user (machine_file.h). A chip
 * is described by its peaks and by the shares of them that programs reach. All structs are plain values without
 * ownership; strings in them are constants. */
#ifndef LS_PLAN_HARDWARE_MACHINE_H
#define LS_PLAN_HARDWARE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "parallel/layout/knobs.h"

enum { LS_MACHINE_NAME_MAX = 48, LS_SITES_MAX = 2, LS_CHIPS_MAX = 1 << 20 };

/* Chips of a generation reach the same shares of their peaks (plan/fitted); NONE: the chip has its own. */
typedef enum ls_generation {
    LS_GENERATION_NONE,
    LS_GENERATION_VOLTA,
    LS_GENERATION_AMPERE,
    LS_GENERATION_HOPPER,
    LS_GENERATION_BLACKWELL
} ls_generation;

typedef struct ls_chip {
    char name[LS_MACHINE_NAME_MAX];
    const char *source;               /* where the constants come from */
    double memory_bytes;              /* of a chip */
    double peak_flops[LS_PLAN_TYPES]; /* per second, dense, as the maker says; 0: not in hardware */
    double share[LS_PLAN_TYPES];      /* of the peak that a large matmul reaches */
    double units;                     /* that compute one tile of a matmul each at a time: SMs; 1 for a CPU */
    double gemm_fill;                 /* start of a tile, as elements of depth (k): the rate is k / (k + gemm_fill) */
    /* Attention that keeps its scores on the chip: share of the 16-bit peak with heads of 128. */
    double attention_share, attention_back_share;
    double memory_bandwidth;  /* bytes per second, as the maker says */
    double bandwidth_share;   /* of it, that passes over large arrays reach */
    double launch_seconds;    /* between two kernels on the chip */
    double reserved_bytes;    /* context and libraries: not for the program's arrays */
    double group_bytes;       /* of a group of chips that communicate: buffers of the library */
    double host_link;         /* bytes per second to the host's memory, one direction, */
    double host_bandwidth;    /* and of that memory, as its part of the node's */
    bool is_cpu;              /* the workers of this program */
    ls_generation generation; /* whose fitted shares apply */
    double power_share;       /* its power limit over that of its generation's largest chip */
} ls_chip;

/* Returns the peak FLOP/s in the type; a chip without it computes in the next wider type that it has. */
static inline double ls_chip_peak(const ls_chip *chip, ls_plan_type type) {
    for (int t = (int)type; t > LS_PLAN_FP32; t--)
        if (chip->peak_flops[t] > 0) return chip->peak_flops[t];
    return chip->peak_flops[LS_PLAN_FP32];
}

/* A link, with its figures per chip and direction. */
typedef struct ls_link {
    char name[LS_MACHINE_NAME_MAX];
    const char *source;
    double bandwidth;       /* bytes per second on the wire */
    double share;           /* of it, that large collectives reach */
    double start_seconds;   /* of a collective, whatever its size */
    double latency_seconds; /* of a hop */
    int shared_by;          /* chips of a node that have one together, of which `bandwidth` is the part of each; 1: all
                               have it together (between sites); 0: each has its own */
    bool is_network;        /* InfiniBand: its share is fitted */
} ls_link;

typedef struct ls_link_text {
    char text[32];
} ls_link_text;
/* Formats `times` the link's bandwidth in its unit: "400 Gb/s per node", "100 Gb/s per chip", "300 GB/s". */
ls_link_text ls_link_rate_text(const ls_link *link, double times);

/* Equal chips in equal nodes. */
typedef struct ls_site {
    ls_chip chip;
    int chips, node; /* chips of the site and of a node */
    ls_link inside;  /* between chips of a node */
    ls_link between; /* between nodes */
} ls_site;

typedef struct ls_cluster {
    char name[LS_MACHINE_NAME_MAX];
    int sites; /* 1 or 2 */
    ls_site site[LS_SITES_MAX];
    ls_link across; /* sites, where there are two; its bandwidth is that of the whole link */
} ls_cluster;

/* Returns the chips of all sites. */
static inline int ls_cluster_chips(const ls_cluster *cluster) {
    return cluster->site[0].chips + (cluster->sites > 1 ? cluster->site[1].chips : 0);
}

/* Copies the chip with this name, which may be spelled freely ("A100-80GB-SXM", "a100", "H100 PCIe"), with fitted
 * constants filled in. The message of LS_ERR_INPUT lists the names. */
ls_status ls_chip_find(const char *name, ls_chip *out);
/* Returns the data sheet's dense FLOP/s, in bf16 (is_16) or fp32, of a GPU by its driver's name, "NVIDIA H200"; 0:
 * unknown chip, or a type that it lacks. */
double ls_chip_datasheet_flops(const char *gpu, bool is_16);
/* Copies the link with this name likewise; "4x100gbe" is one link of four times the bandwidth. */
ls_status ls_link_find(const char *name, ls_link *out);
/* Appends a name, behind ", ", to a list for a message; cuts it off if there is no room. */
void ls_names_add(char *list, size_t capacity, const char *name);
/* Returns row i of the table of chips as it stands there: fitted shares and host figures are 0; NULL after the last. */
const ls_chip *ls_chip_row(int i);
/* Returns row i of the table of links, likewise. */
const ls_link *ls_link_row(int i);

/* Makes a cluster of one site with the links usual for the chip; node: chips per node, 0: the usual number. Does not
 * check that they make whole nodes: ls_cluster_check(). */
ls_status ls_cluster_of(const char *chip, int chips, int node, ls_cluster *out);
/* Checks for a chip or more, whole nodes (or a single part of one), and a link between two sites. LS_ERR_INPUT says
 * what works. */
ls_status ls_cluster_check(const ls_cluster *cluster);

#endif
