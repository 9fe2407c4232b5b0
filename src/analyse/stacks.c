/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks.c - the tree of stacks: every call finds the node of its stack, which is that of
 * its caller and its own frame.
 */
#include "analyse/stacks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/nest.h"
#include "analyse/room.h"
#include "analyse/shortname.h"
#include "base/map.h"

#define OWN_MAX (256u << 20) /* bytes of texts that are not the trace's */
#define STACK_MAX 512        /* frames taken of one "Call stack" */

const char *const stacks_kind_names[STACKS_KINDS] = {
	[STACKS_ROOT] = "all",
	[STACKS_THREAD] = "thread",
	[STACKS_PYTHON] = "Python",
	[STACKS_ANNOTATION] = "annotation",
	[STACKS_OPERATOR] = "operator",
	[STACKS_RUNTIME] = "runtime",
	[STACKS_COMPUTE] = "computation",
	[STACKS_COMMUNICATION] = "communication",
	[STACKS_MEMORY] = "memory",
	[STACKS_OTHER] = "other",
};

/* A hash table of numbers: (parent, frame) to node. */
struct table {
	uint32_t *node; /* + 1; 0 free */
	size_t cap;
};

struct making {
	struct view *v;
	const struct stacks_options *o;
	struct stacks_result *s;
	size_t cap_nodes, cap_frames;
	struct table table;
	struct map frames; /* text to frame + 1 */
	uint32_t *of_text; /* text id to frame + 1 */
	struct nest *t;
	uint32_t *node_of; /* nest node to node */
	struct buf own;
	size_t *own_at; /* frame to offset in own + 1 */
	size_t cap_own;
};

/* ---- frames --------------------------------------------------------------------------- */

static int frame_of(struct making *m, const char *text, size_t len, bool is_own, uint32_t *ret)
{
	struct stacks_result *s = m->s;
	uint64_t known;
	size_t at = 0;

	if (map_get(&m->frames, text, len, &known)) {
		*ret = (uint32_t)known;
		return 0;
	}
	if (room_for(&m->s->frames, s->n_frames, &m->cap_frames, sizeof(*s->frames)) < 0 ||
	    room_for(&m->own_at, s->n_frames, &m->cap_own, sizeof(*m->own_at)) < 0)
		return -ENOMEM;
	if (is_own) {
		at = m->own.len + 1;
		buf_append(&m->own, text, len);
		if (m->own.error)
			return m->own.error;
	}
	map_put(&m->frames, text, len, s->n_frames);
	m->own_at[s->n_frames] = at;
	s->frames[s->n_frames] = (struct stacks_frame){text, (uint32_t)len};
	*ret = (uint32_t)s->n_frames++;
	return 0;
}

static int frame_of_text(struct making *m, uint32_t id, bool shorten, uint32_t *ret)
{
	size_t len;
	const char *text;
	char *shorter;
	int r;

	if (m->of_text[id]) {
		*ret = m->of_text[id] - 1;
		return 0;
	}
	text = trace_text(m->v->trace, id, &len);
	if (view_step_number(text) >= 0) /* all steps in one place */
		len = strcspn(text, " #");
	if (shorten) {
		shorter = malloc(len + 1);
		if (!shorter)
			return -ENOMEM;
		r = frame_of(m, shorter, shortname_of(text, len, shorter), true, ret);
		free(shorter);
	} else {
		r = frame_of(m, text, len, false, ret);
	}
	if (r == 0)
		m->of_text[id] = *ret + 1;
	return r;
}

/* ---- nodes ---------------------------------------------------------------------------- */

static size_t slot_of(const struct table *t, const struct stacks_node *nodes, uint32_t parent,
		      uint32_t frame)
{
	uint64_t h = ((uint64_t)parent << 32 | frame) * UINT64_C(0x9e3779b97f4a7c15);
	size_t i = (size_t)(h >> 20) & (t->cap - 1);

	while (t->node[i] && ((uint32_t)nodes[t->node[i] - 1].parent != parent ||
			      nodes[t->node[i] - 1].frame != frame))
		i = (i + 1) & (t->cap - 1);
	return i;
}

