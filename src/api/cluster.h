/* cluster.h: a cluster by --cluster, --gpus-per-node, --node-link and --network. */
#ifndef LS_API_CLUSTER_H
#define LS_API_CLUSTER_H

#include <jansson.h>

#include "config/options.h"
#include "plan/hardware/machine.h"

/* A chip of the table, one of it, or a cluster file; then *is_file, and *measured is a new reference to what probe
 * found out, or NULL. `name` is the value of --cluster, or one of several. */
ls_status ls_cluster_option_site(const ls_options *o, const char *name, ls_site *out, bool *is_file, json_t **measured);
/* "100gbe", "4x25gbe"; "400gbe/node" is one link for all the chips of a node. `id` is for messages. */
ls_status ls_cluster_option_link(const ls_options *o, ls_option_id id, const char *text, int node, ls_link *out);

#endif
