/* words.c: sends and receives control words, small messages about progress between machines; keeps the last of each
 * worker. */
#include "comm/world/words.h"

#include <stdlib.h>

#include "base/alive.h"
#include "base/clock.h"
#include "comm/world/beat.h"

void ls_words_receive(ls_world *world) {
    ls_net_word word;
    while (world->transport->hear && world->transport->hear(&word)) {
        uint64_t now = ls_clock_ns(), age = (uint64_t)word.value * 1000000;
        if (word.from < 0 || word.from >= world->size) continue;
        ls_heard *heard = &world->words.heard[word.from];
        switch (word.kind) {
        case LS_NET_OPAQUE:
        case LS_NET_WORKS:
            heard->moved_ns = now > age ? now - age : 1;
            heard->is_opaque = word.kind == LS_NET_OPAQUE;
            heard->waits_for = LS_WAITS_FOR_NONE;
            break;
        case LS_NET_WAITS: heard->waits_for = word.value + 1; break;
        default:
            if (world->words.asked == 0) world->words.asked_ns = now;
            if (world->words.asked == 0) world->words.asked = word.value;
        }
    }
}

/* Sends a word from this worker to the workers of all other machines, if the transport carries words. */
static void send_word(ls_world *world, ls_net_word_kind kind, int value) {
    if (world->transport->tell)
        world->transport->tell(world, (ls_net_word){.kind = (int)kind, .from = world->rank, .value = value});
}

/* Tells the other machines that this worker is busy; the hook of base/alive.h, called during long work without
 * collectives. */
static void send_progress_word(void *ctx) {
    send_word(ctx, ls_phase_is_opaque(ls_phase_now()) ? LS_NET_OPAQUE : LS_NET_WORKS, 0);
}

void ls_world_ask(ls_world *world, int signal, uint64_t ns) {
    ls_segment_header *header = world->segment.base ? world->segment.header : NULL;
    int none = 0;
    if (!world->words.has_asked) send_word(world, LS_NET_ASKS, signal);
    world->words.has_asked = true;
    if (!header || atomic_load(&header->asked) != 0) return;
    atomic_store(&header->asked_ns, ns);
    (void)atomic_compare_exchange_strong(&header->asked, &none, signal);
}

int ls_world_asked(ls_world *world, uint64_t *ns) {
    const ls_segment_header *header = world->segment.base ? world->segment.header : NULL;
    int signal = header ? atomic_load(&header->asked) : 0;
    if (signal) {
        *ns = atomic_load(&header->asked_ns);
        return signal;
    }
    ls_words_receive(world);
    if (world->words.asked) *ns = world->words.asked_ns;
    return world->words.asked;
}

void ls_words_tell_wait(ls_world *world, const ls_request *r, uint64_t now) {
    int through;
    if (!world->transport->tell || r->blocked_on < 0 || now - world->words.told_ns < 500000000u) return;
    world->words.told_ns = now;
    ls_words_receive(world);
    int rank = ls_beat_blame(world, r->comm->world_rank[r->blocked_on], &through);
    uint64_t moved = ls_beat_moved_ns(world, rank);
    if (moved && now - moved < 1000000000u)
        send_word(world, LS_NET_WORKS, (int)((now - moved) / 1000000));
    else
        send_word(world, LS_NET_WAITS, rank);
}

ls_status ls_words_open(ls_world *world) {
    if (!world->transport->tell) return LS_OK;
    world->words.heard = calloc((size_t)world->size, sizeof *world->words.heard);
    if (!world->words.heard) return ls_fail(LS_ERR_RESOURCE, "out of memory for %d workers", world->size);
    ls_alive_set_hook(send_progress_word, world);
    return LS_OK;
}

void ls_words_close(ls_world *world) {
    ls_alive_set_hook(NULL, NULL);
    free(world->words.heard);
}
