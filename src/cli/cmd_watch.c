/* cmd_watch.c: `lockstep watch RUNS…`: serves the live page, which shows the progress of runs in a browser. */
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "cli/watch/server.h"

enum { PATHS_MAX = 256, FIRST_PORT = 8787 };

/* Prints the page's link once the server listens. A callback of ls_watch_serve(). */
static void print_link(const char *link) {
    printf("page      %s\n", link);
    (void)fflush(stdout);
}

/* Prints the page's link as a JSON object, for --json. A callback of ls_watch_serve(). */
static void print_link_json(const char *link) {
    printf("{\"page\": \"%s\"}\n", link);
    (void)fflush(stdout);
}

/* Splits the list, one path a line, which the paths point into; *text is changed. Each folder must exist, although its
 * runs may begin later: a missing one is probably a typing error. */
static ls_status list_paths(char *text, const char **paths, int *count) {
    char *save = NULL;
    for (char *at = strtok_r(text, "\n", &save); at; at = strtok_r(NULL, "\n", &save)) {
        if (!ls_file_exists(at)) return ls_file_fail_open(at);
        if (!ls_folder_exists(at)) return ls_fail(LS_ERR_INPUT, "%s is a file; name a run, or a folder of runs", at);
        if (*count == PATHS_MAX)
            return ls_fail(LS_ERR_INPUT, "watch takes %d folders: name one that holds the runs", PATHS_MAX);
        paths[(*count)++] = at;
    }
    return LS_OK;
}

/* Runs `lockstep watch` until a signal ends it. Without --live it listens on 127.0.0.1, port 8787 or the next free
 * one. */
ls_status ls_cmd_watch(const ls_options *options) {
    const char *paths[PATHS_MAX];
    int count = 0;
    ls_live_address address = {.host = "127.0.0.1", .port = FIRST_PORT, .is_local = true};
    ls_shelf *shelf = NULL;
    if (!options->runs) return ls_fail(LS_ERR_INPUT, "watch needs runs: lockstep watch RUNS");
    if (options->live) LS_TRY(ls_live_address_read(options->live, &address));
    char *text = strdup(options->runs);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for the list of runs");
    ls_status status = list_paths(text, paths, &count);
    if (status == LS_OK) status = ls_shelf_create(paths, count, &shelf);
    if (status == LS_OK)
        status = ls_watch_serve(shelf, &address, !options->live, options->json ? print_link_json : print_link);
    ls_shelf_destroy(shelf);
    free(text);
    return status;
}
