/* saved_config.h: the options of a run as its folder keeps them, in config.json and, once more, in config.json.copy.
 *
 * Both have a member "checksum" over all others, so that a damaged file is noticed, also if it is still JSON, and the
 * other one is read. A file without a checksum is one of an older version, which wrote no copy, or made by hand. */
#ifndef LS_CONFIG_SAVED_CONFIG_H
#define LS_CONFIG_SAVED_CONFIG_H

#include <jansson.h>
#include <limits.h>

#include "base/status.h"

#define LS_CONFIG_FILE "config.json"
#define LS_CONFIG_COPY LS_CONFIG_FILE ".copy"
/* Members that are no options: config files may have them. The folder in which the run was started: */
#define LS_CONFIG_STARTED_IN "started-in"
#define LS_CONFIG_CHECKSUM "checksum"

/* Adds the checksum of the members that the object has. */
ls_status ls_saved_config_seal(json_t *object);

typedef enum ls_saved_config {
    LS_CONFIG_ABSENT,  /* neither file is there */
    LS_CONFIG_SOUND,   /* config.json is as it was written, or nothing tells that it is not */
    LS_CONFIG_OF_COPY, /* config.json is damaged, was edited or is gone; the copy is as it was written */
    LS_CONFIG_DAMAGED  /* config.json is damaged, and there is no sound copy */
} ls_saved_config;

/* *path: the file to read, of SOUND and OF_COPY. Writes nothing. */
ls_saved_config ls_saved_config_find(const char *folder, char path[PATH_MAX]);

#endif
