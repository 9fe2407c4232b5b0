/* SPDX-License-Identifier: Apache-2.0
 *
 * value.c - see value.h.
 */
#include "config/value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fmt.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/number.h"

#define VALUE_TEXT_MAX (1u << 20) /* bytes of a list */

void value_done(struct value *v)
{
	size_t i;

	for (i = 0; i < v->n_values; i++)
		value_done(&v->items[i]);
	free(v->items);
	free(v->text);
	*v = (struct value){0};
}

static void value_take(struct value *to, struct value v)
{
	value_done(to);
	*to = v;
	to->given = true;
}

/* ---- flags and numbers -------------------------------------------------- */

/* 1, 0, or -1: neither. */
static int value_flag(const char *text)
{
	static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (strcasecmp(text, words[i]) == 0)
			return (int)(i % 2);
	return -1;
}

static const struct {
	int (*parse)(const char *text, int64_t *ret);
	const char *want;
} value_wholes[] = {
	[CONFIG_INT] = {number_int, NUMBER_INT_WANT},
	[CONFIG_DURATION] = {number_duration, NUMBER_DURATION_WANT},
	[CONFIG_BYTES] = {number_bytes, NUMBER_BYTES_WANT},
};

static const char *value_show(char out[FMT_MAX], enum config_type type, int64_t v)
{
	if (type == CONFIG_DURATION)
		return fmt_seconds(out, (double)v / 1e9);
	if (type == CONFIG_BYTES)
		return fmt_bytes(out, (double)v);
	snprintf(out, FMT_MAX, "%lld", (long long)v);
	return out;
}

static int value_whole(const struct config_key *k, const char *text, struct value *ret,
		       char why[VALUE_WHY_MAX])
{
	int64_t hi = k->lo == 0 && k->hi == 0 ? INT64_MAX : k->hi, v = 0;
	int err = value_wholes[k->type].parse(text, &v);
	char lo_text[FMT_MAX], hi_text[FMT_MAX];

	if (err == -EINVAL) {
		snprintf(why, VALUE_WHY_MAX, "\"%.64s\" is not %s", text,
			 value_wholes[k->type].want);
		return err;
	}
	if (err || v < k->lo || v > hi) {
		value_show(lo_text, k->type, k->lo);
		value_show(hi_text, k->type, hi);
		snprintf(why, VALUE_WHY_MAX, "%.64s is out of range: at least %s%s%s", text,
			 lo_text, hi < INT64_MAX ? ", at most " : "",
			 hi < INT64_MAX ? hi_text : "");
		return -EINVAL;
	}
	value_take(ret, (struct value){.number = v});
	return 0;
}

static int value_number(const struct config_key *k, const char *text, struct value *ret,
			char why[VALUE_WHY_MAX])
{
	double v = 0;
	int err = number_double(text, &v);

	if (err || v < (double)k->lo || (k->hi && v > (double)k->hi)) {
		snprintf(why, VALUE_WHY_MAX, "\"%.64s\" is not " NUMBER_DOUBLE_WANT "%s", text,
			 err ? "" : " that is allowed here");
		return -EINVAL;
	}
	value_take(ret, (struct value){.real = v});
	return 0;
}

/* ---- lists -------------------------------------------------------------- */

static int value_check_choice(const struct config_key *k, const char *word, char why[VALUE_WHY_MAX])
{
	const char *const *c;
	struct near near = {0};
	int n;

	for (c = k->choices; *c; c++) {
		if (strcmp(*c, word) == 0)
			return 0;
		near_try(&near, word, *c);
	}
	n = snprintf(why, VALUE_WHY_MAX, "\"%.64s\" is none of", word);
	for (c = k->choices; *c && n > 0 && n < VALUE_WHY_MAX; c++)
		n += snprintf(why + n, (size_t)(VALUE_WHY_MAX - n), "%s %s",
			      c == k->choices ? "" : ",", *c);
	if (near.best && n > 0 && n < VALUE_WHY_MAX)
		snprintf(why + n, (size_t)(VALUE_WHY_MAX - n), "; did you mean %s?", near.best);
	return -EINVAL;
}

/* Add the words of a text with commas, without blanks around them. */
static int value_add_words(const struct config_key *k, const char *text, struct buf *out,
			   char why[VALUE_WHY_MAX])
{
	const char *p = text;
	size_t n, len;
	char *word;
	int err = 0;

	while (!err) {
		p += strspn(p, " \t\n,");
		n = len = strcspn(p, ",");
		while (len > 0 && strchr(" \t\n", p[len - 1]))
			len--;
		if (n == 0)
			break;
		word = xstrndup(p, len);
		if (k->type == CONFIG_CHOICES)
			err = value_check_choice(k, word, why);
		if (out->len > 0)
			buf_putc(out, ',');
		buf_puts(out, word);
		free(word);
		p += n;
	}
	return err;
}

