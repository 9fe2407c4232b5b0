/* SPDX-License-Identifier: Apache-2.0
 *
 * mounts.h - lines of /proc/self/mountinfo, and where a cgroup of the memory
 * controller lies in the file system, from that text and that of /proc/PID/cgroup.
 */
#ifndef PROBE_LINUX_MOUNTS_H
#define PROBE_LINUX_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>

/* A part of a text; p is NULL when it is not there. */
struct mounts_span {
	const char *p, *end;
};

/* A line of mountinfo, with its escapes. */
struct mounts_line {
	struct mounts_span device; /* "8:1" */
	struct mounts_span root;   /* of the file system, what is mounted: "/" all of it */
	struct mounts_span point;  /* where */
	struct mounts_span type, source;
	struct mounts_span options; /* of the file system: "rw,errors=..." */
};

/* Take a line without its line feed apart. 0; -EBADMSG it has fewer fields. */
int mounts_parse(const char *line, const char *eol, struct mounts_line *ret);

/* Is the field this word, or is the word among its comma-separated ones? */
bool mounts_is(struct mounts_span f, const char *word);
bool mounts_has(struct mounts_span f, const char *word);

/* Copy a field, with the escapes (\040) undone. 0; -ENAMETOOLONG; -EBADMSG it is not
 * there, or has a NUL in it. */
int mounts_copy(struct mounts_span f, char *out, size_t cap);

/* Find the memory cgroup in the text of /proc/PID/cgroup: the line of the v1
 * memory controller where there is one (on hybrid machines memory is not in
 * v2), else the v2 line. Its path into path. 0, -ENOENT neither is there or the
 * cgroup is outside of our cgroup namespace, -ENAMETOOLONG. */
int mounts_cgroup(const char *text, size_t len, bool *ret_v2, char *path, size_t cap);

/* Find, in the text of mountinfo, the cgroup2 file system (v2) or that of the
 * v1 memory controller under which the cgroup path can be seen; of several the
 * one that shows most ancestors. The cgroup's folder into dir, the length of
 * the mount point in it into *ret_top. 0, -ENOENT, -ENAMETOOLONG. */
int mounts_find(const char *text, size_t len, bool v2, const char *path, char *dir, size_t cap,
		size_t *ret_top);

/* The same for any controller ("cpu", "cpuset") of v1, or v2 where it has none there. */
int mounts_cgroup_of(const char *text, size_t len, const char *controller, bool *ret_v2, char *path,
		     size_t cap);
int mounts_find_of(const char *text, size_t len, bool v2, const char *controller, const char *path,
		   char *dir, size_t cap, size_t *ret_top);

#endif
