/* config_yaml.c: a config file in YAML, through libyaml. */
#include "config/config_file.h"

#ifdef LS_HAVE_YAML

#    include <string.h>
#    include <yaml.h>

#    include "base/status.h"

enum { KEY_MAX = 256, SHOWN = 80 };

static int line_of(const yaml_event_t *event) { return (int)event->start_mark.line + 1; }

/* The next event; it must be deleted, also after a failure. */
static ls_status next_event(const ls_config_reader *reader, yaml_parser_t *parser, yaml_event_t *event) {
    memset(event, 0, sizeof *event);
    if (yaml_parser_parse(parser, event)) return LS_OK;
    if (parser->error == YAML_MEMORY_ERROR) return ls_fail(LS_ERR_RESOURCE, "no memory to read %s", reader->path);
    bool scanned = parser->error == YAML_SCANNER_ERROR || parser->error == YAML_PARSER_ERROR;
    return ls_config_fail(reader, scanned ? (int)parser->problem_mark.line + 1 : 0, "is not YAML: %s",
                          parser->problem ? parser->problem : "cannot be read");
}

/* The text of a scalar event; NULL when it contains a NUL byte, which no option may. */
static const char *scalar_text(const yaml_event_t *event) {
    const char *text = (const char *)event->data.scalar.value;
    return strlen(text) == event->data.scalar.length ? text : NULL;
}

static ls_status read_value(ls_config_reader *reader, yaml_parser_t *parser, const char *key, int line) {
    yaml_event_t event;
    const char *text;
    ls_status status;
    LS_TRY_OUT(next_event(reader, parser, &event));
    if (event.type != YAML_SCALAR_EVENT) {
        status = ls_config_fail(reader, line, "%.*s: must be one value, not a list, a mapping or an alias", SHOWN, key);
    } else if (!(text = scalar_text(&event))) {
        status = ls_config_fail(reader, line, "%.*s: contains a NUL byte", SHOWN, key);
    } else {
        status = ls_config_entry(reader, key, text, line);
    }
out:
    yaml_event_delete(&event);
    return status;
}

/* The entries behind the start of the mapping, to its end. */
static ls_status read_mapping(ls_config_reader *reader, yaml_parser_t *parser) {
    for (;;) {
        yaml_event_t event;
        char key[KEY_MAX] = "";
        ls_status status = next_event(reader, parser, &event);
        int line = line_of(&event);
        bool is_key = event.type == YAML_SCALAR_EVENT, is_end = event.type == YAML_MAPPING_END_EVENT;
        if (is_key) snprintf(key, sizeof key, "%s", (const char *)event.data.scalar.value);
        yaml_event_delete(&event);
        if (status != LS_OK || is_end) return status;
        if (!is_key) return ls_config_fail(reader, line, "option names must be plain text");
        LS_TRY(read_value(reader, parser, key, line));
    }
}

/* One document, which is a mapping or empty; then nothing more. */
static ls_status read_stream(ls_config_reader *reader, yaml_parser_t *parser) {
    bool had_document = false;
    for (;;) {
        yaml_event_t event;
        ls_status status = next_event(reader, parser, &event);
        yaml_event_type_t type = event.type;
        int line = line_of(&event);
        bool is_empty = type == YAML_SCALAR_EVENT && event.data.scalar.length == 0;
        yaml_event_delete(&event);
        if (status != LS_OK || type == YAML_STREAM_END_EVENT) return status;
        if (type == YAML_DOCUMENT_START_EVENT && had_document) {
            return ls_config_fail(reader, line, "has a second document; keep one");
        }
        had_document |= type == YAML_DOCUMENT_START_EVENT;
        if (type == YAML_MAPPING_START_EVENT) {
            LS_TRY(read_mapping(reader, parser));
        } else if ((type == YAML_SCALAR_EVENT && !is_empty) || type == YAML_SEQUENCE_START_EVENT) {
            return ls_config_fail(reader, line, "must be lines of option names and values, as in 'workers: 4'");
        }
    }
}

ls_status ls_config_read_yaml(ls_config_reader *reader) {
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return ls_fail(LS_ERR_RESOURCE, "no memory to read %s", reader->path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)reader->text, reader->bytes);
    ls_status status = read_stream(reader, &parser);
    yaml_parser_delete(&parser);
    return status;
}

#else

ls_status ls_config_read_yaml(ls_config_reader *reader) {
    return ls_config_fail(
        reader, 0, "this lockstep was built without libyaml; give a JSON file, or install libyaml and build again");
}

#endif
