/* SPDX-License-Identifier: Apache-2.0
 *
 * make_run.c - makes runs of known content for the golden and end-to-end tests
 * of the commands: make_run ROOT. What a report must say of them was worked out
 * by hand and stands in the comment of each run.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"

#define MS 1000000LL
#define S 1000000000LL
#define T0 (1767323045 * S) /* 2026-01-02T03:04:05Z */
#define DAY (86400 * S)

static struct store *store;
static struct sink *sink;

static void check(int err, const char *what)
{
	if (err) {
		fprintf(stderr, "make_run: %s: %s (%s)\n", what, strerror(-err),
			store ? store_error(store)->text : "");
		exit(1);
	}
}

static void begin(const char *root, const char *host, const struct run_start *r)
{
	char dir[4096];
	struct err e = {0};

	snprintf(dir, sizeof(dir), "%s/%s", root, r->id);
	if (store_open(&(struct store_options){.dir = dir, .host = host}, &e, &store) != 0 ||
	    store_start(store, r, &e) != 0) {
		fprintf(stderr, "make_run: %s\n", e.text);
		exit(1);
	}
	sink = store_sink(store);
}

static void end(const struct run_outcome *o)
{
	struct err e = {0};

	check(sink->ops->commit(sink), "commit");
	if (o->kind != RUN_RUNNING && store_end(store, o, &e) != 0)
		fprintf(stderr, "make_run: %s\n", e.text);
	if (e.code || store_close(store, &e) != 0)
		exit(1);
	store = NULL;
}

static uint32_t process(uint8_t uid, const char *role, int64_t pid, int64_t rank, int64_t world,
			uint64_t dropped)
{
	uint32_t id = 0;

	check(sink->ops->process(sink,
				 &(struct sink_process){.uid = {uid},
							.pid = pid,
							.ppid = 1,
							.role = role,
							.program = "train",
							.rank = rank,
							.local_rank = rank,
							.world_size = world,
							.start_ns = T0,
							.dropped = dropped},
				 &id),
	      "process");
	return id;
}

static uint32_t series_of(uint32_t process_id, const char *name, const char *labels,
			  const char *unit, enum sink_kind kind, const char *source)
{
	uint32_t id = 0;

	check(sink->ops->series(sink,
				&(struct sink_series){.process = process_id,
						      .name = name,
						      .labels = labels,
						      .unit = unit,
						      .help = "",
						      .kind = kind,
						      .source = source},
				&id),
	      name);
	return id;
}

static uint32_t recorded(uint32_t process_id, const char *name, const char *unit,
			 enum sink_kind kind)
{
	return series_of(process_id, name, "", unit, kind, "record");
}

static void sample(uint32_t series, int64_t time_ns, int64_t step, double value)
{
	struct sink_sample v = {
		.time_ns = time_ns, .step = step, .value = value, .series = series, .thread = 77};

	check(sink->ops->samples(sink, &v, 1), "sample");
}

static void event(uint32_t process_id, int64_t time_ns, int64_t step, int severity,
		  const char *kind, const char *text, const char *attrs)
{
	check(sink->ops->event(sink, &(struct sink_event){process_id, time_ns, step, severity, kind,
							  text, attrs}),
	      "event");
}

static void position(uint32_t process_id, uint64_t stored, uint64_t overwritten, uint64_t broken,
		     uint64_t dropped)
{
	check(sink->ops->position(sink,
				  &(struct sink_position){.ring = {(uint8_t)process_id},
							  .process = process_id,
							  .pos = 1000,
							  .rec = stored + overwritten + broken,
							  .stored = stored,
							  .overwritten = overwritten,
							  .broken = broken,
							  .dropped = dropped}),
	      "position");
}

/* Machine figures: CPU 25, 50, 75, 50 % (mean 50), tree 1, 2, 1.5, 1.5 cores
 * (mean 1.5), tree memory 100, 200, 300, 250 MiB (peak 300), machine 1, 2, 3, 2
 * GiB of 16, limit 4. */
