/* unit_check.h: verifies that the hardware of a device computes by the formula of its matrix unit. */
#ifndef LS_DEVICE_UNIT_CHECK_H
#define LS_DEVICE_UNIT_CHECK_H

#include "device/device.h"
#include "device/unit.h"

/* What a comparison found for one type. */
typedef struct ls_unit_report {
    size_t compared, different; /* numbers: elements of results, and sums of exponentials */
    char first[160];            /* the first difference; "": there is none */
} ls_unit_report;

/* Computes some thousand granules of this type, with numbers of every kind (subnormal, infinite, truncated,
 * cancelling), and attention over a short sequence, whose sums and results depend on exponentials: on the device and by
 * the formula on the CPU. Compares the bits (two NaN of a matmul are equal), counts all differences in *out, and
 * returns LS_OK also if there are some. Takes a few milliseconds. */
ls_status ls_device_compare_unit(ls_device *device, ls_unit unit, ls_dtype dtype, ls_unit_report *out);

/* Makes the same comparison before a device is used, but stops after the first matmul that differs. For hgmma it
 * compares matmuls only, because all of its exponentials were measured. A difference is LS_ERR_INPUT of this machine,
 * naming the device and the first numbers that differ. Does nothing for chain and for the CPU. */
ls_status ls_device_check_unit(ls_device *device, ls_unit unit, ls_dtype dtype);

#endif
