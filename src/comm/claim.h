/* claim.h: locks on CPU cores, so that runs side by side are not pinned to the same ones.
 *
 * Runs that are started side by side would all be pinned to the first cores and leave the others idle. So a pinned core
 * is claimed by a listening abstract socket of its name, "lockstep-cpu-N": the kernel drops it with the last process
 * that has it, however that ends, and no file is left. Any user can make such a socket, so a core that is taken is no
 * more than a reason not to be pinned; whoever connects to the socket learns whose it is. Sockets of this kind are seen
 * inside one network namespace. */
#ifndef LS_COMM_CLAIM_H
#define LS_COMM_CLAIM_H

#include <stddef.h>

/* Who has a core. */
typedef enum ls_claim_holder {
    LS_CLAIM_OWN,     /* a run of this user */
    LS_CLAIM_OTHER,   /* another user */
    LS_CLAIM_UNKNOWN, /* a socket that does not answer as ours do */
    LS_CLAIM_NONE     /* nobody: it could not be claimed for another reason */
} ls_claim_holder;

/* Returns a socket, which the caller closes to give the core back; or −1, and who has it. `uid` is set for another
 * user. */
int ls_claim_cpu(int cpu, ls_claim_holder *holder, unsigned *uid);

/* "0-3, 6": numbers in ascending order, cut with … where the space ends. */
void ls_claim_list(const int *cpus, int count, char *text, size_t capacity);

#endif
