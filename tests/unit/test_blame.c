/* test_blame.c: finding the holder that differs from the majority: cases by hand, and every pattern of up to six
 * holders against plain counting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "parallel/partition/audit.h"

enum { HOLDERS_MAX = 6 };

/* Hashes that differ in one half only. */
static ls_hash128 hash_of(char letter) {
    uint64_t value = (uint64_t)(letter - 'a');
    return letter % 2 ? (ls_hash128){.lo = value + 7, .hi = 3} : (ls_hash128){.lo = 7, .hi = value + 3};
}

static ls_blame blame(const char *letters, bool *named) {
    ls_hash128 hashes[HOLDERS_MAX];
    for (size_t i = 0; letters[i]; i++) hashes[i] = hash_of(letters[i]);
    return ls_blame_holders(hashes, strlen(letters), named);
}

static void check(const char *letters, ls_blame expected, const char *names) {
    bool named[HOLDERS_MAX];
    ls_blame got = blame(letters, named);
    if (got != expected) fail_msg("%s: verdict %d", letters, (int)got);
    for (size_t i = 0; letters[i]; i++)
        if (named[i] != (names[i] == 'x')) fail_msg("%s: holder %d", letters, (int)i);
}

static void the_one_that_is_alone_is_named(void **state) {
    (void)state;
    check("a", LS_BLAME_NOBODY, ".");
    check("aa", LS_BLAME_NOBODY, "..");
    check("aaaaaa", LS_BLAME_NOBODY, "......");
    check("ab", LS_BLAME_ALL, "xx");
    check("baa", LS_BLAME_SOME, "x..");
    check("aba", LS_BLAME_SOME, ".x.");
    check("aab", LS_BLAME_SOME, "..x");
    check("abc", LS_BLAME_ALL, "xxx");
    check("aabb", LS_BLAME_ALL, "xxxx");
    check("aabc", LS_BLAME_ALL, "xxxx"); /* half is no majority */
    check("abcaa", LS_BLAME_SOME, ".xx..");
    check("bbaaa", LS_BLAME_SOME, "xx...");
    check("bcdaaa", LS_BLAME_ALL, "xxxxxx");
    assert_int_equal(ls_blame_holders(NULL, 0, NULL), LS_BLAME_NOBODY);
}

static void check_pattern(const char *letters, size_t holders) {
    bool named[HOLDERS_MAX];
    size_t most = 0, of_most = 0;
    for (size_t i = 0; i < holders; i++) {
        size_t same = 0;
        for (size_t j = 0; j < holders; j++) same += letters[i] == letters[j];
        if (same > most) {
            most = same;
            of_most = i;
        }
    }
    ls_blame got = blame(letters, named);
    ls_blame expected = most == holders ? LS_BLAME_NOBODY : most * 2 > holders ? LS_BLAME_SOME : LS_BLAME_ALL;
    assert_int_equal(got, expected);
    for (size_t i = 0; i < holders; i++)
        assert_int_equal(named[i], expected == LS_BLAME_ALL || letters[i] != letters[of_most]);
}

static void every_pattern_is_judged_by_its_counts(void **state) {
    (void)state;
    for (size_t holders = 1; holders <= HOLDERS_MAX; holders++) {
        size_t patterns = 1;
        for (size_t i = 0; i < holders; i++) patterns *= 4;
        for (size_t p = 0; p < patterns; p++) {
            char letters[HOLDERS_MAX + 1] = "";
            for (size_t i = 0, rest = p; i < holders; i++, rest /= 4) letters[i] = (char)('a' + rest % 4);
            check_pattern(letters, holders);
        }
    }
}

static void a_third_computation_decides(void **state) {
    (void)state;
    ls_hash128 a = hash_of('a'), b = hash_of('b'), c = hash_of('c');
    assert_int_equal(ls_blame_audit(a, a, NULL), LS_AUDIT_CLEAN);
    assert_int_equal(ls_blame_audit(a, b, NULL), LS_AUDIT_UNDECIDED);
    assert_int_equal(ls_blame_audit(a, b, &b), LS_AUDIT_OWNER);
    assert_int_equal(ls_blame_audit(a, b, &a), LS_AUDIT_AUDITOR);
    assert_int_equal(ls_blame_audit(a, b, &c), LS_AUDIT_UNKNOWN);
    assert_int_equal(ls_blame_audit(a, a, &c), LS_AUDIT_CLEAN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_one_that_is_alone_is_named),
        cmocka_unit_test(every_pattern_is_judged_by_its_counts),
        cmocka_unit_test(a_third_computation_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
