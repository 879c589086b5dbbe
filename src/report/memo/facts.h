/* facts.h: all predictions that the sentences and charts of a memo (memo.h) need, and the functions that write its
 * sections. Private to this folder. ls_memo_facts_find() computes everything first, so that sections only print. */
#ifndef LS_REPORT_MEMO_FACTS_H
#define LS_REPORT_MEMO_FACTS_H

#include "report/memo/memo.h"
#include "report/numbers.h"
#include "report/page.h"

/* What a chip of a middle stage sends in a step for one purpose. */
typedef struct ls_memo_flow {
    const char *what, *when;
    const ls_link *link;       /* the slowest that it passes */
    const char *where;         /* "inside a node", … */
    char how[128];             /* the algorithm that is assumed */
    double bytes;              /* a chip sends */
    double outside_bytes;      /* of them, that leave the node by its own adapter */
    double link_seconds, seen; /* without overlap, and exposed; −1: in other rows */
} ls_memo_flow;
enum { LS_MEMO_TP, LS_MEMO_PP, LS_MEMO_DP, LS_MEMO_GATHER, LS_MEMO_ACROSS, LS_MEMO_FLOWS };

/* The same pipeline with micro-batches and without, to compare. */
typedef struct ls_memo_pipe {
    bool there, chosen;    /* chosen: it is the memo's own layout, not an example */
    ls_knobs micro, naive; /* the same stages */
    ls_knobs plain;        /* and 1f1b with them, where `micro` has several chunks to a stage */
    double busy[3];        /* naive, micro, plain: mean share of the stages' time at work, in a step */
    ls_prediction step[3];
} ls_memo_pipe;

typedef struct ls_memo_facts {
    const ls_plan_answer *answer;
    const ls_plan_task *task;
    const ls_layout_request *request;
    const ls_plan_found *found;
    double tokens, price;
    bool fits;
    const char *chip, *chips; /* "GPU", "GPUs"; of CPUs "worker", "workers" */
    ls_plan_choice choice;    /* what the memo is about: the fastest that fits, or the nearest that does not */
    const ls_site *site;
    int micros, nodes;
    bool gathers, reduces_often; /* weights, or gradients, travel for every micro-batch (ZeRO 3, ZeRO 2) */
    double params, step_tokens, tokens_per_second, mfu;
    /* The layout with something changed; seconds 0: it cannot be. */
    ls_plan_choice fp32;      /* without 16-bit numbers */
    ls_plan_choice recompute; /* with full recomputation, or without any where it is used */
    ls_plan_choice unsharded; /* without ZeRO */
    ls_plan_choice wide;      /* tensor parallelism over two nodes */
    ls_plan_losses losses;
    ls_plan_change change[LS_PLAN_CHANGES_MAX];
    int changes;
    ls_plan_point strong[LS_PLAN_POINTS_MAX], weak[LS_PLAN_POINTS_MAX];
    int strongs, weaks;
    ls_plan_rung rung[LS_PLAN_RUNGS_MAX];
    int rungs;
    ls_memo_flow flow[LS_MEMO_FLOWS];  /* bytes 0: there is none */
    double reduce_bytes, spread_bytes; /* parts of LS_MEMO_DP: gradients, new weights */
    ls_memo_pipe pipe;
} ls_memo_facts;

/* Computes the other facts from answer, task, request, found, tokens and price, which the caller sets; what they point
 * to must outlive the facts. LS_ERR_INPUT if no layout fits or comes close. */
ls_status ls_memo_facts_find(ls_memo_facts *facts);
/* Parts of it: flow (traffic.c) and pipe (pipe.c). */
void ls_memo_flows_find(ls_memo_facts *facts);
ls_status ls_memo_pipe_find(ls_memo_facts *facts);

/* Append sections to the page (text*.c) with their charts (charts.c, pipe.c). Fail only at ls_page_end(). */
void ls_memo_recommend(ls_page *doc, const ls_memo_facts *facts);
/* text_doubt.c: which devices to use; how the choice fares if assumptions are wrong; what would fit if nothing does;
 * and (ls_memo_trust) how reliable the predictions are. */
void ls_memo_use(ls_page *doc, const ls_memo_facts *facts);
void ls_memo_sensitivity(ls_page *doc, const ls_memo_facts *facts);
void ls_memo_remedy(ls_page *doc, const ls_memo_facts *facts);
void ls_memo_memory(ls_page *doc, const ls_memo_facts *facts);
void ls_memo_traffic(ls_page *doc, const ls_memo_facts *facts);
ls_status ls_memo_utilisation(ls_page *doc, const ls_memo_facts *facts);
void ls_memo_precision(ls_page *doc, const ls_memo_facts *facts);
void ls_memo_step(ls_page *doc, const ls_memo_facts *facts);
void ls_memo_scaling(ls_page *doc, const ls_memo_facts *facts);
void ls_memo_bottleneck(ls_page *doc, const ls_memo_facts *facts);
void ls_memo_mitigation(ls_page *doc, const ls_memo_facts *facts);
/* Adds nothing without --mtbf. */
void ls_memo_course(ls_page *doc, const ls_memo_facts *facts);
void ls_memo_trust(ls_page *doc, const ls_memo_facts *facts);

void ls_memo_ladder_chart(ls_page *doc, const ls_memo_facts *facts);
void ls_memo_step_chart(ls_page *doc, const ls_memo_facts *facts);
void ls_memo_loss_chart(ls_page *doc, const ls_memo_facts *facts);
void ls_memo_scaling_chart(ls_page *doc, const ls_memo_facts *facts);
ls_status ls_memo_timeline_chart(ls_page *doc, const ls_memo_facts *facts);

/* Formats "dp 2 × tp 4 × pp 4, 1f1b, micro-batch 1 …". */
typedef struct ls_memo_line {
    char text[256];
} ls_memo_line;
ls_memo_line ls_memo_layout_text(const ls_knobs *layout);
#define LS_LAYOUT(layout) ls_memo_layout_text(layout).text
/* Return bytes of a worker's memory (by kind): weights, gradients and optimizer state; activations and workspace. */
double ls_memo_states(const double *memory);
double ls_memo_activations(const double *memory);

#endif
