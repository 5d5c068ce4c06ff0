/* SPDX-License-Identifier: Apache-2.0 */
#include "screen.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

static void set_size(struct screen *screen)
{
    struct winsize size = {.ws_col = (unsigned short)screen->columns,
                           .ws_row = (unsigned short)screen->rows};

    assert_int_equal(ioctl(screen->fd, TIOCSWINSZ, &size), 0);
}

struct screen *screen_open(unsigned columns, unsigned rows)
{
    struct screen *screen = calloc(1, sizeof(*screen));
    int slave;

    assert_non_null(screen);
    assert_true(columns <= SCREEN_COLUMNS_MAX && rows <= SCREEN_ROWS_MAX);
    screen->fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(screen->fd >= 0);
    assert_int_equal(grantpt(screen->fd), 0);
    assert_int_equal(unlockpt(screen->fd), 0);
    slave = open(ptsname(screen->fd), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    screen->out = fdopen(slave, "w");
    assert_non_null(screen->out);
    screen->columns = columns;
    screen->rows = rows;
    memset(screen->cells, ' ', sizeof(screen->cells));
    set_size(screen);
    return screen;
}

void screen_close(struct screen *screen)
{
    fclose(screen->out);
    close(screen->fd);
    free(screen);
}

void screen_resize(struct screen *screen, unsigned columns, unsigned rows)
{
    screen->columns = columns;
    screen->rows = rows;
    screen->wrap = false;
    screen->widest = 0;
    if (screen->row >= rows)
        screen->row = rows - 1;
    if (screen->column >= columns)
        screen->column = columns - 1;
    set_size(screen);
}

static void line_feed(struct screen *screen)
{
    screen->wrap = false;
    if (++screen->row < screen->rows)
        return;
    screen->row = screen->rows - 1;
    memmove(screen->cells[0], screen->cells[1], sizeof(screen->cells[0]) * (screen->rows - 1));
    memset(screen->cells[screen->row], ' ', sizeof(screen->cells[0]));
}

static void put(struct screen *screen, char c)
{
    if (screen->wrap) {
        screen->column = 0;
        line_feed(screen);
    }
    screen->cells[screen->row][screen->column] = c;
    if (screen->column > screen->widest)
        screen->widest = screen->column;
    if (screen->column + 1 == screen->columns)
        screen->wrap = true;
    else
        screen->column++;
}

static void erase(struct screen *screen, unsigned row, unsigned from)
{
    for (unsigned c = from; c < screen->columns; c++) {
        screen->erased += screen->cells[row][c] != ' ';
        screen->cells[row][c] = ' ';
    }
}

/* sequence: "[2A" of ESC [ 2 A. */
static void obey(struct screen *screen)
{
    unsigned n = (unsigned)strtoul(screen->sequence + 1, NULL, 10);
    char last = screen->sequence[screen->nsequence - 1];

    screen->sequences++;
    if (last != 'm')
        screen->wrap = false;
    switch (last) {
    case 'A':
        n = n ? n : 1;
        screen->row -= n < screen->row ? n : screen->row;
        return;
    case 'H':
        screen->row = screen->column = 0;
        screen->unknown += screen->nsequence != 2;
        return;
    case 'K':
        screen->unknown += screen->nsequence != 2;
        erase(screen, screen->row, screen->column);
        return;
    case 'J':
        screen->unknown += screen->nsequence != 2;
        erase(screen, screen->row, screen->column);
        for (unsigned row = screen->row + 1; row < screen->rows; row++)
            erase(screen, row, 0);
        return;
    case 'm':
        screen->colours++;
        return;
    default:
        screen->unknown++;
    }
}

static void take(struct screen *screen, char c)
{
    if (screen->nsequence > 0) {
        screen->sequence[screen->nsequence - 1] = c;
        if (screen->nsequence > 1 && c >= '@' && c <= '~') {
            obey(screen);
            screen->nsequence = 0;
            return;
        }
        screen->unknown += screen->nsequence == 1 && c != '[';
        if (++screen->nsequence == sizeof(screen->sequence))
            screen->nsequence = 0;
        return;
    }
    switch (c) {
    case '\033':
        screen->nsequence = 1;
        return;
    case '\r':
        screen->column = 0;
        screen->wrap = false;
        return;
    case '\n':
        line_feed(screen);
        return;
    default:
        put(screen, c);
    }
}

void screen_read(struct screen *screen)
{
    struct pollfd fd = {.fd = screen->fd, .events = POLLIN};
    char data[4096];

    fflush(screen->out);
    while (poll(&fd, 1, 0) > 0 && fd.revents & POLLIN) {
        ssize_t n = read(screen->fd, data, sizeof(data));

        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++)
            take(screen, data[i]);
    }
}

const char *screen_line(const struct screen *screen, unsigned row)
{
    static char line[SCREEN_COLUMNS_MAX + 1];
    unsigned n = screen->columns;

    assert_true(row < screen->rows);
    while (n > 0 && screen->cells[row][n - 1] == ' ')
        n--;
    memcpy(line, screen->cells[row], n);
    line[n] = '\0';
    return line;
}
