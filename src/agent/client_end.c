/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a client: when its process ended, what its fault handler has written, and
 * how both are told to the sink.
 */
#include "agent/client_priv.h"

#include "base/mem.h"
#include "wire/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIENT_EVIDENCE_MAX 65536    /* bytes read of an evidence file */
#define CLIENT_CLOSED_NS 10000000000 /* that a program may take to end after closing its run */

void client_evidence_name(const struct client *c, char *out, size_t cap)
{
	const char *ctl = c->reader.ring.ctl, *dot = strrchr(ctl, '.');

	snprintf(out, cap, "%s", "");
	if (dot && !strchr(ctl, '/'))
		snprintf(out, cap, "%.*s.fault", (int)(dot - ctl), ctl);
}

/* What a fault handler of the process has written. */
static int client_evidence(struct client *c, int rings, int64_t end_ns)
{
	char name[256], *text = xcalloc(CLIENT_EVIDENCE_MAX + 1, 1), *p;
	ssize_t n = 0;
	int fd, err = 0;

	client_evidence_name(c, name, sizeof(name));
	fd = name[0] ? openat(rings, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	if (fd < 0 && name[0] && rendezvous_is_short(-errno))
		err = -errno;
	if (fd >= 0) {
		n = read(fd, text, CLIENT_EVIDENCE_MAX);
		close(fd);
	}
	if (n > 0) {
		/* A report has lines: only what is not text is cleaned. */
		for (p = text; p < text + n; p++)
			if (*p == '\0')
				*p = '?';
		err = client_event(c, end_ns, SINK_STEP_NONE, 3, "fatal", text, "");
	}
	free(text);
	return err;
}

int64_t client_end_time(const struct client *c, int64_t otherwise)
{
	struct wire_anchor a[WIRE_ANCHORS];
	unsigned n;

	if (c->closed_utc)
		return c->closed_utc;
	n = reader_anchors(&c->reader, a);
	if (n == 0 || !(reader_is_closed(&c->reader) || (c->reader.ctl && c->reader.ctl->has_exit)))
		return otherwise;
	return c->epoch.real_ns + a[n - 1].boot_ns - c->epoch.boot_ns;
}

bool client_is_over(struct client *c, int rings, bool is_own, const struct wire_anchor *now,
		    int64_t now_utc)
{
	if (!reader_is_alive(&c->reader, rings))
		return true;
	if (!is_own || !reader_is_closed(&c->reader))
		return false;
	if (!c->closed_ns) {
		/* The page and its anchors are the process's: of its next run, soon. */
		c->closed_utc = client_end_time(c, now_utc);
		c->closed_ns = now->mono_ns;
	}
	return now->mono_ns - c->closed_ns >= CLIENT_CLOSED_NS;
}

int client_end(struct client *c, int rings, int64_t end_ns)
{
	char name[256], text[128], *attrs;
	int err = client_evidence(c, rings, end_ns);
	int severity = 3;

	if (err)
		return err;
	c->ended = true;
	/* Its last drops may have come after its last record. */
	c->pending = true;
	if (!reader_is_closed(&c->reader) && !(c->reader.ctl && c->reader.ctl->has_exit)) {
		/* Children of fork() often leave by _exit(): no alarm, unless they
		 * were in the middle of something. */
		if (c->reader.ring.forked && !client_open_spans(c, name, sizeof(name)))
			severity = 1;
		attrs = crash_attrs(c);
		snprintf(text, sizeof(text), "process %u ended without closing its ring",
			 c->reader.ring.pid);
		err = client_event(c, end_ns, SINK_STEP_NONE, severity,
				   severity == 3 ? "crash" : "ended", text, attrs);
		free(attrs);
	}
	c->end_ns = client_end_time(c, end_ns);
	return err ? err : client_process(c, c->end_ns);
}