static int value_take_words(struct buf *words, struct value *ret, char why[VALUE_WHY_MAX])
{
	if (words->error) {
		snprintf(why, VALUE_WHY_MAX, "the list is too long");
		return -EINVAL;
	}
	value_take(ret, (struct value){.text = xstrdup(buf_str(words))});
	return 0;
}

static int value_all_choices(const struct config_key *k, bool all, struct value *ret,
			     char why[VALUE_WHY_MAX])
{
	const char *const *c;
	struct buf words;
	int err;

	buf_init(&words, VALUE_TEXT_MAX);
	for (c = k->choices; all && *c; c++)
		buf_printf(&words, "%s%s", words.len > 0 ? "," : "", *c);
	err = value_take_words(&words, ret, why);
	buf_done(&words);
	return err;
}

static int value_words(const struct config_key *k, const char *text, struct value *ret,
		       char why[VALUE_WHY_MAX])
{
	struct buf words;
	int err;

	if (k->type == CONFIG_CHOICES && value_flag(text) >= 0)
		return value_all_choices(k, value_flag(text) == 1, ret, why);
	buf_init(&words, VALUE_TEXT_MAX);
	err = value_add_words(k, text, &words, why);
	if (!err)
		err = value_take_words(&words, ret, why);
	buf_done(&words);
	return err;
}

static int value_list(const struct config_key *k, const struct doc *d, uint32_t node,
		      struct value *ret, char why[VALUE_WHY_MAX])
{
	uint32_t i = d->nodes[node].first;
	struct buf words;
	int err = 0;

	buf_init(&words, VALUE_TEXT_MAX);
	for (; i && !err; i = d->nodes[i].next) {
		if (d->nodes[i].kind != DOC_SCALAR) {
			snprintf(why, VALUE_WHY_MAX, "a list of words cannot hold a %s",
				 d->nodes[i].kind == DOC_MAP ? "mapping" : "list");
			err = -EINVAL;
		} else {
			err = value_add_words(k, d->nodes[i].text, &words, why);
		}
	}
	if (!err)
		err = value_take_words(&words, ret, why);
	buf_done(&words);
	return err;
}

/* ---- lists of mappings -------------------------------------------------- */

static size_t value_rows(const struct config_key *rows)
{
	size_t n = 0;

	while (rows[n].path)
		n++;
	return n;
}

static int value_unknown_item(const struct config_key *rows, const char *key,
			      char why[VALUE_WHY_MAX])
{
	const struct config_key *k;
	struct near near = {0};

	for (k = rows; k->path; k++)
		near_try(&near, key, k->path);
	snprintf(why, VALUE_WHY_MAX, "unknown key \"%.64s\"%s%s%s", key,
		 near.best ? "; did you mean \"" : "", near.best ? near.best : "",
		 near.best ? "\"?" : "");
	return -EINVAL;
}

static int value_item_key(const struct config_key *rows, const struct doc *d, uint32_t key,
			  struct value *to, char why[VALUE_WHY_MAX])
{
	const char *name = d->nodes[key].text;
	char inner[VALUE_WHY_MAX] = "";
	size_t i = 0;

	while (rows[i].path && strcmp(rows[i].path, name) != 0)
		i++;
	if (!rows[i].path)
		return value_unknown_item(rows, name, why);
	if (doc_is_null(&d->nodes[d->nodes[key].next]))
		return 0;
	if (value_of_node(&rows[i], d, d->nodes[key].next, &to[i], inner) == 0)
		return 0;
	snprintf(why, VALUE_WHY_MAX, "%s: %.240s", rows[i].path, inner);
	return -EINVAL;
}

static int value_item(const struct config_key *rows, const struct doc *d, uint32_t node,
		      struct value *to, char why[VALUE_WHY_MAX])
{
	const struct doc_node *n = &d->nodes[node];
	uint32_t key = n->first;
	int err = 0;

	if (n->kind == DOC_SCALAR)
		return value_of_node(&rows[0], d, node, to, why);
	if (n->kind == DOC_LIST) {
		snprintf(why, VALUE_WHY_MAX, "here stands a list in the list");
		return -EINVAL;
	}
	for (; key && !err; key = d->nodes[d->nodes[key].next].next)
		err = value_item_key(rows, d, key, to, why);
	return err;
}

