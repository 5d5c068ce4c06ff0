/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/scope.h"
#include "base/yaml.h"
#include "orchestrator/command.h"

#ifndef VTILE_VERSION
#define VTILE_VERSION "0.1.0"
#endif

static void print_help(FILE *out)
{
    fputs("vtile packs tiles of virtual machines onto a host until quality of service breaks.\n\n"
          "Usage: vtile COMMAND [OPTION]...\n\nCommands:\n",
          out);
    for (size_t i = 0; i < commands_count; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n`vtile COMMAND --help` says more. `vtile run` without options runs one tile.\n"
          "Exit codes: 0 passed; 1 QoS failed; 2 usage or configuration; 3 invalid or undecided;\n"
          "4 the infrastructure failed; 130 interrupted.\n",
          out);
}

/* A standard descriptor that the caller closed would be given to the next file opened, and what is
 * printed would end up in it. Standard output is held so that writing to it still fails. */
static void hold_standard_descriptors(void)
{
    int fd;

    do {
        fd = open("/dev/null", fcntl(STDIN_FILENO, F_GETFD) < 0 || fcntl(STDOUT_FILENO, F_GETFD) < 0
                                   ? O_RDONLY
                                   : O_RDWR);
    } while (fd >= 0 && fd < STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

/* Whoever read standard output has gone, as `head` does: nobody is left to be told. */
static bool reader_has_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

/* What was printed and did not arrive makes a good end a failure. */
static int close_output(int code)
{
    bool lost = ferror(stdout) != 0;

    if (fflush(stdout) == 0 && !lost)
        return code;
    if (!reader_has_gone())
        vt_log(VT_LOG_ERROR, "standard output did not take all that was to be said");
    return code == 0 ? 4 : code;
}

static const char *command_name(const void *ctx, size_t i)
{
    (void)ctx;
    return commands[i].name;
}

static int refuse_command(const char *word)
{
    int nearest = vt_yaml_nearest(word, command_name, NULL, commands_count);
    char shown[VT_YAML_SHOW_MAX];

    vt_yaml_show(word, shown);
    if (nearest >= 0)
        vt_log(VT_LOG_ERROR, "unknown command %s: did you mean %s?", shown, commands[nearest].name);
    else
        vt_log(VT_LOG_ERROR, "unknown command %s; `vtile --help` lists the commands", shown);
    return 2;
}

int main(int argc, char **argv)
{
    struct vt_error err = VT_ERROR_INIT;

    hold_standard_descriptors();
    vt_log_init("vtile", VT_LOG_INFO);
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        puts("vtile " VTILE_VERSION);
        return 0;
    }
    for (size_t i = 0; i < commands_count; i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        int code = commands[i].run(argc - 1, argv + 1, &err);
        if (code < 0) {
            vt_log_error(&err);
            code = vt_error_exit_code(&err);
        }
        return close_output(code);
    }
    return refuse_command(argv[1]);
}
