/* SPDX-License-Identifier: Apache-2.0
 *
 * feed_points.c - the points of one step of a run, as events. A series' points are kept one
 * by one as long as there is room; then neighbours are joined, again and again.
 */
#include "server/feed_encode.h"

#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEED_TEXT_MAX (4u << 20)

void feed_points_init(struct feed_points *p, struct feed_batch *batch, size_t most)
{
	*p = (struct feed_points){
		.batch = batch, .most = most, .begun = batch->bytes.len, .step = SINK_STEP_NONE};
	buf_init(&p->raw, FEED_TEXT_MAX);
	buf_init(&p->buckets, FEED_TEXT_MAX);
}

/* ---- bins ----------------------------------------------------------------------------------- */

static struct feed_bin feed_bin_of(const struct store_point *p)
{
	bool is_nan = isnan(p->value);

	return (struct feed_bin){.from_ns = p->time_ns,
				 .to_ns = p->time_ns,
				 .step = p->step,
				 .count = 1,
				 .nan = is_nan,
				 .min = p->value,
				 .max = p->value,
				 .sum = is_nan ? 0 : p->value,
				 .last = p->value};
}

/* Join what came after a. Points may have come late: times are not in order. */
static void feed_bin_join(struct feed_bin *a, const struct feed_bin *b)
{
	a->from_ns = a->from_ns < b->from_ns ? a->from_ns : b->from_ns;
	a->to_ns = a->to_ns > b->to_ns ? a->to_ns : b->to_ns;
	if (b->step != SINK_STEP_NONE)
		a->step = b->step;
	a->count += b->count;
	a->nan += b->nan;
	a->min = fmin(a->min, b->min); /* NaN only if both are */
	a->max = fmax(a->max, b->max);
	a->sum += b->sum;
	a->last = b->last;
}

/* All bins are full: join pairs. */
static void feed_points_halve(struct feed_points *p)
{
	size_t i;

	for (i = 0; i < p->n / 2; i++) {
		p->bins[i] = p->bins[2 * i];
		feed_bin_join(&p->bins[i], &p->bins[2 * i + 1]);
	}
	p->n /= 2;
	p->width *= 2;
}

static void feed_points_bin(struct feed_points *p, const struct store_point *point)
{
	struct feed_bin bin = feed_bin_of(point);

	if (p->n && p->bins[p->n - 1].count < p->width) {
		feed_bin_join(&p->bins[p->n - 1], &bin);
		return;
	}
	if (p->n == p->most)
		feed_points_halve(p);
	p->bins[p->n++] = bin;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Milliseconds with all their digits. */
static void feed_put_ms(struct json *j, int64_t ns)
{
	char text[40];
	int n;

	if (ns < 0) {
		json_double(j, (double)ns / 1e6);
		return;
	}
	n = snprintf(text, sizeof(text), "%" PRId64 ".%06d", ns / 1000000, (int)(ns % 1000000));
	while (text[n - 1] == '0')
		n--;
	if (text[n - 1] == '.')
		n--;
	text[n] = '\0';
	json_raw(j, text);
}

static void feed_put_step(struct json *j, int64_t step)
{
	if (step == SINK_STEP_NONE)
		json_null(j);
	else
		json_int(j, step);
}

static void feed_put_known(struct json *j, double v, bool is_known)
{
	if (is_known)
		json_double(j, v);
	else
		json_null(j);
}

static void feed_put_point(struct json *j, const struct feed_bin *b)
{
	json_array(j);
	feed_put_ms(j, b->from_ns);
	feed_put_step(j, b->step);
	json_double(j, b->last);
	json_array_end(j);
}

static void feed_put_bucket(struct json *j, const struct feed_bin *b)
{
	bool is_known = b->nan < b->count;

	json_array(j);
	feed_put_ms(j, b->from_ns);
	feed_put_ms(j, b->to_ns);
	feed_put_step(j, b->step);
	json_uint(j, b->count);
	json_uint(j, b->nan);
	feed_put_known(j, b->min, is_known);
	feed_put_known(j, b->sum / (double)(b->count - b->nan), is_known);
	feed_put_known(j, b->max, is_known);
	json_double(j, b->last);
	json_array_end(j);
}

static void feed_points_open(struct feed_points *p)
{
	p->is_open = true;
	buf_reset(&p->raw);
	buf_reset(&p->buckets);
	json_init(&p->raw_json, &p->raw);
	json_init(&p->bucket_json, &p->buckets);
	json_object(&p->raw_json);
	json_object(&p->bucket_json);
}

static void feed_points_close(struct feed_points *p)
{
	struct json *j;

	if (!p->is_open)
		return;
	p->is_open = false;
	json_object_end(&p->raw_json);
	json_object_end(&p->bucket_json);
	j = feed_batch_begin(p->batch, "points");
	json_key(j, "series");
	json_raw(j, buf_str(&p->raw));
	json_key(j, "buckets");
	json_raw(j, buf_str(&p->buckets));
	feed_batch_end(p->batch);
}

/* The series that is open has come to its end. */
static void feed_points_series(struct feed_points *p)
{
	bool is_raw = p->width == 1;
	struct json *j;
	char *id;
	size_t i;

	if (!p->series || !p->n)
		return;
	if (p->batch->bytes.len - p->begun + p->raw.len + p->buckets.len > FEED_BATCH_MAX)
		p->is_cut = true;
	p->n_series++;
	if (p->is_cut)
		return;
	if (!p->is_open)
		feed_points_open(p);
	j = is_raw ? &p->raw_json : &p->bucket_json;
	id = xasprintf("%s/%" PRIu32, p->host_name, p->series);
	json_key(j, id);
	free(id);
	json_array(j);
	for (i = 0; i < p->n; i++)
		(is_raw ? feed_put_point : feed_put_bucket)(j, &p->bins[i]);
	json_array_end(j);
	if (p->raw.len + p->buckets.len > FEED_EVENT_MAX)
		feed_points_close(p);
}

/* Does a series come again, or one that is before what came? Then the event must end, in
 * which a series can be but once. */
static bool feed_points_goes_back(const struct feed_points *p, const struct store_series *s)
{
	bool is_hist = s->kind == SINK_HISTOGRAM;

	if (s->host != p->host)
		return s->host < p->host;
	if (is_hist != p->is_hist)
		return p->is_hist;
	return s->id < p->series;
}

void feed_points_add(struct feed_points *p, const struct store_series *s,
		     const struct store_point *point)
{
	if (p->series != s->id || p->host != s->host) {
		feed_points_series(p);
		if (p->series && feed_points_goes_back(p, s))
			feed_points_close(p);
		if (!p->host_name || p->host != s->host) {
			free(p->host_name);
			p->host_name = xstrdup(s->host_name);
		}
		p->host = s->host;
		p->series = s->id;
		p->is_hist = s->kind == SINK_HISTOGRAM;
		p->n = 0;
		p->width = 1;
	}
	p->count++;
	if (point->step > p->step)
		p->step = point->step; /* SINK_STEP_NONE is the smallest */
	feed_points_bin(p, point);
}

void feed_points_done(struct feed_points *p)
{
	feed_points_series(p);
	feed_points_close(p);
	if (p->is_cut) {
		json_kstr(feed_batch_begin(p->batch, "gap"), "reason", "much");
		feed_batch_end(p->batch);
	}
	buf_done(&p->raw);
	buf_done(&p->buckets);
	free(p->host_name);
}
