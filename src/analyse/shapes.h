/* SPDX-License-Identifier: Apache-2.0
 *
 * shapes.h - "Input Dims", "Input type" and "Concrete Inputs" as the profiler writes them:
 * JSON lists with an entry for each argument. Read from their text, never allocates.
 */
#ifndef ANALYSE_SHAPES_H
#define ANALYSE_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHAPES_INPUTS 16 /* arguments told; more are left out */
#define SHAPES_DIMS 8

struct shapes_one {
	int64_t dim[SHAPES_DIMS];
	size_t n;
	bool is_list; /* a list of tensors: dim tells nothing */
};

struct shapes {
	struct shapes_one of[SHAPES_INPUTS];
	size_t n;
};

/* Read "[[4, 256], [], [[2], [3]]]"; text that is none gives no inputs. */
void shapes_parse(const char *text, struct shapes *ret);

/* Product of the dims of input i; 1 for [] (a number), 0 for an input that is not there. */
double shapes_elements(const struct shapes *s, size_t i);

/* Entry i of a list of texts or numbers (["float", "", 3]), quotes off; NULL if there is none.
 * Not ended by NUL. */
const char *shapes_text(const char *list, size_t i, size_t *ret_len);

/* Numbers of entry i where it is a list in a text ("[1, 1]") or a number; returns how many. */
size_t shapes_numbers(const char *list, size_t i, int64_t *ret, size_t max);

#endif
