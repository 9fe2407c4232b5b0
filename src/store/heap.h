/* SPDX-License-Identifier: Apache-2.0
 *
 * heap.h - a heap of words, the smallest on top: which row of a tail is next. A word is what
 * is sorted by above the row's number.
 */
#ifndef STORE_HEAP_H
#define STORE_HEAP_H

#include <stddef.h>
#include <stdint.h>

/* Let the word at i sink to where it belongs, of n. */
static inline void heap_down(uint64_t *heap, size_t n, size_t i)
{
	uint64_t v = heap[i];
	size_t child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n && heap[child + 1] < heap[child])
			child++;
		if (heap[child] >= v)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = v;
}

/* Make a heap of n words in any order. */
static inline void heap_make(uint64_t *heap, size_t n)
{
	size_t i;

	for (i = n / 2; i > 0; i--)
		heap_down(heap, n, i - 1);
}

#endif
