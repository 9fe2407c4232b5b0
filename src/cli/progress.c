/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fmt.h"
#include "report/table.h"
#include "wire/clock.h"

#define PROGRESS_AFTER_NS 500000000
#define PROGRESS_EVERY_NS 150000000

static pthread_t progress_thread;
static pthread_mutex_t progress_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress_wake;
static bool progress_runs, progress_stop;
static _Atomic bool progress_on_line;
static const char *progress_text;
static struct progress_part *progress_parts;
static size_t progress_n;
static int64_t progress_start, progress_phase_start;

void progress_erase(void)
{
	static const char erase[] = "\r\033[K";

	if (atomic_exchange(&progress_on_line, false) &&
	    write(STDERR_FILENO, erase, sizeof(erase) - 1) < 0)
		return;
}

/* "Reading 3 of 8 files: 45 %, 812 MiB of 1.80 GiB, 1.05 GiB/s, 1.2 s left" */
static void progress_files(char *out, size_t cap, double s)
{
	uint64_t bytes = 0, of = 0, rows = 0, done = 0;
	char a[FMT_MAX], b[FMT_MAX], c[FMT_MAX];
	bool all_known = true;
	size_t i, used;

	for (i = 0; i < progress_n; i++) {
		uint64_t o = atomic_load(&progress_parts[i].of);

		bytes += atomic_load(&progress_parts[i].bytes);
		rows += atomic_load(&progress_parts[i].rows);
		done += atomic_load(&progress_parts[i].is_done);
		of += o;
		all_known = all_known && o;
	}
	used = progress_n > 1
		       ? (size_t)snprintf(out, cap, "%s, %llu of %zu files done: ", progress_text,
					  (unsigned long long)done, progress_n)
		       : (size_t)snprintf(out, cap, "%s: ", progress_text);
	fmt_bytes(a, (double)bytes);
	fmt_bytes(c, (double)bytes / s);
	if (!all_known || of < bytes || bytes == 0)
		snprintf(out + used, cap - used, "%s, %s/s, %s rows", a, c,
			 fmt_count(b, (double)rows));
	else
		snprintf(out + used, cap - used, "%llu %%, %s of %s, %s/s, %.0f s left",
			 (unsigned long long)(bytes * 100 / of), a, fmt_bytes(b, (double)of), c,
			 (double)(of - bytes) / ((double)bytes / s) + 0.5);
}

static void progress_draw(int64_t now)
{
	char line[256], text[300];
	double s = (double)(now - progress_phase_start) / 1e9;
	struct term term;

	if (progress_parts && s > 0)
		progress_files(line, sizeof(line), s);
	else
		snprintf(line, sizeof(line), "%s, %.0f s", progress_text, s);
	term_look(&term, stderr);
	if (term.width > 1 && strlen(line) >= (size_t)term.width)
		line[term.width - 1] = '\0';
	snprintf(text, sizeof(text), "\r\033[K%s", line);
	atomic_store(&progress_on_line, true);
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		progress_stop = true;
}

static void *progress_main(void *arg)
{
	struct timespec until;
	int64_t now;

	(void)arg;
	pthread_mutex_lock(&progress_lock);
	while (!progress_stop) {
		now = clock_ns(CLOCK_MONOTONIC);
		if (progress_text && now - progress_start >= PROGRESS_AFTER_NS)
			progress_draw(now);
		now += PROGRESS_EVERY_NS;
		until = (struct timespec){now / 1000000000, now % 1000000000};
		pthread_cond_timedwait(&progress_wake, &progress_lock, &until);
	}
	pthread_mutex_unlock(&progress_lock);
	return NULL;
}

void progress_begin(bool quiet)
{
	const char *name = getenv("TERM");
	pthread_condattr_t attr;

	if (quiet || progress_runs || !isatty(STDERR_FILENO) || !name || !*name ||
	    strcmp(name, "dumb") == 0)
		return;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&progress_wake, &attr);
	pthread_condattr_destroy(&attr);
	progress_stop = false;
	progress_start = clock_ns(CLOCK_MONOTONIC);
	progress_runs = pthread_create(&progress_thread, NULL, progress_main, NULL) == 0;
}

void progress_phase(const char *text, struct progress_part *parts, size_t n)
{
	pthread_mutex_lock(&progress_lock);
	progress_text = text;
	progress_parts = parts;
	progress_n = n;
	progress_phase_start = clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_unlock(&progress_lock);
}

void progress_end(void)
{
	if (!progress_runs)
		return;
	pthread_mutex_lock(&progress_lock);
	progress_stop = true;
	pthread_cond_signal(&progress_wake);
	pthread_mutex_unlock(&progress_lock);
	pthread_join(progress_thread, NULL);
	pthread_cond_destroy(&progress_wake);
	progress_runs = false;
	progress_text = NULL;
	progress_parts = NULL;
	progress_erase();
}
