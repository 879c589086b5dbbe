/* machine_file.h: reads and writes a site of a cluster as a JSON or YAML file, made by the user or by `lockstep probe`.
 *
 *     name                 text
 *     chip                 a name of the table ("H100"), or an object
 *     chips                whole number; without it one node
 *     chips_per_node       whole number; without it as usual for the chip, 8 for one that is not of the table
 *     inside, between      a name of the table ("nvlink4", "4x100gbe"), or an object; without it as usual for the chip;
 *                          required for a chip without `like`
 *     measured             an object that is handed through as it is (probe's own figures)
 *     source               text for people
 *
 * chip: like (a name of the table, from which all that is not given comes), name, source, memory_bytes,
 * peak_fp32_flops_per_second, peak_fp16_…, peak_bf16_…, peak_fp8_…, peak_mxfp8_…, share_fp32, share_fp16, share_bf16,
 * share_fp8, share_mxfp8, units, gemm_fill_elems, attention_share, attention_back_share,
 * memory_bandwidth_bytes_per_second, bandwidth_share, host_link_bytes_per_second, host_bandwidth_bytes_per_second,
 * launch_seconds, reserved_bytes, group_bytes, is_cpu. Without `like`: memory_bytes, memory_bandwidth_bytes_per_second
 * and one peak at least; the others are then usual figures of accelerators.
 *
 * inside and between: like, name, source, bandwidth_bytes_per_second (of one chip, one direction), share,
 * start_seconds, latency_seconds. Dashes may stand for underscores. Names that are not known are refused. */
#ifndef LS_PLAN_HARDWARE_MACHINE_FILE_H
#define LS_PLAN_HARDWARE_MACHINE_FILE_H

#include <jansson.h>

#include "plan/hardware/machine.h"

/* Reads a cluster of one site. `measured` may be NULL; else *measured is a new reference, or NULL if the file has none.
 * The message of LS_ERR_INPUT names the file and the member. */
ls_status ls_machine_file_read(const char *path, ls_cluster *out, json_t **measured);
/* Returns all constants of the first site as one object, a new reference; NULL: out of memory. `measured` is borrowed
 * and may be NULL. */
json_t *ls_machine_to_json(const ls_cluster *cluster, const json_t *measured);
/* Like ls_machine_file_read() from an object; `source` names it in messages. */
ls_status ls_machine_from_json(const char *source, const json_t *json, ls_cluster *out, json_t **measured);
/* Writes JSON, replacing the file atomically. */
ls_status ls_machine_file_write(const char *path, const ls_cluster *cluster, const json_t *measured);

#endif
