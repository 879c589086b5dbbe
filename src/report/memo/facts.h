/* facts.h: all predictions that the sentences and charts of a memo about a plan (memo.h) need, and the functions that
 * write its sections into a page (report/page.h). Private to this folder. ls_memo_facts_find() computes everything
 * first, so that sections only print. A "chip" is a GPU, or a worker on CPUs; "knobs" (ls_knobs) are the fields of a
 * layout. */
#ifndef LS_REPORT_MEMO_FACTS_H
#define LS_REPORT_MEMO_FACTS_H

#include "report/memo/memo.h"
#include "report/numbers.h"
#include "report/page.h"

/* What a chip of a middle stage sends in a step for one purpose (LS_MEMO_ACROSS: all chips together). */
typedef struct ls_memo_flow {
    const char *what, *when;   /* as sentences name it, static */
    const ls_link *link;       /* the slowest that it passes, borrowed */
    const char *where;         /* "inside a node", … */
    char how[128];             /* the algorithm that is assumed */
    double bytes;              /* a chip sends */
    double outside_bytes;      /* of them, that leave the node by its own adapter */
    double link_seconds, seen; /* without overlap, and exposed; seen −1: it is in other rows */
} ls_memo_flow;
/* The purposes: tensor parallelism, pipeline stages, gradients and weights of replicas, all-gathers of ZeRO 3, the link
 * between two sites. */
enum { LS_MEMO_TP, LS_MEMO_PP, LS_MEMO_DP, LS_MEMO_GATHER, LS_MEMO_ACROSS, LS_MEMO_FLOWS };

/* The same pipeline with micro-batches and without, to compare. */
typedef struct ls_memo_pipe {
    bool there, chosen;    /* there is one; it is the memo's own layout, not an example */
    ls_knobs micro, naive; /* the same stages */
    ls_knobs plain;        /* and 1f1b with them, where `micro` has several chunks to a stage */
    double busy[3];        /* naive, micro, plain: mean share of the stages' time at work, in a step */
    ls_prediction step[3]; /* the whole step, in the same order */
} ls_memo_pipe;

typedef struct ls_memo_facts {
    const ls_plan_answer *answer;
    const ls_plan_task *task;
    const ls_layout_request *request;
    const ls_plan_found *found;
    double tokens, price;        /* of the whole training, and per chip and hour; 0: not given */
    bool fits;                   /* a layout fits */
    const char *chip, *chips;    /* "GPU", "GPUs"; of CPUs "worker", "workers" */
    ls_plan_choice choice;       /* what the memo is about: the fastest that fits, or the nearest that does not */
    const ls_site *site;         /* of the chip that limits the layout */
    int micros, nodes;           /* micro-batches of a replica in a step; nodes of all sites */
    bool gathers, reduces_often; /* weights, or gradients, travel for every micro-batch (ZeRO 3, ZeRO 2) */
    double params, step_tokens, tokens_per_second, mfu; /* mfu: a share of 1 */
    /* The layout with something changed; seconds 0: impossible, or no change (without ZeRO already, a single node). */
    ls_plan_choice fp32;                        /* without 16-bit numbers */
    ls_plan_choice recompute;                   /* with full recomputation, or without any where it is used */
    ls_plan_choice unsharded;                   /* without ZeRO */
    ls_plan_choice wide;                        /* tensor parallelism over two nodes */
    ls_plan_losses losses;                      /* what keeps the step from its lower bound */
    ls_plan_change change[LS_PLAN_CHANGES_MAX]; /* single changes, best first */
    int changes;
    /* Other numbers of chips, with the same batch (strong scaling) and with one in proportion (weak scaling). */
    ls_plan_point strong[LS_PLAN_POINTS_MAX], weak[LS_PLAN_POINTS_MAX];
    int strongs, weaks;
    ls_plan_rung rung[LS_PLAN_RUNGS_MAX]; /* memory as each technique is added */
    int rungs;
    ls_memo_flow flow[LS_MEMO_FLOWS];  /* bytes 0: there is none */
    double reduce_bytes, spread_bytes; /* parts of LS_MEMO_DP: gradients, new weights */
    ls_memo_pipe pipe;
} ls_memo_facts;

/* Computes the other facts from answer, task, request, found, tokens and price, which the caller sets; what they point
 * to must outlive the facts, which own nothing. LS_ERR_INPUT if no layout fits or comes close. */
