/* SPDX-License-Identifier: Apache-2.0 */
#include "filled.h"

#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

struct store *filled_open(const char *dir, const char *host, unsigned n, uint32_t *ids)
{
	const struct store_options o = {.dir = dir, .host = host};
	struct sink_process p = {.uid = {1}, .role = "trainer", .program = "train.py"};
	struct sink_series d = {.unit = "1", .help = "", .labels = "", .source = "record"};
	struct store *s;
	struct err e = {0};
	struct sink *k;
	char name[32];
	unsigned i;

	if (store_open(&o, &e, &s) < 0)
		bench_die("open", e.text);
	k = store_sink(s);
	if (k->ops->process(k, &p, &d.process) < 0)
		bench_die("process", store_error(s)->text);
	for (i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "series/%u", i);
		d.name = name;
		d.kind = SINK_GAUGE;
		if (k->ops->series(k, &d, &ids[i]) < 0)
			bench_die("series", store_error(s)->text);
	}
	return s;
}

double filled_bytes(const char *dir, const char *name)
{
	char path[300];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s.db", dir, name);
	return stat(path, &st) == 0 ? (double)st.st_size : NAN;
}
