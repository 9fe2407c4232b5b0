/* SPDX-License-Identifier: Apache-2.0
 *
 * export_live.c - see export_live.h. The exporter may be killed at any instant;
 * what is done here on signals is only courtesy.
 */
#include "cli/export_live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/exports.h"
#include "base/fmt.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#define EXPORT_LIVE_MS 2000                  /* between two looks at the run */
#define EXPORT_LIVE_ORPHAN_NS 600000000000LL /* without a writer: nobody will end it */
#define EXPORT_LIVE_SHOW_NS 200000000LL

static volatile sig_atomic_t export_live_stop;

static void export_live_on_signal(int sig)
{
	(void)sig;
	export_live_stop = 1;
}

/* Does somebody write a database of the run? */
static bool export_live_has_writer(const char *run_dir)
{
	DIR *d = opendir(run_dir);
	struct dirent *entry;
	bool found = false;

	while (d && !found && (entry = readdir(d)) != NULL) {
		found = text_ends(entry->d_name, ".db.lock") &&
			rendezvous_is_locked(dirfd(d), entry->d_name);
	}
	if (d)
		closedir(d);
	return found;
}

static void export_live_show(const struct exporter *x, int64_t *shown_ns)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);
	char points[FMT_MAX], bytes[FMT_MAX];
	struct exporter_stats st;

	if (now - *shown_ns < EXPORT_LIVE_SHOW_NS || !isatty(STDERR_FILENO))
		return;
	*shown_ns = now;
	exporter_stats(x, &st);
	fprintf(stderr, "\r%s points, %s\033[K", fmt_count(points, (double)st.points),
		fmt_bytes(bytes, (double)st.bytes));
}

/* Steps until there is nothing newer; with follow, until the run has ended. */
static int export_live_steps(struct exporter *x, const char *run_dir, bool follow, struct err *e)
{
	int64_t shown_ns = clock_ns(CLOCK_MONOTONIC), writer_ns = shown_ns;
	struct exporter_stats st;
	bool writer;
	int more;

	do {
		writer = export_live_has_writer(run_dir);
		if (writer)
			writer_ns = clock_ns(CLOCK_MONOTONIC);
		more = exporter_step(x, !writer, 0, e);
		if (more < 0)
			return more;
		export_live_show(x, &shown_ns);
		exporter_stats(x, &st);
		if (more)
			continue;
		if (!follow || st.over ||
		    clock_ns(CLOCK_MONOTONIC) - writer_ns > EXPORT_LIVE_ORPHAN_NS)
			return 0;
		poll(NULL, 0, EXPORT_LIVE_MS);
	} while (!export_live_stop);
	return 0;
}

int export_live(const struct exporter_ops *ops, const char *run_dir, const char *output,
		bool follow)
{
	struct sigaction act = {.sa_handler = export_live_on_signal};
	struct exporter_stats st;
	struct exporter *x = NULL;
	struct err e = {0};
	char *place;
	int err;

	if (!output && !ops->folder) {
		fprintf(stderr, "lapse export: --to %s needs a file: --output FILE\n", ops->name);
		return 2;
	}
	place = output ? xstrdup(output) : xasprintf("%s/%s", run_dir, ops->name);
	if (follow) {
		sigaction(SIGTERM, &act, NULL);
		sigaction(SIGINT, &act, NULL);
	}
	err = exporter_open(ops, run_dir, place, &e, &x);
	if (!err) {
		exporter_stats(x, &st);
		if (st.anew)
			fprintf(stderr,
				"lapse export: %s does not fit what was exported "
				"before: all is written anew\n",
				place);
		err = export_live_steps(x, run_dir, follow, &e);
		if (isatty(STDERR_FILENO))
			fputs("\r\033[K", stderr);
	}
	exporter_close(x);
	free(place);
	if (err)
		fprintf(stderr, "lapse export: %s\n", e.text);
	if (err == -EBUSY)
		return EXPORTS_BUSY;
	return err ? 1 : 0;
}
