/* scale_page.h: what `lockstep scale` found, in sentences and as a page. */
#ifndef LS_REPORT_SCALE_PAGE_H
#define LS_REPORT_SCALE_PAGE_H

#include "lab/scale/scale.h"
#include "report/numbers.h"
#include "report/page.h"

enum { LS_SCALE_SENTENCE_MAX = 768 };

typedef struct ls_scale_words {
    char about[LS_SCALE_SENTENCE_MAX]; /* what was trained, and how often */
    char why[LS_SCALE_SENTENCE_MAX];   /* the limit of the hardware; "": nothing could be fitted */
    char limit[LS_SCALE_SENTENCE_MAX]; /* the limit of the gradient */
} ls_scale_words;

ls_scale_words ls_scale_say(const ls_scale_plan *plan, const ls_scale_found *found);
/* "12 to 40", or "from 12" where there is no end: 0. */
ls_number ls_scale_range(double low, double high);

/* One HTML page that loads nothing, made of the blocks of the planner's memo. */
ls_status ls_scale_page_write(const ls_scale_plan *plan, const ls_scale_found *found, int count, const char *path);

/* Its drawings. */
void ls_scale_parts_chart(ls_page *page, const ls_scale_found *found);
void ls_scale_speed_chart(ls_page *page, const ls_scale_found *found);

#endif
