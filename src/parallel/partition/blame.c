/* blame.c: majorities of hashes. The vote of Boyer and Moore finds the only candidate in one pass and no memory. */
#include "parallel/partition/blame.h"

/* The hash that is a majority's, if any is. */
static ls_hash128 candidate_of(const ls_hash128 *hashes, size_t holders) {
    ls_hash128 candidate = {0, 0};
    size_t lead = 0;
    for (size_t i = 0; i < holders; i++) {
        if (lead == 0) candidate = hashes[i];
        if (ls_hash_equal(hashes[i], candidate))
            lead++;
        else
            lead--;
    }
    return candidate;
}

ls_blame ls_blame_holders(const ls_hash128 *hashes, size_t holders, bool *named) {
    ls_hash128 candidate = candidate_of(hashes, holders);
    size_t agree = 0;
    for (size_t i = 0; i < holders; i++) {
        named[i] = !ls_hash_equal(hashes[i], candidate);
        agree += !named[i];
    }
    if (agree == holders) return LS_BLAME_NOBODY;
    if (agree > holders - agree) return LS_BLAME_SOME;
    for (size_t i = 0; i < holders; i++) named[i] = true;
    return LS_BLAME_ALL;
}

ls_blame_audit_verdict ls_blame_audit(ls_hash128 owner, ls_hash128 auditor, const ls_hash128 *third) {
    if (ls_hash_equal(owner, auditor)) return LS_AUDIT_CLEAN;
    if (!third) return LS_AUDIT_UNDECIDED;
    if (ls_hash_equal(*third, auditor)) return LS_AUDIT_OWNER;
    if (ls_hash_equal(*third, owner)) return LS_AUDIT_AUDITOR;
    return LS_AUDIT_UNKNOWN;
}
