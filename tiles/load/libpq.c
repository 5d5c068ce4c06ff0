/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles/load/libpq.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "base/scope.h"

#define LIBPQ_FILE "libpq.so.5"

static struct libpq functions;
static struct vt_error why = VT_ERROR_INIT;

static const struct {
    const char *name;
    size_t offset;
} places[] = {
#define LIBPQ_PLACE(name) {#name, offsetof(struct libpq, name)},
    LIBPQ_FUNCTIONS(LIBPQ_PLACE)
#undef LIBPQ_PLACE
};

static void load(void)
{
    void *library = dlopen(LIBPQ_FILE, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        vt_error_set(&why, VT_KIND_INFRA, -ENOENT, "load the client library of PostgreSQL: %s",
                     dlerror());
        return;
    }
    for (size_t i = 0; i < VT_COUNT(places); i++) {
        void *function = dlsym(library, places[i].name);

        if (!function) {
            vt_error_set(&why, VT_KIND_INFRA, -ENOSYS, "%s has no %s", LIBPQ_FILE, places[i].name);
            return;
        }
        *(void **)((char *)&functions + places[i].offset) = function;
    }
}

int libpq_load(const struct libpq **ret, struct vt_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    if (why.code < 0) {
        if (err)
            *err = why;
        return why.code;
    }
    *ret = &functions;
    return 0;
}
