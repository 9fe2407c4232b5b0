/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsers of the texts about the machine. Formats: proc(5), the kernel's
 * admin-guide/cputopology.rst for lists.
 */
#include "probe/linux/hosttext.h"

#include "probe/linux/proc.h"

#include <errno.h>
#include <string.h>

/* ---- /proc/stat ----------------------------------------------------------------- */

/* A number of this line at *p, after spaces. More than 19 digits are left to the careful
 * parser: there are a thousand numbers on a machine of 128 CPUs. */
static int hosttext_number(const char **p, const char *end, uint64_t *ret)
{
	const char *s = *p, *first;
	uint64_t v = 0;
	bool negative;
	int err;

	while (s < end && *s == ' ')
		s++;
	negative = s < end && *s == '-';
	s += negative;
	first = s;
	while (s < end && (unsigned char)(*s - '0') < 10 && s - first < 19)
		v = v * 10 + (uint64_t)(*s++ - '0');
	if (s == first || (s < end && (unsigned char)(*s - '0') < 10)) {
		s = first;
		err = proc_number(&s, end, &v);
		if (err)
			return err;
	}
	*p = s;
	*ret = negative ? 0 : v;
	return 0;
}

static int hosttext_cpu_id(const char **p, const char *eol, uint32_t *ret)
{
	uint64_t id;

	if (*p < eol && **p == ' ') {
		*ret = HOSTTEXT_CPU_ALL;
		return 0;
	}
	if (proc_number(p, eol, &id) || id >= HOSTTEXT_CPU_ALL)
		return -EBADMSG;
	*ret = (uint32_t)id;
	return 0;
}

int hosttext_cpu(const char **p, const char *end, struct hosttext_cpu *ret)
{
	const char *next = *p, *line, *eol;
	struct hosttext_cpu c = {0};

	line = proc_line(&next, end, &eol);
	if (!line || !proc_begins(line, eol, "cpu"))
		return -ENOENT;
	*p = next;
	line += 3;
	if (hosttext_cpu_id(&line, eol, &c.id))
		return -EBADMSG;
	for (; c.fields < HOSTTEXT_CPU_STATES; c.fields++) {
		while (line < eol && *line == ' ')
			line++;
		if (line == eol)
			break;
		if (hosttext_number(&line, eol, &c.ticks[c.fields]))
			return -EBADMSG;
	}
	if (c.fields <= HOSTTEXT_IDLE)
		return -EBADMSG;
	*ret = c;
	return 0;
}

/* ---- lines of a name and a number ---------------------------------------------------- */

/* The key of a name. The kernel's order is mostly that of the keys: look behind the last
 * one found first. */
static const struct hosttext_key *hosttext_find(const struct hosttext_key *keys, size_t n,
						size_t *at, const char *name, size_t len)
{
	size_t i, k = *at;

	for (i = 0; i < n; i++, k++) {
		if (k >= n)
			k = 0;
		if (keys[k].len != len || memcmp(keys[k].name, name, len) != 0)
			continue;
		*at = k + 1;
		return &keys[k];
	}
	return NULL;
}

/* The name at *p up to a colon or space, behind "Node N ". */
static const char *hosttext_name(const char **p, const char *eol, size_t *ret_len)
{
	const char *s = *p, *name;
	uint64_t node;

	if (proc_begins(s, eol, "Node ")) {
		s += 5;
		if (hosttext_number(&s, eol, &node))
			return NULL;
		while (s < eol && *s == ' ')
			s++;
	}
	name = s;
	while (s < eol && *s != ':' && *s != ' ')
		s++;
	*ret_len = (size_t)(s - name);
	*p = s < eol && *s == ':' ? s + 1 : s;
	return name;
}

uint32_t hosttext_pairs(const char *text, const char *end, const struct hosttext_key *keys,
			size_t n_keys, uint64_t *value, size_t n_slots)
{
	const char *next = text, *line, *eol, *name;
	const struct hosttext_key *key;
	uint32_t found = 0;
	size_t at = 0, len;
	uint64_t v;

	memset(value, 0, n_slots * sizeof(*value));
	while ((line = proc_line(&next, end, &eol))) {
		name = hosttext_name(&line, eol, &len);
		key = name ? hosttext_find(keys, n_keys, &at, name, len) : NULL;
		if (!key || key->slot >= n_slots || hosttext_number(&line, eol, &v))
			continue;
		if (proc_begins(line, eol, " kB") && __builtin_mul_overflow(v, 1024, &v))
			continue;
		if (__builtin_add_overflow(value[key->slot], v, &v))
			continue;
		value[key->slot] = v;
		found |= UINT32_C(1) << key->slot;
	}
	return found;
}

