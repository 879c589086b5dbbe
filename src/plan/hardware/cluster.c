/* cluster.c: clusters that cannot be. */
#include "plan/hardware/machine.h"

static ls_status check_site(const ls_site *site) {
    if (site->chips < 1 || site->chips > LS_CHIPS_MAX)
        return ls_fail(LS_ERR_INPUT, "a cluster of %d chips is not possible; use 1 to %d", site->chips, LS_CHIPS_MAX);
    if (site->node < 1) return ls_fail(LS_ERR_INPUT, "a node of %d chips is not possible; use 1 or more", site->node);
    if (site->chips > site->node && site->chips % site->node != 0) {
        int whole = site->chips / site->node * site->node;
        return ls_fail(LS_ERR_INPUT,
                       "%d chips in nodes of %d make %.4g nodes; use %d or %d chips, or another node size", site->chips,
                       site->node, (double)site->chips / site->node, whole, whole + site->node);
    }
    return LS_OK;
}

ls_status ls_cluster_check(const ls_cluster *cluster) {
    if (cluster->sites < 1 || cluster->sites > LS_SITES_MAX)
        return ls_fail(LS_ERR_INPUT, "a cluster of %d sites is not possible; use 1 or %d", cluster->sites,
                       LS_SITES_MAX);
    for (int i = 0; i < cluster->sites; i++) LS_TRY(check_site(&cluster->site[i]));
    if (cluster->sites > 1 && !(cluster->across.bandwidth > 0))
        return ls_fail(LS_ERR_INPUT, "two clusters require a link between them (--link)");
    return LS_OK;
}
