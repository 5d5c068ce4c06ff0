/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader: the other end of a run's socket (server.h): finds it, reads its lines.
 */
#ifndef VTILE_ORCHESTRATOR_WATCH_READER_H
#define VTILE_ORCHESTRATOR_WATCH_READER_H

#include <stdbool.h>

#include "base/error.h"
#include "base/event.h"
#include "base/json.h"
#include "base/text.h"

struct watch_reader {
    int fd;
    char run[16];
    struct vt_buf in;
    size_t taken; /* bytes of in that the last line had */
};

/* name: of a run, or as much of its beginning as makes it the only one; NULL: the only one there
 * is. runtime: the folder of state.h. Asks for views, or for every event. */
int watch_reader_open(struct watch_reader *reader, const char *runtime, const char *name,
                      bool events, struct vt_error *err);
void watch_reader_close(struct watch_reader *reader);
/* Reads what is there. 0: the run has closed the connection. */
int watch_reader_fill(struct watch_reader *reader, struct vt_error *err);
/* The next whole line without its newline, valid until the next call; NULL: none. */
const char *watch_reader_line(struct watch_reader *reader, size_t *ret_len);
/* Ends the run in order, or at once. */
int watch_reader_interrupt(struct watch_reader *reader, bool now, struct vt_error *err);

/* A note, phase, agent or verdict; its strings belong to message. False for other types. */
bool watch_event_read(const json_t *message, struct vt_event *ret);

#endif
