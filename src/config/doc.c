/* SPDX-License-Identifier: Apache-2.0
 *
 * doc.c - see doc.h. libyaml's events become nodes; whatever could make a small
 * text large (aliases) or deep is refused while it is read.
 */
#include "config/doc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"

#define DOC_NAME_SHOWN 200 /* bytes of a file's name in an error */

/* A mapping or list that is being read. */
struct doc_level {
	uint32_t node, last; /* itself, and its last child so far */
	bool wants_value;    /* of a mapping: the last child is a key */
	struct map keys;
};

struct doc_reader {
	struct doc *d;
	const char *name;
	struct err *e;
	struct doc_level levels[DOC_DEPTH_MAX];
	unsigned depth, documents;
};

int doc_error(struct err *e, const char *name, unsigned line, unsigned column, const char *fmt, ...)
{
	size_t len = strlen(name);
	char what[384];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (len > DOC_NAME_SHOWN)
		name += len - DOC_NAME_SHOWN;
	err_set(e, -EINVAL, "%s:%u:%u: %s", name, line, column, what);
	if (e)
		utf8_clean(e->text, strlen(e->text));
	return -EINVAL;
}

bool doc_is_null(const struct doc_node *n)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL"};
	size_t i;

	if (n->kind != DOC_SCALAR || !n->plain)
		return false;
	for (i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(n->text, words[i]) == 0)
			return true;
	return false;
}

/* ---- before the parser -------------------------------------------------- */

/* libyaml counts bytes where a text is no text; people want a line. */
static int doc_check_text(const char *name, const char *text, size_t len, struct err *e)
{
	const unsigned char *p = (const unsigned char *)text;
	unsigned line = 1, column = 1;
	size_t i = 0, n;

	while (i < len) {
		n = utf8_valid(p + i, len - i);
		if (n == 0)
			return doc_error(e, name, line, column,
					 "byte 0x%02x is not UTF-8; save the file as UTF-8", p[i]);
		if ((p[i] < 0x20 && !strchr("\t\n\r", p[i])) || p[i] == '\0' || p[i] == 0x7f)
			return doc_error(e, name, line, column,
					 "control character 0x%02x; this is no text", p[i]);
		column++;
		if (p[i] == '\n') {
			line++;
			column = 1;
		}
		i += n;
	}
	return 0;
}

/* ---- nodes -------------------------------------------------------------- */

static int doc_fail(struct doc_reader *r, const yaml_event_t *ev, const char *what)
{
	return doc_error(r->e, r->name, (unsigned)ev->start_mark.line + 1,
			 (unsigned)ev->start_mark.column + 1, "%s", what);
}

/* A key must be a scalar, and there once. */
static int doc_check_key(struct doc_reader *r, struct doc_level *l, uint32_t id,
			 const yaml_event_t *ev)
{
	const struct doc_node *n = &r->d->nodes[id];
	uint64_t line;

	if (n->kind != DOC_SCALAR)
		return doc_fail(r, ev, "a key must be a word, not a mapping or a list");
	if (map_get(&l->keys, n->text, strlen(n->text), &line))
		return doc_error(r->e, r->name, n->line, n->column,
				 "the key \"%.64s\" is in line %u already; keep one", n->text,
				 (unsigned)line);
	map_put(&l->keys, n->text, strlen(n->text), n->line);
	return 0;
}

/* Add a node to the mapping or list that is open. */
static int doc_add(struct doc_reader *r, enum doc_kind kind, const yaml_event_t *ev)
{
	struct doc_level *l = r->depth ? &r->levels[r->depth - 1] : NULL;
	struct doc *d = r->d;
	uint32_t id;
	int err;

	if (d->len == DOC_NODES_MAX)
		return doc_fail(r, ev, "more than 16384 keys and values");
	d->nodes = xgrow(d->nodes, d->len, &d->cap, sizeof(*d->nodes));
	id = d->len++;
	d->nodes[id] = (struct doc_node){.kind = kind,
					 .line = (unsigned)ev->start_mark.line + 1,
					 .column = (unsigned)ev->start_mark.column + 1};
	if (kind == DOC_SCALAR) {
		d->nodes[id].plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
		d->nodes[id].text =
			xstrndup((const char *)ev->data.scalar.value, ev->data.scalar.length);
		if (strlen(d->nodes[id].text) != ev->data.scalar.length)
			return doc_fail(r, ev, "a text must not hold the character \\0");
	}
	if (!l)
		return 0;
	if (l->last)
		d->nodes[l->last].next = id;
	else
		d->nodes[l->node].first = id;
	l->last = id;
	if (d->nodes[l->node].kind != DOC_MAP)
		return 0;
	err = l->wants_value ? 0 : doc_check_key(r, l, id, ev);
	l->wants_value = !l->wants_value;
	return err;
}

