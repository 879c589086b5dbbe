/* assets.c: compiles in the files of the live page as they are in the source tree, with the assembler's .incbin. */
#include "cli/watch/assets.h"

#define LS_ASSET(symbol, path)                                                                                         \
    __asm__(".section .rodata\n.global " #symbol "\n.hidden " #symbol "\n" #symbol ":\n.incbin \"" path                \
            "\"\n.byte 0\n"                                                                                            \
            ".previous\n");

LS_ASSET(ls_watch_js, "src/cli/watch/live.js")
LS_ASSET(ls_watch_css, "src/cli/watch/live.css")