/* ---- others -------------------------------------------------------------------------- */

/* "12.25" at *p. Not strtod(): it follows the locale. */
static int hosttext_decimal(const char **p, const char *end, double *ret)
{
	uint64_t whole, part = 0, scale = 1;
	const char *s = *p;

	if (hosttext_number(&s, end, &whole) || s == end || *s != '.')
		return -EBADMSG;
	for (s++; s < end && *s >= '0' && *s <= '9' && scale < 1000000; s++) {
		part = part * 10 + (uint64_t)(*s - '0');
		scale *= 10;
	}
	if (scale == 1)
		return -EBADMSG;
	*p = s;
	*ret = (double)whole + (double)part / (double)scale;
	return 0;
}

int hosttext_load(const char *text, const char *end, double load[3])
{
	const char *p = text;
	double v[3];
	int i;

	for (i = 0; i < 3; i++)
		if (hosttext_decimal(&p, end, &v[i]) || p == end || *p != ' ')
			return -EBADMSG;
	memcpy(load, v, sizeof(v));
	return 0;
}

static const char *hosttext_skip(const char *s, const char *end)
{
	while (s < end && (*s == '\n' || *s == ' ' || *s == '\t'))
		s++;
	return s;
}

int hosttext_range(const char **p, const char *end, uint32_t *first, uint32_t *last)
{
	const char *s = hosttext_skip(*p, end);
	uint64_t a, b;

	if (s == end)
		return -ENOENT;
	if (proc_number(&s, end, &a))
		return -EBADMSG;
	b = a;
	if (s < end && *s == '-') {
		s++;
		if (proc_number(&s, end, &b))
			return -EBADMSG;
	}
	if (b < a || b > UINT32_MAX || (s < end && *s != ',' && *s != '\n'))
		return -EBADMSG;
	*p = s < end ? s + 1 : s;
	*first = (uint32_t)a;
	*last = (uint32_t)b;
	return 0;
}

int hosttext_list_len(const char *text, const char *end, uint64_t *ret)
{
	const char *p = text;
	uint32_t first, last;
	uint64_t n = 0;
	int err;

	while (!(err = hosttext_range(&p, end, &first, &last)))
		n += (uint64_t)last - first + 1;
	if (err != -ENOENT || !n)
		return -EBADMSG;
	*ret = n;
	return 0;
}

/* Is word one of those of a line? */
static bool hosttext_has_word(const char *line, const char *eol, const char *word)
{
	size_t n = strlen(word);
	const char *p = line;

	while ((p = memmem(p, (size_t)(eol - p), word, n))) {
		if (p > line && p[-1] == ' ' && (p + n == eol || p[n] == ' '))
			return true;
		p += n;
	}
	return false;
}

int hosttext_clock(const char *text, const char *end, struct hosttext_clock *ret)
{
	const char *next = text, *line, *eol, *p;
	struct hosttext_clock c = {0};
	bool measured = false;
	double mhz;

	while ((line = proc_line(&next, end, &eol))) {
		/* all CPUs have the same flags */
		if (!measured && proc_begins(line, eol, "flags"))
			measured = hosttext_has_word(line, eol, "aperfmperf");
		if (!proc_begins(line, eol, "cpu MHz"))
			continue;
		p = memchr(line, ':', (size_t)(eol - line));
		if (!p || (p++, hosttext_decimal(&p, eol, &mhz)) || mhz <= 0)
			continue;
		c.sum += mhz * 1e6;
		c.min = !c.n || mhz * 1e6 < c.min ? mhz * 1e6 : c.min;
		c.max = mhz * 1e6 > c.max ? mhz * 1e6 : c.max;
		c.n++;
	}
	if (!c.n)
		return -ENOENT;
	if (!measured)
		return -ENODATA;
	*ret = c;
	return 0;
}
