/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_store_file.c - a whole database of any bytes: read, checked, repaired. What
 * comes out of a repair is sound, and a second one has nothing to do.
 */
#include "base/mem.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (256u << 10)
#define SERIES_MAX 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64], path[80];

static void fuzz_at_end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	if (system(command) != 0)
		_exit(1);
}

static void fuzz_folder(void)
{
	if (dir[0])
		return;
	snprintf(dir, sizeof(dir), "%s/lapse-fuzz-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(dir))
		abort();
	snprintf(path, sizeof(path), "%s/h.db", dir);
	atexit(fuzz_at_end);
}

static void fuzz_put(const uint8_t *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
}

/* ---- reading ---------------------------------------------------------------------------- */

struct seen {
	struct store_ref refs[SERIES_MAX];
	size_t n;
};

static int fuzz_on_point(void *arg, const struct store_point *p)
{
	(void)p;
	++*(uint64_t *)arg;
	return 0;
}

static int fuzz_on_series(void *arg, const struct store_series *s)
{
	struct seen *seen = arg;

	if (strlen(s->name) > (1u << 30))
		abort();
	if (seen->n < SERIES_MAX)
		seen->refs[seen->n++] = (struct store_ref){s->host, s->id};
	return 0;
}

static int fuzz_on_process(void *arg, const struct store_process *p)
{
	(void)arg;
	return strlen(p->role) > (1u << 30);
}

static int fuzz_on_event(void *arg, const struct store_event *e)
{
	(void)arg;
	return strlen(e->text) > (1u << 30);
}

static void fuzz_read(void)
{
	static const struct store_range all;
	const struct store_query q = {.points = 10};
	struct store_result results[SERIES_MAX];
	struct store_reader *r = NULL;
	struct seen seen = {.n = 0};
	struct store_run run;
	struct err e = {0};
	uint64_t points = 0;
	size_t i;

	if (store_reader_open(dir, &e, &r) < 0) {
		if (!e.text[0])
			abort();
		return;
	}
	store_reader_run(r, &run, NULL);
	store_reader_processes(r, fuzz_on_process, NULL, NULL);
	store_reader_events(r, fuzz_on_event, NULL, NULL);
	store_reader_series(r, fuzz_on_series, &seen, NULL);
	for (i = 0; i < seen.n; i++)
		store_reader_points(r, seen.refs[i].host, seen.refs[i].series, &all, fuzz_on_point,
				    &points, NULL);
	if (seen.n && store_reader_query(r, &q, seen.refs, seen.n, NULL, NULL, results) == 0)
		store_results_free(results, seen.n);
	store_reader_close(r);
}

/* ---- checking and repairing ---------------------------------------------------------------- */

static int fuzz_on_finding(void *arg, const struct store_finding *f)
{
	if (!f->what[0] || strlen(f->table) > 64)
		abort();
	++*(uint64_t *)arg;
	return 0;
}

static uint64_t fuzz_check(void)
{
	uint64_t heard = 0, n = 0;
	const struct store_checker c = {.found = fuzz_on_finding, .arg = &heard};
	struct err e = {0};
	int r = store_check_all(path, &c, &e, &n);

	if (r == 0 && n != heard)
		abort();
	if (r < 0 && !e.text[0])
		abort();
	return r < 0 ? UINT64_MAX : n;
}

static void fuzz_repair(void)
{
	const struct store_checker c = {0};
	struct store_repaired n;
	struct err e = {0};

	if (store_repair(dir, "h.db", &c, &e, &n) < 0) {
		if (!e.text[0] || strstr(e.text, "is not sound")) {
			fprintf(stderr, "%s\n", e.text);
			abort();
		}
		return;
	}
	unlink(n.kept);
	free(n.kept);
	if (fuzz_check() != 0)
		abort();
	fuzz_read();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > FILE_MAX)
		return 0;
	fuzz_folder();
	fuzz_put(data, size);
	fuzz_read();
	if (fuzz_check() != 0)
		fuzz_repair();
	return 0;
}
