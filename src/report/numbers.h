/* numbers.h: formats numbers with units for reports and tables, each as a struct with a text, so that nothing must be
 * freed. */
#ifndef LS_REPORT_NUMBERS_H
#define LS_REPORT_NUMBERS_H

/* Formatted text; `ls_number_gb(x).text` is valid until the end of the full expression. */
typedef struct ls_number {
    char text[32];
} ls_number;
/* Formats memory: "63.1 GiB", below 0.5 GiB "410 MiB". */
ls_number ls_number_gib(double bytes);
/* Formats traffic: "1.30 GB", "420 MB", "5.00 kB" (powers of 1000). */
ls_number ls_number_gb(double bytes);
/* Formats seconds in three digits: "12.3 s", "410 ms"; long times as "11.2 min", "1.20 h", "3.10 days". */
ls_number ls_number_seconds(double value);
/* Formats seconds in four digits: "12.34 s". */
ls_number ls_number_time(double value);
/* Formats a number rounded to a whole: "12,345"; a negative one in three digits, "-1.23e+04". */
ls_number ls_number_whole(double value);
/* Formats a share of 1: "4.1 %", "41 %". */
ls_number ls_number_percent(double share);
/* Formats a count: "70.6 B" (billions), "1.50 T"; below a million "12,345". */
ls_number ls_number_short(double value);

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
/* Returns the unit from µs to days in which to show a time; a table uses that of its sum for all times. */
ls_time_unit ls_time_unit_for(double seconds);
/* Formats a number with at most four decimals and about four significant digits, without exponent; from 10,000 on as
 * ls_number_whole(). */
ls_number ls_number_plain(double value);

#endif
