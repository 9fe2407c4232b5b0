/* SPDX-License-Identifier: Apache-2.0
 *
 * config.c - see config.h. The tree of the file is walked once; at each key the
 * table says what it is.
 */
#include "config/config_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/utf8.h"

#define CONFIG_PATH_MAX 256 /* bytes of a key with those above it */

static size_t config_rows(void)
{
	size_t n = 0;

	while (config_keys[n].path)
		n++;
	return n;
}

size_t config_row(const char *path)
{
	size_t i;

	for (i = 0; config_keys[i].path; i++)
		if (strcmp(config_keys[i].path, path) == 0)
			return i;
	abort();
}

struct config *config_new(void)
{
	struct config *c = xcalloc(1, sizeof(*c));
	char why[VALUE_WHY_MAX];
	size_t i;

	c->settings = xcalloc(config_rows(), sizeof(*c->settings));
	for (i = 0; config_keys[i].path; i++)
		if (config_keys[i].preset && value_of_text(&config_keys[i], config_keys[i].preset,
							   &c->settings[i].value, why) < 0)
			abort();
	return c;
}

void config_free(struct config *c)
{
	size_t i;

	if (!c)
		return;
	for (i = 0; config_keys[i].path; i++)
		value_done(&c->settings[i].value);
	for (i = 0; i < c->n_notes; i++)
		free(c->notes[i]);
	free(c->notes);
	free(c->settings);
	free(c->file);
	doc_done(&c->doc);
	free(c);
}

static void config_add_note(struct config *c, char *note)
{
	utf8_clean(note, strlen(note));
	c->notes = xgrow(c->notes, c->n_notes, &c->notes_cap, sizeof(*c->notes));
	c->notes[c->n_notes++] = note;
}

/* ---- unknown keys ------------------------------------------------------- */

/* The part of a row's path behind prefix up to the next dot; NULL: it is not
 * below prefix. */
static const char *config_part(const char *path, const char *prefix, char out[CONFIG_PATH_MAX])
{
	size_t len = strlen(prefix), n;

	if (strncmp(path, prefix, len) != 0)
		return NULL;
	n = strcspn(path + len, ".");
	memcpy(out, path + len, n);
	out[n] = '\0';
	return out;
}

static int config_unknown(const struct config *c, const char *prefix, const struct doc_node *key,
			  struct err *e)
{
	const struct config_key *k;
	const char *elsewhere = NULL, *leaf;
	struct near near = {0};
	char part[CONFIG_PATH_MAX], best[CONFIG_PATH_MAX] = "";

	for (k = config_keys; k->path; k++) {
		leaf = strrchr(k->path, '.');
		if (!elsewhere && k->readers && leaf && strcmp(leaf + 1, key->text) == 0)
			elsewhere = k->path;
		if (!config_part(k->path, prefix, part))
			continue;
		near_try(&near, key->text, part);
		if (near.best == part) { /* the next part takes its place */
			strcpy(best, part);
			near.best = best;
		}
	}
	if (near.best && near.distance > 0 && elsewhere)
		near.best = NULL;
	if (near.best)
		return doc_error(e, c->file, key->line, key->column,
				 "unknown key \"%s%.64s\"; did you mean \"%s%s\"?", prefix,
				 key->text, prefix, best);
	if (elsewhere)
		return doc_error(e, c->file, key->line, key->column,
				 "unknown key \"%s%.64s\"; did you mean \"%s\"?", prefix, key->text,
				 elsewhere);
	return doc_error(e, c->file, key->line, key->column,
			 "unknown key \"%s%.64s\"; `lapse config` lists those that there are",
			 prefix, key->text);
}

/* ---- known keys --------------------------------------------------------- */

static int config_taken(const struct config *c, const struct config_setting *s,
			const struct config_key *written, const struct doc_node *key, struct err *e)
{
	return doc_error(e, c->file, key->line, key->column,
			 "\"%s\" and \"%s\" in line %u say the same; keep one", written->path,
			 s->written, s->line);
}

