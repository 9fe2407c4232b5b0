/* SPDX-License-Identifier: Apache-2.0
 *
 * event.c - one event from its JSON text into struct event. Strict but for what does no
 * harm; what fails here goes to mend.c. Compiled once for each kind of vectors
 * (meson.build): EVENT_SET is the name of its functions.
 */
#include "trace/event_value.h"

/* ---- objects -------------------------------------------------------------------------- */

/* Where in an event the reading is, when no node of the tree says it. */
struct walk {
	uint64_t met[2]; /* keys of the event, of args */
	bool in_args;
	bool is_odd; /* something was noted: not for the tree */
	uint8_t phase;
	bool has_cat;
};

static void odd(struct reader *r, struct walk *w, enum notes_kind kind, place p, const char *what)
{
	w->is_odd = true;
	notes_add(r->t, kind, reading_offset(r, p), "%s", what);
}

/* p behind {, or behind a value: at the next key's quote, or at }. */
static place next_key(struct reader *r, struct walk *w, place p, bool first)
{
	unsigned commas = 0;

	p = lex_space(p);
	for (; *p == ','; commas++)
		p = lex_space(p + 1);
	if (p >= r->end)
		return bad(r, r->end, "a key or }");
	if (*p == '"' ? commas > !first : *p == '}' && commas)
		odd(r, w, NOTES_COMMA, p, "a comma too many");
	if (*p == '"' && !first && !commas)
		return bad(r, p, "a comma");
	if (*p != '"' && *p != '}')
		return bad(r, p, first ? "a key or }" : "a comma or }");
	return p;
}

/* p at a key: at its value. */
static place read_key(struct reader *r, struct walk *w, place p, const struct key_row **ret)
{
	place key = p + 1;
	bool escaped;
	uint64_t bit;

	p = string_end(r, p, &escaped);
	if (!p)
		return NULL;
	*ret = key_find(w->in_args, (const char *)key, (size_t)(p - key));
	if ((*ret)->name) {
		bit = 1ull << key_number(*ret);
		if (w->met[w->in_args] & bit)
			odd(r, w, NOTES_DUPLICATE_KEY, key, (*ret)->name);
		w->met[w->in_args] |= bit;
	}
	p = lex_space(p + 1);
	if (*p != ':')
		return bad(r, p < r->end ? p : r->end, "a colon");
	p = lex_space(p + 1);
	return p < r->end ? p : bad(r, r->end, "a value");
}

/* ph and cat are read at once, as part of what lies between other values. p at the value;
 * NULL: it is none of them, or not a plain one. */
static place read_kind(struct reader *r, struct walk *w, place p, unsigned op)
{
	place end;

	if (op == KEY_PHASE && p[0] == '"' && p[1] > ' ' && p[1] != '"' && p[1] != '\\' &&
	    p[2] == '"' && p + 2 < r->end) {
		w->phase = r->e.phase = p[1];
		return p + 3;
	}
	if (op != KEY_CAT || *p != '"')
		return NULL;
	end = lex_string(p + 1, r->end);
	if (end >= r->end || *end != '"')
		return NULL;
	r->e.cat_text = words_text(r, p + 1, (size_t)(end - p - 1), false);
	r->e.flags |= TRACE_HAS_CAT;
	w->has_cat = true;
	return end + 1;
}

/* Events of these phases are but counted (take_event()). */
static bool is_idle(uint8_t phase)
{
	return phase && phase != 'X' && phase != 'B' && phase != 'E' && phase != 'i' &&
	       phase != 'I' && phase != 'M';
}

static bool is_link(const struct key_row *row)
{
	switch (row->op) {
	case KEY_INT:
		return row->at == ARGSET_BYTES;
	case KEY_DOUBLE:
		return row->at == ARGSET_BANDWIDTH;
	case KEY_GRID:
		return false;
	case KEY_COLUMN:
		return row->at == offsetof(struct event, correlation) ||
		       row->at == offsetof(struct event, sort_index);
	default:
		return true;
	}
}

/* How the value of this key is read, by what of it is kept. */
static unsigned op_of(const struct reader *r, const struct key_row *row)
{
	bool idle = is_idle(r->e.phase);

	if (!idle && !(r->o->only_links && !is_link(row)))
		return row->op;
	switch (row->op) {
	case KEY_TS:
		return idle ? KEY_PAST_TIME : row->op;
	case KEY_INT:
	case KEY_COLUMN:
		return KEY_PAST_INT;
	case KEY_DOUBLE:
		return KEY_PAST_DOUBLE;
	case KEY_GRID:
		return KEY_PAST_GRID;
	default:
		return row->op;
	}
}

/* p behind a value, or at the event's {: at the next value, whose row is *ret; or behind the
 * event (*ret NULL). */
