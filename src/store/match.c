/* SPDX-License-Identifier: Apache-2.0
 *
 * match.c - patterns of series: NAME{LABEL=VALUE,...}, rate(NAME{...}), and the
 * labels that a series has or seems to have.
 */
#include "base/mem.h"
#include "store/store.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define MATCH_LABELS 32u
#define MATCH_BYTES 8192u /* of a pattern */
#define MATCH_RATE "rate("

struct store_match {
	char *name;
	bool rate;
	struct match_label {
		char *key, *value;
	} labels[MATCH_LABELS];
	size_t n_labels;
};

/* A pattern while it is read. */
struct match {
	const char *text, *p;
	struct err *e;
};

static int match_bad(const struct match *m, const char *what)
{
	return err_set(m->e, -EINVAL, "\"%s\", character %zu: %s", m->text,
		       (size_t)(m->p - m->text) + 1, what);
}

/* Text up to one of `ends`; a backslash takes what follows as it is, for fnmatch()
 * too. */
static char *match_text(struct match *m, const char *ends)
{
	const char *from = m->p;

	while (*m->p && !strchr(ends, *m->p))
		m->p += m->p[0] == '\\' && m->p[1] ? 2 : 1;
	return xstrndup(from, (size_t)(m->p - from));
}

/* "..." with \" and \\ in it: nothing else is special to this parser. */
static char *match_quoted(struct match *m)
{
	char *out = xcalloc(strlen(m->p) + 1, 1), *to = out;

	for (m->p++; *m->p && *m->p != '"'; m->p++) {
		if (m->p[0] == '\\' && m->p[1] == '"')
			m->p++;
		*to++ = *m->p;
		if (m->p[0] == '\\' && m->p[1])
			*to++ = *++m->p;
	}
	return out;
}

static int match_label(struct match *m, struct store_match *to)
{
	struct match_label *l = &to->labels[to->n_labels];

	if (to->n_labels == MATCH_LABELS)
		return match_bad(m, "more than 32 labels");
	to->n_labels++;
	l->key = match_text(m, "={},\"");
	if (*l->key == '\0')
		return match_bad(m, "a label's name is missing; write NAME{LABEL=VALUE,...}");
	if (*m->p != '=')
		return match_bad(m, "\"=\" and a value are missing behind the label");
	m->p++;
	if (*m->p != '"') {
		l->value = match_text(m, ",{}\"");
		return 0;
	}
	l->value = match_quoted(m);
	if (*m->p != '"')
		return match_bad(m, "the closing quote is missing");
	m->p++;
	return 0;
}

static int match_labels(struct match *m, struct store_match *to)
{
	int r = 0;

	do {
		m->p++;
		if (*m->p == '}' && to->n_labels == 0)
			break;
		r = match_label(m, to);
	} while (r == 0 && *m->p == ',');
	if (r == 0 && *m->p != '}')
		r = match_bad(m, "\",\" or \"}\" is missing");
	if (r == 0)
		m->p++;
	return r;
}

static int match_parse(struct match *m, struct store_match *to)
{
	int r = 0;

	if (strlen(m->text) > MATCH_BYTES)
		return err_set(m->e, -EINVAL, "a pattern has more than %u bytes", MATCH_BYTES);
	to->rate = strncmp(m->p, MATCH_RATE, strlen(MATCH_RATE)) == 0;
	if (to->rate)
		m->p += strlen(MATCH_RATE);
	to->name = match_text(m, to->rate ? "{)" : "{");
	if (*to->name == '\0')
		return match_bad(m, "a name is missing; * stands for any");
	if (*m->p == '{')
		r = match_labels(m, to);
	if (r == 0 && to->rate && *m->p++ != ')') {
		m->p--;
		r = match_bad(m, "the closing \")\" is missing");
	}
	if (r == 0 && *m->p)
		r = match_bad(m, "nothing may follow here");
	return r;
}

int store_match_new(const char *pattern, struct err *e, struct store_match **ret)
{
	struct store_match *to = xcalloc(1, sizeof(*to));
	struct match m = {.text = pattern, .p = pattern, .e = e};
	int r = match_parse(&m, to);

	if (r < 0)
		store_match_free(to);
	else
		*ret = to;
	return r;
}

void store_match_free(struct store_match *m)
{
	size_t i;

	if (!m)
		return;
	for (i = 0; i < m->n_labels; i++) {
		free(m->labels[i].key);
		free(m->labels[i].value);
	}
	free(m->name);
	free(m);
}

bool store_match_is_rate(const struct store_match *m)
{
	return m->rate;
}

/* ---- labels of a series ------------------------------------------------------------ */

/* The value of a label in k="v",k="v", unescaped. */
static char *match_own(const char *labels, const char *key)
{
	size_t n = strlen(key);
	char *out, *to;

	while (*labels) {
		bool is_it = strncmp(labels, key, n) == 0 && labels[n] == '=';
		const char *p = strchr(labels, '"');

		if (!p)
			break;
		out = to = xcalloc(strlen(p), 1);
		for (p++; *p && *p != '"'; p++) {
			if (*p == '\\' && p[1])
				*to++ = *++p == 'n' ? '\n' : *p;
			else
				*to++ = *p;
		}
		if (is_it)
			return out;
		free(out);
		labels = p + (*p == '"');
		labels += *labels == ',';
	}
	return NULL;
}

char *store_series_label(const struct store_series *s, const char *label)
{
	char *own = match_own(s->labels, label);

	if (own)
		return own;
	if (strcmp(label, "host") == 0)
		return xstrdup(s->host_name);
	if (strcmp(label, "role") == 0)
		return xstrdup(s->role);
	if (strcmp(label, "rank") == 0)
		return s->rank < 0 ? NULL : xasprintf("%lld", (long long)s->rank);
	if (strcmp(label, "process") == 0)
		return xasprintf("%u", s->process);
	return NULL;
}

bool store_match_is(const struct store_match *m, const struct store_series *s)
{
	bool is = fnmatch(m->name, s->name, 0) == 0;
	size_t i;

	for (i = 0; is && i < m->n_labels; i++) {
		char *value = store_series_label(s, m->labels[i].key);

		is = fnmatch(m->labels[i].value, value ? value : "", 0) == 0;
		free(value);
	}
	return is;
}
