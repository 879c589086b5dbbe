/* config_file.h: what the readers of the two file formats share. A config file is one flat mapping of option names to
 * scalars; each reader hands over its entries, one by one, and knows nothing of options. */
#ifndef LS_CONFIG_CONFIG_FILE_H
#define LS_CONFIG_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/options.h"

typedef struct ls_config_reader {
    const char *path;
    const char *text;
    size_t bytes;
    ls_options *options;
    ls_command command;
    bool seen[LS_OPTION_COUNT];
} ls_config_reader;

/* Fails with "run.yaml:3: " in front; line 0 leaves the number out. */
ls_status ls_config_fail(const ls_config_reader *reader, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets the option `key` (with dashes or underscores), which stands in `line`. */
ls_status ls_config_entry(ls_config_reader *reader, const char *key, const char *text, int line);

ls_status ls_config_read_json(ls_config_reader *reader);
ls_status ls_config_read_yaml(ls_config_reader *reader);

#endif
