/* SPDX-License-Identifier: Apache-2.0
 *
 * dump.c - see dump.h. What is free text in YAML becomes a number or a flag by
 * the rules of YAML 1.2, so that `yes` and `010` are what they look like.
 */
#include "config/dump.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fmt.h"
#include "base/mem.h"
#include "base/number.h"
#include "config/config_priv.h"

/* ---- free values -------------------------------------------------------- */

struct dump_word {
	const char *text;
	double value;
};

static const struct dump_word dump_infinite[] = {
	{".inf", INFINITY},   {".Inf", INFINITY},  {".INF", INFINITY},   {"+.inf", INFINITY},
	{"+.Inf", INFINITY},  {"+.INF", INFINITY}, {"-.inf", -INFINITY}, {"-.Inf", -INFINITY},
	{"-.INF", -INFINITY}, {".nan", NAN},       {".NaN", NAN},        {".NAN", NAN},
};

/* "0x1f", "0o17": true and *ret if it fits. */
static bool dump_radix(const char *text, int64_t *ret)
{
	int base = strncmp(text, "0x", 2) == 0 ? 16 : strncmp(text, "0o", 2) == 0 ? 8 : 0;
	unsigned long long v;
	char *end;

	if (!base || !strchr(base == 16 ? "0123456789abcdefABCDEF" : "01234567", text[2]) ||
	    text[2] == '\0')
		return false;
	errno = 0;
	v = strtoull(text + 2, &end, base);
	if (*end != '\0' || errno || v > INT64_MAX)
		return false;
	*ret = (int64_t)v;
	return true;
}

