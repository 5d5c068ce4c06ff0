/* SPDX-License-Identifier: Apache-2.0 */
/*
 * point: a place where a debugger stops this program by name (tests/lab/killat.c): a function that
 * is never inlined and whose first byte is a nop, which can be overwritten by a breakpoint and
 * passed over without being restored.
 */
#ifndef VT_BASE_POINT_H
#define VT_BASE_POINT_H

#define VT_POINT __attribute__((noinline, patchable_function_entry(1)))

#endif
