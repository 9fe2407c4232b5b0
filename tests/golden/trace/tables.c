/* SPDX-License-Identifier: Apache-2.0
 *
 * tables.c - write the tables of HTA that the analyses have, for traces of one job, into a
 * folder: compare.py holds them against those that HTA 0.6.1 itself printed. Times are us,
 * doubles have all digits.
 *
 *	tables FOLDER default|include_last|no_ns_rounding|exact|exact_devices FILE...
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/annotated.h"
#include "analyse/annotations.h"
#include "analyse/bandwidth.h"
#include "analyse/idle.h"
#include "analyse/kernels.h"
#include "analyse/launches.h"
#include "analyse/opdelay.h"
#include "analyse/overlap.h"
#include "analyse/queue.h"
#include "analyse/temporal.h"
#include "trace/trace.h"
#include "trace/view.h"

struct job {
	const char *folder;
	struct view *views;
	size_t n;
};

static FILE *table(const struct job *j, const char *name, const char *head)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.csv", j->folder, name);
	f = fopen(path, "w");
	if (!f) {
		perror(path);
		exit(1);
	}
	fprintf(f, "%s\n", head);
	return f;
}

static void text(FILE *f, const char *s)
{
	putc('"', f);
	for (; *s; s++) {
		if (*s == '"')
			putc('"', f);
		putc(*s, f);
	}
	putc('"', f);
}

static void describe(FILE *f, const struct numeric_describe *d)
{
	fprintf(f, "%llu,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g\n", (unsigned long long)d->count,
		d->mean, d->std, d->min, d->q25, d->q50, d->q75, d->max);
}

static void events(const struct job *j)
{
	FILE *f = table(j, "loaded_events",
			"rank,cat,events,sum_dur,negative_dur,min_ts,max_end,"
			"on_stream,index_correlation_gt0");
	struct sum {
		long long events, dur, negative, on_stream, linked;
		double min, max;
	} sums[TRACE_CATS], *s;
	const struct view *v;
	double ts, end;
	const struct view_row *r;
	size_t i, k;

	for (i = 0; i < j->n; i++) {
		memset(sums, 0, sizeof(sums));
		for (k = 0; k < j->views[i].n; k++) {
			v = &j->views[i];
			r = &v->rows[k];
			s = &sums[r->cat];
			ts = view_ts_us(v, r);
			end = view_end_us(v, r);
			s->min = !s->events || ts < s->min ? ts : s->min;
			s->max = !s->events || end > s->max ? end : s->max;
			s->events++;
			s->dur += r->end - r->ts;
			s->negative += r->end < r->ts;
			s->on_stream += r->stream != TRACE_NONE;
			s->linked += r->partner && r->partner != VIEW_NO_ROW;
		}
		for (k = 0; k < TRACE_CATS; k++)
			if (sums[k].events)
				fprintf(f, "%lld,%s,%lld,%.17g,%lld,%.17g,%.17g,%lld,%lld\n",
					(long long)j->views[i].rank, trace_cat_name(k),
					sums[k].events, view_us(sums[k].dur), sums[k].negative,
					sums[k].min, sums[k].max, sums[k].on_stream,
					sums[k].linked);
	}
	fclose(f);
}

static void steps(const struct job *j)
{
	FILE *f = table(j, "iterations", "rank,step");
	const struct view *v;
	int32_t last;
	size_t i, k;

	for (i = 0; i < j->n; i++) {
		v = &j->views[i];
		last = -1;
		for (k = 0; k < v->n; k++) {
			if (v->rows[k].step >= 0 && v->rows[k].step != last)
				fprintf(f, "%lld,%d\n", (long long)v->rank, v->rows[k].step);
			last = v->rows[k].step;
		}
	}
	fclose(f);
}

static void temporal(const struct job *j)
{
	FILE *f = table(j, "temporal_breakdown",
			"rank,idle_time(us),compute_time(us),non_compute_time(us),kernel_time(us),"
			"idle_time_pctg,compute_time_pctg,non_compute_time_pctg");
	struct temporal t;
	size_t i;

	for (i = 0; i < j->n; i++)
		if (!temporal_of(&j->views[i], &t))
			fprintf(f, "%lld,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g\n",
				(long long)j->views[i].rank, view_us(t.idle), view_us(t.compute),
				view_us(t.non_compute), view_us(t.total), t.idle_pct, t.compute_pct,
				t.non_compute_pct);
	fclose(f);
}

static void idle(const struct job *j)
{
	FILE *f = table(j, "idle_time_breakdown",
			"rank,stream,idle_category,idle_time,idle_time_ratio");
	FILE *g = table(j, "idle_interval_stats",
			"idle_category,rank,stream,count,mean,std,min,25%,50%,75%,max");
	const struct idle_kind_time *t;
	struct idle x;
	size_t i, k;
	int c;

	for (i = 0; i < j->n; i++) {
		if (idle_new(&j->views[i], IDLE_DELAY_NS, &x))
			continue;
		for (k = 0; k < x.n; k++) {
			for (c = 0; c < IDLE_KINDS; c++) {
				t = &x.streams[k].kinds[c];
				if (!t->is_there)
					continue;
				fprintf(f, "%lld,%d,%s,%.17g,%.17g\n", (long long)j->views[i].rank,
					x.streams[k].stream, idle_names[c], t->time_us, t->ratio);
				fprintf(g, "%s,%lld,%d,", idle_names[c],
					(long long)j->views[i].rank, x.streams[k].stream);
				describe(g, &t->gaps);
			}
		}
		idle_done(&x);
	}
	fclose(f);
	fclose(g);
}

static void aggregates(FILE *f, const struct aggregate *a, bool with_class)
{
	static const char *const classes[] = {"COMPUTATION", "COMMUNICATION", "MEMORY", "OTHER"};
	const struct aggregate_row *r;
	size_t i;

	for (i = 0; i < a->n; i++) {
		r = &a->rows[i];
		text(f, r->name);
		fprintf(f, ",%.17g,%.17g,%.17g,%.17g,%.17g", view_us(r->sum), view_us(r->max),
			view_us(r->min), r->std_us, r->mean_us);
		if (with_class)
			fprintf(f, ",%s", classes[r->class]);
		fprintf(f, ",%lld\n", (long long)r->rank);
	}
}

static void kernels(const struct job *j, const char *name, size_t most, bool with_types)
{
	struct aggregate_options o = {most, KERNELS_QUANTILE};
	struct kernels k;
	size_t i;
	FILE *f;

	if (kernels_new(j->views, j->n, &o, &k))
		return;
	f = table(j, name, "name,sum (us),max (us),min (us),stddev,mean (us),kernel_type,rank");
	aggregates(f, &k.names, true);
	fclose(f);
	if (with_types) {
		f = table(j, "kernel_type_breakdown", "kernel_type,sum,percentage");
		for (i = 0; i < k.n_types; i++)
			fprintf(f, "%s,%.17g,%.17g\n", kernels_type_name(k.types[i].classes),
				view_us(k.types[i].time), k.types[i].pct);
		fclose(f);
	}
	kernels_done(&k);
}

static void annotations(const struct job *j, bool on_device, const char *name)
{
	struct aggregate_options o = {ANNOTATIONS_MOST, KERNELS_QUANTILE};
	struct aggregate a;
	FILE *f;

	if (annotations_new(j->views, j->n, on_device, &o, &a))
		return;
	f = table(j, name, "name,sum (us),max (us),min (us),stddev,mean (us),rank");
	aggregates(f, &a, false);
	fclose(f);
	aggregate_done(&a);
}

static void overlap(const struct job *j)
{
	FILE *f = table(j, "comm_comp_overlap", "rank,comp_comm_overlap_pctg");
	struct overlap o;
	size_t i;

	for (i = 0; i < j->n; i++)
		if (!overlap_of(&j->views[i], &o))
			fprintf(f, "%lld,%.17g\n", (long long)j->views[i].rank, o.pct);
	fclose(f);
}

static void launches(const struct job *j)
{
	FILE *f = table(j, "cuda_kernel_launch_stats",
			"correlation,cpu_duration,gpu_duration,launch_delay,rank");
	FILE *g = table(j, "cuda_kernel_launch_stats_summary",
			"rank,n,cpu_sum,gpu_sum,delay_sum,delay_max,short_kernels,"
			"short_kernels_plot,runtime_outliers,launch_delay_outliers");
	struct launches l;
	size_t i, k;
	double most;

	for (i = 0; i < j->n; i++) {
		if (launches_new(&j->views[i], false, &l))
			continue;
		for (k = 0; k < l.n; k++)
			fprintf(f, "%lld,%.17g,%.17g,%.17g,%lld\n",
				(long long)l.pairs[k].correlation, view_us(l.pairs[k].cpu),
				view_us(l.pairs[k].gpu), l.pairs[k].delay_us,
				(long long)j->views[i].rank);
		for (k = 0, most = NAN; k < l.n; k++)
			most = fmax(most, l.pairs[k].delay_us);
		fprintf(g, "%lld,%zu,%.17g,%.17g,%.17g,%.17g,%llu,%llu,%llu,%llu\n",
			(long long)j->views[i].rank, l.n, view_us(l.cpu_sum), view_us(l.gpu_sum),
			l.delay_sum_us, most, (unsigned long long)l.shorter,
			(unsigned long long)l.shorter_plotted, (unsigned long long)l.slow_calls,
			(unsigned long long)l.late);
		launches_done(&l);
	}
	fclose(f);
	fclose(g);
}

static void place(FILE *f, const struct view *v, uint16_t track, bool with_tid)
{
	const struct trace_track *t = trace_track(v->trace, track);

	fprintf(f, ",%s", trace_text(v->trace, t->pid_text, NULL));
	if (with_tid)
		fprintf(f, ",%s", trace_text(v->trace, t->tid_text, NULL));
}

static void queue_rows(const struct view *v, const struct queue *q, FILE *f, FILE *g, FILE *h)
{
	const struct queue_stream *s;
	size_t i, k;

	for (i = 0; i < q->n; i++) {
		s = &q->streams[i];
		for (k = s->first; k < s->first + s->n; k++) {
			fprintf(f, "%.17g", view_ts_us(v, &v->rows[q->points[k].row]));
			place(f, v, s->track, true);
			fprintf(f, ",%d,%d,%lld\n", s->stream, q->points[k].length,
				(long long)v->rank);
		}
		fprintf(g, "%lld,%d,", (long long)v->rank, s->stream);
		describe(g, &s->lengths);
		if (s->full)
			fprintf(h, "%lld,%d,%.17g,%.17g\n", (long long)v->rank, s->stream,
				view_us(s->full), s->full_share);
	}
}

static void queues(const struct job *j)
{
	FILE *f = table(j, "queue_length_time_series", "ts,pid,tid,stream,queue_length,rank");
	FILE *g = table(j, "queue_length_summary",
			"rank,stream,queue_length_count,queue_length_mean,queue_length_std,"
			"queue_length_min,queue_length_25%,queue_length_50%,queue_length_75%,"
			"queue_length_max");
	FILE *h = table(j, "queue_length_full_queue",
			"rank,stream,duration_at_max_queue_length,"
			"relative_duration_at_max_queue_length");
	struct queue q;
	size_t i;

	for (i = 0; i < j->n; i++) {
		if (queue_new(&j->views[i], QUEUE_FULL, &q))
			continue;
		queue_rows(&j->views[i], &q, f, g, h);
		queue_done(&q);
	}
	fclose(f);
	fclose(g);
	fclose(h);
}

static void bandwidths(const struct job *j)
{
	FILE *f = table(j, "memory_bw_time_series", "ts,pid,name,memory_bw_gbps,rank");
	FILE *g = table(j, "memory_bw_summary",
			"rank,name,memory_bw_gbps_count,memory_bw_gbps_mean,memory_bw_gbps_std,"
			"memory_bw_gbps_min,memory_bw_gbps_25%,memory_bw_gbps_50%,"
			"memory_bw_gbps_75%,memory_bw_gbps_max");
	const struct bandwidth_kind *kind;
	const struct view *v;
	struct bandwidth b;
	size_t i, k, p;

	for (i = 0; i < j->n; i++) {
		v = &j->views[i];
		if (bandwidth_new(v, &b))
			continue;
		for (k = 0; k < b.n; k++) {
			kind = &b.kinds[k];
			for (p = kind->first; p < kind->first + kind->n; p++) {
				fprintf(f, "%.17g", b.points[p].ts_us);
				place(f, v, v->rows[b.points[p].row].track, false);
				fprintf(f, ",%s,%.17g,%lld\n", kind->name, b.points[p].gbps,
					(long long)v->rank);
			}
			if (!kind->gbps.count)
				continue;
			fprintf(g, "%lld,%s,", (long long)v->rank, kind->name);
			describe(g, &kind->gbps);
		}
		bandwidth_done(&b);
	}
	fclose(f);
	fclose(g);
}

static void delays(const struct job *j)
{
	FILE *f = table(j, "aten_op_kernels_and_delay",
			"aten_op_name,kernel_sequence,occurrence_count,avg_aten_op_launch_delay,"
			"avg_runtime_delay");
	struct opdelay o;
	size_t i;

	if (!opdelay_new(j->views, &o)) {
		for (i = 0; i < o.n; i++) {
			text(f, trace_text(j->views->trace, o.rows[i].op, NULL));
			putc(',', f);
			text(f, o.rows[i].sequence);
			fprintf(f, ",%llu,%.17g,%.17g\n", (unsigned long long)o.rows[i].count,
				numeric_round(o.rows[i].delay_us, 3),
				numeric_round(o.rows[i].wait_us, 3));
		}
		opdelay_done(&o);
	}
	fclose(f);
}

/* Of the first rank, as the reference's. */
static void annotated(const struct job *j)
{
	FILE *f = table(j, "gpu_kernels_with_user_annotations", "index,ts,dur,s_user_annotation");
	FILE *g = table(j, "kernel_time_by_user_annotation", "s_user_annotation,count,sum");
	const struct view *v = j->views;
	struct annotated a;
	size_t i;

	if (!annotated_new(v, &a)) {
		for (i = 0; i < v->n; i++) {
			if (a.marks[i] == VIEW_NO_ROW)
				continue;
			fprintf(f, "%u,%.17g,%.17g,", v->rows[i].index, view_ts_us(v, &v->rows[i]),
				view_us(v->rows[i].end - v->rows[i].ts));
			text(f, trace_text(v->trace, v->rows[a.marks[i]].name, NULL));
			putc('\n', f);
		}
		for (i = 0; i < a.n; i++) {
			text(g, trace_text(v->trace, a.rows[i].name, NULL));
			fprintf(g, ",%llu,%.17g\n", (unsigned long long)a.rows[i].kernels,
				view_us(a.rows[i].time));
		}
		annotated_done(&a);
	}
	fclose(f);
	fclose(g);
}