/* A whole number of any length, as JSON writes it. */
static bool dump_whole(struct json *j, const char *text)
{
	const char *digits = text + (text[0] == '+' || text[0] == '-');
	char *out;

	if (digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0')
		return false;
	while (digits[0] == '0' && digits[1] != '\0')
		digits++;
	out = xasprintf("%s%s", text[0] == '-' ? "-" : "", digits);
	json_raw(j, out);
	free(out);
	return true;
}

static void dump_plain(struct json *j, const char *text)
{
	static const char *const flags[] = {"false", "true", "False", "True", "FALSE", "TRUE"};
	int64_t whole;
	double real;
	size_t i;

	for (i = 0; i < ARRAY_LEN(flags); i++)
		if (strcmp(text, flags[i]) == 0) {
			json_bool(j, i % 2 == 1);
			return;
		}
	for (i = 0; i < ARRAY_LEN(dump_infinite); i++)
		if (strcmp(text, dump_infinite[i].text) == 0) {
			json_double(j, dump_infinite[i].value);
			return;
		}
	if (dump_radix(text, &whole))
		json_int(j, whole);
	else if (dump_whole(j, text))
		return;
	else if (number_double(text, &real) == 0)
		json_double(j, real);
	else
		json_str(j, text);
}

static void dump_node(const struct doc *d, uint32_t node, struct json *j)
{
	const struct doc_node *n = &d->nodes[node];
	uint32_t i;

	if (doc_is_null(n)) {
		json_null(j);
	} else if (n->kind == DOC_MAP) {
		json_object(j);
		for (i = n->first; i; i = d->nodes[d->nodes[i].next].next) {
			json_key(j, d->nodes[i].text);
			dump_node(d, d->nodes[i].next, j);
		}
		json_object_end(j);
	} else if (n->kind == DOC_LIST) {
		json_array(j);
		for (i = n->first; i; i = d->nodes[i].next)
			dump_node(d, i, j);
		json_array_end(j);
	} else if (n->plain) {
		dump_plain(j, n->text);
	} else {
		json_str(j, n->text);
	}
}

/* ---- values by type ----------------------------------------------------- */

static void dump_words(const char *text, struct json *j)
{
	const char *p = text;
	size_t n;

	json_array(j);
	while (*p) {
		n = strcspn(p, ",");
		json_strn(j, p, n);
		p += n + (p[n] == ',');
	}
	json_array_end(j);
}

static void dump_value(const struct config *c, const struct config_key *k, const struct value *v,
		       struct json *j);

static void dump_items(const struct config *c, const struct config_key *k, const struct value *v,
		       struct json *j)
{
	size_t i, at, rows = v->n ? v->n_values / v->n : 1;

	json_array(j);
	for (i = 0; i < v->n_values; i++) {
		at = i % rows;
		if (at == 0)
			json_object(j);
		if (v->items[i].given) {
			json_key(j, k->items[at].path);
			dump_value(c, &k->items[at], &v->items[i], j);
		}
		if (at == rows - 1)
			json_object_end(j);
	}
	json_array_end(j);
}

static void dump_value(const struct config *c, const struct config_key *k, const struct value *v,
		       struct json *j)
{
	if (!v->given) {
		json_null(j);
		return;
	}
	switch (k->type) {
	case CONFIG_BOOL:
		json_bool(j, v->flag);
		break;
	case CONFIG_WORDS:
	case CONFIG_CHOICES:
		dump_words(v->text, j);
		break;
	case CONFIG_INT:
	case CONFIG_BYTES:
		json_int(j, v->number);
		break;
	case CONFIG_DURATION:
		json_double(j, (double)v->number / 1e9);
		break;
	case CONFIG_NUMBER:
		json_double(j, v->real);
		break;
	case CONFIG_FREE:
		dump_node(&c->doc, v->node, j);
		break;
	case CONFIG_ITEMS:
		dump_items(c, k, v, j);
		break;
	default:
		json_str(j, v->text);
	}
}

static size_t dump_count(const struct doc *d, uint32_t node)
{
	const struct doc_node *n = &d->nodes[node];
	uint32_t i;
	size_t sum = 0;

	if (n->kind == DOC_SCALAR)
		return 1;
	for (i = n->first; i; i = d->nodes[i].next) {
		if (n->kind == DOC_MAP)
			i = d->nodes[i].next;
		sum += dump_count(d, i);
	}
	return sum;
}

void dump_text(const struct config *c, const struct config_key *k, struct buf *out)
{
	const struct value *v = &c->settings[k - config_keys].value;
	char text[FMT_MAX];

	if (!v->given)
		return;
	if (k->type == CONFIG_BOOL)
		buf_puts(out, v->flag ? "true" : "false");
	else if (k->type == CONFIG_INT)
		buf_printf(out, "%lld", (long long)v->number);
	else if (k->type == CONFIG_BYTES)
		buf_puts(out, fmt_bytes(text, (double)v->number));
	else if (k->type == CONFIG_DURATION)
		buf_puts(out, fmt_seconds(text, (double)v->number / 1e9));
	else if (k->type == CONFIG_NUMBER)
		json_put_double(out, v->real);
	else if (k->type == CONFIG_ITEMS)
		buf_printf(out, "(%zu entries)", v->n);
	else if (k->type == CONFIG_FREE) /* not its values: one may be a secret */
		buf_printf(out, "(%zu values)", dump_count(&c->doc, v->node));
	else
		buf_puts(out, v->text);
}

/* ---- the whole ---------------------------------------------------------- */

static void dump_readers(unsigned readers, struct json *j)
{
	json_key(j, "read_by");
	json_array(j);
	if (readers & CONFIG_READ_RUN)
		json_str(j, "run");
	if (readers & CONFIG_READ_AGENT)
		json_str(j, "agent");
	if (readers & CONFIG_READ_PYTHON)
		json_str(j, "python");
	if (readers & CONFIG_READ_SERVE)
		json_str(j, "serve");
	json_array_end(j);
}

static void dump_setting(const struct config *c, const struct config_key *k, struct json *j)
{
	static const char *const from[] = {"default", "file", "environment"};
	const struct config_setting *s = &c->settings[k - config_keys];

	json_object(j);
	json_kstr(j, "path", k->path);
	json_kstr(j, "type", config_type_name(k->type));
	json_kstr(j, "help", k->help);
	json_kstr(j, "default", k->preset);
	json_kstr(j, "environment", k->env);
	json_kstr(j, "option", k->option);
	json_kstr(j, "python", k->python);
	json_kstr(j, "same_as", k->same_as);
	dump_readers(k->readers, j);
	if (!k->same_as) {
		json_key(j, "value");
		dump_value(c, k, &s->value, j);
		json_kstr(j, "from", from[s->from]);
		json_key(j, "line");
		if (s->from == CONFIG_FROM_FILE)
			json_int(j, s->line);
		else
			json_null(j);
	}
	json_object_end(j);
}

void dump_json(const struct config *c, struct json *j)
{
	const struct config_key *k;
	size_t i;

	json_object(j);
	json_kstr(j, "file", c->file);
	json_key(j, "keys");
	json_array(j);
	for (k = config_keys; k->path; k++)
		dump_setting(c, k, j);
	json_array_end(j);
	json_key(j, "notes");
	json_array(j);
	for (i = 0; i < c->n_notes; i++)
		json_str(j, c->notes[i]);
	json_array_end(j);
	json_object_end(j);
}
