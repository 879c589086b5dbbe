/* shell_word.c: quoting. */
#include "cli/shell_word.h"

#include <errno.h>
#include <string.h>

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:=+@%-";

static size_t append(char *word, size_t used, size_t room, const char *text) {
    for (; *text && used + 1 < room; text++) word[used++] = *text;
    word[used] = '\0';
    return used;
}

const char *ls_shell_word(const char *text, char *word, size_t room) {
    size_t used = 0;
    if (*text && text[strspn(text, plain)] == '\0') {
        (void)append(word, used, room, text);
        return word;
    }
    used = append(word, used, room, "'");
    for (; *text; text++) {
        char one[2] = {*text, '\0'};
        used = append(word, used, room, *text == '\'' ? "'\\''" : one);
    }
    (void)append(word, used, room, "'");
    return word;
}

const char *ls_shell_program(char *word, size_t room) { return ls_shell_word(program_invocation_name, word, room); }
