/* cmd_watch.c: `lockstep watch RUNS…`: the live page. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/print.h"
#include "cli/watch/server.h"

enum { PATHS_MAX = 256, FIRST_PORT = 8787 };

static void tell(const char *link) {
    printf("page      %s\n", link);
    (void)fflush(stdout);
}

static void tell_json(const char *link) {
    printf("{\"page\": \"%s\"}\n", link);
    (void)fflush(stdout);
}

ls_status ls_cmd_watch(const ls_options *options) {
    const char *paths[PATHS_MAX];
    int count = 0;
    ls_live_address address = {.host = "127.0.0.1", .port = FIRST_PORT, .is_local = true};
    ls_shelf *shelf = NULL;
    if (!options->runs) return ls_fail(LS_ERR_INPUT, "watch needs runs: lockstep watch RUNS");
    if (options->live) LS_TRY(ls_live_address_read(options->live, &address));
    char *text = strdup(options->runs);
    if (!text) return ls_fail(LS_ERR_RESOURCE, "out of memory for the list of runs");
    for (char *save = NULL, *at = strtok_r(text, "\n", &save); at && count < PATHS_MAX;
         at = strtok_r(NULL, "\n", &save))
        paths[count++] = at;
    ls_status status = ls_shelf_create(paths, count, &shelf);
    if (status == LS_OK) status = ls_watch_serve(shelf, &address, !options->live, options->json ? tell_json : tell);
    ls_shelf_destroy(shelf);
    free(text);
    return status;
}
