/* SPDX-License-Identifier: Apache-2.0
 *
 * matrix.h - views of matrices and the few operations the model is made of.
 * Nothing here allocates or fails; every function may run in several threads
 * at once as long as they do not write the same memory.
 */
#ifndef CHARLM_MATRIX_H
#define CHARLM_MATRIX_H

#include <stddef.h>

#include "real.h"

/* A view, by value: element (i, j) is at p[i * rs + j * cs]. The memory belongs
 * to someone else. */
struct mat {
	real *p;
	size_t rows, cols;
	size_t rs, cs;
};

/* rows x cols numbers, `stride` apart from row to row. */
static inline struct mat mat_view(real *p, size_t rows, size_t cols, size_t stride)
{
	return (struct mat){p, rows, cols, stride, 1};
}

/* The transpose of a view; nothing moves. */
static inline struct mat mat_t(struct mat a)
{
	return (struct mat){a.p, a.cols, a.rows, a.cs, a.rs};
}

/* c = a b, or c += a b if add is not 0. Shapes (m x n) = (m x k)(k x n); the
 * caller sees to it that they fit, that c.cs is 1 and that c overlaps neither
 * a nor b. The order of the sums depends on the shapes only. */
void mat_mul(struct mat c, struct mat a, struct mat b, int add);

/* The sum of a[i] * b[i]. */
real mat_dot(const real *a, const real *b, size_t n);

/* Replace the n numbers of x by exp(x[i]) / sum of exp(x[j]), n > 0. Returns
 * log(sum of exp(x[j])), so that log of the i-th result is x[i] less that. */
real mat_softmax(real *x, size_t n);

#endif /* CHARLM_MATRIX_H */
