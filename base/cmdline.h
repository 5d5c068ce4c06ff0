/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmdline: what of a kernel's command line is kept of a machine. Values of other parameters may be
 * nobody's business.
 */
#ifndef VT_BASE_CMDLINE_H
#define VT_BASE_CMDLINE_H

#include <stddef.h>

/* The parameters that isolate CPUs, move interrupts, or change how fast CPU and memory are, in
 * their order with a space between, as far as they fit; or words that say that there are none. */
void vt_cmdline_told(const char *cmdline, char *ret, size_t size);

#endif
