/* saved_config.h: the options of a run, saved in its folder as config.json and config.json.copy, so that --resume can
 * read them again. This module makes the checksum and chooses the file to read; run/folder writes and reads the files.
 *
 * Both have a member "checksum" over all others, so that a damaged file is detected even if it is still valid JSON, and
 * the other one is read. An edit by hand breaks the checksum, too. A file without a checksum was written by hand, or by
 * an older version, which wrote no copy. */
#ifndef LS_CONFIG_SAVED_CONFIG_H
#define LS_CONFIG_SAVED_CONFIG_H

#include <jansson.h>
#include <limits.h>

#include "base/status.h"

#define LS_CONFIG_FILE "config.json"
#define LS_CONFIG_COPY LS_CONFIG_FILE ".copy"
/* Members that are no options but allowed in config files: the directory in which the run was started, and the
 * checksum. */
#define LS_CONFIG_STARTED_IN "started-in"
#define LS_CONFIG_CHECKSUM "checksum"

/* Sets the object's member "checksum" to the hash of all other members, in place of an older one. Fails only with
 * LS_ERR_RESOURCE. */
ls_status ls_saved_config_seal(json_t *object);

typedef enum ls_saved_config {
    LS_CONFIG_ABSENT,  /* config.json does not exist, and there is no sound copy */
    LS_CONFIG_SOUND,   /* config.json matches its checksum; or it has no checksum, and there is no sound copy */
    LS_CONFIG_OF_COPY, /* config.json is damaged, edited, missing or without a checksum; the copy is sound */
    LS_CONFIG_DAMAGED  /* config.json is damaged or edited, and there is no sound copy */
} ls_saved_config;

/* Decides which file of a run's folder to read, by their checksums. Writes its path to *path for SOUND and OF_COPY;
 * otherwise *path is undefined. Changes no file. A folder whose path is too long counts as ABSENT. */
ls_saved_config ls_saved_config_find(const char *folder, char path[PATH_MAX]);

#endif
