/* help_complete.c: writes completions for bash, zsh and fish from the tables of commands and options. */
#include <stdbool.h>
#include <string.h>

#include "config/help.h"

const char *const ls_shell_names[LS_SHELLS] = {"bash", "zsh", "fish"};

/* Returns whether the command has the option. */
static bool command_has(ls_option_id id, ls_command command) {
    return ls_option_info_get(id)->commands & (1u << command);
}

/* Writes the words of the choices, separated by blanks. */
static void put_choices(FILE *out, const ls_option_choice *choices) {
    for (const ls_option_choice *c = choices; c->word; c++) fprintf(out, "%s%s", c == choices ? "" : " ", c->word);
}

/* Writes help for use inside single quotes: replaces apostrophes, brackets and colons, and drops \, ` and $, which
 * shells would interpret. */
static void put_help(FILE *out, const char *help) {
    for (const char *c = help; *c; c++) {
        if (*c == '\'')
            fputs("’", out);
        else if (*c == '[' || *c == ']' || *c == ':')
            fputs(*c == ':' ? "," : *c == '[' ? "(" : ")", out);
        else if (*c != '\\' && *c != '`' && *c != '$')
            fputc(*c, out);
    }
}

/* Writes the first words of all commands, each once. */
static void put_first_words(FILE *out) {
    char before[64] = "";
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        const char *name = ls_command_info_get(command)->name;
        int length = (int)strcspn(name, " ");
        if ((int)strlen(before) == length && strncmp(before, name, (size_t)length) == 0) continue;
        snprintf(before, sizeof before, "%.*s", length, name);
        fprintf(out, "%s%s", command ? " " : "", before);
    }
}

/* Writes the second words of the commands whose first word is the first `length` bytes of `group`. */
static void put_group(FILE *out, const char *group, size_t length) {
    const char *between = "";
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        const char *name = ls_command_info_get(command)->name;
        if (strncmp(name, group, length) != 0 || name[length] != ' ') continue;
        fprintf(out, "%s%s", between, name + length + 1);
        between = " ";
    }
}

/* ---- bash -------------------------------------------------------------------------------------------------------- */

/* Writes a command's branch of the bash script: its flags, and by the flag before the cursor the words, file or number
 * that may follow. */
static void put_bash_command(FILE *out, ls_command command) {
    fprintf(out, "    '%s')\n        options='--help --help-all", ls_command_info_get(command)->name);
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        const ls_option_info *info = ls_option_info_get(id);
        if (!command_has(id, command)) continue;
        fprintf(out, " --%s", info->name);
        if (info->kind == LS_OPTION_BOOL) fprintf(out, " --no-%s", info->name);
    }
    fputs("'\n        case $previous in\n", out);
    for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
        const ls_option_info *info = ls_option_info_get(id);
        if (!command_has(id, command) || info->kind == LS_OPTION_BOOL) continue;
        const ls_option_choice *choices = ls_option_words_of(id, command).choices;
        fprintf(out, "        --%s) ", info->name);
        if (choices) {
            fputs("words='", out);
            put_choices(out, choices);
            fputs("' ;;\n", out);
        } else {
            fprintf(out, "takes=%s ;;\n", info->kind == LS_OPTION_STRING ? "file" : "number");
        }
    }
    fputs("        esac ;;\n", out);
}

/* Writes the whole completion script for bash. */
static void put_bash(FILE *out) {
    fputs("# Completions of lockstep for bash; made by lockstep --completion bash.\n"
          "_lockstep() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
          "    local options='' words='' takes='' first=2\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W 'help --help --version ",
          out);
    put_first_words(out);
    fputs("' -- \"$word\"))\n        return\n    fi\n    case $command in\n", out);
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        const char *name = ls_command_info_get(command)->name;
        size_t length = strcspn(name, " ");
        bool is_first = command == 0 || strncmp(ls_command_info_get(command - 1)->name, name, length + 1) != 0;
        if (!name[length] || !is_first) continue;
        fprintf(out, "    %.*s)\n        if [ \"$COMP_CWORD\" -eq 2 ]; then\n            COMPREPLY=($(compgen -W '",
                (int)length, name);
        put_group(out, name, length);
        fputs("' -- \"$word\"))\n            return\n        fi\n        command=\"$command ${COMP_WORDS[2]}\" first=3 "
              ";;\n",
              out);
    }
    fputs("    esac\n    [ \"$COMP_CWORD\" -eq \"$first\" ] && previous=''\n    case $command in\n", out);
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) put_bash_command(out, command);
    fputs("    esac\n"
          "    if [ -n \"$words\" ]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "    elif [ \"$takes\" = number ]; then\n"
          "        :\n"
          "    elif [ -z \"$takes\" ] && [ \"${word#-}\" != \"$word\" ]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
          "    else\n"
          "        compopt -o filenames 2> /dev/null\n"
          "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
          "    fi\n"
          "}\n"
          "complete -F _lockstep lockstep\n",
          out);
}

