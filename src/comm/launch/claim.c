/* claim.c: claims CPUs by listening on abstract sockets, and finds out the user that has claimed one; see claim.h. */
#include "comm/launch/claim.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Each run that asks for the owner of a core leaves a connection in the queue; if it is full the answer is "unknown".
 */
enum { BACKLOG = 4096 };

/* Writes the abstract name of a CPU's socket, and returns its length in bytes. */
static socklen_t make_name(int cpu, struct sockaddr_un *name) {
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "lockstep-cpu-%d", cpu);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* Connects to a socket of that name, and returns its owner; in *uid the user, unless LS_CLAIM_UNKNOWN. */
static ls_claim_holder ask_holder(const struct sockaddr_un *name, socklen_t bytes, unsigned *uid) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return LS_CLAIM_UNKNOWN;
    bool known = connect(fd, (const struct sockaddr *)name, bytes) == 0 &&
                 getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    close(fd);
    if (!known) return LS_CLAIM_UNKNOWN;
    *uid = (unsigned)peer.uid;
    return peer.uid == geteuid() ? LS_CLAIM_OWN : LS_CLAIM_OTHER;
}

int ls_claim_cpu(int cpu, ls_claim_holder *holder, unsigned *uid) {
    struct sockaddr_un name;
    socklen_t bytes = make_name(cpu, &name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    *holder = LS_CLAIM_NONE;
    if (fd < 0) return -1;
    if (bind(fd, (const struct sockaddr *)&name, bytes) == 0 && listen(fd, BACKLOG) == 0) return fd;
    if (errno == EADDRINUSE) *holder = ask_holder(&name, bytes, uid);
    close(fd);
    return -1;
}

void ls_claim_list(const int *cpus, int count, char *text, size_t capacity) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < count;) {
        int end = i + 1;
        char part[32];
        while (end < count && cpus[end] == cpus[end - 1] + 1) end++;
        const char *comma = i > 0 ? ", " : "";
        if (end - i == 1)
            snprintf(part, sizeof part, "%s%d", comma, cpus[i]);
        else
            snprintf(part, sizeof part, "%s%d-%d", comma, cpus[i], cpus[end - 1]);
        if (used + strlen(part) + sizeof " …" > capacity) part[0] = '\0';
        used += (size_t)snprintf(text + used, capacity - used, "%s", part[0] ? part : " …");
        if (!part[0]) return;
        i = end;
    }
}
