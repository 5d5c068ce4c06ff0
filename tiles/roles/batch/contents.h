/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contents: what batch's jobs work on, made from a seed: a table as text, and a C program whose
 * answer is known without a compiler.
 */
#ifndef VTILE_TILES_ROLES_BATCH_CONTENTS_H
#define VTILE_TILES_ROLES_BATCH_CONTENTS_H

#include <stdint.h>

#include "base/error.h"

/* Exactly so many bytes of lines into a file; their SHA-256. */
int contents_write_table(const char *path, uint64_t seed, uint64_t bytes, uint8_t hash[32],
                         struct vt_error *err);
/* A program of so many functions; *ret_answer is the number that it must print. */
int contents_write_program(const char *path, uint64_t seed, uint32_t functions,
                           uint32_t *ret_answer, struct vt_error *err);

#endif
