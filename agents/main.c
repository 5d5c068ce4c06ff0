/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "agents/duty.h"
#include "base/log.h"
#include "wire/frame.h"

static const char help[] =
    "usage: vtile-agent --guest | --client --config FILE\n"
    "The part of vtile that works on the machines it measures. `vtile run` starts it; people "
    "seldom "
    "do.\n"
    "  --guest        prepare, start and watch the servers of a role, as the controller asks\n"
    "  --client       drive load, as the controller asks\n"
    "  --config FILE  who this agent is: a config disk, or a file of the same form\n"
    "  --help         this text\n"
    "  --version      program and protocol\n";

enum duty { DUTY_NONE, DUTY_GUEST, DUTY_CLIENT };

struct options {
    enum duty duty;
    const char *config;
};

static const struct option long_options[] = {
    {"guest", no_argument, NULL, 'g'},        {"client", no_argument, NULL, 'c'},
    {"config", required_argument, NULL, 'f'}, {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},      {NULL, 0, NULL, 0},
};

/* 1: go on; else the program ends with 0 or a negative code. */
static int read_options(int argc, char **argv, struct options *ret, struct vt_error *err)
{
    int option;
    while ((option = getopt_long(argc, argv, "hV", long_options, NULL)) >= 0) {
        switch (option) {
        case 'g':
        case 'c':
            if (ret->duty != DUTY_NONE)
                return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "one duty only; see --help");
            ret->duty = option == 'g' ? DUTY_GUEST : DUTY_CLIENT;
            break;
        case 'f':
            ret->config = optarg;
            break;
        case 'h':
            fputs(help, stdout);
            return 0;
        case 'V':
            printf("vtile-agent %s (protocol %d)\n", VTILE_VERSION, WIRE_VERSION);
            return 0;
        default: /* getopt has said what */
            return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "see --help");
        }
    }
    if (optind < argc)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL, "'%s' was not expected; see --help",
                            argv[optind]);
    if (ret->duty == DUTY_NONE || !ret->config)
        return vt_error_set(err, VT_KIND_USAGE, -EINVAL,
                            "--guest or --client, and --config, are needed; see --help");
    return 1;
}

static bool is_disk(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISBLK(st.st_mode);
}

static int run(int argc, char **argv, struct vt_error *err)
{
    static struct vt_confdisk conf;
    struct options options = {DUTY_NONE, NULL};
    int rc = read_options(argc, argv, &options, err);
    if (rc <= 0)
        return rc;
    /* Reading openssl.cnf takes a guest longer than a handshake, and nothing in it is wanted. */
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    rc = vt_confdisk_read(options.config, &conf, err);
    if (rc < 0)
        return rc;
    if (options.duty == DUTY_CLIENT)
        return duty_client(&conf, err);
    /* Only a guest has its configuration on a disk. */
    return duty_guest(&conf, NULL, is_disk(options.config), err);
}

int main(int argc, char **argv)
{
    struct vt_error err = VT_ERROR_INIT;
    vt_log_init("vtile-agent", VT_LOG_INFO);
    if (run(argc, argv, &err) >= 0)
        return EXIT_SUCCESS;
    vt_log_error(&err);
    return vt_error_exit_code(&err);
}
