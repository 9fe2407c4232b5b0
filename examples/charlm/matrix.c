/* SPDX-License-Identifier: Apache-2.0
 *
 * matrix.c - one matrix product for all the shapes of the model, and two
 * helpers. On x86 the product is compiled twice, and the AVX2 copy is taken
 * where the processor has it: no special compiler flags are needed.
 */
#include "matrix.h"

#include <string.h>

/* 32 bytes: one AVX register; compilers split it where registers are shorter. */
typedef real mat_vec __attribute__((vector_size(32), aligned(sizeof(real)), may_alias));

enum {
	MAT_VEC = 32 / sizeof(real),
	MAT_ROWS = 4,           /* rows of c computed together ... */
	MAT_COLS = 2 * MAT_VEC, /* ... times columns: 8 registers of sums */
	MAT_DEPTH = 256         /* terms added before c is touched: 16 KiB of b */
};

#define MAT_INLINE static inline __attribute__((always_inline))

/* Copy `depth` rows of MAT_COLS columns of b, from (k, j) on, to consecutive
 * memory; columns that b does not have become 0. */
MAT_INLINE void mat_pack(real *to, struct mat b, size_t k, size_t depth, size_t j)
{
	size_t cols = b.cols - j < MAT_COLS ? b.cols - j : MAT_COLS;

	if (cols < MAT_COLS)
		memset(to, 0, depth * MAT_COLS * sizeof(*to));
	if (b.cs == 1) {
		for (size_t r = 0; r < depth; r++)
			memcpy(to + r * MAT_COLS, b.p + (k + r) * b.rs + j, cols * sizeof(*to));
		return;
	}
	for (size_t c = 0; c < cols; c++) {
		const real *from = b.p + (j + c) * b.cs + k * b.rs;

		for (size_t r = 0; r < depth; r++)
			to[r * MAT_COLS + c] = from[r * b.rs];
	}
}

/* c[0..rows)[0..cols) += a[0..rows)[0..depth) times a packed panel. `rows` is a
 * constant in each inlined copy, so that `sum` lives in registers. */
MAT_INLINE void mat_tile(real *c, size_t ldc, size_t cols, const real *a, size_t rs, size_t cs,
			 const real *panel, size_t depth, const size_t rows)
{
	mat_vec sum[MAT_ROWS][2] = {0};
	real edge[MAT_COLS];

	for (size_t k = 0; k < depth; k++) {
		mat_vec b0 = *(const mat_vec *)(panel + k * MAT_COLS);
		mat_vec b1 = *(const mat_vec *)(panel + k * MAT_COLS + MAT_VEC);

		for (size_t i = 0; i < rows; i++) {
			sum[i][0] += a[i * rs + k * cs] * b0;
			sum[i][1] += a[i * rs + k * cs] * b1;
		}
	}
	for (size_t i = 0; i < rows; i++) {
		real *row = c + i * ldc;

		if (cols == MAT_COLS) {
			*(mat_vec *)row += sum[i][0];
			*(mat_vec *)(row + MAT_VEC) += sum[i][1];
			continue;
		}
		memcpy(edge, sum[i], sizeof(edge));
		for (size_t j = 0; j < cols; j++)
			row[j] += edge[j];
	}
}

MAT_INLINE void mat_mul_body(struct mat c, struct mat a, struct mat b)
{
	real panel[MAT_DEPTH * MAT_COLS];

	for (size_t k = 0; k < a.cols; k += MAT_DEPTH) {
		size_t depth = a.cols - k < MAT_DEPTH ? a.cols - k : MAT_DEPTH;

		for (size_t j = 0; j < c.cols; j += MAT_COLS) {
			size_t cols = c.cols - j < MAT_COLS ? c.cols - j : MAT_COLS;
			size_t i = 0;

			mat_pack(panel, b, k, depth, j);
			for (; i + MAT_ROWS <= c.rows; i += MAT_ROWS)
				mat_tile(c.p + i * c.rs + j, c.rs, cols, a.p + i * a.rs + k * a.cs,
					 a.rs, a.cs, panel, depth, MAT_ROWS);
			for (; i < c.rows; i++)
				mat_tile(c.p + i * c.rs + j, c.rs, cols, a.p + i * a.rs + k * a.cs,
					 a.rs, a.cs, panel, depth, 1);
		}
	}
}

static void mat_mul_plain(struct mat c, struct mat a, struct mat b)
{
	mat_mul_body(c, a, b);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2,fma"))) static void mat_mul_avx2(struct mat c, struct mat a,
							     struct mat b)
{
	mat_mul_body(c, a, b);
}

static int mat_has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
#define mat_mul_avx2 mat_mul_plain
#define mat_has_avx2() 0
#endif

void mat_mul(struct mat c, struct mat a, struct mat b, int add)
{
	if (!add)
		for (size_t i = 0; i < c.rows; i++)
			memset(c.p + i * c.rs, 0, c.cols * sizeof(*c.p));
	if (mat_has_avx2())
		mat_mul_avx2(c, a, b);
	else
		mat_mul_plain(c, a, b);
}

real mat_dot(const real *a, const real *b, size_t n)
{
	real part[MAT_VEC] = {0}, sum = 0;
	size_t i = 0;

	/* Several sums side by side: one chain of additions would be slow. */
	for (; i + MAT_VEC <= n; i += MAT_VEC)
		for (size_t k = 0; k < MAT_VEC; k++)
			part[k] += a[i + k] * b[i + k];
	for (; i < n; i++)
		sum += a[i] * b[i];
	for (size_t k = 0; k < MAT_VEC; k++)
		sum += part[k];
	return sum;
}

real mat_softmax(real *x, size_t n)
{
	real max = x[0], sum = 0;

	for (size_t i = 1; i < n; i++)
		max = x[i] > max ? x[i] : max;
	for (size_t i = 0; i < n; i++) {
		x[i] = real_exp(x[i] - max);
		sum += x[i];
	}
	for (size_t i = 0; i < n; i++)
		x[i] /= sum;
	return max + (real)log((double)sum);
}