static int grow_table(struct making *m)
{
	struct table bigger = {.cap = m->table.cap ? m->table.cap * 2 : 1024};

	if (m->s->n * 2 < m->table.cap)
		return 0;
	bigger.node = calloc(bigger.cap, sizeof(*bigger.node));
	if (!bigger.node)
		return -ENOMEM;
	for (uint32_t i = 1; i < m->s->n; i++) {
		const struct stacks_node *n = &m->s->nodes[i];

		bigger.node[slot_of(&bigger, m->s->nodes, (uint32_t)n->parent, n->frame)] = i + 1;
	}
	free(m->table.node);
	m->table = bigger;
	return 0;
}

static int node_below(struct making *m, uint32_t parent, uint32_t frame, enum stacks_kind kind,
		      uint32_t *ret)
{
	size_t slot;
	struct stacks_node *n;

	if (grow_table(m) < 0)
		return -ENOMEM;
	slot = slot_of(&m->table, m->s->nodes, parent, frame);
	if (m->table.node[slot]) {
		*ret = m->table.node[slot] - 1;
		return 0;
	}
	if (m->s->n >= INT32_MAX ||
	    room_for(&m->s->nodes, m->s->n, &m->cap_nodes, sizeof(*m->s->nodes)) < 0)
		return -ENOMEM;
	n = &m->s->nodes[m->s->n];
	*n = (struct stacks_node){.frame = frame,
				  .parent = (int32_t)parent,
				  .child = -1,
				  .next = m->s->nodes[parent].child,
				  .kind = (uint8_t)kind};
	m->s->nodes[parent].child = (int32_t)m->s->n;
	*ret = (uint32_t)m->s->n++;
	m->table.node[slot] = *ret + 1;
	return 0;
}

static enum stacks_kind kind_of(const struct view_row *r)
{
	static const uint8_t of_class[VIEW_CLASSES] = {
		[VIEW_COMPUTATION] = STACKS_COMPUTE,
		[VIEW_COMMUNICATION] = STACKS_COMMUNICATION,
		[VIEW_MEMORY] = STACKS_MEMORY,
		[VIEW_OTHER] = STACKS_OTHER,
	};

	if (r->is_gpu)
		return of_class[r->class];
	switch (r->cat) {
	case TRACE_CAT_PYTHON_FUNCTION:
		return STACKS_PYTHON;
	case TRACE_CAT_CPU_OP:
		return STACKS_OPERATOR;
	case TRACE_CAT_USER_ANNOTATION:
		return STACKS_ANNOTATION;
	case TRACE_CAT_CUDA_RUNTIME:
	case TRACE_CAT_CUDA_DRIVER:
	case TRACE_CAT_XPU_RUNTIME:
	case TRACE_CAT_XPU_DRIVER:
	case TRACE_CAT_MTIA_RUNTIME:
		return STACKS_RUNTIME;
	default:
		return STACKS_OTHER;
	}
}

static int thread_node(struct making *m, uint16_t track, uint32_t *ret)
{
	const struct trace_track *t = trace_track(m->v->trace, track);
	const char *name = trace_text(m->v->trace, t->name, NULL);
	const char *tid = trace_text(m->v->trace, t->tid_text, NULL);
	char text[256];
	uint32_t frame;
	int r;

	*ret = 0;
	if (m->o->no_threads)
		return 0;
	if (!name[0])
		snprintf(text, sizeof(text), "thread %s", tid);
	else if (strstr(name, tid))
		snprintf(text, sizeof(text), "%s", name);
	else
		snprintf(text, sizeof(text), "%s (thread %s)", name, tid);
	r = frame_of(m, text, strlen(text), true, &frame);
	return r < 0 ? r : node_below(m, 0, frame, STACKS_THREAD, ret);
}