static void machine(uint32_t host)
{
	static const struct {
		const char *name, *unit;
		double v[4];
	} rows[] = {
		{"cpu/busy", "1", {0.25, 0.5, 0.75, 0.5}},
		{"tree/cpu", "1", {1, 2, 1.5, 1.5}},
		{"tree/rss", "By", {100 * 0x1p20, 200 * 0x1p20, 300 * 0x1p20, 250 * 0x1p20}},
		{"memory/used", "By", {0x1p30, 2 * 0x1p30, 3 * 0x1p30, 2 * 0x1p30}},
		{"memory/total", "By", {16 * 0x1p30, 16 * 0x1p30, 16 * 0x1p30, 16 * 0x1p30}},
		{"memory/limit", "By", {0x1p32, 0x1p32, 0x1p32, 0x1p32}},
	};
	size_t row, i;

	for (row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		uint32_t id =
			series_of(host, rows[row].name, "", rows[row].unit, SINK_GAUGE, "probe");

		for (i = 0; i < 4; i++)
			sample(id, T0 + (int64_t)i * S, SINK_STEP_NONE, rows[row].v[i]);
	}
}

/* 20 steps. Step 0: at T0 + 1 s, 900 ms. Step i = 1 .. 19: at T0 + 2 s +
 * (i - 1) x 50 ms, 20 + i ms: 21 .. 39. So: total 900 + 19 x 30 = 1470 ms;
 * p50 rank 10: 30 ms; p95 rank 19: 39 ms; p99 rank 20: 900 ms; the first is
 * 30 x the median; from T0 + 1 s to T0 + 2.9 s + 39 ms: 1.939 s.
 * 8 samples a step: 160 / 1.47 s = 108.84, 160 / 1.939 s = 82.517 a second.
 * 128 tokens a step: 2560: 1741.5 and 1320.3 a second.
 * forward: 10 ms from the step's start: 200 ms, 200 / 1470 = 13.6 %.
 * backward: the rest of the step: 1270 ms, 86.4 %; 11 .. 29 and 890 ms: p50
 * 20, p95 29, p99 890.
 * data: one of 20 ms at T0 + 2.93 s, 30 ms into the last step, of which 9 ms
 * are inside it: 9 / 1470 = 0.6 %.
 * eval: 200 ms at T0 + 2.95 s, outside of all steps. epoch: no phase. */
static void plain_steps(uint32_t p)
{
	uint32_t step = recorded(p, "step", "s", SINK_SPAN);
	uint32_t forward = recorded(p, "forward", "s", SINK_SPAN);
	uint32_t backward = recorded(p, "backward", "s", SINK_SPAN);
	uint32_t samples = recorded(p, "lapse/step/samples", "1", SINK_COUNTER);
	uint32_t tokens = recorded(p, "lapse/step/tokens", "1", SINK_COUNTER);
	int64_t i, at, ns;

	for (i = 0; i < 20; i++) {
		at = i ? T0 + 2 * S + (i - 1) * 50 * MS : T0 + S;
		ns = (i ? 20 + i : 900) * MS;
		sample(forward, at, i, 10 * MS);
		sample(backward, at + 10 * MS, i, (double)(ns - 10 * MS));
		sample(step, at, i, (double)ns);
		sample(samples, at + ns, i, 8);
		sample(tokens, at + ns, i, 128);
	}
	sample(recorded(p, "data", "s", SINK_SPAN), T0 + 2930 * MS, 19, 20 * MS);
	sample(recorded(p, "eval", "s", SINK_SPAN), T0 + 2950 * MS, 19, 200 * MS);
	sample(recorded(p, "epoch", "s", SINK_SPAN), T0 + 900 * MS, SINK_STEP_NONE, 2100 * MS);
}

/* loss: 2, 1.95 .. 1.25 at step 15, then 1.3, 1.35, 1.4, 1.45 at step 19.
 * val/loss: 1.5 at step 9, NaN at step 19. */