ls_status ls_memo_facts_find(ls_memo_facts *facts);
/* Computes the facts' flow, reduce_bytes and spread_bytes: what a chip sends in a step. Called by ls_memo_facts_find()
 * (traffic.c). */
void ls_memo_flows_find(ls_memo_facts *facts);
/* Computes the facts' pipe by simulating its schedules. Called by ls_memo_facts_find() (pipe.c). */
ls_status ls_memo_pipe_find(ls_memo_facts *facts);

/* Appends the section with the layout to run, key figures, and why each knob has its value; what would fit if none
 * does. As in all functions here, ls_page_end() reports a lack of memory. */
void ls_memo_recommend(ls_page *doc, const ls_memo_facts *facts);
/* Appends, for the recommendation, whether fewer devices are faster or nearly as fast; nothing if all should be
 * used. */
void ls_memo_use(ls_page *doc, const ls_memo_facts *facts);
/* Appends, for the recommendation, how it fares with half the bandwidth, less memory, or an error of the prediction;
 * and the robust layout. */
void ls_memo_sensitivity(ls_page *doc, const ls_memo_facts *facts);
/* Appends, in place of a recommendation if nothing fits, what would fit: other options, offloading, more or larger
 * chips. */
void ls_memo_remedy(ls_page *doc, const ls_memo_facts *facts);
/* Appends the section about memory: with each technique added, and by kind. */
void ls_memo_memory(ls_page *doc, const ls_memo_facts *facts);
/* Appends the section about communication: bytes sent, by purpose and link. */
void ls_memo_traffic(ls_page *doc, const ls_memo_facts *facts);
/* Appends the section about the pipeline with one micro-batch at a time and with many; fails if the simulation for the
 * drawing does. */
ls_status ls_memo_utilisation(ls_page *doc, const ls_memo_facts *facts);
/* Appends the section about what 16-bit types save and what stays in fp32. */
void ls_memo_precision(ls_page *doc, const ls_memo_facts *facts);
/* Appends the section about the time of a step by kind. */
void ls_memo_step(ls_page *doc, const ls_memo_facts *facts);
/* Appends the section about throughput on more chips. */
void ls_memo_scaling(ls_page *doc, const ls_memo_facts *facts);
/* Appends the section about the kind of time that limits scaling. */
void ls_memo_bottleneck(ls_page *doc, const ls_memo_facts *facts);
/* Appends the section about the changes of layout or hardware that would help most. */
void ls_memo_mitigation(ls_page *doc, const ls_memo_facts *facts);
/* Appends the section about the whole training with failures; nothing without --mtbf. */
void ls_memo_course(ls_page *doc, const ls_memo_facts *facts);
/* Appends the section about the reliability of the predictions: errors of published runs, sources (text_doubt.c). */
void ls_memo_trust(ls_page *doc, const ls_memo_facts *facts);

/* Appends a chart of memory as each technique is added. */
void ls_memo_ladder_chart(ls_page *doc, const ls_memo_facts *facts);
/* Appends a chart of the time of a step by kind. */
void ls_memo_step_chart(ls_page *doc, const ls_memo_facts *facts);
/* Appends a chart of the losses, from the lower bound of a step to the whole step. */
void ls_memo_loss_chart(ls_page *doc, const ls_memo_facts *facts);
/* Appends a chart of throughput by number of chips. */
void ls_memo_scaling_chart(ls_page *doc, const ls_memo_facts *facts);
/* Appends a chart of the simulated schedule with one micro-batch at a time and with many. Only for pipe.there. */
ls_status ls_memo_timeline_chart(ls_page *doc, const ls_memo_facts *facts);

/* A formatted text: "dp 2 × tp 4 × pp 4, 1f1b, micro-batch 1 …". */
typedef struct ls_memo_line {
    char text[256];
} ls_memo_line;
/* Formats a layout in one line; LS_LAYOUT(layout) is the text, valid until the end of the full expression. */
ls_memo_line ls_memo_layout_text(const ls_knobs *layout);
#define LS_LAYOUT(layout) ls_memo_layout_text(layout).text
/* Returns the bytes of weights, gradients and optimizer state. memory: bytes of a chip by kind, [LS_MEMORY_KINDS]. */
double ls_memo_states(const double *memory);
/* Returns the bytes of activations and workspace. memory: bytes of a chip by kind, [LS_MEMORY_KINDS]. */
double ls_memo_activations(const double *memory);

#endif
