/* cmd_report.c: `lockstep report RUN…`: writes the page of one or several runs as one HTML file. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "report/run/page.h"

/* Splits a list of at most `most` paths, one a line. The paths point into *text, which the caller frees; on failure it
 * is NULL. */
static ls_status split(const char *list, const char **paths, int most, int *count, char **text) {
    *text = strdup(list);
    *count = 0;
    if (!*text) return ls_fail(LS_ERR_RESOURCE, "out of memory for the list of runs");
    for (char *save = NULL, *at = strtok_r(*text, "\n", &save); at; at = strtok_r(NULL, "\n", &save)) {
        if (*count == most) {
            free(*text);
            *text = NULL;
            return ls_fail(LS_ERR_INPUT, "a report compares at most %d runs", most);
        }
        paths[(*count)++] = at;
    }
    return LS_OK;
}

/* Writes the page to --out, else into the folder of the only run, else to report.html here, and prints its path. */
static ls_status write_report(const ls_options *options, const char *const *paths, int count) {
    ls_path out = options->out ? ls_path_format("%s", options->out)
                  : count == 1 ? ls_path_in(paths[0], "report.html")
                               : ls_path_format("report.html");
    if (options->out) LS_TRY(ls_file_can_write(out.text));
    LS_TRY(ls_report_write(paths, count, out.text));
    if (options->json)
        return ls_cli_print_json(json_pack("{s:o, s:i}", "report", ls_cli_json_path(out.text), "runs", count));
    char shown[PATH_MAX];
    printf("written to %s\n", ls_cli_visible(out.text, shown, sizeof shown));
    return LS_OK;
}

/* Runs `lockstep report` for at most LS_RUN_PAGE_RUNS_MAX runs. */
ls_status ls_cmd_report(const ls_options *options) {
    const char *paths[LS_RUN_PAGE_RUNS_MAX];
    char *text = NULL;
    int count = 0;
    if (!options->runs) return ls_fail(LS_ERR_INPUT, "report needs a run: lockstep report RUN");
    LS_TRY(split(options->runs, paths, LS_RUN_PAGE_RUNS_MAX, &count, &text));
    ls_status status = count > 0 ? write_report(options, paths, count)
                                 : ls_fail(LS_ERR_INPUT, "report needs a run: lockstep report RUN");
    free(text);
    return status;
}
