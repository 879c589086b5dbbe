/* options.h: the options of all commands: their table (options.def), and their values in one process. main() parses
 * them for its command, and every layer above reads the fields of ls_options.
 *
 * A value comes, from weakest to strongest, from the table, from the file that --config names, from the environment
 * (LS_ and the name in capitals: --min-size is LS_MIN_SIZE) or from a flag. Each value records its source, so that an
 * error can say where to fix it. An ls_options has a field for every option of every command, whichever command it was
 * parsed for. All errors are LS_ERR_INPUT, except LS_ERR_RESOURCE for lack of memory. */
#ifndef LS_CONFIG_OPTIONS_H
#define LS_CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/choices.h"
#include "lockstep.h"

/* ---- commands ---------------------------------------------------------------------------------------------------- */

typedef enum ls_command {
#define LS_COMMAND(id, function, name, summary, examples) LS_COMMAND_##id,
#include "config/commands.def"
#undef LS_COMMAND
    LS_COMMAND_COUNT
} ls_command;

/* Sets of commands: one bit for each. */
enum {
#define LS_COMMAND(id, function, name, summary, examples) LS_CMD_##id = 1 << LS_COMMAND_##id,
#include "config/commands.def"
#undef LS_COMMAND
    LS_CMD_ALL = (1 << LS_COMMAND_COUNT) - 1,
    /* those that only read and write files; those that compute; those that start workers; those that train;
     * those that run a model */
    LS_CMD_FILES = LS_CMD_TOKENIZE | LS_CMD_IMPORT | LS_CMD_EXPORT | LS_CMD_TIMELINE | LS_CMD_DOCTOR | LS_CMD_PLAN |
                   LS_CMD_BISECT | LS_CMD_RESIZE | LS_CMD_METRICS | LS_CMD_PS | LS_CMD_REPORT | LS_CMD_WATCH,
    LS_CMD_COMPUTE = LS_CMD_ALL & ~LS_CMD_FILES,
    LS_CMD_WORKERS = LS_CMD_BENCH_COMM | LS_CMD_BENCH_KERNELS | LS_CMD_TRAIN | LS_CMD_VERIFY | LS_CMD_SCALE,
    LS_CMD_STEPS = LS_CMD_TRAIN | LS_CMD_VERIFY,
    LS_CMD_MODELS = LS_CMD_STEPS | LS_CMD_SCALE | LS_CMD_GENERATE | LS_CMD_EVAL
};

typedef struct ls_command_info {
    const char *name; /* one word, or two: "bench comm" */
    const char *summary;
    const char *examples; /* command lines, each ended by a newline */
} ls_command_info;

/* Returns the static row of a command, which must be below LS_COMMAND_COUNT. */
const ls_command_info *ls_command_info_get(ls_command command);

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* The type of an option's value; ls_option_c_KIND is the C type of its field. */
typedef enum ls_option_kind {
    LS_OPTION_BOOL,
    LS_OPTION_INT,
    LS_OPTION_FLOAT,
    LS_OPTION_SIZE,
    LS_OPTION_TIME, /* in seconds */
    LS_OPTION_STRING,
    LS_OPTION_CHOICE /* one value of an enum */
} ls_option_kind;

typedef bool ls_option_c_BOOL;
typedef int64_t ls_option_c_INT;
typedef double ls_option_c_FLOAT;
typedef size_t ls_option_c_SIZE;
typedef double ls_option_c_TIME;
typedef const char *ls_option_c_STRING;

typedef enum ls_option_id {
#define LS_OPTION(field, kind, ...) LS_OPT_##field,
#define LS_CHOICE(field, type, list, ...) LS_OPT_##field,
#include "config/options.def"
#undef LS_CHOICE
#undef LS_OPTION
    LS_OPTION_COUNT
} ls_option_id;