/* Does a key that has no effect ask for what happens anyway? */
static void config_note_effect(struct config *c, const struct config_key *k,
			       const struct value *given, const struct doc_node *key)
{
	struct value usual = {0};
	char why[VALUE_WHY_MAX];

	if (k->preset && value_of_text(k, k->preset, &usual, why) == 0 &&
	    value_equals(k, given, &usual)) {
		value_done(&usual);
		return;
	}
	config_add_note(c,
			xasprintf("%s:%u:%u: %s: has no effect in this version%s%s", c->file,
				  key->line, key->column, k->path,
				  k->preset ? ", where it is " : "", k->preset ? k->preset : ""));
	value_done(&usual);
}

/* Set row i by the node behind a key. */
static int config_set(struct config *c, size_t i, const struct doc_node *key, uint32_t node,
		      struct err *e)
{
	const struct config_key *k = &config_keys[i];
	const struct doc_node *n = &c->doc.nodes[node];
	size_t target = k->same_as ? config_row(k->same_as) : i;
	struct config_setting *s = &c->settings[target];
	struct value v = {0};
	char why[VALUE_WHY_MAX] = "";

	if (s->from == CONFIG_FROM_FILE)
		return config_taken(c, s, k, key, e);
	if (doc_is_null(n))
		return 0;
	if (value_of_node(k, &c->doc, node, &v, why) < 0)
		return doc_error(e, c->file, n->line, n->column, "%s: %s", k->path, why);
	if (k->convert)
		v.number = k->convert(v.number);
	else if (k->scale > 0)
		v.number = (int64_t)(v.real * k->scale);
	if (!k->readers && !k->same_as)
		config_note_effect(c, k, &v, key);
	value_done(&s->value);
	*s = (struct config_setting){.value = v,
				     .from = CONFIG_FROM_FILE,
				     .written = k->path,
				     .line = key->line,
				     .column = key->column};
	return 0;
}

/* Is there a key below path? */
static bool config_is_block(const char *path)
{
	const struct config_key *k;
	size_t n = strlen(path);

	for (k = config_keys; k->path; k++)
		if (strncmp(k->path, path, n) == 0 && k->path[n] == '.')
			return true;
	return false;
}

static int config_block(struct config *c, uint32_t map, const char *prefix, struct err *e);

static int config_key_at(struct config *c, const char *prefix, uint32_t key_node, struct err *e)
{
	const struct doc_node *key = &c->doc.nodes[key_node], *value = &c->doc.nodes[key->next];
	const struct config_key *k;
	char path[CONFIG_PATH_MAX];
	size_t n = strlen(prefix) + strlen(key->text);

	/* A point belongs between keys, not into one; the table's paths are short. */
	if (strchr(key->text, '.') || n + 2 > sizeof(path))
		return config_unknown(c, prefix, key, e);
	memcpy(path, prefix, strlen(prefix));
	strcpy(path + strlen(prefix), key->text);
	for (k = config_keys; k->path; k++)
		if (strcmp(k->path, path) == 0)
			break;
	if (k->path && k->type != CONFIG_BLOCK)
		return config_set(c, (size_t)(k - config_keys), key, key->next, e);
	if (!k->path && !config_is_block(path))
		return config_unknown(c, prefix, key, e);
	if (doc_is_null(value))
		return 0;
	if (value->kind != DOC_MAP)
		return doc_error(e, c->file, value->line, value->column,
				 "%s: wants a mapping of settings: indent them below it", path);
	if (k->path)
		strcpy(path, k->same_as);
	strcat(path, ".");
	return config_block(c, key->next, path, e);
}

static int config_block(struct config *c, uint32_t map, const char *prefix, struct err *e)
{
	uint32_t key = c->doc.nodes[map].first;
	int err = 0;

	while (key && !err) {
		err = config_key_at(c, prefix, key, e);
		key = c->doc.nodes[c->doc.nodes[key].next].next;
	}
	return err;
}

/* ---- files and variables ------------------------------------------------ */

int config_parse(struct config *c, const char *name, const char *text, size_t len, struct err *e)
{
	const struct doc_node *root;
	int err;

	c->file = xstrdup(name);
	err = doc_parse(&c->doc, name, text, len, e);
	if (err || c->doc.len < 2)
		return err;
	root = &c->doc.nodes[1];
	if (doc_is_null(root))
		return 0;
	if (root->kind != DOC_MAP)
		return doc_error(e, name, root->line, root->column,
				 "a configuration is a mapping: begin with a line like \"run:\"");
	return config_block(c, 1, "", e);
}

