/* words.h: control words, small messages besides those of collectives, between the workers of different machines: which
 * make progress, which wait for which, and whether one was asked to stop by a signal. The worker's main thread sends
 * and receives them, while it waits or works for long. Without a transport that carries words all functions do nothing.
 */
#ifndef LS_COMM_WORLD_WORDS_H
#define LS_COMM_WORLD_WORDS_H

#include "comm/world/comm.h"

/* Allocates the list of what other workers said. From then on this worker's progress (base/alive.h) is sent. */
ls_status ls_words_open(ls_world *world);
/* Stops sending this worker's progress, and frees what other workers said. */
void ls_words_close(ls_world *world);
/* Receives the words that have come since the last call, and keeps the last state of each worker in world->words. */
void ls_words_receive(ls_world *world);
/* Follows the chain of waits from the rank that the request waits for to its end (ls_beat_blame()), and tells the other
 * machines, which do not see heartbeats: LS_NET_WORKS if that worker made progress within the last second, else that
 * this worker waits for it. At most twice a second; nothing if the request names no rank. */
void ls_words_tell_wait(ls_world *world, const ls_request *request, uint64_t now_ns);

#endif