static int doc_open(struct doc_reader *r, enum doc_kind kind, const yaml_event_t *ev)
{
	int err;

	if (r->depth == DOC_DEPTH_MAX)
		return doc_fail(r, ev, "more than 16 mappings and lists inside each other");
	err = doc_add(r, kind, ev);
	if (err)
		return err;
	r->levels[r->depth] = (struct doc_level){.node = r->d->len - 1};
	map_init(&r->levels[r->depth].keys);
	r->depth++;
	return 0;
}

static void doc_close(struct doc_reader *r)
{
	map_done(&r->levels[--r->depth].keys);
}

/* ---- events ------------------------------------------------------------- */

static const yaml_char_t *doc_anchor(const yaml_event_t *ev, const yaml_char_t **ret_tag)
{
	switch (ev->type) {
	case YAML_SCALAR_EVENT:
		*ret_tag = ev->data.scalar.tag;
		return ev->data.scalar.anchor;
	case YAML_MAPPING_START_EVENT:
		*ret_tag = ev->data.mapping_start.tag;
		return ev->data.mapping_start.anchor;
	case YAML_SEQUENCE_START_EVENT:
		*ret_tag = ev->data.sequence_start.tag;
		return ev->data.sequence_start.anchor;
	default:
		*ret_tag = NULL;
		return NULL;
	}
}

static int doc_event(struct doc_reader *r, const yaml_event_t *ev)
{
	const yaml_char_t *tag, *anchor = doc_anchor(ev, &tag);

	if (anchor || ev->type == YAML_ALIAS_EVENT)
		return doc_fail(r, ev, "anchors (&) and aliases (*) are not taken; write it out");
	if (tag)
		return doc_fail(r, ev, "tags (!) are not taken; leave it out");
	switch (ev->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (r->documents++ > 0)
			return doc_fail(r, ev, "a second document begins; a file holds one");
		return 0;
	case YAML_SCALAR_EVENT:
		return doc_add(r, DOC_SCALAR, ev);
	case YAML_MAPPING_START_EVENT:
		return doc_open(r, DOC_MAP, ev);
	case YAML_SEQUENCE_START_EVENT:
		return doc_open(r, DOC_LIST, ev);
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		doc_close(r);
		return 0;
	default:
		return 0;
	}
}

/* Is there a tab in what indents line (from 0)? */
static bool doc_has_tab(const char *text, size_t len, size_t line)
{
	const char *end = text + len, *p = text;

	while (line > 0 && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		p++;
		line--;
	}
	while (p && p < end && *p == ' ')
		p++;
	return p && p < end && *p == '\t';
}

static int doc_syntax(struct doc_reader *r, const yaml_parser_t *p, const char *text, size_t len)
{
	unsigned line = (unsigned)p->problem_mark.line + 1;
	unsigned column = (unsigned)p->problem_mark.column + 1;
	const char *problem = p->problem ? p->problem : "not YAML";

	if (doc_has_tab(text, len, p->problem_mark.line))
		return doc_error(r->e, r->name, line, column, "a tab indents; use spaces");
	if (!p->context)
		return doc_error(r->e, r->name, line, column, "%s", problem);
	return doc_error(r->e, r->name, line, column, "%s, %s that begins in line %u", problem,
			 p->context, (unsigned)p->context_mark.line + 1);
}

static int doc_read(struct doc_reader *r, yaml_parser_t *p, const char *text, size_t len)
{
	yaml_event_t ev;
	bool last;
	int err;

	do {
		if (!yaml_parser_parse(p, &ev))
			return doc_syntax(r, p, text, len);
		last = ev.type == YAML_STREAM_END_EVENT;
		err = doc_event(r, &ev);
		yaml_event_delete(&ev);
	} while (!err && !last);
	return err;
}

int doc_parse(struct doc *d, const char *name, const char *text, size_t len, struct err *e)
{
	struct doc_reader r = {.d = d, .name = name, .e = e};
	yaml_parser_t p;
	int err;

	*d = (struct doc){0};
	if (len > DOC_BYTES_MAX) {
		doc_error(e, name, 1, 1, "more than 1 MiB; this is no configuration");
		return -EFBIG;
	}
	err = doc_check_text(name, text, len, e);
	if (err)
		return err;
	if (!yaml_parser_initialize(&p))
		return err_set(e, -ENOMEM, "%s: out of memory", name);
	yaml_parser_set_encoding(&p, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&p, (const unsigned char *)text, len);
	d->nodes = xgrow(d->nodes, d->len, &d->cap, sizeof(*d->nodes));
	d->nodes[d->len++] = (struct doc_node){0};
	err = doc_read(&r, &p, text, len);
	while (r.depth > 0)
		doc_close(&r);
	yaml_parser_delete(&p);
	return err;
}

void doc_done(struct doc *d)
{
	uint32_t i;

	for (i = 0; i < d->len; i++)
		free(d->nodes[i].text);
	free(d->nodes);
	*d = (struct doc){0};
}
