/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
/*
 * scope: memory and descriptors released at the end of a block. A variable carries the attribute
 * from its declaration on, initialised; take ownership away with vt_take_ptr / vt_take_fd.
 */
#ifndef VT_BASE_SCOPE_H
#define VT_BASE_SCOPE_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void vt_scope_free(void *p)
{
    free(*(void **)p);
}

static inline void vt_scope_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void vt_scope_fclose(FILE **f)
{
    if (*f)
        fclose(*f);
}

#define VT_AUTO_FREE __attribute__((cleanup(vt_scope_free)))
#define VT_AUTO_CLOSE __attribute__((cleanup(vt_scope_close)))
#define VT_AUTO_FCLOSE __attribute__((cleanup(vt_scope_fclose)))

/* Returns the value and leaves NULL / -1 behind, so that the scope releases nothing. */
#define vt_take_ptr(p)               \
    ({                               \
        __auto_type vt_taken_ = (p); \
        (p) = NULL;                  \
        vt_taken_;                   \
    })
#define vt_take_fd(fd)        \
    ({                        \
        int vt_taken_ = (fd); \
        (fd) = -1;            \
        vt_taken_;            \
    })

#define VT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