/* Opening a device or a pipe may wait for ever, or read what is another's. */
static int config_read(const char *path, struct buf *out, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err = 0;
	struct stat st;
	ssize_t n;
	char *room;

	if (fd < 0)
		return err_errno(e, -errno, "cannot open %.300s", path);
	if (fstat(fd, &st) < 0)
		err = err_errno(e, -errno, "cannot read %.300s", path);
	else if (!S_ISREG(st.st_mode))
		err = err_set(e, -EINVAL, "%.300s is no regular file", path);
	while (!err) {
		room = buf_reserve(out, 65536);
		n = room ? read(fd, room, 65536) : -1;
		if (!room)
			err = err_set(e, -EFBIG, "%.300s has more than 1 MiB", path);
		else if (n < 0 && errno != EINTR)
			err = err_errno(e, -errno, "cannot read %.300s", path);
		else if (n == 0)
			break;
		else if (n > 0)
			out->len += (size_t)n;
	}
	close(fd);
	return err;
}

int config_load(struct config *c, const char *path, struct err *e)
{
	struct buf text;
	int err;

	buf_init(&text, DOC_BYTES_MAX + 2 * 65536);
	err = config_read(path, &text, e);
	if (!err)
		err = config_parse(c, path, buf_str(&text), text.len, e);
	buf_done(&text);
	if (err && e)
		utf8_clean(e->text, strlen(e->text));
	return err;
}

void config_environment(struct config *c)
{
	const struct config_key *k;
	struct config_setting *s;
	char why[VALUE_WHY_MAX];
	const char *text;

	for (k = config_keys; k->path; k++) {
		text = k->env ? getenv(k->env) : NULL;
		if (!text || !text[0])
			continue;
		s = &c->settings[k - config_keys];
		if (value_of_text(k, text, &s->value, why) == 0)
			s->from = CONFIG_FROM_ENVIRONMENT;
		else
			config_add_note(c, xasprintf("%s: %s; it is left out", k->env, why));
	}
}

/* ---- questions ---------------------------------------------------------- */

static const struct value *config_value(const struct config *c, const char *path)
{
	return &c->settings[config_row(path)].value;
}

bool config_given(const struct config *c, const char *path)
{
	return config_value(c, path)->given;
}

const char *config_text(const struct config *c, const char *path)
{
	return config_value(c, path)->text;
}

bool config_flag(const struct config *c, const char *path)
{
	return config_value(c, path)->flag;
}

int64_t config_number(const struct config *c, const char *path, int64_t otherwise)
{
	const struct value *v = config_value(c, path);

	return v->given ? v->number : otherwise;
}

size_t config_items(const struct config *c, const char *path)
{
	return config_value(c, path)->n;
}

void config_item(const struct config *c, const char *path, size_t i,
		 void (*fn)(void *arg, const char *key, const char *text), void *arg)
{
	const struct config_key *rows = config_keys[config_row(path)].items;
	const struct value *all = config_value(c, path), *v;
	size_t k, n = all->n ? all->n_values / all->n : 0;
	char number[32];

	for (k = 0; k < n; k++) {
		v = &all->items[i * n + k];
		if (!v->given)
			continue;
		snprintf(number, sizeof(number), "%lld%s", (long long)v->number,
			 rows[k].type == CONFIG_DURATION ? "ns" : "");
		if (rows[k].type == CONFIG_BOOL)
			fn(arg, rows[k].path, v->flag ? "true" : "false");
		else
			fn(arg, rows[k].path, v->text ? v->text : number);
	}
}

enum config_from config_from(const struct config *c, const char *path, unsigned *ret_line)
{
	const struct config_setting *s = &c->settings[config_row(path)];

	if (ret_line && s->from == CONFIG_FROM_FILE)
		*ret_line = s->line;
	return s->from;
}

const char *config_file(const struct config *c)
{
	return c->file;
}

const char *config_note(const struct config *c, size_t i)
{
	return i < c->n_notes ? c->notes[i] : NULL;
}
