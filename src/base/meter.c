/* meter.c: the one meter of a process. */
#include "base/meter.h"

ls_meter ls_meter_now;
