/* numbers.h: numbers as people read them. */
#ifndef LS_REPORT_NUMBERS_H
#define LS_REPORT_NUMBERS_H

/* `ls_number_gb(x).text` lives as long as the expression it is in. */
typedef struct ls_number {
    char text[32];
} ls_number;
ls_number ls_number_gib(double bytes);     /* memory: "63.1 GiB" */
ls_number ls_number_gb(double bytes);      /* traffic: "1.3 GB", "420 MB" */
ls_number ls_number_seconds(double value); /* "12.3 s", "410 ms"; long ones "11.2 min", "1.2 h", "3.1 days" */
ls_number ls_number_time(double value);    /* the same with one digit more: "12.34 s" */
ls_number ls_number_whole(double value);   /* "12,345" */
ls_number ls_number_percent(double share); /* "4.1 %" */
ls_number ls_number_short(double value);   /* "70.6 B", "1.5 T" */

/* The text itself, for a list of arguments. */
#define LS_GIB(bytes) ls_number_gib(bytes).text
#define LS_GB(bytes) ls_number_gb(bytes).text
#define LS_SECONDS(value) ls_number_seconds(value).text
#define LS_TIME(value) ls_number_time(value).text
#define LS_WHOLE(value) ls_number_whole(value).text
#define LS_PERCENT(share) ls_number_percent(share).text
#define LS_SHORT(value) ls_number_short(value).text

/* A unit for all times of a table whose sum is `seconds`, and how many seconds it has; a number of at most four digits
 * that matter, without an exponent. */
typedef struct ls_time_unit {
    const char *name;
    double seconds;
} ls_time_unit;
ls_time_unit ls_time_unit_for(double seconds);
ls_number ls_number_plain(double value);

#endif
