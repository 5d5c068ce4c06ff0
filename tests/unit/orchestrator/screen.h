/* SPDX-License-Identifier: Apache-2.0 */
/*
 * screen: a pseudo-terminal and as much of an emulator as is needed to see what stands on it: the
 * sequences CUU, CUP (home), ED, EL and SGR of ECMA-48, CR, LF, and wrapping in the last column as
 * VT100 does it (the cursor waits there until the next character).
 */
#ifndef VTILE_TESTS_UNIT_ORCHESTRATOR_SCREEN_H
#define VTILE_TESTS_UNIT_ORCHESTRATOR_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

#define SCREEN_COLUMNS_MAX 256
#define SCREEN_ROWS_MAX 64

struct screen {
    FILE *out; /* what a program writes to */
    int fd;    /* the emulator's side */
    unsigned columns, rows, row, column;
    bool wrap; /* the cursor waits in the last column */
    char cells[SCREEN_ROWS_MAX][SCREEN_COLUMNS_MAX + 1];
    unsigned sequences, colours, unknown; /* seen */
    unsigned erased;                      /* cells with text that were made empty by ED or EL */
    unsigned widest;                      /* last column written to since the last resize */
    char sequence[16];
    unsigned nsequence; /* 0: none begun */
};

struct screen *screen_open(unsigned columns, unsigned rows);
void screen_close(struct screen *screen);
/* Takes what has been written. */
void screen_read(struct screen *screen);
/* Cells outside are cut off; the cursor is moved inside. */
void screen_resize(struct screen *screen, unsigned columns, unsigned rows);
/* A row without blanks at its end, valid until the next call. */
const char *screen_line(const struct screen *screen, unsigned row);

#endif
