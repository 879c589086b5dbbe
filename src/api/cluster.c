/* cluster.c: from the options that describe a cluster to its chips and links. */
#include "api/cluster.h"

#include <stdio.h>
#include <string.h>

#include "base/files.h"
#include "plan/hardware/machine_file.h"

static bool has_suffix(const char *text, const char *suffix) {
    size_t length = strlen(text), tail = strlen(suffix);
    return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

static bool names_file(const char *name) {
    return strchr(name, '/') || has_suffix(name, ".json") || has_suffix(name, ".yaml") || has_suffix(name, ".yml") ||
           ls_file_exists(name);
}

ls_status ls_cluster_option_link(const ls_options *o, ls_option_id id, const char *text, int node, ls_link *out) {
    char name[LS_MACHINE_NAME_MAX];
    bool shared = has_suffix(text, "/node");
    size_t length = strlen(text) - (shared ? strlen("/node") : 0);
    if (length >= sizeof name) return ls_options_fail(o, id, "is too long for the name of a link");
    memcpy(name, text, length);
    name[length] = '\0';
    ls_status status = ls_link_find(name, out);
    if (status != LS_OK) return ls_fail_at(status, "--%s: ", ls_option_info_get(id)->name);
    if (shared) {
        out->bandwidth /= node;
        snprintf(out->name, sizeof out->name, "%s", text);
    }
    return LS_OK;
}

static ls_status set_links(const ls_options *o, ls_site *site) {
    if (o->node_link) LS_TRY(ls_cluster_option_link(o, LS_OPT_node_link, o->node_link, site->node, &site->inside));
    if (o->network) LS_TRY(ls_cluster_option_link(o, LS_OPT_network, o->network, site->node, &site->between));
    return LS_OK;
}

ls_status ls_cluster_option_site(const ls_options *o, const char *name, ls_site *out, bool *is_file,
                                 json_t **measured) {
    ls_cluster one;
    *measured = NULL;
    *is_file = names_file(name);
    ls_status status = *is_file ? ls_machine_file_read(name, &one, measured) : ls_cluster_of(name, 1, 0, &one);
    if (status != LS_OK) return ls_fail_at(status, "--cluster: ");
    *out = one.site[0];
    if (o->gpus_per_node > 0) out->node = (int)o->gpus_per_node;
    status = set_links(o, out);
    if (status != LS_OK) {
        json_decref(*measured);
        *measured = NULL;
    }
    return status;
}
