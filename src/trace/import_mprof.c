/* SPDX-License-Identifier: Apache-2.0
 *
 * import_mprof.c - lines of words: "MEM mib s", "CHLD number mib s" and
 * "FUNC name mib s mib s", whatever else follows; "CMDLINE ..." is passed over.
 */
#include "trace/import_mprof.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 6

struct words {
	struct {
		const char *p;
		size_t len;
	} at[WORDS];
	size_t n;
};

static void split(const char *p, size_t len, struct words *ret)
{
	const char *end = p + len;

	ret->n = 0;
	while (p < end && ret->n < WORDS) {
		const char *from;

		while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
			p++;
		for (from = p; p < end && *p != ' ' && *p != '\t' && *p != '\r'; p++)
			;
		if (p > from) {
			ret->at[ret->n].p = from;
			ret->at[ret->n++].len = (size_t)(p - from);
		}
	}
}

static double number(const struct words *w, size_t i)
{
	char text[64], *end;
	double v;

	if (i >= w->n || w->at[i].len >= sizeof(text))
		return NAN;
	memcpy(text, w->at[i].p, w->at[i].len);
	text[w->at[i].len] = '\0';
	v = strtod(text, &end);
	return *end || !isfinite(v) ? NAN : v;
}

/* Seconds since 1970 as ns; -1: none, or none that fits. */
static int64_t instant(const struct words *w, size_t i)
{
	double s = number(w, i);

	return s >= 0 && s < 9e9 ? llround(s * 1e9) : -1;
}

static bool is_word(const struct words *w, const char *word)
{
	return w->n && w->at[0].len == strlen(word) && !memcmp(w->at[0].p, word, w->at[0].len);
}

static uint32_t process(struct import_mprof *m, int64_t number)
{
	for (size_t i = 0; i < m->n_processes; i++)
		if (m->processes[i].number == number)
			return (uint32_t)i;
	if (m->n_processes == IMPORT_PROCESSES_MAX)
		return UINT32_MAX;
	m->processes[m->n_processes].number = number;
	return (uint32_t)m->n_processes++;
}

static void *room(void *list, size_t n, size_t *cap, size_t size)
{
	void *p;

	if (n < *cap)
		return list;
	p = realloc(list, (*cap ? *cap * 2 : 256) * size);
	if (p)
		*cap = *cap ? *cap * 2 : 256;
	return p;
}

/* 1: of another shape. */
static int add_sample(struct import_mprof *m, const struct words *w, int64_t child, size_t first)
{
	struct import_mprof_sample s = {instant(w, first + 1), number(w, first), 0};
	struct import_mprof_sample *list;

	if (!(s.mib >= 0) || s.ts < 0)
		return 1;
	s.process = process(m, child);
	if (s.process == UINT32_MAX)
		return 1;
	list = room(m->samples, m->n, &m->cap, sizeof(*list));
	if (!list)
		return -ENOMEM;
	m->samples = list;
	m->samples[m->n++] = s;
	if (!m->processes[s.process].samples++)
		m->processes[s.process].least = m->processes[s.process].most = s.mib;
	m->processes[s.process].least = fmin(m->processes[s.process].least, s.mib);
	m->processes[s.process].most = fmax(m->processes[s.process].most, s.mib);
	m->processes[s.process].sum += s.mib;
	m->processes[s.process].last = s.mib;
	return 0;
}

static int add_call(struct import_mprof *m, const struct words *w)
{
	struct import_mprof_call c = {.mib_begin = number(w, 2),
				      .begin = instant(w, 3),
				      .mib_end = number(w, 4),
				      .end = instant(w, 5)};
	struct import_mprof_call *list;

	if (isnan(c.mib_begin) || isnan(c.mib_end) || c.begin < 0 || c.end < c.begin)
		return 1;
	c.name = w->at[1].p;
	c.len = (uint32_t)w->at[1].len;
	list = room(m->calls, m->n_calls, &m->cap_calls, sizeof(*list));
	if (!list)
		return -ENOMEM;
	m->calls = list;
	m->calls[m->n_calls++] = c;
	return 0;
}

static int line(struct import_mprof *m, const char *p, size_t len)
{
	struct words w;
	double child;

	split(p, len, &w);
	if (!w.n || is_word(&w, "CMDLINE"))
		return 0;
	if (is_word(&w, "MEM"))
		return add_sample(m, &w, -1, 1);
	if (is_word(&w, "FUNC"))
		return add_call(m, &w);
	if (!is_word(&w, "CHLD"))
		return 1;
	child = number(&w, 1);
	return child >= 0 && child < 1e15 ? add_sample(m, &w, (int64_t)child, 2) : 1;
}

int import_mprof(const char *data, size_t len, struct import_mprof *ret, struct err *e)
{
	struct import_mprof *m = calloc(1, sizeof(*m));
	const char *p = data, *end = data + len;
	int rc = m ? 0 : -ENOMEM;

	for (uint64_t number = 1; p < end && rc >= 0; number++) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));
		size_t n = stop ? (size_t)(stop - p) : (size_t)(end - p);

		rc = line(m, p, n);
		if (rc == 1 && !m->skipped++)
			m->first_skipped = number;
		p += n + 1;
	}
	if (rc >= 0 && !m->n && !m->n_calls)
		rc = err_set(
			e, -EBADMSG,
			"no output of mprof: expected lines \"MEM mib seconds\" or \"FUNC name "
			"...\"");
	if (rc < 0) {
		if (m)
			import_mprof_done(m);
		free(m);
		return err_set(e, rc, "out of memory");
	}
	*ret = *m;
	free(m);
	return 0;
}

void import_mprof_done(struct import_mprof *m)
{
	free(m->samples);
	free(m->calls);
	m->samples = NULL;
	m->calls = NULL;
	m->n = m->n_calls = 0;
}
