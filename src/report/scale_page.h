/* scale_page.h: reports what `lockstep scale` measured and predicted, the speedup by more workers (lab/scale/scale.h),
 * as sentences and as an HTML page. */
#ifndef LS_REPORT_SCALE_PAGE_H
#define LS_REPORT_SCALE_PAGE_H

#include "lab/scale/scale.h"
#include "report/numbers.h"
#include "report/page.h"

enum { LS_SCALE_SENTENCE_MAX = 768 };

typedef struct ls_scale_words {
    char about[LS_SCALE_SENTENCE_MAX]; /* what was trained, and how often */
    char why[LS_SCALE_SENTENCE_MAX];   /* the limit by the hardware; "": nothing could be fitted */
    char limit[LS_SCALE_SENTENCE_MAX]; /* the limit by the gradient noise scale: larger batches gain little */
} ls_scale_words;

/* Formats the sentences about one model, for the page and for the command's output. */
ls_scale_words ls_scale_say(const ls_scale_plan *plan, const ls_scale_found *found);
/* Formats a range "12 to 40", or "from 12" if `high` is 0, which means no upper limit. */
ls_number ls_scale_range(double low, double high);

/* Writes the page for `count` results, one for each model, as one HTML file that loads no other file. Replaces `path`
 * atomically. */
ls_status ls_scale_page_write(const ls_scale_plan *plan, const ls_scale_found *found, int count, const char *path);

/* Adds a chart to the page: what the time of a step is spent on, for each measured size. */
void ls_scale_parts_chart(ls_page *page, const ls_scale_found *found);
/* Adds a chart to the page: speedup by number of workers, measured and predicted. */
void ls_scale_speed_chart(ls_page *page, const ls_scale_found *found);

#endif