static void all_tables(const struct job *j)
{
	events(j);
	steps(j);
	temporal(j);
	idle(j);
	kernels(j, "kernel_breakdown", KERNELS_MOST, true);
	kernels(j, "kernel_breakdown_all", 0, false);
	annotations(j, true, "gpu_user_annotation_breakdown");
	annotations(j, false, "user_annotation_breakdown");
	overlap(j);
	launches(j);
	queues(j);
	bandwidths(j);
	delays(j);
	annotated(j);
}

int main(int argc, char **argv)
{
	struct view_options o = {.rule = VIEW_HTA};
	struct trace_options read = {0};
	struct trace *traces[64];
	struct err e = {0};
	struct job j;
	size_t i;
	int rc;

	if (argc < 4 || argc > 64)
		return 2;
	j = (struct job){argv[1], NULL, (size_t)argc - 3};
	if (!strcmp(argv[2], "no_ns_rounding"))
		o.rule = VIEW_HTA_EXACT;
	else if (!strncmp(argv[2], "exact", 5))
		o.rule = VIEW_EXACT;
	o.devices_only = !strcmp(argv[2], "exact_devices");
	o.include_last = !strcmp(argv[2], "include_last");
	for (i = 0; i < j.n; i++) {
		rc = trace_read(argv[3 + i], &read, &traces[i], &e);
		if (rc) {
			fprintf(stderr, "%s\n", e.text);
			return 1;
		}
	}
	rc = view_new(traces, j.n, &o, &j.views);
	if (rc) {
		fprintf(stderr, "view: %s\n", strerror(-rc));
		return 1;
	}
	/* HTA's rank of a file that says none. */
	for (i = 0; i < j.n; i++)
		j.views[i].rank = j.views[i].rank < 0 ? 0 : j.views[i].rank;
	all_tables(&j);
	view_free(j.views, j.n);
	for (i = 0; i < j.n; i++)
		trace_free(traces[i]);
	return 0;
}
