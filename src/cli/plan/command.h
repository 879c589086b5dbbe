/* command.h: what `lockstep plan` can be asked for, and the answer that its files print and write. */
#ifndef LS_CLI_PLAN_COMMAND_H
#define LS_CLI_PLAN_COMMAND_H

#include <jansson.h>

#include "api/plan.h"
#include "plan/explain.h"

/* plan_search.c: the best layouts for --model on --cluster. */
ls_status ls_plan_search_command(const ls_options *options);
/* plan_validate.c: predictions beside the measured runs of a file. */
ls_status ls_plan_validate_command(const ls_options *options);

/* What would fit where nothing does. */
typedef struct ls_plan_remedy {
    bool is_freed;        /* some of the given knobs were in the way: */
    ls_plan_choice freed; /* the best without them */
    int chips;            /* of the same kind, the fewest; 0: none that was tried */
    ls_plan_choice with;  /* that many */
    ls_chip chip;         /* the next larger one, as many as there are; an empty name: none */
    ls_plan_choice other; /* with that chip */
} ls_plan_remedy;

typedef struct ls_plan_answer {
    const ls_plan_question *question;
    ls_plan_found found;
    const ls_plan_choice *best; /* NULL: nothing fits */
    ls_plan_remedy remedy;      /* where nothing fits */
    ls_plan_losses losses;
    ls_plan_change change[LS_PLAN_CHANGES_MAX];
    ls_plan_point weak[LS_PLAN_POINTS_MAX], strong[LS_PLAN_POINTS_MAX];
    ls_plan_rung rung[LS_PLAN_RUNGS_MAX];
    int changes, weak_points, strong_points, rungs;
    double across_seconds;  /* two sites: of the step, what the link between them costs */
    double across_bytes;    /* of a step, each way */
    ls_plan_choice not_cut; /* two sites: cut the other way; seconds 0: it cannot be */
} ls_plan_answer;

/* plan_own.c: this program on a machine that was measured (question->measured). */
ls_status ls_plan_own_command(const ls_options *options, const ls_plan_question *question);
/* plan_list.c: whether a list was asked for; then it has been printed. */
bool ls_plan_list_print(const ls_options *options);
/* plan_remedy.c */
ls_status ls_plan_remedy_find(const ls_plan_question *question, ls_plan_remedy *out);
/* plan_report.c, plan_report_why.c, plan_json.c */
void ls_plan_report(const ls_plan_answer *answer);
void ls_plan_report_why(const ls_plan_answer *answer);
ls_status ls_plan_report_json(const ls_plan_answer *answer);

enum { LS_PLAN_TEXT_MAX = 160 };
ls_status ls_plan_layout_write(const char *path, const ls_knobs *layout);

/* Tokens of all chips and a second; model FLOPs over what the chips could do at most. */
double ls_plan_tokens_per_second(const ls_plan_task *task, const ls_prediction *prediction);
double ls_plan_mfu(const ls_plan_task *task, const ls_plan_choice *choice);

#endif
