/* choose.c: reads the name of a device, and finds out whether there is a GPU, in a child process. */
#include "device/choose.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cuda/cuda.h"

ls_status ls_device_choice_parse(const char *text, ls_device_choice *out) {
    *out = (ls_device_choice){LS_DEVICE_AUTO, -1};
    if (!text || strcmp(text, "auto") == 0) return LS_OK;
    out->kind = LS_DEVICE_CPU;
    if (strcmp(text, "cpu") == 0) return LS_OK;
    out->kind = LS_DEVICE_FAKE;
    if (strcmp(text, "fake") == 0) return LS_OK;
    out->kind = LS_DEVICE_CUDA;
    if (strcmp(text, "cuda") == 0) return LS_OK;
    char *end;
    if (strncmp(text, "cuda:", 5) == 0 && text[5] >= '0' && text[5] <= '9') {
        long number = strtol(text + 5, &end, 10);
        out->number = (int)number;
        if (*end == '\0' && number < 1024) return LS_OK;
    }
    return ls_fail(LS_ERR_INPUT, "no device is called %.40s; choose auto, cpu, cuda or cuda:N, N the number of a GPU from 0", text);
}

/* What the child found, over a pipe. */
typedef struct answer {
    ls_status status;
    char text[LS_DEVICE_WHY_BYTES];
} answer;

static answer look(int number) {
    answer a = {.status = ls_cuda_describe(number < 0 ? 0 : number, a.text, sizeof a.text)};
    if (a.status != LS_OK) (void)snprintf(a.text, sizeof a.text, "%s", ls_status_message());
    return a;
}

static ls_status ask_child(int number, answer *out) {
    int ends[2];
    if (pipe(ends) != 0) return ls_fail_errno(LS_ERR_RESOURCE, "cannot make a pipe");
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        answer a = look(number);
        ssize_t written = write(ends[1], &a, sizeof a);
        _exit(written == (ssize_t)sizeof a ? 0 : 1);
    }
    (void)close(ends[1]);
    ssize_t got = 0;
    if (child > 0)
        do got = read(ends[0], out, sizeof *out);
        while (got < 0 && errno == EINTR);
    (void)close(ends[0]);
    if (child < 0) return ls_fail_errno(LS_ERR_RESOURCE, "cannot start a process");
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
    if (got == (ssize_t)sizeof *out) return LS_OK;
    *out = (answer){.status = LS_ERR_FAILED, .text = "the driver of the GPU ended the process that asked it"};
    return LS_OK;
}

ls_status ls_device_choice_settle(ls_device_choice *choice, char why[LS_DEVICE_WHY_BYTES]) {
    *why = '\0';
    if (choice->kind == LS_DEVICE_CPU || choice->kind == LS_DEVICE_FAKE) return LS_OK;
    bool must = choice->kind == LS_DEVICE_CUDA;
    if (!must && !ls_cuda_is_installed()) {
        choice->kind = LS_DEVICE_CPU;
        return LS_OK;
    }
    answer a;
    LS_TRY(ask_child(choice->number, &a));
    if (a.status != LS_OK && must) return ls_fail_here(a.status, "%s", a.text);
    choice->kind = a.status == LS_OK ? LS_DEVICE_CUDA : LS_DEVICE_CPU;
    (void)snprintf(why, LS_DEVICE_WHY_BYTES, "%s", a.text);
    return LS_OK;
}