/* One alone may stand without a list. */
static int value_items(const struct config_key *k, const struct doc *d, uint32_t node,
		       struct value *ret, char why[VALUE_WHY_MAX])
{
	bool list = d->nodes[node].kind == DOC_LIST;
	uint32_t i = list ? d->nodes[node].first : node;
	size_t rows = value_rows(k->items);
	char inner[VALUE_WHY_MAX] = "";
	struct value v = {0};
	int err = 0;

	for (; i && !err; i = list ? d->nodes[i].next : 0) {
		v.items = xrealloc(v.items, (v.n + 1) * rows, sizeof(*v.items));
		memset(v.items + v.n * rows, 0, rows * sizeof(*v.items));
		v.n++;
		v.n_values = v.n * rows;
		err = value_item(k->items, d, i, v.items + (v.n - 1) * rows, inner);
	}
	if (!err) {
		value_take(ret, v);
		return 0;
	}
	snprintf(why, VALUE_WHY_MAX, "entry %zu: %.280s", v.n, inner);
	value_done(&v);
	return err;
}

/* ---- all types ---------------------------------------------------------- */

int value_of_text(const struct config_key *k, const char *text, struct value *ret,
		  char why[VALUE_WHY_MAX])
{
	switch (k->type) {
	case CONFIG_BOOL:
		if (value_flag(text) < 0) {
			snprintf(why, VALUE_WHY_MAX, "\"%.64s\" is neither true nor false", text);
			return -EINVAL;
		}
		value_take(ret, (struct value){.flag = value_flag(text) == 1});
		return 0;
	case CONFIG_TEXT:
		value_take(ret, (struct value){.text = xstrdup(text)});
		return 0;
	case CONFIG_WORDS:
	case CONFIG_CHOICES:
		return value_words(k, text, ret, why);
	case CONFIG_NUMBER:
		return value_number(k, text, ret, why);
	case CONFIG_INT:
	case CONFIG_DURATION:
	case CONFIG_BYTES:
		return value_whole(k, text, ret, why);
	default:
		snprintf(why, VALUE_WHY_MAX, "a text cannot be a mapping");
		return -EINVAL;
	}
}

static int value_wrong_kind(const struct config_key *k, const struct doc_node *n,
			    char why[VALUE_WHY_MAX])
{
	static const char *const kinds[] = {
		[DOC_SCALAR] = "a single value", [DOC_MAP] = "a mapping", [DOC_LIST] = "a list"};

	snprintf(why, VALUE_WHY_MAX, "here stands %s; write %s (%s)", kinds[n->kind],
		 config_type_name(k->type), k->help);
	return -EINVAL;
}

int value_of_node(const struct config_key *k, const struct doc *d, uint32_t node, struct value *ret,
		  char why[VALUE_WHY_MAX])
{
	const struct doc_node *n = &d->nodes[node];

	if (k->type == CONFIG_FREE) {
		if (n->kind != DOC_MAP)
			return value_wrong_kind(k, n, why);
		value_take(ret, (struct value){.node = node});
		return 0;
	}
	if (k->type == CONFIG_ITEMS)
		return value_items(k, d, node, ret, why);
	if (n->kind == DOC_LIST && (k->type == CONFIG_WORDS || k->type == CONFIG_CHOICES))
		return value_list(k, d, node, ret, why);
	if (n->kind != DOC_SCALAR)
		return value_wrong_kind(k, n, why);
	if (!n->plain &&
	    (k->type == CONFIG_BOOL || k->type == CONFIG_INT || k->type == CONFIG_NUMBER)) {
		snprintf(why, VALUE_WHY_MAX, "\"%.64s\" in quotes is text; write %s without quotes",
			 n->text, config_type_name(k->type));
		return -EINVAL;
	}
	return value_of_text(k, n->text, ret, why);
}

bool value_equals(const struct config_key *k, const struct value *a, const struct value *b)
{
	if (!a->given || !b->given)
		return a->given == b->given;
	switch (k->type) {
	case CONFIG_BOOL:
		return a->flag == b->flag;
	case CONFIG_NUMBER:
		return !(a->real < b->real) && !(a->real > b->real);
	case CONFIG_INT:
	case CONFIG_DURATION:
	case CONFIG_BYTES:
		return a->number == b->number;
	default:
		return a->text && b->text && strcmp(a->text, b->text) == 0;
	}
}