/* Headings of --help and docs/reference/options.md, in their order. */
#define LS_OPTION_GROUPS(X)                                                                                            \
    X(INPUT, "Input")                                                                                                  \
    X(MODEL, "Model")                                                                                                  \
    X(DATA, "Data")                                                                                                    \
    X(BATCH, "Steps and batch")                                                                                        \
    X(OPTIMIZER, "Optimizer")                                                                                          \
    X(CLUSTER, "Cluster")                                                                                              \
    X(SCOPE, "Scope")                                                                                                  \
    X(WORKERS, "Workers")                                                                                              \
    X(LAYOUT, "Layout")                                                                                                \
    X(PRECISION, "Precision")                                                                                          \
    X(GUARDS, "Guards")                                                                                                \
    X(EVALUATION, "Evaluation while training")                                                                         \
    X(SAMPLING, "Text generation")                                                                                     \
    X(CHECKPOINTS, "Checkpoints")                                                                                      \
    X(OUTPUT, "Output")                                                                                                \
    X(SETTINGS, "Settings")

typedef enum ls_option_group {
    LS_GROUP_NONE, /* a row without .group, which tests/unit/test_options.c refuses */
#define LS_GROUP_ENUM(id, heading) LS_GROUP_##id,
    LS_OPTION_GROUPS(LS_GROUP_ENUM)
#undef LS_GROUP_ENUM
        LS_GROUP_COUNT
} ls_option_group;

/* What differs for some commands in an option that several commands share; NULL or 0: as in the row. Written in the
 * table as LS_IN(LS_CMD_PLAN, .unset = "searched"). */
typedef struct ls_option_variant {
    unsigned commands; /* a set of LS_CMD_* */
    const char *unset; /* the default that help shows for these commands, even if the row has a .value; the commands'
                          code applies it, not the parser */
    const char *help;  /* instead of the row's */
    const char *more;  /* instead of the row's; "": nothing */
    const char *metavar;
    const ls_option_choice *choices; /* those of the row's choices that help and messages offer for these commands; the
                                        parser accepts the row's, and the command refuses the rest */
    ls_option_group group;
} ls_option_variant;

enum { LS_OPTION_VARIANTS_MAX = 10 };
#define LS_IN(set, ...)                                                                                                \
    { .commands = (set), __VA_ARGS__ }