/* Frames of a "Call stack" argument: innermost first, parted by ';'. */
static int recorded_stack(struct making *m, uint32_t id, uint32_t *node)
{
	size_t len, n = 0;
	const char *text = trace_text(m->v->trace, id, &len), *end = text + len;
	struct stacks_frame parts[STACK_MAX];
	int r = 0;

	while (text < end && n < STACK_MAX) {
		const char *stop = memchr(text, ';', (size_t)(end - text));

		if (!stop)
			stop = end;
		if (stop > text)
			parts[n++] = (struct stacks_frame){text, (uint32_t)(stop - text)};
		text = stop + 1;
	}
	while (n-- > 0 && r == 0) {
		uint32_t frame;

		r = frame_of(m, parts[n].text, parts[n].len, false, &frame);
		if (r == 0)
			r = node_below(m, *node, frame, STACKS_PYTHON, node);
	}
	return r;
}

/* The node of a call; its caller's is known already. */
static int place(struct making *m, uint32_t k, uint32_t top)
{
	const struct view_row *row = &m->v->rows[m->t->row[k]];
	const struct trace_args *a = trace_args(m->v->trace, row->args);
	enum stacks_kind kind = kind_of(row);
	int32_t p = m->t->parent[k];
	uint32_t node = p >= 0 ? m->node_of[p] : top, frame;
	int r = 0;

	if (kind == STACKS_PYTHON) {
		m->s->has_python = true;
		if (m->o->no_python) {
			m->node_of[k] = node;
			return 0;
		}
	}
	/* Operators below an operator have the same recorded stack. */
	if (a->stack && kind == STACKS_OPERATOR && !m->o->no_python &&
	    (p < 0 || kind_of(&m->v->rows[m->t->row[p]]) == STACKS_ANNOTATION)) {
		m->s->has_python = true;
		r = recorded_stack(m, a->stack, &node);
	}
	if (r == 0)
		r = frame_of_text(m, row->name, false, &frame);
	if (r == 0)
		r = node_below(m, node, frame, kind, &m->node_of[k]);
	return r;
}

static int place_calls(struct making *m)
{
	int r = 0;

	for (size_t i = 0; i < m->t->n_threads && r == 0; i++) {
		const struct nest_thread *th = &m->t->threads[i];
		uint32_t top;

		r = thread_node(m, th->track, &top);
		for (uint32_t k = th->first; k < th->end && r == 0; k++)
			r = place(m, k, top);
	}
	return r;
}

static void take(struct making *m, uint32_t node, int64_t ns, const struct view_row *r)
{
	struct stacks_result *s = m->s;

	s->nodes[node].self += ns > 0 ? ns : 0;
	s->nodes[node].count++;
	s->rows++;
	s->from = r->ts < s->from ? r->ts : s->from;
	s->to = r->end > s->to ? r->end : s->to;
}

static int take_work(struct making *m, const uint32_t *nest_of)
{
	int r = 0;

	for (uint32_t i = 0; i < m->v->n && r == 0; i++) {
		const struct view_row *row = &m->v->rows[i];
		uint32_t node = 0, frame;

		if (!row->is_gpu)
			continue;
		if (row->pair != VIEW_NO_ROW && nest_of[row->pair] != UINT32_MAX)
			node = m->node_of[nest_of[row->pair]];
		else
			m->s->unlaunched++;
		r = frame_of_text(m, row->name, m->o->shorten, &frame);
		if (r == 0)
			r = node_below(m, node, frame, kind_of(row), &node);
		if (r == 0)
			take(m, node, row->end - row->ts, row);
	}
	return r;
}

static int count_times(struct making *m)
{
	uint32_t *nest_of;
	int r = 0;

	if (m->o->of == STACKS_HOST) {
		for (uint32_t k = 0; k < m->t->n; k++)
			take(m, m->node_of[k], m->t->self[k], &m->v->rows[m->t->row[k]]);
		m->s->cut = m->t->cut;
		return 0;
	}
	nest_of = malloc((m->v->n + 1) * sizeof(*nest_of));
	if (!nest_of)
		return -ENOMEM;
	memset(nest_of, 0xff, (m->v->n + 1) * sizeof(*nest_of));
	for (uint32_t k = 0; k < m->t->n; k++)
		nest_of[m->t->row[k]] = k;
	r = take_work(m, nest_of);
	free(nest_of);
	return r;
}

/* Totals; children without time go, the others stand longest first. */
struct child {
	int64_t total;
	uint32_t node;
	bool is_aside; /* a thread without operators or annotations: after the others */
};

