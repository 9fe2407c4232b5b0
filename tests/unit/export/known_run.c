/* SPDX-License-Identifier: Apache-2.0
 *
 * known_run.c - see known_run.h.
 */
#include "known_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"

#define MS 1000000LL
#define COMMIT_STEPS 200

static struct store *known_store;
static struct sink *known_sink;

static struct {
	uint32_t rank0, rank1, host;
	uint32_t loss0, loss1, val, early, tokens, forward, grad, cpu;
} id;

static void known_check(int err, const char *what)
{
	if (err == 0)
		return;
	fprintf(stderr, "known run: %s: %s\n", what,
		known_store ? store_error(known_store)->text : "");
	exit(1);
}

static uint32_t known_process(uint8_t uid, const char *role, int64_t pid, int64_t rank)
{
	struct sink_process p = {.uid = {uid},
				 .pid = pid,
				 .role = role,
				 .program = "train",
				 .rank = rank,
				 .local_rank = rank,
				 .world_size = rank < 0 ? -1 : 2,
				 .start_ns = KNOWN_START};
	uint32_t ret = 0;

	known_check(known_sink->ops->process(known_sink, &p, &ret), "process");
	return ret;
}

static uint32_t known_series(uint32_t process, const char *name, const char *unit,
			     enum sink_kind kind)
{
	struct sink_series s = {.process = process,
				.name = name,
				.labels = "",
				.unit = unit,
				.help = "help of it",
				.kind = kind,
				.source = "record"};
	uint32_t ret = 0;

	if (strcmp(name, "val") == 0)
		s.labels = "set=\"a\"";
	if (process == id.host)
		s.source = "probe";
	known_check(known_sink->ops->series(known_sink, &s, &ret), name);
	return ret;
}

static void known_define(void)
{
	id.host = known_process(1, "host", 0, -1);
	id.rank0 = known_process(2, "trainer", 100, 0);
	id.rank1 = known_process(3, "trainer", 101, 1);
	id.loss0 = known_series(id.rank0, "loss", "nat", SINK_GAUGE);
	id.loss1 = known_series(id.rank1, "loss", "nat", SINK_GAUGE);
	id.val = known_series(id.rank0, "val", "", SINK_GAUGE);
	id.early = known_series(id.rank0, "early", "", SINK_GAUGE);
	id.tokens = known_series(id.rank0, "tokens", "1", SINK_COUNTER);
	id.forward = known_series(id.rank0, "forward", "s", SINK_SPAN);
	id.grad = known_series(id.rank0, "grad", "", SINK_HISTOGRAM);
	id.cpu = known_series(id.host, "cpu/busy", "1", SINK_GAUGE);
}

static void known_sample(uint32_t series, int64_t time_ns, int64_t step, double value)
{
	struct sink_sample v = {.time_ns = time_ns, .step = step, .value = value, .series = series};

	known_check(known_sink->ops->samples(known_sink, &v, 1), "sample");
}

static void known_grad(int64_t time_ns, int64_t step)
{
	static const struct sink_bin bins[] = {{0x3ff0, 3}, {0x4010, 1}, {0xbff0, 1}};
	struct sink_hist h = {.series = id.grad,
			      .time_ns = time_ns,
			      .step = step,
			      .count = 5,
			      .sum = 6.5,
			      .min = -1,
			      .max = 4,
			      .bins = bins,
			      .n_bins = 3};

	known_check(known_sink->ops->hist(known_sink, &h), "histogram");
}

static void known_texts(void)
{
	static const char *const attrs[][2] = {{"config/lr", "0.001"},
					       {"config/name", "tiny"},
					       {"config/amp", "True"},
					       {"note", "x|y"}};
	size_t i;

	for (i = 0; i < 4; i++)
		known_check(known_sink->ops->attr(known_sink, id.rank0, attrs[i][0], attrs[i][1]),
			    "attribute");
	known_sample(id.early, KNOWN_START + 500 * MS, SINK_STEP_NONE, 7);
}

static void known_step(int64_t steps, int64_t k)
{
	int64_t t = KNOWN_START + 1000 * MS + 10 * MS * k, step = known_run_step(steps, k);
	char text[32];

	known_sample(id.loss0, t, step, 1.0 / (double)(1 + k));
	known_sample(id.loss1, t, k, 2.0 / (double)(1 + k));
	known_sample(id.tokens, t, step, 128);
	known_sample(id.forward, t, step, 2 * MS);
	known_sample(id.forward, t + 2 * MS, step, 3 * MS);
	if (k % 10 == 0)
		known_sample(id.val, t, step, (double)k);
	if (k % 20 == 0)
		known_grad(t, step);
	if (k % 100 == 0)
		known_sample(id.cpu, t, SINK_STEP_NONE, 0.25);
	snprintf(text, sizeof(text), "at %lld", (long long)k);
	if (k % 500 == 0)
		known_check(known_sink->ops->event(
				    known_sink,
				    &(struct sink_event){id.rank0, t, step, 1, "note", text, ""}),
			    "event");
}

int64_t known_run_step(int64_t steps, int64_t k)
{
	return k < steps * 6 / 10 ? k : k - steps / 10;
}

void known_run_make(const char *root, int64_t steps, int64_t from, int64_t to)
{
	static const struct run_start r = {.id = "known",
					   .name = "known",
					   .project = "tests",
					   .command = "./train",
					   .cwd = "/srv",
					   .host = "node0",
					   .user = "ada",
					   .start_ns = KNOWN_START};
	static const struct run_outcome o = {
		.id = "known", .kind = RUN_EXITED, .end_ns = KNOWN_START + 3600 * 1000 * MS};
	struct err e = {0};
	char dir[4096];
	int64_t k;

	snprintf(dir, sizeof(dir), "%s/known", root);
	known_check(
		store_open(&(struct store_options){.dir = dir, .host = "node0"}, &e, &known_store),
		"open");
	known_check(store_start(known_store, &r, &e), "start");
	known_sink = store_sink(known_store);
	known_define();
	if (from == 0)
		known_texts();
	for (k = from; k < to; k++) {
		known_step(steps, k);
		if (k % COMMIT_STEPS == COMMIT_STEPS - 1)
			known_check(known_sink->ops->commit(known_sink), "commit");
	}
	known_check(known_sink->ops->commit(known_sink), "commit");
	if (to == steps)
		known_check(store_end(known_store, &o, &e), "end");
	known_check(store_close(known_store, &e), "close");
	known_store = NULL;
}
