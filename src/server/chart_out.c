/* SPDX-License-Identifier: Apache-2.0
 *
 * chart_out.c - a chart's data as JSON, and as the binary form that a browser reads
 * without parsing.
 */
#include <math.h>
#include <string.h>

#include "server/chart.h"

/* ---- JSON ----------------------------------------------------------------------------- */

static void chart_json_value(struct json *j, struct chart_value v)
{
	switch (v.is) {
	case CHART_NUMBER:
		json_double(j, v.number);
		break;
	case CHART_WHOLE:
		json_int(j, v.whole);
		break;
	case CHART_TIME:
		json_raw(j, ""); /* the comma */
		ask_put_ms(j->out, v.whole);
		break;
	default:
		json_null(j);
	}
}

static void chart_json_part(struct json *j, const struct chart *c, size_t of)
{
	struct chart_part p;
	size_t i, k;

	chart_part_init(&p, c, of);
	json_object(j);
	chart_part_head(j, &p);
	for (k = 0; k < p.n_columns; k++) {
		json_key(j, chart_column_name(&p, k));
		json_array(j);
		for (i = 0; i < p.n; i++)
			chart_json_value(j, chart_get(&p, k, i));
		json_array_end(j);
	}
	json_object_end(j);
	chart_part_done(&p);
}

void chart_json(struct json *j, const struct chart *c)
{
	size_t i;

	json_object(j);
	chart_head(j, c);
	json_key(j, c->q->n_groups ? "groups" : "series");
	json_array(j);
	for (i = 0; i < chart_parts(c); i++)
		chart_json_part(j, c, i);
	json_array_end(j);
	json_object_end(j);
}

/* ---- binary --------------------------------------------------------------------------- */

static void chart_put_u32(struct buf *out, uint32_t v)
{
	const unsigned char bytes[4] = {(unsigned char)v, (unsigned char)(v >> 8),
					(unsigned char)(v >> 16), (unsigned char)(v >> 24)};

	buf_append(out, bytes, sizeof(bytes));
}

static void chart_put_head(struct buf *out, struct buf *head, size_t n, size_t columns)
{
	while (head->len % 8)
		buf_putc(head, ' ');
	chart_put_u32(out, (uint32_t)head->len);
	chart_put_u32(out, 0);
	buf_append(out, buf_str(head), head->len);
	chart_put_u32(out, (uint32_t)n);
	chart_put_u32(out, (uint32_t)columns);
	if (head->error)
		out->error = head->error;
}

static double chart_binary_value(struct chart_value v)
{
	switch (v.is) {
	case CHART_NUMBER:
		return v.number;
	case CHART_WHOLE:
		return (double)v.whole;
	case CHART_TIME:
		/* Rounded once, at the end. */
		return (double)(v.whole / 1000000) + (double)(v.whole % 1000000) / 1e6;
	default:
		return NAN;
	}
}

static void chart_binary_part(struct buf *out, struct buf *head, const struct chart *c, size_t of)
{
	struct chart_part p;
	struct json j;
	double *to;
	size_t i, k;

	chart_part_init(&p, c, of);
	buf_reset(head);
	json_init(&j, head);
	json_object(&j);
	chart_part_head(&j, &p);
	json_object_end(&j);
	chart_put_head(out, head, p.n, p.n_columns);
	/* Doubles of this machine: lapse runs on little-endian ones only. */
	to = buf_reserve(out, p.n * p.n_columns * sizeof(*to));
	if (to) {
		for (k = 0; k < p.n_columns; k++)
			for (i = 0; i < p.n; i++)
				*to++ = chart_binary_value(chart_get(&p, k, i));
		out->len += p.n * p.n_columns * sizeof(*to);
	}
	chart_part_done(&p);
}

void chart_binary(struct buf *out, const struct chart *c)
{
	struct buf head;
	struct json j;
	size_t i;

	buf_init(&head, 16u << 20);
	buf_puts(out, CHART_MAGIC);
	chart_put_u32(out, (uint32_t)chart_parts(c) + 1);
	json_init(&j, &head);
	json_object(&j);
	chart_head(&j, c);
	json_object_end(&j);
	chart_put_head(out, &head, 0, 0);
	for (i = 0; i < chart_parts(c) && !out->error; i++)
		chart_binary_part(out, &head, c, i);
	buf_done(&head);
}
