/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing is allocated while a load runs: every malloc between its first second and its end is
 * counted, with the sanitizer's hooks where there is one, else by functions put before glibc's. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/unit/tiles/echo.h"
#include "tests/unit/tiles/load_run.h"

static volatile unsigned long allocations;

#if defined(__SANITIZE_ADDRESS__)
#define WITH_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_SANITIZER 1
#endif
#endif

#ifdef WITH_SANITIZER
/* Of every sanitizer's run time; gcc installs no header for it. */
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *, size_t),
                                              void (*free_hook)(const volatile void *));

static void on_malloc(const volatile void *p, size_t n)
{
    (void)p, (void)n;
    allocations++;
}

static void on_free(const volatile void *p)
{
    (void)p;
}

static void count_from_now_on(void)
{
    assert_true(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) > 0);
}
#else
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n) /* NOLINT: glibc names its parameters otherwise */
{
    allocations++;
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size) /* NOLINT: glibc names its parameters otherwise */
{
    allocations++;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n) /* NOLINT: glibc names its parameters otherwise */
{
    allocations++;
    return __libc_realloc(p, n);
}

static void count_from_now_on(void)
{
}
#endif

static struct load_run run;
static struct nginx nginx;
static unsigned long at_second_1, at_second_3;

static void note_first(struct load_run *r)
{
    (void)r;
    at_second_1 = allocations;
}

static void note_last(struct load_run *r)
{
    (void)r;
    at_second_3 = allocations;
}

static void test_no_allocation(void **state)
{
    struct schedule schedule;
    void *volatile seen;

    (void)state;
    if (!nginx_present())
        skip();
    count_from_now_on();
    seen = malloc(1);
    free(seen);
    assert_true(allocations > 0);
    nginx_init(&nginx, false, echo_server);
    nginx_start(&nginx);
    schedule = echo_schedule(4000, 4 * VT_NS_PER_S, 1);
    load_run_init(&run, &nginx, &echo_driver, &schedule, 4 * VT_NS_PER_S);
    run.actions[0] = (struct load_action){VT_NS_PER_S, note_first};
    run.actions[1] = (struct load_action){3 * VT_NS_PER_S, note_last};
    load_run(&run);
    assert_int_equal(run.good, 4000);
    print_message("%lu allocations in two seconds of 1000 requests each\n",
                  at_second_3 - at_second_1);
    assert_int_equal(at_second_3, at_second_1);
    schedule_dispose(&schedule);
    nginx_fini(&nginx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_allocation),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("engine_memory", tests, NULL, NULL);
}
