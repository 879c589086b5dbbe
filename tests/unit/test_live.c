/* test_live.c: access control of the live page, and parsing of requests. */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "report/live/places.h"
#include "report/live/request.h"

static void test_addresses(void **state) {
    (void)state;
    ls_live_address a;
    assert_int_equal(ls_live_address_read("8080", &a), LS_OK);
    assert_true(a.is_local && a.port == 8080 && strcmp(a.host, "127.0.0.1") == 0);
    assert_int_equal(ls_live_address_read("0.0.0.0:1", &a), LS_OK);
    assert_true(!a.is_local && a.port == 1);
    assert_int_equal(ls_live_address_read("[::1]:99", &a), LS_OK);
    assert_true(a.is_local && strcmp(a.host, "::1") == 0);
    static const char *const wrong[] = {"", "x", "-1", "65536", ":1", "[::1]", "[::1:5", "a:b", "80x", "box:", "1:2:x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(ls_live_address_read(wrong[i], &a), LS_ERR_INPUT);
}

/* Another name than the machine's own is what a rebound name looks like. */
static void test_hosts(void **state) {
    (void)state;
    const ls_live_address local = {.host = "127.0.0.1", .port = 8080, .is_local = true};
    assert_true(ls_live_host_is_own(&local, "127.0.0.1:8080"));
    assert_true(ls_live_host_is_own(&local, "LocalHost:8080"));
    assert_true(ls_live_host_is_own(&local, "[::1]:8080"));
    static const char *const foreign[] = {
        "evil.example:8080", "127.0.0.1:8081", "127.0.0.1", "127.0.0.1.evil.example:8080", "localhost:8080:8080x", "",
        "[::1]8080"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) assert_false(ls_live_host_is_own(&local, foreign[i]));
    assert_false(ls_live_host_is_own(&local, NULL));
    assert_true(ls_live_origin_is_own(NULL, "a:1"));
    assert_true(ls_live_origin_is_own("http://a:1", "a:1"));
    assert_false(ls_live_origin_is_own("http://b:1", "a:1"));
    assert_false(ls_live_origin_is_own("null", "a:1"));
}

static void test_tokens(void **state) {
    (void)state;
    assert_true(ls_live_token_is("abcd", "abcd"));
    assert_false(ls_live_token_is("abcd", "abc"));
    assert_false(ls_live_token_is("abcd", "abcde"));
    assert_false(ls_live_token_is("abcd", NULL));
    assert_true(ls_live_cookie_has("x=1; lockstep=abcd; y=2", "abcd"));
    assert_true(ls_live_cookie_has("lockstep=no; lockstep=abcd", "abcd"));
    assert_false(ls_live_cookie_has("xlockstep=abcd", "abcd"));
    assert_false(ls_live_cookie_has("lockstep=abcde", "abcd"));
    assert_false(ls_live_cookie_has(NULL, "abcd"));
}

/* Between text/plain and OpenMetrics; Prometheus sends the fourth. */
static void test_accepted_types(void **state) {
    (void)state;
    static const struct {
        const char *accept;
        double plain, open;
    } cases[] = {
        {NULL, 1, 1},
        {"*/*", 1, 1},
        {"text/plain", 1, 0},
        {"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2", .3, .5},
        {"*/*;q=0.1, TEXT/plain ; version=0.0.4 ; Q=0.9", .9, .1},
        {"text/*;q=0.7, text/plain;q=0, application/*", 0, 1},
        {"text/plain;q=1.0,application/openmetrics-text;q=0.25", 1, .25},
        {"text/plainly, xtext/plain, text", 0, 0},
        {" ,, ;q=1, text/plain;q", 1, 0},
        {"text/plain;q=", 0, 0},
        {"", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double plain = ls_live_accepts(cases[i].accept, "text/plain");
        double open = ls_live_accepts(cases[i].accept, "application/openmetrics-text");
        if (fabs(plain - cases[i].plain) > 1e-9 || fabs(open - cases[i].open) > 1e-9)
            fail_msg("%s: %g and %g", cases[i].accept, plain, open);
    }
}

static void test_queries(void **state) {
    (void)state;
    ls_live_query q;
    char text[512];
    ls_live_query_init(&q);
    ls_live_query_set(&q, "run", "00000000000000ff");
    ls_live_query_set(&q, "run", "ff"); /* the same */
    ls_live_query_set(&q, "run", "x");
    ls_live_query_set(&q, "x", "time");
    ls_live_query_set(&q, "smooth", "3");
    ls_live_query_set(&q, "smooth", "9");
    ls_live_query_set(&q, "ylog", "1");
    ls_live_query_set(&q, "sort", "loss");
    ls_live_query_set(&q, "filter", "a<b>\"&\033c");
    ls_live_query_set(&q, "nothing", "1");
    ls_live_query_set(&q, "x", NULL);
    assert_int_equal(q.runs, 1);
    assert_true(q.run[0] == 0xff && q.x == LS_VIEW_BY_TIME && q.smooth == 3 && q.y_log && !q.x_log);
    ls_live_query_text(&q, text, sizeof text);
    assert_null(strpbrk(text, "<>\"' "));
    assert_non_null(strstr(text, "x=time&smooth=3&xlog=0&ylog=1&sort=loss"));
    assert_non_null(strstr(text, "run=00000000000000ff"));
    for (int i = 0; i < 20; i++) {
        char id[8];
        snprintf(id, sizeof id, "%x", i + 1);
        ls_live_query_set(&q, "run", id);
    }
    assert_int_equal(q.runs, LS_RUN_PAGE_RUNS_MAX);
}

/* The id of an event: what a page has. It reads back as it was, and what is no id is none. */
static void test_what_a_page_has(void **state) {
    (void)state;
    ls_live_has has = {.count = 0}, back;
    char text[LS_LIVE_HAS_TEXT_MAX];
    uint64_t loss = ls_live_part("loss", "<svg>", 5);
    assert_true(loss == ls_live_part("loss", "<svg>", 5));
    assert_true(loss != ls_live_part("loss", "<svg/>", 6) && loss != ls_live_part("speed", "<svg>", 5));
    for (int i = 0; i < LS_LIVE_PARTS_MAX + 5; i++) ls_live_has_add(&has, loss + (uint64_t)i);
    assert_int_equal(has.count, LS_LIVE_PARTS_MAX);
    ls_live_has_text(&has, text);
    assert_int_equal(strlen(text), LS_LIVE_HAS_TEXT_MAX - 2);
    ls_live_has_read(text, &back);
    assert_true(ls_live_has_same(&has, &back) && ls_live_has_has(&back, loss + 7) && !ls_live_has_has(&back, loss - 1));
    back.part[3]++;
    assert_false(ls_live_has_same(&has, &back));
    static const char *const wrong[] = {NULL,
                                        "",
                                        "17",
                                        "0123456789abcdef.",
                                        "0123456789abcdef,0123456789abcdef",
                                        "0123456789abcdeg",
                                        "0123456789abcdef0"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ls_live_has_read(wrong[i], &back);
        assert_int_equal(back.count, 0);
    }
    ls_live_has_read("0123456789abcdef.00000000000000ff", &back);
    assert_true(back.count == 2 && back.part[1] == 0xff);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static char connections[LS_PLACES_MAX];

static void take_places(ls_places *p, int from, int to, uint64_t address, double now_s) {
    for (int i = from; i < to; i++) ls_places_take(p, &connections[i], address, now_s + i * 1e-3);
}

/* One that made a request with the token. */
static void serve_place(ls_places *p, int i, double now_s) {
    ls_places_asked(p, &connections[i], now_s);
    ls_places_known(p, &connections[i]);
    ls_places_answered(p, &connections[i], now_s + 1e-4);
}

/* Ends all that have to go, and tells how many these are: they leave at once. */
static int end_places(ls_places *p, double now_s) {
    int count = 0;
    for (void *c; (c = ls_places_end_one(p, now_s)) != NULL; count++) ls_places_leave(p, c);
    return count;
}

static void test_strangers_leave_places_for_the_token(void **state) {
    (void)state;
    static ls_places p;
    p = (ls_places){.of = {{.connection = NULL}}};
    take_places(&p, 0, LS_PLACES_STRANGERS, 1, 100);
    assert_int_equal(end_places(&p, 101), 0);
    take_places(&p, LS_PLACES_STRANGERS, LS_PLACES_STRANGERS + 1, 2, 101);
    assert_ptr_equal(ls_places_end_one(&p, 101), &connections[0]); /* the oldest, once */
    assert_null(ls_places_end_one(&p, 101));
    ls_places_leave(&p, &connections[0]);
    /* Those with the token do not count among them. */
    for (int i = 1; i <= 8; i++) serve_place(&p, i, 102);
    take_places(&p, 40, 48, 3, 102);
    assert_int_equal(end_places(&p, 103), 0);
    /* What has sent no request for so long goes, whatever else there is. */
    assert_int_equal(end_places(&p, 113), LS_PLACES_STRANGERS);
}

static void test_one_address_has_a_part_of_the_places(void **state) {
    (void)state;
    static ls_places p;
    p = (ls_places){.of = {{.connection = NULL}}};
    take_places(&p, 0, 50, 1, 100);
    for (int i = 0; i < 50; i++) serve_place(&p, i, 100 + i);
    assert_int_equal(end_places(&p, 151), 50 - LS_PLACES_ADDRESS);
    for (int i = 0; i < 10; i++) /* those that were idle for longest */
        for (int k = 0; k <= LS_PLACES_MAX; k++) assert_ptr_not_equal(p.of[k].connection, &connections[i]);
    take_places(&p, 50, 60, 2, 151);
    assert_int_equal(end_places(&p, 151), 0);
}

static void test_streams_and_answers_stay(void **state) {
    (void)state;
    static ls_places p;
    p = (ls_places){.of = {{.connection = NULL}}};
    take_places(&p, 0, LS_PLACES_MAX, 1, 100);
    for (int i = 0; i < LS_PLACES_MAX; i++) {
        ls_places_asked(&p, &connections[i], 100);
        ls_places_known(&p, &connections[i]);
        if (i < 32) ls_places_streams(&p, &connections[i]);
    }
    assert_null(ls_places_end_one(&p, 101));
    /* An answer that is not taken for so long is idle, too. A stream is not. */
    assert_int_equal(end_places(&p, 101 + LS_PLACES_ANSWER_S), LS_PLACES_MAX - LS_PLACES_ADDRESS);
    for (int i = 0; i < 32; i++) assert_ptr_equal(p.of[i].connection, &connections[i]);
}

static void test_addresses_of_one_client_are_one(void **state) {
    (void)state;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 a = {.sin6_family = AF_INET6}, b = a, mapped = a;
    assert_int_equal(inet_pton(AF_INET, "192.0.2.7", &v4.sin_addr), 1);
    assert_int_equal(inet_pton(AF_INET6, "::ffff:192.0.2.7", &mapped.sin6_addr), 1);
    assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &a.sin6_addr), 1);
    assert_int_equal(inet_pton(AF_INET6, "2001:db8::ffff:2", &b.sin6_addr), 1);
    assert_true(ls_place_address((const struct sockaddr *)&v4) == ls_place_address((const struct sockaddr *)&mapped));
    assert_true(ls_place_address((const struct sockaddr *)&a) == ls_place_address((const struct sockaddr *)&b));
    assert_true(ls_place_address((const struct sockaddr *)&a) != ls_place_address((const struct sockaddr *)&v4));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_addresses),
                                       cmocka_unit_test(test_hosts),
                                       cmocka_unit_test(test_tokens),
                                       cmocka_unit_test(test_accepted_types),
                                       cmocka_unit_test(test_queries),
                                       cmocka_unit_test(test_what_a_page_has),
                                       cmocka_unit_test(test_strangers_leave_places_for_the_token),
                                       cmocka_unit_test(test_one_address_has_a_part_of_the_places),
                                       cmocka_unit_test(test_streams_and_answers_stay),
                                       cmocka_unit_test(test_addresses_of_one_client_are_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
