/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
/*
 * log: lines for people on standard error, for the programs' main files and the orchestrator's
 * sinks. Library code does not log; it returns errors or emits events.
 */
#ifndef VT_BASE_LOG_H
#define VT_BASE_LOG_H

#include "base/error.h"

enum vt_log_level { VT_LOG_ERROR, VT_LOG_WARNING, VT_LOG_INFO, VT_LOG_DEBUG };

void vt_log_init(const char *program, enum vt_log_level level); /* program: kept, not copied */
void vt_log(enum vt_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "vtile: error: <position: text>" */
void vt_log_error(const struct vt_error *err);

#endif
