/* numbers.h: formats numbers with units for people, each as a struct with a text, so that nothing must be freed. */
#ifndef LS_REPORT_NUMBERS_H
#define LS_REPORT_NUMBERS_H

/* Formatted text; `ls_number_gb(x).text` is valid until the end of the full expression. */
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

/* The text itself, as an argument of printf(). */
#define LS_GIB(bytes) ls_number_gib(bytes).text
#define LS_GB(bytes) ls_number_gb(bytes).text
#define LS_SECONDS(value) ls_number_seconds(value).text
#define LS_TIME(value) ls_number_time(value).text
#define LS_WHOLE(value) ls_number_whole(value).text
#define LS_PERCENT(share) ls_number_percent(share).text
#define LS_SHORT(value) ls_number_short(value).text

typedef struct ls_time_unit {
    const char *name;
    double seconds; /* in one unit */
} ls_time_unit;
/* Returns one unit for all times of a table whose sum is `seconds`. */
ls_time_unit ls_time_unit_for(double seconds);
/* Formats a number with at most four significant digits and no exponent. */
ls_number ls_number_plain(double value);

#endif
