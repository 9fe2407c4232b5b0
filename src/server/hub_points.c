/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_points.c - the points of one step of a run, as events. A series' points are kept one
 * by one as long as there is room; then neighbours are joined, again and again.
 */
#include "server/hub_encode.h"

#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HUB_TEXT_MAX (4u << 20)

void hub_points_init(struct hub_points *p, struct hub_batch *batch, size_t most)
{
	*p = (struct hub_points){
		.batch = batch, .most = most, .begun = batch->bytes.len, .step = SINK_STEP_NONE};
	buf_init(&p->raw, HUB_TEXT_MAX);
	buf_init(&p->buckets, HUB_TEXT_MAX);
}

/* ---- bins ----------------------------------------------------------------------------------- */

static struct hub_bin hub_bin_of(const struct store_point *p)
{
	bool is_nan = isnan(p->value);

	return (struct hub_bin){.from_ns = p->time_ns,
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
static void hub_bin_join(struct hub_bin *a, const struct hub_bin *b)
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
static void hub_points_halve(struct hub_points *p)
{
	size_t i;

	for (i = 0; i < p->n / 2; i++) {
		p->bins[i] = p->bins[2 * i];
		hub_bin_join(&p->bins[i], &p->bins[2 * i + 1]);
	}
	p->n /= 2;
	p->width *= 2;
}

static void hub_points_bin(struct hub_points *p, const struct store_point *point)
{
	struct hub_bin bin = hub_bin_of(point);

	if (p->n && p->bins[p->n - 1].count < p->width) {
		hub_bin_join(&p->bins[p->n - 1], &bin);
		return;
	}
	if (p->n == p->room)
		hub_points_halve(p);
	p->bins[p->n++] = bin;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Milliseconds with all their digits. */
static void hub_put_ms(struct json *j, int64_t ns)
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

static void hub_put_step(struct json *j, int64_t step)
{
	if (step == SINK_STEP_NONE)
		json_null(j);
	else
		json_int(j, step);
}

static void hub_put_known(struct json *j, double v, bool is_known)
{
	if (is_known)
		json_double(j, v);
	else
		json_null(j);
}

static void hub_put_point(struct json *j, const struct hub_bin *b)
{
	json_array(j);
	hub_put_ms(j, b->from_ns);
	hub_put_step(j, b->step);
	json_double(j, b->last);
	json_array_end(j);
}

static void hub_put_bucket(struct json *j, const struct hub_bin *b)
{
	bool is_known = b->nan < b->count;

	json_array(j);
	hub_put_ms(j, b->from_ns);
	hub_put_ms(j, b->to_ns);
	hub_put_step(j, b->step);
	json_uint(j, b->count);
	json_uint(j, b->nan);
	hub_put_known(j, b->min, is_known);
	hub_put_known(j, b->sum / (double)(b->count - b->nan), is_known);
	hub_put_known(j, b->max, is_known);
	json_double(j, b->last);
	json_array_end(j);
}

static void hub_points_open(struct hub_points *p)
{
	p->is_open = true;
	json_init(&p->raw_json, &p->raw);
	json_init(&p->bucket_json, &p->buckets);
	json_object(&p->raw_json);
	json_object(&p->bucket_json);
}

static void hub_points_close(struct hub_points *p)
{
	struct json *j;

	if (!p->is_open)
		return;
	p->is_open = false;
	json_object_end(&p->raw_json);
	json_object_end(&p->bucket_json);
	j = hub_batch_begin(p->batch, "points");
	json_key(j, "series");
	json_raw(j, buf_str(&p->raw));
	json_key(j, "buckets");
	json_raw(j, buf_str(&p->buckets));
	hub_batch_end(p->batch);
	buf_reset(&p->raw);
	buf_reset(&p->buckets);
}

/* As the bytes of a step run out, series get less room. */
static size_t hub_points_most(const struct hub_points *p)
{
	static const size_t parts[] = {1, 4, 20, HUB_POINTS};
	size_t used = p->batch->bytes.len - p->begun + p->raw.len + p->buckets.len;
	size_t part = used / (HUB_BATCH_MAX / 4), most;

	most = p->most / parts[part < 3 ? part : 3] & ~(size_t)1;
	return most < 2 ? 2 : most;
}

/* The series that is open has come to its end. */
static void hub_points_series(struct hub_points *p)
{
	bool is_raw = p->width == 1;
	struct json *j;
	char *id;
	size_t i;

	if (!p->series || !p->n)
		return;
	if (p->batch->bytes.len - p->begun + p->raw.len + p->buckets.len > HUB_BATCH_MAX)
		p->is_cut = true;
	p->shown += p->n;
	if (p->is_cut)
		return;
	if (!p->is_open)
		hub_points_open(p);
	j = is_raw ? &p->raw_json : &p->bucket_json;
	id = xasprintf("%s/%" PRIu32, p->host_name, p->series);
	json_key(j, id);
	free(id);
	json_array(j);
	for (i = 0; i < p->n; i++)
		(is_raw ? hub_put_point : hub_put_bucket)(j, &p->bins[i]);
	json_array_end(j);
	if (p->raw.len + p->buckets.len > HUB_EVENT_MAX)
		hub_points_close(p);
}

/* Does a series come again, or one that is before what came? Then the event must end, in
 * which a series can be but once. */
static bool hub_points_goes_back(const struct hub_points *p, const struct store_series *s)
{
	bool is_hist = s->kind == SINK_HISTOGRAM;

	if (s->host != p->host)
		return s->host < p->host;
	if (is_hist != p->is_hist)
		return p->is_hist;
	return s->id < p->series;
}

void hub_points_add(struct hub_points *p, const struct store_series *s,
		    const struct store_point *point)
{
	if (p->series != s->id || p->host != s->host) {
		hub_points_series(p);
		if (p->series && hub_points_goes_back(p, s))
			hub_points_close(p);
		if (!p->host_name || p->host != s->host) {
			free(p->host_name);
			p->host_name = xstrdup(s->host_name);
		}
		p->host = s->host;
		p->series = s->id;
		p->is_hist = s->kind == SINK_HISTOGRAM;
		p->n = 0;
		p->width = 1;
		p->room = hub_points_most(p);
	}
	p->count++;
	if (point->step > p->step)
		p->step = point->step; /* SINK_STEP_NONE is the smallest */
	hub_points_bin(p, point);
}

void hub_points_done(struct hub_points *p)
{
	hub_points_series(p);
	hub_points_close(p);
	if (p->is_cut) {
		json_kstr(hub_batch_begin(p->batch, "gap"), "reason", "much");
		hub_batch_end(p->batch);
	}
	buf_done(&p->raw);
	buf_done(&p->buckets);
	free(p->host_name);
}
