/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tiles/statistics.h"

#include <math.h>

double stat_chi2(const unsigned long *count, const double *share, unsigned classes)
{
    double n = 0, sum = 0;

    for (unsigned i = 0; i < classes; i++)
        n += (double)count[i];
    for (unsigned i = 0; i < classes; i++) {
        double expected = n * share[i], off = (double)count[i] - expected;

        sum += off * off / expected;
    }
    return sum;
}

double stat_ks(const double *sorted, size_t n, double (*cdf)(double, const void *), const void *arg)
{
    double distance = 0;

    for (size_t i = 0; i < n; i++) {
        double f = cdf(sorted[i], arg);

        distance = fmax(distance, fmax(f - (double)i / (double)n, (double)(i + 1) / (double)n - f));
    }
    return distance * sqrt((double)n);
}

void stat_vectors_add(struct stat_vectors *v, const double *x)
{
    v->n++;
    for (unsigned i = 0; i < v->dim; i++) {
        v->sum[i] += x[i];
        for (unsigned j = 0; j < v->dim; j++)
            v->product[i][j] += x[i] * x[j];
    }
}

double stat_vectors_chi2(const struct stat_vectors *v)
{
    double a[STAT_DIM_MAX][STAT_DIM_MAX + 1], sum = 0;

    for (unsigned i = 0; i < v->dim; i++) {
        for (unsigned j = 0; j < v->dim; j++)
            a[i][j] = v->product[i][j] / v->n - v->sum[i] / v->n * (v->sum[j] / v->n);
        a[i][v->dim] = v->sum[i] / v->n;
    }
    /* S is positive definite: elimination needs no pivoting. */
    for (unsigned k = 0; k < v->dim; k++)
        for (unsigned i = 0; i < v->dim; i++)
            for (unsigned j = v->dim + 1; i != k && j-- > k;)
                a[i][j] -= a[i][k] / a[k][k] * a[k][j];
    for (unsigned i = 0; i < v->dim; i++)
        sum += v->sum[i] * (a[i][v->dim] / a[i][i]);
    return sum;
}

int stat_compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}