static place step(struct reader *r, struct walk *w, place p, bool first, const struct key_row **ret)
{
	place kind;

	w->is_odd = w->has_cat = false;
	w->phase = 0;
	p += first;
	for (;;) {
		p = next_key(r, w, p, first);
		if (!p)
			return NULL;
		first = false;
		if (*p == '}') {
			p++;
			*ret = NULL;
			if (!w->in_args)
				return p;
			w->in_args = false;
			continue;
		}
		p = read_key(r, w, p, ret);
		if (!p)
			return NULL;
		if ((*ret)->op == KEY_ARGS && *p == '{') {
			w->in_args = first = true;
			p++;
			continue;
		}
		kind = read_kind(r, w, p, (*ret)->op);
		if (!kind) {
			/* What ends before such a value would hide what goes on behind it. */
			w->is_odd |= (*ret)->op == KEY_PHASE || (*ret)->op == KEY_CAT;
			return p;
		}
		p = kind;
	}
}

INLINED bool is_here(const struct stencil_node *x, place p)
{
	if (~lex_same(p, x->text) & x->mask)
		return false;
	return x->len < LEX_STEP ||
	       lex_equal(p + LEX_STEP, x->text + LEX_STEP, (size_t)x->len - LEX_STEP);
}

static struct stencil_node *other_node(struct stencil_node *node, place p)
{
	struct stencil_node *x;

	for (unsigned i = 0; i < node->n_others; i++) {
		x = node->others[i];
		if (!is_here(x, p))
			continue;
		node->others[i] = node->child;
		node->child = x;
		return x;
	}
	return NULL;
}

/* The child of a node whose text stands at p. The one that was hit last comes first. */
INLINED struct stencil_node *next_node(struct stencil_node *node, place p)
{
	if (!node->child)
		return NULL;
	return is_here(node->child, p) ? node->child : other_node(node, p);
}

static struct stencil_node *learn(struct reader *r, const struct walk *w,
				  struct stencil_node *parent, place from, place p,
				  const struct key_row *row)
{
	struct stencil_node *x;

	/* args that are no object must not hide those that are. */
	if (!parent || w->is_odd || (row && row->op == KEY_ARGS))
		return NULL;
	x = stencil_add(&r->stencils, parent, from, (size_t)(p - from));
	if (!x)
		return NULL;
	x->mask = x->len < LEX_STEP ? (1u << x->len) - 1 : LEX_ALL;
	x->is_end = !row;
	x->in_args = w->in_args;
	x->op = row ? (uint8_t)op_of(r, row) : KEY_SKIP;
	x->at = row ? row->at : 0;
	x->phase = w->phase;
	x->has_cat = w->has_cat;
	x->cat_text = r->e.cat_text;
	x->is_marked = x->is_end || x->has_cat || x->phase;
	memcpy(x->met, w->met, sizeof(x->met));
	return x;
}

/* What the text of a node says by itself; is the event at its end? */
INLINED bool pass_mark(struct reader *r, const struct stencil_node *node)
{
	if (node->phase)
		r->e.phase = node->phase;
	if (node->has_cat) {
		r->e.cat_text = node->cat_text;
		r->e.flags |= TRACE_HAS_CAT;
	}
	return node->is_end;
}

/* p at {; behind }. */
static place read_event(struct reader *r, place p)
{
	struct stencil_node *node = r->stencils.nodes, *next;
	struct walk w = {0};
	const struct key_row *row;
	unsigned op, at;

	for (bool first = true;; first = false) {
		next = node ? next_node(node, p) : NULL;
		if (next) {
			p += next->len;
			if (next->is_marked && pass_mark(r, next))
				return p;
			if (*p <= ' ') /* the same text, but with more blanks behind it */
				p = lex_space(p);
			op = next->op;
			at = next->at;
		} else {
			place from = p;

			if (node) {
				memcpy(w.met, node->met, sizeof(w.met));
				w.in_args = node->in_args;
			}
			p = step(r, &w, p, first, &row);
			if (!p || r->rc)
				return NULL;
			next = learn(r, &w, node, from, p, row);
			if (!row)
				return p;
			op = op_of(r, row);
			at = row->at;
		}
		node = next;
		p = read_value(r, p, op, at, node);
		if (!p || p >= r->end)
			return p ? bad(r, r->end, "a comma or }") : NULL;
	}
}

static void begin(struct reader *r)
{
	struct event *e = &r->e;
	const int64_t none = TRACE_NONE;

	/* One by one: as one memset() it would be slow for its size. */
	e->ts = e->dur = e->address = e->bytes = e->device_type = 0;
	e->name = e->cat_text = e->label = 0;
	e->track = 0;
	e->cat = e->flags = e->phase = 0;
	e->has_ts = e->has_track = false;
	e->correlation = e->external = none;
	e->allocated = e->reserved = e->device = e->sort_index = none;
	e->stream = TRACE_NONE;
	e->pack.n_shared = e->pack.n_own = 0;
	r->pid = r->tid = r->end;
	r->pid_len = r->tid_len = 0;
}

static enum event_result parse_event(struct reader *r, const unsigned char *p,
				     const unsigned char **ret_p)
{
	begin(r);
	r->offset = reading_offset(r, p);
	r->bad_at = NULL;
	p = read_event(r, p);
	if (r->rc)
		return EVENT_BAD;
	if (!p)
		return r->bad_at >= r->end && !r->at_end ? EVENT_MORE : EVENT_BAD;
	*ret_p = p;
	return EVENT_OK;
}

const struct event_set EVENT_SET = {parse_event, skip_value};
