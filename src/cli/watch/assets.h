/* assets.h: script and style sheet of the live page (`lockstep watch`), which the server sends: the files live.js and
 * live.css, compiled in as texts that end with NUL. */
#ifndef LS_CLI_WATCH_ASSETS_H
#define LS_CLI_WATCH_ASSETS_H

extern const char ls_watch_js[], ls_watch_css[];

#endif
