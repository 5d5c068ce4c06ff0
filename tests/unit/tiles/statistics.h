/* SPDX-License-Identifier: Apache-2.0 */
/* Test statistics with the values they must not pass. All seeds are fixed: a test that has passed
 * once passes with every compiler. */
#ifndef VTILE_TESTS_UNIT_TILES_STATISTICS_H
#define VTILE_TESTS_UNIT_TILES_STATISTICS_H

#include <stddef.h>

/* Upper 0.1 % point of chi-square with 6 degrees of freedom (any table). */
#define CHI2_6_UPPER_001 22.458
/* Kolmogorov's limit law of sqrt(n) D: upper 5 % point, mean sqrt(pi / 2) ln 2, variance
 * pi^2 / 12 - mean^2. */
#define KS_UPPER_05 1.3581
#define KS_MEAN 0.868731
#define KS_SD 0.260333

/* Pearson's statistic of n independent draws; share sums to 1. */
double stat_chi2(const unsigned long *count, const double *share, unsigned classes);

/* Distance between the empirical distribution of sorted[0..n) and cdf, times sqrt(n). */
double stat_ks(const double *sorted, size_t n, double (*cdf)(double, const void *),
               const void *arg);

/* n D' S^-1 D where D is the mean of n independent vectors with mean zero and S their covariance
 * (Hotelling): chi-square with dim degrees of freedom for large n. Add vectors one by one. */
#define STAT_DIM_MAX 8
struct stat_vectors {
    unsigned dim;
    double n, sum[STAT_DIM_MAX], product[STAT_DIM_MAX][STAT_DIM_MAX];
};
void stat_vectors_add(struct stat_vectors *v, const double *x);
double stat_vectors_chi2(const struct stat_vectors *v);

int stat_compare_double(const void *a, const void *b);

#endif
