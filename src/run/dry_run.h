/* dry_run.h: what a run would need and do, found out without making anything: what each worker of the layout would
 * hold, from the function that carves its memory; what it would send in a step, from the formulas of
 * docs/explain/parallelism.md; how its schedule would go; and which numbers it would keep in which type. */
#ifndef LS_RUN_DRY_RUN_H
#define LS_RUN_DRY_RUN_H

#include "parallel/schedule/predict.h"
#include "parallel/traffic/traffic.h"
#include "run/trainer.h"

enum { LS_DRY_KINDS = 12, LS_DRY_TYPES_MAX = 12 };

typedef struct ls_dry_worker {
    ls_place_in_layout place;
    size_t kind[LS_DRY_KINDS]; /* of the arena; with all padding they add up to it */
    size_t arena, outside;
    size_t snapshot;         /* of the host's memory: a copy of what this worker saves */
    size_t copies;           /* of the device's: what it keeps for another worker (--state-copies), with a gradient */
    size_t journal;          /* of the host's, with a supervisor: what lets others finish an update */
    ls_step_traffic traffic; /* of a step */
} ls_dry_worker;

typedef struct ls_dry_run {
    const ls_settings *settings;
    ls_layout layout;
    int workers;
    ls_dry_worker *worker;
    size_t arena, outside, snapshot, copies, journal; /* of all workers */
    ls_step_traffic traffic;
    int *micros; /* by replica */
    int row;     /* the replica with most sequences: the one whose schedule is shown */
    ls_schedule schedule;
    ls_simulation simulation;
} ls_dry_run;

extern const char *const ls_dry_kind_names[LS_DRY_KINDS];

/* What the device that `setup` will be made on takes of its arena: its alignment, and scratch for the operations of a
 * step, from a step on a device without hardware. The device is that of the settings' options, chosen: "auto" counts as
 * the CPU. */
ls_status ls_dry_reserve(const ls_settings *settings, ls_partition_setup *setup);
/* The same for a partition without training that evaluates setup->B sequences at a time, or generates. */
ls_status ls_dry_reserve_forward(const ls_shape *shape, int slices, const char *device, bool generates,
                                 ls_partition_setup *setup);
/* Actions of a step without data, and what follows the last of them until the weights are new, on a device that
 * computes nothing. */
ls_partition_feed ls_dry_feed(void);
ls_status ls_dry_update(const ls_settings *settings, ls_partition *partition, ls_device *device);
/* The worker of `rank`, but for its traffic. */
ls_status ls_dry_measure(const ls_settings *settings, const ls_layout *layout, int rank, ls_dry_worker *out);
/* The micro-batch is chosen where the layout leaves it open. ls_dry_free() also after a failure. */
ls_status ls_dry_run_make(const ls_settings *settings, const ls_layout *layout, ls_dry_run *out);
void ls_dry_free(ls_dry_run *dry);
/* Share of the stages' time, all together, in which they wait. */
double ls_dry_bubble(const ls_dry_run *dry);

/* What is kept in which type. The texts are constants. */
typedef struct ls_dry_type {
    const char *what, *type, *why;
} ls_dry_type;

typedef struct ls_dry_types {
    const char *precision, *unit;
    int count;
    ls_dry_type row[LS_DRY_TYPES_MAX];
} ls_dry_types;

ls_dry_types ls_dry_types_of(const ls_policy *policy);

#endif