static int by_total(const void *pa, const void *pb)
{
	const struct child *a = pa, *b = pb;

	if (a->is_aside != b->is_aside)
		return a->is_aside - b->is_aside;
	if (a->total != b->total)
		return a->total > b->total ? -1 : 1;
	return a->node < b->node ? -1 : a->node > b->node;
}

static int finish(struct making *m)
{
	struct stacks_node *nodes = m->s->nodes;
	struct child *all = calloc(m->s->n + 1, sizeof(*all));
	bool *works = calloc(m->s->n + 1, sizeof(*works));

	if (!all || !works) {
		free(all);
		free(works);
		return -ENOMEM;
	}
	for (uint32_t i = (uint32_t)m->s->n; i-- > 0;) {
		nodes[i].total += nodes[i].self;
		works[i] |= nodes[i].kind == STACKS_OPERATOR || nodes[i].kind == STACKS_ANNOTATION;
		if (nodes[i].parent < 0)
			continue;
		nodes[nodes[i].parent].total += nodes[i].total;
		works[nodes[i].parent] |= works[i];
	}
	for (uint32_t i = 0; i < m->s->n; i++) {
		int32_t *link = &nodes[i].child;
		size_t n = 0;

		for (int32_t c = nodes[i].child; c >= 0; c = nodes[c].next)
			all[n++] = (struct child){nodes[c].total, (uint32_t)c,
						  nodes[c].kind == STACKS_THREAD && !works[c]};
		qsort(all, n, sizeof(*all), by_total);
		for (size_t k = 0; k < n; k++) {
			if (all[k].total <= 0)
				continue;
			*link = (int32_t)all[k].node;
			link = &nodes[all[k].node].next;
		}
		*link = -1;
	}
	free(all);
	free(works);
	for (size_t i = 0; i < m->s->n_frames; i++) {
		if (m->own_at[i])
			m->s->frames[i].text = m->own.data + m->own_at[i] - 1;
	}
	m->s->own = m->own.data;
	m->own.data = NULL;
	if (!m->s->rows)
		m->s->from = m->s->to = 0;
	return 0;
}

static int make(struct making *m)
{
	static const struct nest_options o = {.order = NEST_EXACT};
	struct stacks_result *s = m->s;
	uint32_t frame;
	int r;

	s->from = INT64_MAX;
	s->to = INT64_MIN;
	m->of_text = calloc((size_t)trace_texts(m->v->trace) + 1, sizeof(*m->of_text));
	s->nodes = calloc(16, sizeof(*s->nodes));
	if (!m->of_text || !s->nodes)
		return -ENOMEM;
	m->cap_nodes = 16;
	r = frame_of(m, "all", 3, true, &frame);
	s->nodes[s->n++] = (struct stacks_node){
		.frame = frame, .parent = -1, .child = -1, .next = -1, .kind = STACKS_ROOT};
	if (r == 0)
		r = nest_new(m->v, &o, &m->t);
	if (r == 0) {
		m->node_of = calloc((size_t)m->t->n + 1, sizeof(*m->node_of));
		r = m->node_of ? place_calls(m) : -ENOMEM;
	}
	if (r == 0)
		r = count_times(m);
	return r < 0 ? r : finish(m);
}

int stacks_new(struct view *v, const struct stacks_options *o, struct stacks_result **ret)
{
	struct making m = {.v = v, .o = o};
	int r = -ENOMEM;

	map_init(&m.frames);
	buf_init(&m.own, OWN_MAX);
	m.s = calloc(1, sizeof(*m.s));
	if (m.s) {
		m.s->of = o->of;
		r = make(&m);
	}
	map_done(&m.frames);
	buf_done(&m.own);
	free(m.own_at);
	free(m.of_text);
	free(m.table.node);
	free(m.node_of);
	nest_free(m.t);
	if (r < 0) {
		stacks_free(m.s);
		return r;
	}
	*ret = m.s;
	return 0;
}

void stacks_free(struct stacks_result *s)
{
	if (!s)
		return;
	free(s->nodes);
	free(s->frames);
	free(s->own);
	free(s);
}
