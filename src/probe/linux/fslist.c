/* SPDX-License-Identifier: Apache-2.0
 *
 * Which mounts have figures (filesystem.h).
 */
#include "base/mem.h"
#include "probe/linux/filesystem.h"
#include "probe/linux/mounts.h"
#include "probe/linux/proc.h"

#include <stdio.h>
#include <string.h>

enum fslist_kind {
	FSLIST_NOT,
	FSLIST_LOCAL,
	FSLIST_REMOTE
};

static bool fslist_among(const char *word, const char *const *words, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (strcmp(word, words[i]) == 0)
			return true;
	return false;
}

static enum fslist_kind fslist_kind(const struct filesystem_mount *m)
{
	static const char *const local[] = {"ext2", "ext3", "ext4", "xfs",      "btrfs", "bcachefs",
					    "zfs",  "f2fs", "jfs",  "reiserfs", "exfat", "ntfs3"};
	static const char *const remote[] = {"nfs",   "nfs4",    "cifs",     "smb3",   "lustre",
					     "ceph",  "beegfs",  "gpfs",     "afs",    "9p",
					     "pvfs2", "wekafs",  "virtiofs", "vboxsf", "panfs",
					     "fuse",  "fuseblk", "glusterfs"};
	/* FUSE file systems that hold no data of their own. */
	static const char *const other[] = {"fuse.gvfsd-fuse", "fuse.portal",     "fuse.lxcfs",
					    "fuse.snapfuse",   "fuse.squashfuse", "fuse.dumpfs"};
	static const char *const memory[] = {"/dev/shm", "/tmp", "/var/tmp"};

	if (strcmp(m->type, "tmpfs") == 0)
		return fslist_among(m->point, memory, ARRAY_LEN(memory)) ? FSLIST_LOCAL
									 : FSLIST_NOT;
	if (strcmp(m->type, "overlay") == 0 || strcmp(m->type, "aufs") == 0)
		return strcmp(m->point, "/") == 0 ? FSLIST_LOCAL : FSLIST_NOT;
	if (fslist_among(m->type, local, ARRAY_LEN(local)))
		return FSLIST_LOCAL;
	if (fslist_among(m->type, remote, ARRAY_LEN(remote)))
		return FSLIST_REMOTE;
	if (strncmp(m->type, "fuse.", 5) == 0 && !fslist_among(m->type, other, ARRAY_LEN(other)))
		return FSLIST_REMOTE;
	return FSLIST_NOT;
}

/* A file or folder of the host that a container runtime has put there (/etc/hosts, a
 * driver's libraries) says nothing that a user asked about. */
static bool fslist_is_plumbing(const struct filesystem_mount *m)
{
	static const char *const below[] = {"/etc/", "/usr/", "/lib",   "/bin/", "/sbin/",
					    "/dev/", "/run/", "/proc/", "/sys/"};
	size_t i;

	if (m->whole || strcmp(m->point, "/dev/shm") == 0)
		return false;
	for (i = 0; i < ARRAY_LEN(below); i++)
		if (strncmp(m->point, below[i], strlen(below[i])) == 0)
			return true;
	return false;
}

/* What is too long is cut; out is zero. */
static void fslist_cut(struct mounts_span f, char *out, size_t cap)
{
	mounts_copy(f, out, cap);
	if (out[0] == '\0')
		snprintf(out, cap, "none");
}

static bool fslist_fill(const struct mounts_line *l, struct filesystem_mount *m)
{
	*m = (struct filesystem_mount){.whole = mounts_is(l->root, "/"),
				       .read_only = mounts_has(l->options, "ro")};
	if (mounts_copy(l->point, m->point, sizeof(m->point)) < 0 || m->point[0] != '/' ||
	    mounts_copy(l->type, m->type, sizeof(m->type)) < 0 ||
	    mounts_copy(l->device, m->device, sizeof(m->device)) < 0)
		return false;
	fslist_cut(l->source, m->source, sizeof(m->source));
	return true;
}

static void fslist_remove(struct filesystem_mount *out, size_t *n, size_t i)
{
	memmove(&out[i], &out[i + 1], (*n - i - 1) * sizeof(*out));
	(*n)--;
}

static bool fslist_better(const struct filesystem_mount *a, const struct filesystem_mount *b)
{
	if (a->whole != b->whole)
		return a->whole;
	return strlen(a->point) < strlen(b->point);
}

static void fslist_add(struct filesystem_mount *out, size_t *n, const struct filesystem_mount *m)
{
	size_t i;

	for (i = 0; i < *n; i++)
		if (strcmp(out[i].device, m->device) == 0)
			break;
	if (i < *n && fslist_better(m, &out[i]))
		out[i] = *m;
	else if (i == *n && i < FILESYSTEM_MAX)
		out[(*n)++] = *m;
}

/* Is path at or below the mount point? */
static bool fslist_holds(const char *point, const char *path)
{
	size_t len = strlen(point);

	if (len == 1)
		return true;
	return strncmp(point, path, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static void fslist_add_run(struct filesystem_mount *out, size_t *n,
			   const struct filesystem_mount *m)
{
	size_t i;

	for (i = 0; i < *n; i++)
		if (strcmp(out[i].device, m->device) == 0)
			return;
	if (*n == FILESYSTEM_MAX)
		(*n)--;
	out[(*n)++] = *m;
}

static void fslist_sort(struct filesystem_mount *out, size_t n)
{
	size_t i, k, remote = 0;
	struct filesystem_mount m;

	for (i = 0; i + remote < n;) {
		if (!out[i].remote) {
			i++;
			continue;
		}
		m = out[i];
		for (k = i; k + 1 < n; k++)
			out[k] = out[k + 1];
		out[n - 1] = m;
		remote++;
	}
}

size_t filesystem_list(const char *text, size_t len, const char *run_dir,
		       struct filesystem_mount *out)
{
	const char *next = text, *end = text + len, *line, *eol;
	struct filesystem_mount m, run = {.point = ""};
	struct mounts_line l;
	enum fslist_kind kind;
	size_t n = 0, i;

	while ((line = proc_line(&next, end, &eol))) {
		if (mounts_parse(line, eol, &l) < 0 || !fslist_fill(&l, &m))
			continue;
		/* What is mounted over another hides it. */
		for (i = n; i-- > 0;)
			if (strcmp(out[i].point, m.point) == 0)
				fslist_remove(out, &n, i);
		kind = fslist_kind(&m);
		/* Of what is not known, and wanted for the runs, the worst is assumed. */
		m.remote = kind != FSLIST_LOCAL && strcmp(m.type, "tmpfs") != 0 &&
			   strcmp(m.type, "overlay") != 0;
		if (run_dir && fslist_holds(m.point, run_dir) &&
		    strlen(m.point) >= strlen(run.point))
			run = m;
		if (kind != FSLIST_NOT && !fslist_is_plumbing(&m))
			fslist_add(out, &n, &m);
	}
	if (run.point[0])
		fslist_add_run(out, &n, &run);
	fslist_sort(out, n);
	return n;
}
