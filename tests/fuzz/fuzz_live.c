/* fuzz_live.c: any text as what a browser sends to the live page: address, host, origin, cookie, query, event number.
 * A query is read back from its own text; no request is accepted without the token. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/live/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_query(const char *text) {
    static const char *const keys[] = {"run", "x", "smooth", "xlog", "ylog", "sort", "falls", "filter"};
    ls_live_query query;
    char out[1024];
    ls_live_query_init(&query);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) ls_live_query_set(&query, keys[i], text);
    ls_live_query_set(&query, text, text);
    if (query.runs < 0 || query.runs > LS_RUN_PAGE_RUNS_MAX || query.smooth < 0 || query.smooth >= LS_VIEW_SMOOTHS)
        abort();
    ls_live_query_text(&query, out, sizeof out);
    /* What goes into a link cannot end it. */
    if (strpbrk(out, "<>\"' \n")) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char token[] = "0123456789abcdef0123456789abcdef";
    char *text = malloc(bytes + 1);
    ls_live_address address;
    if (!text) return 0;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    if (ls_live_address_read(text, &address) == LS_OK) {
        if (address.port < 0 || address.port > 65535 || !address.host[0]) abort();
        (void)ls_live_host_is_own(&address, text);
    }
    address = (ls_live_address){.host = "127.0.0.1", .port = 8787, .is_local = true};
    if (ls_live_host_is_own(&address, text) && !strstr(text, "8787")) abort();
    (void)ls_live_origin_is_own(text, "127.0.0.1:8787");
    if (ls_live_token_is(token, text) && strcmp(token, text) != 0) abort();
    double weight = ls_live_accepts(text, "text/plain");
    if (!(weight >= 0 && weight <= 1)) abort();
    if (ls_live_cookie_has(text, token) && !strstr(text, token)) abort();
    ls_live_has has;
    char id[LS_LIVE_HAS_TEXT_MAX];
    ls_live_has_read(text, &has);
    ls_live_has_text(&has, id);
    (void)ls_live_run_id(text);
    check_query(text);
    free(text);
    return 0;
}
