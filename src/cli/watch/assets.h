/* assets.h: script and style sheet of the live page, compiled in as texts. */
#ifndef LS_CLI_WATCH_ASSETS_H
#define LS_CLI_WATCH_ASSETS_H

extern const char ls_watch_js[], ls_watch_css[];

#endif
