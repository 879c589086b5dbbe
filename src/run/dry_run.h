/* dry_run.h: computes what a run would need, without running it: the memory of each worker, from the function that
 * carves it; the traffic of a step, from the formulas of docs/reference/memory-and-traffic.md; the schedule, by
 * simulation; and the type of each kind of number. */
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
    size_t snapshot; /* host memory for the snapshot that this worker saves */
    size_t copies;   /* device memory for copies of another worker's state and gradient (--state-copies) */
    size_t journal;  /* host memory, with a supervisor: the journal from which an interrupted update is completed */
    ls_step_traffic traffic; /* per step */
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

/* Fills in the device's alignment and scratch memory for the operations of a step, found by a step on a device without
 * hardware. The device is the one chosen in the settings' options; "auto" counts as the CPU. */
ls_status ls_dry_reserve(const ls_settings *settings, ls_partition_setup *setup);
/* The same for a partition without training that evaluates setup->B sequences at a time, or generates. */
ls_status ls_dry_reserve_forward(const ls_shape *shape, int slices, const char *device, bool generates,
                                 ls_partition_setup *setup);
/* Return a feed without data, and run the update of a step, on a device that computes nothing. */
ls_partition_feed ls_dry_feed(void);
ls_status ls_dry_update(const ls_settings *settings, ls_partition *partition, ls_device *device);
/* Measures the worker of `rank`, except its traffic. */
ls_status ls_dry_measure(const ls_settings *settings, const ls_layout *layout, int rank, ls_dry_worker *out);
/* Chooses the micro-batch if the layout leaves it open. Call ls_dry_free() also after a failure. */
ls_status ls_dry_run_make(const ls_settings *settings, const ls_layout *layout, ls_dry_run *out);
void ls_dry_free(ls_dry_run *dry);
/* Returns the fraction of all stages' time that is bubble. */
double ls_dry_bubble(const ls_dry_run *dry);

/* The type of one kind of number, and why. The texts are constants. */
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
