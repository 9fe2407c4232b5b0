/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hist.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct sink_bin *hist_find(struct sink_bin *table, size_t cap, uint16_t key)
{
	size_t i = (key * 0x9e3779b1u >> 7) & (cap - 1);

	while (table[i].count && table[i].key != key)
		i = (i + 1) & (cap - 1);
	return &table[i];
}

static void hist_grow(struct hist *h)
{
	size_t cap = h->cap ? h->cap * 2 : 64, i;
	struct sink_bin *table = xcalloc(cap, sizeof(*table));

	for (i = 0; i < h->cap; i++)
		if (h->table[i].count)
			*hist_find(table, cap, h->table[i].key) = h->table[i];
	free(h->table);
	h->table = table;
	h->cap = cap;
}

void hist_add(struct hist *h, double value, int64_t time_ns, int64_t step)
{
	struct sink_bin *bin;
	uint64_t bits;

	h->time_ns = time_ns;
	h->step = step;
	if (isnan(value)) {
		h->nan++;
		return;
	}
	if (h->len * 4 >= h->cap * 3)
		hist_grow(h);
	memcpy(&bits, &value, sizeof(bits));
	bin = hist_find(h->table, h->cap, (uint16_t)(bits >> 48));
	bin->key = (uint16_t)(bits >> 48);
	if (bin->count++ == 0)
		h->len++;
	h->min = h->count && h->min < value ? h->min : value;
	h->max = h->count && h->max > value ? h->max : value;
	h->sum += value;
	h->count++;
}

static int hist_compare(const void *a, const void *b)
{
	return (int)((const struct sink_bin *)a)->key - (int)((const struct sink_bin *)b)->key;
}

int hist_push(const struct hist *h, struct sink *s)
{
	struct sink_hist out = {h->series, h->time_ns, h->step, h->count, h->nan,
				h->sum,    NAN,        NAN,     NULL,     0};
	struct sink_bin *bins;
	size_t i;
	int err;

	if (h->count == 0 && h->nan == 0)
		return 0;
	if (h->count) {
		out.min = h->min;
		out.max = h->max;
	}
	bins = xcalloc(h->len, sizeof(*bins));
	for (i = 0; i < h->cap; i++)
		if (h->table[i].count)
			bins[out.n_bins++] = h->table[i];
	qsort(bins, out.n_bins, sizeof(*bins), hist_compare);
	out.bins = bins;
	err = s->ops->hist(s, &out);
	free(bins);
	return err;
}

void hist_reset(struct hist *h)
{
	if (h->cap)
		memset(h->table, 0, h->cap * sizeof(*h->table));
	h->len = 0;
	h->count = h->nan = 0;
	h->sum = 0;
}

void hist_done(struct hist *h)
{
	free(h->table);
	*h = (struct hist){0};
}
