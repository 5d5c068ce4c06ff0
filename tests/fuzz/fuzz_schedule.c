/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes and recorded schedules: up to the first NUL the text of a shape, behind it a file of
 * times. What is taken draws as many times as are wanted, in order and within the length; what is
 * refused leaves nothing behind and says where.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scope.h"
#include "tiles/load/schedule_replay.h"
#include "tiles/load/shape.h"

#define COUNT 33

static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}

static void check_times(const int64_t *times, size_t n, int64_t length_ns)
{
    for (size_t i = 0; i < n; i++)
        must(times[i] >= (i ? times[i - 1] : 0) && times[i] < length_ns, "times in order, within");
}

static void draw(const struct shape *shape, int64_t length_ns, size_t n)
{
    VT_AUTO_FREE int64_t *times = calloc(n + 1, sizeof *times);
    struct vt_rng rng;

    must(times != NULL, "memory");
    must(shape_check(shape, length_ns, n, NULL) == 0, "what was read can be drawn");
    vt_rng_seed(&rng, 1, "fuzz", n);
    shape_draw(shape, &rng, length_ns, times, n);
    check_times(times, n, length_ns);
    must(shape_busiest(shape, length_ns, n, length_ns / 3) <= n, "no window has more than all");
}

static void try_shape(const char *text)
{
    static const int64_t lengths[] = {1, 5, 1000000007, SHAPE_LENGTH_MAX_NS};
    struct vt_error err = VT_ERROR_INIT;
    struct shape shape = {.nrates = 77};
    size_t at = SIZE_MAX;

    if (shape_parse(text, &shape, &at, &err) < 0) {
        must(shape.nrates == 77 && err.code < 0 && err.text[0], "a refusal changes nothing");
        must(at <= strlen(text), "a refusal says where");
        return;
    }
    must(at == SIZE_MAX && shape.nrates <= SHAPE_RATES_MAX && shape.kind != SHAPE_REPLAY,
         "a shape");
    for (size_t i = 0; i < VT_COUNT(lengths); i++)
        draw(&shape, lengths[i], COUNT);
}

static void try_replay(const uint8_t *data, size_t size)
{
    VT_AUTO_CLOSE int fd = memfd_create("times", MFD_CLOEXEC);
    struct shape shape = {.kind = SHAPE_REPLAY};
    struct vt_error err = VT_ERROR_INIT;
    int64_t *times = NULL;
    char path[64];
    int lines = 1;

    must(fd >= 0 && vt_file_write_all(fd, data, size) == 0, "a file");
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (schedule_replay_read(path, &times, &shape.nreplayed, &err) < 0) {
        must(!times && err.line >= 1 && err.line <= lines && err.column >= 1, "where it is wrong");
        return;
    }
    must(shape.nreplayed >= 1 && shape.nreplayed <= (size_t)lines, "a time a line");
    shape.replayed_ns = times;
    draw(&shape, SHAPE_LENGTH_MAX_NS, shape.nreplayed);
    free(times);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, 0, size);
    size_t len = end ? (size_t)(end - data) : size;
    VT_AUTO_FREE char *text = malloc(len + 1);

    must(text != NULL, "memory");
    memcpy(text, data, len);
    text[len] = '\0';
    try_shape(text);
    if (end)
        try_replay(end + 1, size - len - 1);
    return 0;
}
