/* SPDX-License-Identifier: Apache-2.0
 *
 * onefile.h - what groups have in common that read one file of the machine: the file,
 * its text, and a point for each row without labels.
 */
#ifndef PROBE_LINUX_ONEFILE_H
#define PROBE_LINUX_ONEFILE_H

#include "probe/linux/textfile.h"
#include "probe/probe.h"

#define ONEFILE_ROWS 24

struct onefile {
	struct textfile file;
	struct textbuf buf;
	const struct probe_metric *rows;
	size_t n;
	size_t max;                         /* bytes of the file */
	uint32_t points[ONEFILE_ROWS];      /* PROBE_NONE for rows with labels */
	const char *unreadable, *malformed; /* reasons */
};

/* rows, at most ONEFILE_ROWS, live on; unreadable and malformed are static texts. 0;
 * -ENODEV, and *e says so, when the file cannot be read; -ENOMEM. Done by onefile_done()
 * also after an error. */
int onefile_open(struct onefile *o, const struct probe_env *env, struct probe_set *s,
		 const char *path, struct err *e);
void onefile_done(struct onefile *o);

/* A group's state that is nothing but a onefile: made as `like` says (all but what open
 * fills), freed with onefile_free(). */
int onefile_new(const struct onefile *like, const struct probe_env *env, struct probe_set *s,
		const char *path, void **ret, struct err *e);
void onefile_free(void *state);

/* The file's text into o->buf. false: it cannot be read, and all points are absent. */
bool onefile_read(struct onefile *o, struct probe_set *s);

/* No row without labels has a value, for this static reason. */
void onefile_absent(struct onefile *o, struct probe_set *s, const char *why);

#endif