/* ---- zsh --------------------------------------------------------------------------------------------------------- */

/* Writes the specification of an option for zsh's _arguments; for a switch also --no-NAME. */
static void put_zsh_option(FILE *out, ls_option_id id, ls_command command) {
    const ls_option_info *info = ls_option_info_get(id);
    ls_option_words words = ls_option_words_of(id, command);
    bool is_switch = info->kind == LS_OPTION_BOOL;
    fprintf(out, "        '--%s%s[", info->name, is_switch ? "" : "=");
    put_help(out, words.help);
    fputc(']', out);
    if (words.choices) {
        fputs(":value:(", out);
        put_choices(out, words.choices);
        fputc(')', out);
    } else if (!is_switch) {
        fputs(info->kind == LS_OPTION_STRING ? ":value:_files" : ":number: ", out);
    }
    fputs("' \\\n", out);
    if (is_switch) fprintf(out, "        '--no-%s' \\\n", info->name);
}

/* Writes the whole completion script for zsh. "bench" is the only group of commands it knows. */
static void put_zsh(FILE *out) {
    fputs("#compdef lockstep\n# Completions of lockstep for zsh; made by lockstep --completion zsh.\n"
          "_lockstep() {\n    local command=$words[2]\n    if (( CURRENT == 2 )); then\n        local -a commands=(\n",
          out);
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        const ls_command_info *about = ls_command_info_get(command);
        if (strchr(about->name, ' ')) continue;
        fprintf(out, "            '%s:", about->name);
        put_help(out, about->summary);
        fputs("'\n", out);
    }
    fputs("            'bench:measure collectives or kernels'\n        )\n        _describe command commands\n        "
          "return\n    fi\n"
          "    if [[ $command == bench ]]; then\n        if (( CURRENT == 3 )); then\n            compadd ",
          out);
    put_group(out, "bench", strlen("bench"));
    fputs("\n            return\n        fi\n        command=\"bench $words[3]\"\n        shift words\n        (( "
          "CURRENT-- ))\n    fi\n"
          "    shift words\n    (( CURRENT-- ))\n    case $command in\n",
          out);
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        fprintf(out, "    '%s') _arguments \\\n", ls_command_info_get(command)->name);
        for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++)
            if (command_has(id, command)) put_zsh_option(out, id, command);
        fputs("        '--help[common options]' '--help-all[all options]' '*:file:_files' ;;\n", out);
    }
    fputs("    esac\n}\n_lockstep \"$@\"\n", out);
}

/* ---- fish -------------------------------------------------------------------------------------------------------- */

/* Writes the condition (-n '…') under which fish offers the options of the command `name`, of one or two words. */
static void put_fish_condition(FILE *out, const char *name) {
    int first = (int)strcspn(name, " ");
    fprintf(out, "-n '__fish_seen_subcommand_from %.*s", first, name);
    if (name[first]) fprintf(out, "; and __fish_seen_subcommand_from %s", name + first + 1);
    fputc('\'', out);
}

/* Writes the whole completion script for fish. */
static void put_fish(FILE *out) {
    fputs("# Completions of lockstep for fish; made by lockstep --completion fish.\n", out);
    for (ls_command command = 0; command < LS_COMMAND_COUNT; command++) {
        const ls_command_info *about = ls_command_info_get(command);
        size_t length = strcspn(about->name, " ");
        if (about->name[length])
            fprintf(out,
                    "complete -c lockstep -f -n '__fish_use_subcommand' -a %.*s\n"
                    "complete -c lockstep -f -n '__fish_seen_subcommand_from %.*s' -a %s -d '",
                    (int)length, about->name, (int)length, about->name, about->name + length + 1);
        else
            fprintf(out, "complete -c lockstep -f -n '__fish_use_subcommand' -a %s -d '", about->name);
        put_help(out, about->summary);
        fputs("'\n", out);
        for (ls_option_id id = 0; id < LS_OPTION_COUNT; id++) {
            if (!command_has(id, command)) continue;
            const ls_option_info *info = ls_option_info_get(id);
            ls_option_words words = ls_option_words_of(id, command);
            fputs("complete -c lockstep ", out);
            put_fish_condition(out, about->name);
            fprintf(out, " -l %s", info->name);
            if (words.choices) {
                fputs(" -x -a '", out);
                put_choices(out, words.choices);
                fputc('\'', out);
            } else if (info->kind == LS_OPTION_STRING) {
                fputs(" -r -F", out);
            } else if (info->kind != LS_OPTION_BOOL) {
                fputs(" -x", out);
            }
            fputs(" -d '", out);
            put_help(out, words.help);
            fputs("'\n", out);
        }
    }
}

void ls_help_completion(FILE *out, ls_shell shell) {
    static void (*const put[LS_SHELLS])(FILE *) = {put_bash, put_zsh, put_fish};
    put[shell](out);
}
