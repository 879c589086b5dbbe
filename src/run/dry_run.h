/* dry_run.h: computes what a run would need, without running it, for `train --dry-run` and the planner, and, of that,
 * scratch and micro-batch for the trainer, and scratch for eval and generate: the memory of each worker, from the
 * function that carves it; the traffic of a step, from the formulas of docs/reference/memory-and-traffic.md; the
 * schedule, by simulation; and the type of each kind of number. */
#ifndef LS_RUN_DRY_RUN_H
#define LS_RUN_DRY_RUN_H

#include "parallel/schedule/predict.h"
#include "parallel/traffic/traffic.h"
#include "run/trainer.h"

enum { LS_DRY_KINDS = 12, LS_DRY_TYPES_MAX = 12 };

/* What one worker needs; all sizes in bytes. */
typedef struct ls_dry_worker {
    ls_place_in_layout place;  /* its dp, tp and pp index */
    size_t kind[LS_DRY_KINDS]; /* of the arena, by ls_dry_kind_names; with all padding they add up to it */
    size_t arena, outside;     /* its one block of device memory; estimate of all other memory of the process */
    size_t snapshot;           /* host memory for the snapshot that this worker saves */
    size_t copies;             /* device memory for copies of another worker's state and gradient (--state-copies) */
    size_t journal; /* host memory, with a supervisor: the journal from which an interrupted update is completed */
    ls_step_traffic traffic; /* per step */
} ls_dry_worker;

/* A whole dry run; memory in bytes. */
typedef struct ls_dry_run {
    const ls_settings *settings;
    ls_layout layout;
    int workers;
    ls_dry_worker *worker;
    size_t arena, outside, snapshot, copies, journal; /* of all workers */
    ls_step_traffic traffic;
    int *micros;          /* number of micro-batches of a step, by replica */
    int row;              /* the replica with most sequences: the one whose schedule is shown */
    ls_schedule schedule; /* of that replica, and its simulation in time */
    ls_simulation simulation;
} ls_dry_run;

extern const char *const ls_dry_kind_names[LS_DRY_KINDS];

/* Sets align, scratch_bytes and apart of the setup to what the device's operations need in a training step, found by
 * running a step on a device that computes nothing. The device is the one chosen in the settings' options; a CPU needs
 * none, and "auto" counts as the CPU, so the setup stays unchanged. */
ls_status ls_dry_reserve(const ls_settings *settings, ls_partition_setup *setup);
/* Sets align, scratch_bytes and apart of the setup of a partition without training, on `device`, that evaluates
 * setup->B sequences at a time, or generates text if `generates`; as ls_dry_reserve() does for training. */
ls_status ls_dry_reserve_forward(const ls_shape *shape, int slices, const char *device, bool generates,
                                 ls_partition_setup *setup);
/* Returns callbacks that deliver no data, for a partition on a device that computes nothing. */
ls_partition_feed ls_dry_feed(void);
/* Runs the end of a step (reductions, norm, optimizer) on a device that computes nothing, to measure or price it. */
ls_status ls_dry_update(const ls_settings *settings, ls_partition *partition, ls_device *device);
/* Measures the memory of the worker of `rank`; `traffic` is 0, for a caller that needs no traffic. Copies are those for
 * a buddy one place away (recover/copies.h), whatever distance the run chooses. Allocates nothing on a device. */
ls_status ls_dry_measure(const ls_settings *settings, const ls_layout *layout, int rank, ls_dry_worker *out);
/* Computes memory, traffic and schedule of all workers. Chooses the micro-batch for this machine if the layout leaves
 * it open. Borrows the settings. Call ls_dry_free() also after a failure. */
ls_status ls_dry_run_make(const ls_settings *settings, const ls_layout *layout, ls_dry_run *out);
/* Frees the lists, the schedule and its simulation; once. */
void ls_dry_free(ls_dry_run *dry);
/* Returns the fraction, from 0 to 1, of all stages' time that is bubble (a stage waits) in the simulated schedule; 0 if
 * that has no time. */
double ls_dry_bubble(const ls_dry_run *dry);

/* The type of one kind of number, and why. The texts are constants. */
typedef struct ls_dry_type {
    const char *what, *type, *why;
} ls_dry_type;

/* The number types of a run, a row for each kind of number, as the dry run prints them. */
typedef struct ls_dry_types {
    const char *precision, *unit; /* words of --precision and --matrix-unit */
    int count;
    ls_dry_type row[LS_DRY_TYPES_MAX];
} ls_dry_types;

/* Returns the types of this policy; one row if everything is fp32. */
ls_dry_types ls_dry_types_of(const ls_policy *policy);

#endif
