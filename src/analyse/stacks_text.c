/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks_text.c - stacks as text for other tools: folded lines and speedscope's format.
 */
#include "analyse/stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* Called for every node with time of its own: node numbers from the top, without the root. */
typedef void (*stack_fn)(void *arg, const struct stacks_result *s, const int32_t *stack,
			 size_t depth, const struct stacks_node *n);

static void each_stack(const struct stacks_result *s, stack_fn fn, void *arg)
{
	int32_t *stack = calloc(s->n + 1, sizeof(*stack));
	size_t depth = 0;
	int32_t k = s->n ? s->nodes[0].child : -1;

	while (stack && k >= 0) {
		const struct stacks_node *n = &s->nodes[k];

		stack[depth++] = k;
		if (n->self > 0)
			fn(arg, s, stack, depth, n);
		if (n->child >= 0) {
			k = n->child;
			continue;
		}
		while (depth && (k = s->nodes[stack[depth - 1]].next) < 0)
			depth--;
		if (depth)
			depth--;
	}
	free(stack);
}

static void put_folded_name(struct buf *out, const struct stacks_frame *f)
{
	for (uint32_t i = 0; i < f->len; i++) {
		char c = f->text[i];

		buf_putc(out, c == ';' ? ':' : (unsigned char)c < ' ' ? ' ' : c);
	}
}

static void fold_one(void *arg, const struct stacks_result *s, const int32_t *stack, size_t depth,
		     const struct stacks_node *n)
{
	struct buf *out = arg;

	for (size_t i = 0; i < depth; i++) {
		if (i)
			buf_putc(out, ';');
		put_folded_name(out, &s->frames[s->nodes[stack[i]].frame]);
	}
	buf_printf(out, " %lld\n", (long long)n->self);
}

void stacks_folded(const struct stacks_result *s, struct buf *out)
{
	each_stack(s, fold_one, out);
}

static void sample_one(void *arg, const struct stacks_result *s, const int32_t *stack, size_t depth,
		       const struct stacks_node *n)
{
	struct json *j = arg;

	(void)n;
	json_array(j);
	for (size_t i = 0; i < depth; i++)
		json_uint(j, s->nodes[stack[i]].frame);
	json_array_end(j);
}

static void weigh_one(void *arg, const struct stacks_result *s, const int32_t *stack, size_t depth,
		      const struct stacks_node *n)
{
	(void)s;
	(void)stack;
	(void)depth;
	json_int(arg, n->self);
}

void stacks_speedscope(const struct stacks_result *s, const char *title, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_object(&j);
	json_kstr(&j, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_kstr(&j, "exporter", "lapse");
	json_kstr(&j, "name", title);
	json_kuint(&j, "activeProfileIndex", 0);
	json_key(&j, "shared");
	json_object(&j);
	json_key(&j, "frames");
	json_array(&j);
	for (size_t i = 0; i < s->n_frames; i++) {
		json_object(&j);
		json_key(&j, "name");
		json_strn(&j, s->frames[i].text, s->frames[i].len);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_object_end(&j);
	json_key(&j, "profiles");
	json_array(&j);
	json_object(&j);
	json_kstr(&j, "type", "sampled");
	json_kstr(&j, "name", s->of == STACKS_HOST ? "host" : "device");
	json_kstr(&j, "unit", "nanoseconds");
	json_kint(&j, "startValue", 0);
	json_kint(&j, "endValue", s->n ? s->nodes[0].total : 0);
	json_key(&j, "samples");
	json_array(&j);
	each_stack(s, sample_one, &j);
	json_array_end(&j);
	json_key(&j, "weights");
	json_array(&j);
	each_stack(s, weigh_one, &j);
	json_array_end(&j);
	json_object_end(&j);
	json_array_end(&j);
	json_object_end(&j);
	buf_putc(out, '\n');
}
