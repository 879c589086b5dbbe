/* dry.h: what a dry run finds out, apart from how it is shown. */
#ifndef LS_CLI_TRAIN_DRY_H
#define LS_CLI_TRAIN_DRY_H

#include "base/json.h"
#include "cli/train/report.h"
#include "parallel/schedule/predict.h"
#include "parallel/traffic/traffic.h"

enum { LS_DRY_KINDS = 12, LS_DRY_TYPES_MAX = 10 };

typedef struct ls_dry_worker {
    ls_place_in_layout place;
    size_t kind[LS_DRY_KINDS]; /* of the arena; with all padding they add up to it */
    size_t arena, outside;
    ls_step_traffic traffic; /* of a step */
} ls_dry_worker;

typedef struct ls_dry_run {
    const ls_settings *settings;
    ls_layout layout;
    int workers;
    ls_dry_worker *worker;
    size_t arena, outside; /* of all workers */
    ls_step_traffic traffic;
    int *micros; /* by dp row */
    int row;     /* with most sequences: the one whose schedule is shown */
    ls_schedule schedule;
    ls_simulation simulation;
} ls_dry_run;

extern const char *const ls_dry_kind_names[LS_DRY_KINDS];

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

/* Share of the stages' time, all together, in which they wait. */
double ls_dry_bubble(const ls_dry_run *dry);
/* One JSON object on standard output. */
ls_status ls_dry_print_json(const ls_dry_run *dry);

#endif