static void plain_values(uint32_t p)
{
	static const struct sink_bin bins[] = {{0x3ff0, 2}, {0x4000, 1}}; /* 1.0, 2.0 */
	uint32_t loss = recorded(p, "loss", "nat", SINK_GAUGE);
	uint32_t val = recorded(p, "val/loss", "nat", SINK_GAUGE);
	int64_t i;

	for (i = 0; i < 20; i++)
		sample(loss, T0 + S + i * 100 * MS, i, (double)(i <= 15 ? 40 - i : 10 + i) / 20);
	sample(val, T0 + 2 * S, 9, 1.5);
	sample(val, T0 + 3 * S, 19, NAN);
	sample(series_of(p, "grad/norm", "layer=\"0\"", "", SINK_GAUGE, "record"), T0 + 2 * S, 1,
	       0.1);
	check(sink->ops->hist(sink, &(struct sink_hist){.series = recorded(p, "grad/size", "",
									   SINK_HISTOGRAM),
							.time_ns = T0 + 3 * S,
							.step = 19,
							.count = 3,
							.nan = 1,
							.sum = 4,
							.min = 1,
							.max = 2,
							.bins = bins,
							.n_bins = 2}),
	      "hist");
	check(sink->ops->attr(sink, p, "optimizer", "adamw"), "attr");
	event(p, T0 + 2 * S, 10, 1, "checkpoint", "saved", "{\"path\": \"a, b\"}");
}

static void make_plain(const char *root)
{
	static const struct run_start r = {.id = "20260102-030405-gold",
					   .name = "gold",
					   .project = "tests",
					   .command = "./train --steps 20",
					   .cwd = "/srv/train",
					   .host = "node0",
					   .user = "ada",
					   .tags = "a,b",
					   .notes = "known content",
					   .start_ns = T0};
	static const struct run_outcome o = {.id = "20260102-030405-gold",
					     .kind = RUN_EXITED,
					     .end_ns = T0 + 3500 * MS,
					     .user_s = 1.25,
					     .system_s = 0.25,
					     .max_rss = 300 << 20};
	uint32_t trainer, host;

	begin(root, "node0", &r);
	host = process(0, "host", 100, -1, -1, 0);
	trainer = process(1, "trainer", 4242, -1, -1, 0);
	plain_steps(trainer);
	plain_values(trainer);
	machine(host);
	position(trainer, 150, 0, 0, 0);
	end(&o);
}

/* Rank 0 on node0: steps 0 .. 9 of 10 .. 19 ms, then, resumed, steps 5 .. 9 of
 * 20 ms; 4 samples in each of these 15 steps. Rank 1 on node1: 10 steps of 30
 * ms, samples not given. 25 steps, 145 + 100 + 300 = 545 ms; p50 rank 13: 20
 * ms, p95 rank 24: 30 ms, p99 rank 25: 30 ms. Rank 0 alone: 15 steps, p50 rank
 * 8: 17 ms, p95 rank 15: 20 ms.
 * 60 samples / 0.245 s = 244.9 a second in steps; from T0 + 1 s to T0 + 3.4 s +
 * 20 ms: 60 / 2.42 s = 24.8 overall; 10 steps did not say.
 * loss, the newest attempt: 1, 0.9, 0.8, 0.7, 0.6, then 0.25 from step 5 on.
 * Records: node0 80 stored, 3 overwritten, 1 broken, 5 + 2 dropped; node1 20
 * stored: 7 dropped of 111. */
