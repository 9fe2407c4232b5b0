/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int mem_process(struct sink *s, const struct sink_process *p, uint32_t *ret_id)
{
	struct memory_sink *m = (struct memory_sink *)s;
	size_t i;

	for (i = 0; i < m->n_process; i++)
		if (memcmp(m->process[i].uid, p->uid, 16) == 0)
			break;
	if (i == MEMORY_NAMES)
		return -ENOSPC;
	if (i == m->n_process)
		m->n_process++;
	memcpy(m->process[i].uid, p->uid, 16);
	m->process[i].pid = p->pid;
	m->process[i].rank = p->rank;
	m->process[i].end_ns = p->end_ns;
	m->process[i].dropped = p->dropped;
	snprintf(m->process[i].role, sizeof(m->process[i].role), "%s", p->role);
	*ret_id = (uint32_t)i + 1;
	return 0;
}

static int mem_series(struct sink *s, const struct sink_series *d, uint32_t *ret_id)
{
	struct memory_sink *m = (struct memory_sink *)s;
	size_t i;

	for (i = 0; i < m->n_series; i++)
		if (m->series[i].process == d->process && strcmp(m->series[i].name, d->name) == 0 &&
		    strcmp(m->series[i].labels, d->labels) == 0 &&
		    (m->series[i].kind == SINK_SPAN) == (d->kind == SINK_SPAN))
			break;
	if (i == MEMORY_NAMES)
		return -ENOSPC;
	if (i == m->n_series) {
		snprintf(m->series[i].name, sizeof(m->series[i].name), "%s", d->name);
		snprintf(m->series[i].labels, sizeof(m->series[i].labels), "%s", d->labels);
		snprintf(m->series[i].unit, sizeof(m->series[i].unit), "%s", d->unit);
		m->series[i].kind = d->kind;
		m->series[i].process = d->process;
		m->n_series++;
	}
	*ret_id = (uint32_t)i + 1;
	return 0;
}

static int mem_samples(struct sink *s, const struct sink_sample *v, size_t n)
{
	struct memory_sink *m = (struct memory_sink *)s;

	if (m->n_samples + m->pending_samples + n > MEMORY_MAX)
		return -ENOSPC;
	memcpy(m->samples + m->n_samples + m->pending_samples, v, n * sizeof(*v));
	m->pending_samples += n;
	return 0;
}

static int mem_hist(struct sink *s, const struct sink_hist *h)
{
	struct memory_sink *m = (struct memory_sink *)s;
	size_t i = m->n_hists + m->pending_hists++, k;

	m->hists[i].series = h->series;
	m->hists[i].count = h->count;
	m->hists[i].nan = h->nan;
	m->hists[i].sum = h->sum;
	m->hists[i].min = h->min;
	m->hists[i].max = h->max;
	m->hists[i].bins = 0;
	for (k = 0; k < h->n_bins; k++)
		m->hists[i].bins += h->bins[k].count;
	return 0;
}

static int mem_event(struct sink *s, const struct sink_event *e)
{
	struct memory_sink *m = (struct memory_sink *)s;
	size_t i = m->n_events + m->pending_events++;

	snprintf(m->events[i].kind, sizeof(m->events[i].kind), "%s", e->kind);
	snprintf(m->events[i].text, sizeof(m->events[i].text), "%s", e->text);
	snprintf(m->events[i].attrs, sizeof(m->events[i].attrs), "%s", e->attrs);
	m->events[i].severity = e->severity;
	return 0;
}

static int mem_attr(struct sink *s, uint32_t process, const char *key, const char *value)
{
	struct memory_sink *m = (struct memory_sink *)s;
	size_t i = m->n_attrs + m->pending_attrs++;

	(void)process;
	snprintf(m->attrs[i].key, sizeof(m->attrs[i].key), "%s", key);
	snprintf(m->attrs[i].value, sizeof(m->attrs[i].value), "%s", value);
	return 0;
}

static int mem_position(struct sink *s, const struct sink_position *p)
{
	struct memory_sink *m = (struct memory_sink *)s;

	m->pending_position[m->pending_positions++] = *p;
	return 0;
}

static int mem_resume(struct sink *s, const uint8_t ring[16], uint32_t lane,
		      struct sink_position *ret)
{
	struct memory_sink *m = (struct memory_sink *)s;
	size_t i;

	for (i = 0; i < m->n_positions; i++)
		if (memcmp(m->positions[i].ring, ring, 16) == 0 && m->positions[i].lane == lane) {
			*ret = m->positions[i];
			return 0;
		}
	return -ENOENT;
}

static void mem_rollback(struct sink *s)
{
	struct memory_sink *m = (struct memory_sink *)s;

	m->pending_samples = m->pending_hists = m->pending_events = m->pending_attrs = 0;
	m->pending_positions = 0;
}

static int mem_commit(struct sink *s)
{
	struct memory_sink *m = (struct memory_sink *)s;
	struct sink_position old;
	size_t i, k;

	if (m->fail_commits > 0) {
		m->fail_commits--;
		mem_rollback(s);
		return -ENOSPC;
	}
	if (m->largest < m->pending_samples)
		m->largest = m->pending_samples;
	m->n_samples += m->pending_samples;
	m->n_hists += m->pending_hists;
	m->n_events += m->pending_events;
	m->n_attrs += m->pending_attrs;
	for (i = 0; i < m->pending_positions; i++) {
		for (k = 0; k < m->n_positions; k++)
			if (memcmp(m->positions[k].ring, m->pending_position[i].ring, 16) == 0 &&
			    m->positions[k].lane == m->pending_position[i].lane)
				break;
		if (k == m->n_positions)
			m->n_positions++;
		old = m->pending_position[i];
		m->positions[k] = old;
	}
	mem_rollback(s);
	m->commits++;
	return 0;
}

static const struct sink_ops mem_ops = {mem_process, mem_series,  mem_samples,  mem_hist,
					mem_event,   mem_attr,    mem_position, mem_resume,
					mem_commit,  mem_rollback};

struct memory_sink *memory_sink_new(void)
{
	struct memory_sink *m = calloc(1, sizeof(*m));

	m->sink.ops = &mem_ops;
	m->samples = calloc(MEMORY_MAX, sizeof(*m->samples));
	return m;
}

void memory_sink_free(struct memory_sink *m)
{
	free(m->samples);
	free(m);
}

uint32_t memory_series(const struct memory_sink *m, const char *name, const char *labels)
{
	size_t i;

	for (i = 0; i < m->n_series; i++)
		if (strcmp(m->series[i].name, name) == 0 &&
		    strcmp(m->series[i].labels, labels) == 0)
			return (uint32_t)i + 1;
	return 0;
}

size_t memory_values(const struct memory_sink *m, uint32_t series, double *out, size_t cap)
{
	size_t i, n = 0;

	for (i = 0; i < m->n_samples; i++)
		if (m->samples[i].series == series) {
			if (out && n < cap)
				out[n] = m->samples[i].value;
			n++;
		}
	return n;
}

int memory_event(const struct memory_sink *m, const char *kind)
{
	size_t i;

	for (i = 0; i < m->n_events; i++)
		if (strcmp(m->events[i].kind, kind) == 0)
			return (int)i;
	return -1;
}
