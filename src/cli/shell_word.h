/* shell_word.h: names in commands that a user is told to type. */
#ifndef LS_CLI_SHELL_WORD_H
#define LS_CLI_SHELL_WORD_H

#include <stddef.h>

/* `text` as one word of a POSIX shell: as it is where that is safe, else in single quotes. Cut where there is no room.
 * Returns `word`. */
const char *ls_shell_word(const char *text, char *word, size_t room);
/* The name under which this program was started, as such a word: what a user typed works again. */
const char *ls_shell_program(char *word, size_t room);

#endif
