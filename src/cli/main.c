/* main.c: runs one command and ends with its status. The one place that prints errors: one line each, on stderr.
 *
 * Output that could not be written is a failure too (a full disk must not look like success). A reader that closed its
 * end of the pipe, as in `lockstep ps | head -1`, has read what it wanted: that is success. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/files.h"
#include "base/log.h"
#include "base/status.h"
#include "cli/print.h"

/* Handles SIGPIPE and SIGXFSZ by doing nothing, so that the write returns an error instead of ending the process. */
static void let_the_write_fail(int signal_number) { (void)signal_number; }

/* Makes writes to a closed pipe or beyond a limit of file sizes fail like any other. Uses handlers, not SIG_IGN, so
 * that programs which a command starts find the signals as they were. */
static ls_status catch_failed_writes(void) {
    struct sigaction action = {.sa_handler = let_the_write_fail, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGPIPE, &action, NULL) != 0) return ls_fail_errno(LS_ERR_FAILED, "cannot handle SIGPIPE");
    if (sigaction(SIGXFSZ, &action, NULL) != 0) return ls_fail_errno(LS_ERR_FAILED, "cannot handle SIGXFSZ");
    return LS_OK;
}

/* Opens /dev/null for each closed standard stream, or else the next file opened would take its place and be
 * overwritten. It is opened in the wrong direction, so that using the stream still fails. */
static ls_status fill_standard_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) {
            return ls_fail_errno(LS_ERR_RESOURCE, "cannot open /dev/null");
        }
    }
    return LS_OK;
}

/* Returns whether another process reports this failure, so that this one stays silent: the worker that failed first, or
 * rank 0 of the processes that a launcher started with the same command line. What a machine lacks, only the workers on
 * it can report. */
static bool is_told_by_another(ls_status status) {
    bool alike = (status == LS_ERR_INPUT && !ls_fail_is_here()) || ls_status_is_stop(status);
    return status == LS_ERR_PEER || (alike && ls_launcher_place().rank > 0);
}

/* Pauses 3 seconds before exiting, because a launcher kills all workers when one has failed, even the one that must
 * still report why. The launcher's signal ends the pause. */
static void let_it_tell(void) {
    enum { PAUSE_S = 3 };
    (void)nanosleep(&(struct timespec){.tv_sec = PAUSE_S}, NULL);
}

/* Prints one line to standard error, with '?' for line breaks and other control characters in file names or values. A
 * requested stop is no error. */
static void print_error(ls_status status, const char *message) {
    char line[LS_MESSAGE_MAX];
    snprintf(line, sizeof line, "%s", message);
    for (char *at = line; *at; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = '?';
    }
    int rank = ls_launcher_place().rank;
    if (ls_status_is_stop(status))
        fprintf(stderr, "lockstep: %s\n", line);
    else if (rank > 0 && ls_fail_is_here())
        fprintf(stderr, "lockstep: [worker %d] error: %s\n", rank, line);
    else
        fprintf(stderr, "lockstep: error: %s\n", line);
}

/* Flushes standard output. Fails if any write to it failed, unless its reader has closed the pipe. */
static ls_status flush_output(void) {
    bool failed_before = ferror(stdout) != 0;
    bool fails = fflush(stdout) != 0;
    int cause = errno;
    if ((fails || failed_before) && ls_cli_reader_is_gone()) return LS_OK;
    errno = cause;
    if (fails) return ls_fail_errno(LS_ERR_RESOURCE, "cannot write to standard output");
    if (failed_before) return ls_fail(LS_ERR_RESOURCE, "cannot write all of the output to standard output");
    return LS_OK;
}

/* Applies the options that hold for the whole process: log level and instruction set. Fails if the file of --trace
 * cannot be written. */
static ls_status apply(ls_command command, const ls_options *options) {
    ls_log_set_level(options->log_level);
    bool in_run = command == LS_COMMAND_TRAIN && options->trace && strcmp(options->trace, "run") == 0;
    if (options->trace && !in_run) LS_TRY(ls_options_blame(options, LS_OPT_trace, ls_file_can_write(options->trace)));
    return ls_options_blame(options, LS_OPT_isa, ls_cpu_set_isa(options->isa));
}

/* Parses the command's options and runs it; with --print-config prints the options instead. */
static ls_status run_command(const ls_cli_request *request) {
    ls_options options;
    LS_TRY(ls_options_parse(&options, request->command, request->argc, request->argv));
    ls_status status = apply(request->command, &options);
    if (status == LS_OK) {
        ls_options_warn_env(request->command);
        if (options.print_config) {
            ls_options_print(&options, request->command, stdout);
        } else {
            status = ls_cli_run_command(request->command, &options);
        }
    }
    ls_options_fini(&options);
    return status;
}

/* Runs the command line and returns the exit code of its status. Help goes to standard output; without a command, usage
 * goes to standard error. */
int main(int argc, char **argv) {
    ls_cli_request request = {.task = LS_CLI_USAGE};
    ls_status status;
    ls_log_set_sink(ls_log_stderr, NULL);
    LS_TRY_OUT(fill_standard_streams());
    LS_TRY_OUT(catch_failed_writes());
    LS_TRY_OUT(ls_cli_request_read(&request, argc > 0 ? argc - 1 : 0, argv + 1));
    if (request.task == LS_CLI_USAGE) {
        ls_cli_answer(&request, stderr);
        return ls_status_exit_code(LS_ERR_INPUT);
    }
    if (request.task == LS_CLI_RUN) {
        LS_TRY_OUT(run_command(&request));
    } else {
        ls_cli_answer(&request, stdout);
    }
    status = flush_output();
out:
    if (status != LS_OK && !is_told_by_another(status)) print_error(status, ls_status_message());
    if (status == LS_ERR_INPUT && is_told_by_another(status)) let_it_tell();
    return ls_status_exit_code(status);
}