/* A condition on another option, a CHOICE: that it has one of these values. */
typedef struct ls_option_with {
    ls_option_id id;
    unsigned values; /* bit v: the value v; 0: the condition is always true */
} ls_option_with;
#define LS_WITH(field, value)                                                                                          \
    { LS_OPT_##field, 1u << (value) }
#define LS_WITHOUT(field, value)                                                                                       \
    { LS_OPT_##field, ~(1u << (value)) }

/* How an option is recorded in a run's identity (run/folder/identity.h): the hashed list of all options that change the
 * result of training. The field has the option's name, and --resume requires the same value. */
typedef struct ls_option_identity {
    int place; /* position among the fields, from 1; a new option takes the next one. 0: not in the identity */
    enum {
        LS_AS_VALUE,    /* numbers as numbers, switches as 0 or 1, texts and choices as text */
        LS_AS_YES_NO,   /* a switch as text */
        LS_AS_EXPONENT, /* a power of two as its exponent */
        LS_AS_DATA      /* computed by the code that opens the data */
    } as;
    const char *absent;  /* value for which the field is omitted, so that runs from before the option can be resumed */
    int64_t rule;        /* version of the arithmetic behind the option: a field NAME-rule; 0: none. Omitted for the
                            default value, so that other runs can be resumed */
    ls_option_with free; /* condition under which the field is recorded, but neither hashed nor compared */
} ls_option_identity;

/* One row of options.def. All texts are static. */
typedef struct ls_option_info {
    const char *name; /* without leading dashes */
    ls_option_kind kind;
    size_t offset;                   /* of the field in ls_options */
    const char *value;               /* the default, parsed like a user's text; NULL: none, the field is 0 or NULL */
    const char *unset;               /* what happens without a value, if there is no default */
    const char *min;                 /* limits as a user would write them, */
    const char *max;                 /* both inclusive */
    const char *unit;                /* of an INT or FLOAT */
    const char *metavar;             /* name of a STRING's value in --help */
    const char *bare;                /* value of a STRING whose flag has none; NULL: the flag needs a value */
    const char *aliases;             /* further names, separated by spaces */
    const char *help;                /* one or two lines: what the option sets */
    const char *more;                /* details for --help-all and docs/reference/options.md */
    const ls_option_choice *choices; /* of a CHOICE */
    ls_option_group group;
    unsigned common;   /* commands whose --help lists it; --help-all always does */
    unsigned commands; /* LS_CMD_* that have the option */
    bool joins;        /* values of repeated flags are joined */
    char joint;        /* separator of joined values; 0: a comma */
    int words;         /* number of values that follow a flag that joins; 0: one */
    ls_option_identity identity;
    ls_option_with with; /* condition under which the option has an effect */
    unsigned operand;    /* commands that accept the value without the flag, as in `lockstep doctor RUN` */
    ls_option_variant in[LS_OPTION_VARIANTS_MAX];
} ls_option_info;

/* Returns the static row of an option, which must be below LS_OPTION_COUNT. */
const ls_option_info *ls_option_info_get(ls_option_id id);
/* Returns the heading under which help lists the options of a group. */
const char *ls_option_group_name(ls_option_group group);

/* The texts of an option for one command; all are static. */
typedef struct ls_option_words {
    const char *help, *more, *metavar; /* more, metavar: NULL for none */
    const ls_option_choice *choices;
    ls_option_group group;
    const char *without; /* the default, or what happens without a value */
    bool is_own;         /* the command has its own default and does not use the row's `value` */
} ls_option_words;

/* Returns the option's texts for one command: those of the row, replaced by those of the command's variant. */
ls_option_words ls_option_words_of(ls_option_id id, ls_command command);
/* Returns the first option of any command with this name or alias, written like "min-size"; LS_OPTION_COUNT if there is
 * none. */
ls_option_id ls_option_find(const char *name);
/* Returns the option with this name or alias for one command: the command's own if several share the name, else any
 * command's, so the caller checks .commands. LS_OPTION_COUNT: none. */
ls_option_id ls_option_find_of(ls_command command, const char *name);
/* Returns the option of `command` to which operand number n (from 0), a word without a flag, belongs; an option that
 * joins its values takes all further operands. LS_OPTION_COUNT: the command accepts no such operand. */
ls_option_id ls_option_operand(ls_command command, int n);
/* Returns the static name of the command's option that is nearest to `word`, to suggest after a typo; NULL if none is
 * near. */
const char *ls_option_nearest(ls_command command, const char *word);

enum { LS_OPTION_ENV_MAX = 64 };

/* Writes the name of the option's environment variable, such as "LS_MIN_SIZE". */
void ls_option_env_name(const ls_option_info *info, char name[LS_OPTION_ENV_MAX]);

/* ---- values ------------------------------------------------------------------------------------------------------ */

typedef enum ls_option_origin { LS_ORIGIN_DEFAULT, LS_ORIGIN_FILE, LS_ORIGIN_ENV, LS_ORIGIN_FLAG } ls_option_origin;

typedef struct ls_option_source {
    ls_option_origin origin;
    int line;   /* in the config file; 0: not known */
    char *text; /* the value as the user wrote it, owned; NULL for a default */
} ls_option_source;

/* One field for each row of the table, named like the option, with underscores. A STRING points into its source's text,
 * which the struct owns, or is a static default; NULL: not given. */
typedef struct ls_options {
#define LS_OPTION(field, kind, ...) ls_option_c_##kind field;
#define LS_CHOICE(field, type, list, ...) type field;
#include "config/options.def"
#undef LS_CHOICE
#undef LS_OPTION
    ls_option_source source[LS_OPTION_COUNT];
    ls_command command; /* set by ls_options_parse(); error messages name this command's defaults and choices */
} ls_options;

/* Initializes all options to the values of the table. Overwrites the struct without freeing what it held; the result
 * owns no memory. */
void ls_options_defaults(ls_options *options);
/* Fills `options` from the file, the environment and the flags in argv[0 … argc−1], which follow the name of the
 * command. On failure there is nothing to release; after success the caller calls ls_options_fini(). */
ls_status ls_options_parse(ls_options *options, ls_command command, int argc, char *const argv[]);
/* Frees the users' texts and clears the struct. */
void ls_options_fini(ls_options *options);
/* Logs a warning for each LS_* variable in the environment that is no option, but is a typo of one of this command's
 * options or another program's name for one. */
void ls_options_warn_env(ls_command command);

/* Returns whether the value comes from a file, the environment or a flag, and not from the table, even if it equals the
 * default. */
static inline bool ls_options_is_given(const ls_options *o, ls_option_id id) {
    return o->source[id].origin != LS_ORIGIN_DEFAULT;
}
/* Returns whether the option was given for this run, by flag or environment. A config file does not count, because
 * several kinds of runs may share it. */
static inline bool ls_options_is_asked_for(const ls_options *o, ls_option_id id) {
    return o->source[id].origin >= LS_ORIGIN_ENV;
}
/* Returns the address of an option's field, whose C type is that of its kind (ls_option_c_*; an enum for a CHOICE). */
const void *ls_options_field(const ls_options *options, ls_option_id id);
/* Returns whether the condition is true for these values. */
bool ls_options_hold(const ls_options *options, ls_option_with condition);
/* Returns whether the option has the value that `text` stands for, as in 1e-4 and 0.0001; false if the text is not
 * valid. A STRING must have a value, not NULL. */
bool ls_options_is_value(const ls_options *options, ls_option_id id, const char *text);

/* Restores the value of the table, as if the user had not given the option, and frees the user's text. */
void ls_options_reset(ls_options *options, ls_option_id id);
/* Parses `text`, which is copied, into one option, checks its range and records its source: `line` of a file, or 0. On
 * failure the option is unchanged, and the message begins with the place ("--workers 0: "). */
ls_status ls_options_put(ls_options *options, ls_option_id id, const char *text, ls_option_origin origin, int line);
/* Reads the config file options->config (JSON or YAML, at most 1 MiB) into `options`. */
ls_status ls_options_read_file(ls_options *options, ls_command command);
/* Reads the text of a config file (JSON or YAML) into `options`; blank text gives nothing. `text` has a NUL behind its
 * `bytes` bytes; messages call the file `path`. An option of another command is checked and stored too. */
ls_status ls_options_read_text(ls_options *options, ls_command command, const char *path, const char *text,
                               size_t bytes);

enum { LS_OPTION_WHERE_MAX = 256 };

/* Writes where the value was given, and the value: "--workers 0", "LS_WORKERS=0", "run.yaml:3: workers: 0", or
 * "--workers (default 1)". */
void ls_options_where(const ls_options *options, ls_option_id id, char where[LS_OPTION_WHERE_MAX]);
/* Returns LS_ERR_INPUT with the place of the option's value ("--workers 0: ") in front of the formatted message, for
 * values that are wrong only in combination. */
ls_status ls_options_fail(const ls_options *options, ls_option_id id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts the place of the option's value ("--data x: ") in front of the message of `status`, a failure of a lower layer,
 * and returns `status`; does nothing for LS_OK. */
ls_status ls_options_blame(const ls_options *options, ls_option_id id, ls_status status);
/* Writes the options of `command` as a YAML config file that gives the same run (--print-config). What has no value, or
 * only a default that the command itself applies, becomes a comment line. */
void ls_options_print(const ls_options *options, ls_command command, FILE *out);

#endif
