/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sanitized: SANITIZED is 1 in a build with the address sanitizer. There a case that judges a law
 * of large numbers, or tries thousands of inputs by the same path, may take fewer of them: the
 * build without a sanitizer judges the whole.
 */
#ifndef VTILE_TESTS_UNIT_SANITIZED_H
#define VTILE_TESTS_UNIT_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#endif
