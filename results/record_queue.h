/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_queue: the thread that writes a record. Callers append values for one of the prepared
 * statements; once a second, or when half the queue is full, all that has come is written as one
 * transaction. The queue is two buffers that change places, so callers wait for no disk.
 */
#ifndef VTILE_RESULTS_RECORD_QUEUE_H
#define VTILE_RESULTS_RECORD_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "results/record.h"
#include "results/record_schema.h"

struct record_queue;

int record_queue_open(const char *path, struct record_queue **ret, struct vt_error *err);

/* Values by letter, in the order of the statement's parameters: i int64_t, d double, t const char
 * * (NULL is SQL's NULL), b const void * and size_t. -ENOBUFS: lost, and counted. */
int record_queue_put(struct record_queue *queue, enum record_statement statement,
                     const char *letters, ...);
/* Counts a thing that was lost before it could be queued. */
void record_queue_lose(struct record_queue *queue);

size_t record_queue_room(struct record_queue *queue);
int record_queue_status(struct record_queue *queue, uint64_t *ret_lost, struct vt_error *err);

/* Writes the rest, marks the file as whole, leaves no side files; frees also on error. */
int record_queue_close(struct record_queue *queue, struct vt_error *err);

#endif
