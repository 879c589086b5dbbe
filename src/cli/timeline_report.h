/* timeline_report.h: the figures of a timeline on standard output. */
#ifndef LS_CLI_TIMELINE_REPORT_H
#define LS_CLI_TIMELINE_REPORT_H

#include "observe/timeline.h"

/* `title` is about the run, `drawing` where it was drawn. */
void ls_timeline_print(const ls_timeline *timeline, const char *title, const char *drawing);
ls_status ls_timeline_print_json(const ls_timeline *timeline, const char *title, const char *drawing);

#endif
