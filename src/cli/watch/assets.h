/* assets.h: texts of the live page. */
#ifndef LS_CLI_WATCH_ASSETS_H
#define LS_CLI_WATCH_ASSETS_H

extern const char ls_watch_js[], ls_watch_css[];

#endif