static void ranks_rank0(void)
{
	uint32_t p = process(1, "trainer", 4242, 0, 2, 2);
	uint32_t step = recorded(p, "step", "s", SINK_SPAN);
	uint32_t samples = recorded(p, "lapse/step/samples", "1", SINK_COUNTER);
	uint32_t loss = recorded(p, "train/loss", "", SINK_GAUGE);
	int64_t i, at;

	for (i = 0; i < 10; i++) {
		at = T0 + DAY + S + i * 100 * MS;
		sample(step, at, i, (double)(10 + i) * MS);
		sample(samples, at + 50 * MS, i, 4);
		sample(loss, at + 50 * MS, i, (double)(10 - i) / 10);
	}
	check(sink->ops->commit(sink), "commit");
	for (i = 5; i < 10; i++) {
		at = T0 + DAY + 3 * S + (i - 5) * 100 * MS;
		sample(step, at, i, 20 * MS);
		sample(samples, at + 50 * MS, i, 4);
		sample(loss, at + 50 * MS, i, 0.25);
	}
	position(p, 80, 3, 1, 5);
	event(p, T0 + DAY + 3 * S, 9, 2, "late", "reader was late", "");
	/* As the agent writes it: in "forward" for 0.5 s, in "step" for 0.6 s. */
	event(p, T0 + DAY + 3500 * MS, SINK_STEP_NONE, 3, "crash",
	      "process 4242 ended without closing its ring",
	      "{\"step\":9,\"in_step\":true,\"lanes\":[{\"tid\":77,\"thread\":\"main\","
	      "\"open_spans\":[{\"name\":\"step\",\"start_ns\":1767409447900000000,\"step\":9},"
	      "{\"name\":\"for\\\"ward\",\"start_ns\":1767409448000000000,\"step\":9}],"
	      "\"last_records\":[{\"type\":\"span\",\"name\":\"data\"},{\"type\":\"set\","
	      "\"name\":\"train/loss\",\"step\":8,\"value\":0.25}]},"
	      "{\"tid\":78,\"thread\":\"\",\"open_spans\":[],\"last_records\":[]}]}");
}

static void make_ranks(const char *root)
{
	static struct run_start r = {.id = "20260103-030405-rank",
				     .name = "ranks",
				     .command = "srun ./train",
				     .host = "node0",
				     .user = "ada",
				     .start_ns = T0 + DAY};
	static struct run_outcome o = {.id = "20260103-030405-rank",
				       .kind = RUN_SIGNALED,
				       .code = -1,
				       .signal = 11,
				       .core = 1,
				       .end_ns = T0 + DAY + 4 * S};
	uint32_t p, step;
	int64_t i;

	snprintf(o.stderr_tail, sizeof(o.stderr_tail), "loading\nSegmentation \033[31mfault\n");
	o.stderr_len = strlen(o.stderr_tail);
	begin(root, "node0", &r);
	ranks_rank0();
	end(&o);
	snprintf(r.host, sizeof(r.host), "node1");
	begin(root, "node1", &r);
	p = process(2, "trainer", 4343, 1, 2, 0);
	step = recorded(p, "step", "s", SINK_SPAN);
	for (i = 0; i < 10; i++)
		sample(step, T0 + DAY + S + i * 100 * MS, i, 30 * MS);
	position(p, 20, 0, 0, 0);
	end(&o);
}

/* Names and texts that attack a terminal, CSV, or JSON. */
static void make_evil(const char *root)
{
	static const struct run_start r = {.id = "20260104-030405-evil",
					   .name = "a\033[2Jb",
					   .command = "x \"y\",\nz",
					   .host = "node0",
					   .start_ns = T0 + 2 * DAY};
	static const struct run_outcome o = {.id = "20260104-030405-evil",
					     .kind = RUN_OOM,
					     .code = -1,
					     .signal = 9,
					     .evidence = "memory.events: oom_kill 1",
					     .end_ns = T0 + 2 * DAY + 60 * S};
	static const double values[] = {0.1, -0.0, 1e300, 5e-324, NAN, INFINITY, -INFINITY, 3};
	uint32_t p, q;
	size_t i;

	begin(root, "node0", &r);
	p = process(1, "trainer", 7, -1, -1, 0);
	q = series_of(p, "q\"u,o\nte\xff", "k=\"a,b\"", "u,\"", SINK_GAUGE, "record");
	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		sample(q, T0 + 2 * DAY + (int64_t)i, (int64_t)i, values[i]);
	event(p, T0 + 2 * DAY, SINK_STEP_NONE, 2, "k,\"\n", "t\033[31m\"", "{\"a\": [1,\n 2]}");
	event(p, T0 + 2 * DAY + 1, SINK_STEP_NONE, 0, "bad", "", "{\"a\": NaN}");
	position(p, 10, 0, 0, 0);
	end(&o);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: make_run ROOT\n");
		return 2;
	}
	make_plain(argv[1]);
	make_ranks(argv[1]);
	make_evil(argv[1]);
	return 0;
}
