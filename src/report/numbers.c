/* numbers.c: formats numbers with three or four significant digits. */
#include "report/numbers.h"

#include <stdio.h>
#include <string.h>

/* Returns the decimals with which a value has three significant digits, at most 2. */
static int places(double value) {
    if (value < 0) value = -value;
    return value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
}

/* Formats a value with three significant digits, followed by `unit`, which begins with a blank. */
static ls_number with_unit(double value, const char *unit) {
    ls_number out;
    if (value >= 999.5)
        out = ls_number_whole(value);
    else
        snprintf(out.text, sizeof out.text, "%.*f", places(value), value);
    size_t used = strlen(out.text);
    snprintf(out.text + used, sizeof out.text - used, "%s", unit);
    return out;
}

ls_number ls_number_gib(double bytes) {
    const double mib = 1024.0 * 1024.0;
    if (bytes > 0 && bytes < 512 * mib) return with_unit(bytes / mib, " MiB");
    ls_number out;
    double gib = bytes / (1024 * mib);
    if (gib >= 999.5) return with_unit(gib, " GiB");
    snprintf(out.text, sizeof out.text, "%.1f GiB", gib);
    return out;
}

ls_number ls_number_gb(double bytes) {
    if (bytes < 1e6) return with_unit(bytes / 1e3, " kB");
    if (bytes < 1e9) return with_unit(bytes / 1e6, " MB");
    return with_unit(bytes / 1e9, " GB");
}

static const ls_time_unit units[] = {{"µs", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"days", 86400}};

ls_time_unit ls_time_unit_for(double seconds) {
    if (seconds == 0) return units[2];
    return units[seconds < 1e-3     ? 0
                 : seconds < 1      ? 1
                 : seconds < 600    ? 2
                 : seconds < 3600   ? 3
                 : seconds < 172800 ? 4
                                    : 5];
}

ls_number ls_number_seconds(double value) {
    ls_time_unit unit = ls_time_unit_for(value);
    char name[8];
    snprintf(name, sizeof name, " %s", unit.name);
    return with_unit(value / unit.seconds, name);
}

ls_number ls_number_plain(double value) {
    ls_number out;
    double size = value < 0 ? -value : value;
    if (size >= 9999.5) return ls_number_whole(value);
    int digits = size >= 999.95 ? 0 : size >= 99.995 ? 1 : size >= 9.9995 ? 2 : size >= .99995 ? 3 : 4;
    snprintf(out.text, sizeof out.text, "%.*f", digits, value);
    return out;
}

ls_number ls_number_time(double value) {
    ls_time_unit unit = ls_time_unit_for(value);
    ls_number out = ls_number_plain(value / unit.seconds);
    size_t used = strlen(out.text);
    snprintf(out.text + used, sizeof out.text - used, " %s", unit.name);
    return out;
}

ls_number ls_number_whole(double value) {
    char digits[40];
    ls_number out;
    int count = snprintf(digits, sizeof digits, "%.0f", value), used = 0;
    if (value < 0 || count > 20) { /* no figure of a memo is */
        snprintf(out.text, sizeof out.text, "%.3g", value);
        return out;
    }
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0) out.text[used++] = ',';
        out.text[used++] = digits[i];
    }
    out.text[used] = '\0';
    return out;
}

ls_number ls_number_percent(double share) {
    ls_number out;
    double value = 100 * share, size = value < 0 ? -value : value;
    snprintf(out.text, sizeof out.text, "%.*f %%", size > 0 && size < 9.95 ? 1 : 0, value);
    return out;
}

ls_number ls_number_short(double value) {
    if (value >= 1e12) return with_unit(value / 1e12, " T");
    if (value >= 1e9) return with_unit(value / 1e9, " B");
    if (value >= 1e6) return with_unit(value / 1e6, " M");
    return ls_number_whole(value);
}
