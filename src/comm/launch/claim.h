/* claim.h: locks on CPU cores, so that concurrent runs are not pinned to the same ones. For placement.c.
 *
 * Without locks, all runs of a machine would be pinned to its first cores and leave the others idle. A run claims a
 * core with a listening abstract socket named "lockstep-cpu-N": the kernel removes it with the last process that holds
 * it, however that process ends, and no file is left behind. Any user can create such a socket, so a claimed core is
 * only a reason not to pin. Connecting to the socket tells the user that owns it. These sockets are visible inside one
 * network namespace. */
#ifndef LS_COMM_CLAIM_H
#define LS_COMM_CLAIM_H

#include <stddef.h>

/* The owner of a claimed core. */
typedef enum ls_claim_holder {
    LS_CLAIM_OWN,     /* a run of this user */
    LS_CLAIM_OTHER,   /* another user */
    LS_CLAIM_UNKNOWN, /* not known: the socket does not answer as lockstep's do */
    LS_CLAIM_NONE     /* no owner: the claim failed for another reason */
} ls_claim_holder;

/* Claims a CPU (a hardware thread, by its number). Returns a socket, which the caller closes to release it; or −1, with
 * the owner in *holder, and its user in *uid if *holder is LS_CLAIM_OWN or LS_CLAIM_OTHER. */
int ls_claim_cpu(int cpu, ls_claim_holder *holder, unsigned *uid);

/* Writes ascending numbers as "0-3, 6", in at most `capacity` bytes; a text that does not fit ends with "…". No numbers
 * give an empty text. */
void ls_claim_list(const int *cpus, int count, char *text, size_t capacity);

#endif
