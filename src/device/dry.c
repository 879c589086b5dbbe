/* dry.c: the calls of a dry device. */
#include "device/dry.h"

#include <string.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096 }; /* a page in front of each allocation holds the number of bytes that are mapped */

/* Reserves `bytes` of inaccessible address space behind one page, which holds the size for free_space(). */
static ls_status alloc_space(ls_device *device, size_t bytes, void **out) {
    (void)device;
    *out = NULL;
    if (bytes > SIZE_MAX - 2 * (size_t)PAGE_BYTES)
        return ls_fail(LS_ERR_RESOURCE, "out of address space for %zu bytes", bytes);
    size_t all = bytes + PAGE_BYTES;
    char *memory = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return ls_fail_errno(LS_ERR_RESOURCE, "out of address space for %zu bytes", bytes);
    if (mprotect(memory, PAGE_BYTES, PROT_READ | PROT_WRITE) != 0) {
        munmap(memory, all);
        return ls_fail_errno(LS_ERR_RESOURCE, "out of memory for a page");
    }
    memcpy(memory, &all, sizeof all);
    *out = memory + PAGE_BYTES;
    return LS_OK;
}

/* Unmaps an allocation with the page in front of it. */
static void free_space(ls_device *device, void *memory) {
    (void)device;
    char *page = (char *)memory - PAGE_BYTES;
    size_t all;
    memcpy(&all, page, sizeof all);
    munmap(page, all);
}

/* Does nothing, because there is no memory to copy to. */
static ls_status copy_in(ls_device *device, void *to, const void *host, size_t bytes) {
    (void)device, (void)to, (void)host, (void)bytes;
    return LS_OK;
}

/* Writes zeros to the host, so that decisions of a dry step (norm, loss, flags) have defined values. */
static ls_status copy_out(ls_device *device, void *host, const void *from, size_t bytes) {
    (void)device, (void)from;
    memset(host, 0, bytes);
    return LS_OK;
}

/* Does nothing. */
static ls_status copy_bytes(ls_device *device, void *to, const void *from, size_t bytes) {
    (void)device, (void)to, (void)from, (void)bytes;
    return LS_OK;
}

/* Does nothing. */
static ls_status fill_bytes(ls_device *device, void *to, unsigned char byte, size_t bytes) {
    (void)device, (void)to, (void)byte, (void)bytes;
    return LS_OK;
}

/* Returns an event that is all zeros; all work is done at once, so events need no numbers. */
static ls_status record_event(ls_device *device, ls_event *out) {
    (void)device;
    *out = (ls_event){0};
    return LS_OK;
}

/* Does nothing: serves both `follow` (a queue waits) and `wait` (the host waits). */
static ls_status wait_for_event(ls_device *device, ls_event event) {
    (void)device, (void)event;
    return LS_OK;
}

/* Does nothing: the queues are always empty. */
static ls_status finish_queues(ls_device *device) {
    (void)device;
    return LS_OK;
}

/* Does nothing: the struct of a dry device belongs to its creator, and there are no resources. */
static void destroy_nothing(ls_device *device) { (void)device; }

const ls_device_calls ls_dry_calls = {.alloc = alloc_space,
                                      .free = free_space,
                                      .copy_in = copy_in,
                                      .copy_out = copy_out,
                                      .copy = copy_bytes,
                                      .fill = fill_bytes,
                                      .record = record_event,
                                      .follow = wait_for_event,
                                      .wait = wait_for_event,
                                      .finish = finish_queues,
                                      .destroy = destroy_nothing};
