/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_pack.c - `lapse pack`: a run as one file to be carried elsewhere.
 */
#include "cli/cmd.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/archive.h"
#include "report/runview.h"

#define PACK_DEPTH_MAX 8

static const char *pack_dir, *pack_output;

const struct opt *cmd_pack_options(void)
{
	static const struct opt rows[] = {
		{.name = "dir",
		 .letter = 'd',
		 .type = OPT_STR,
		 .value = "DIR",
		 .to = &pack_dir,
		 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
		{.name = "output",
		 .letter = 'o',
		 .type = OPT_STR,
		 .value = "FILE",
		 .to = &pack_output,
		 .help = "write to this file (default: ID.tar.zst here); -: standard output"},
		{0},
	};

	return rows;
}

struct pack {
	struct archive *a;
	struct runview v;
	const char *id; /* folder in the archive */
	char *copy;     /* where databases are copied to */
	struct outfile out;
	uint64_t bytes;
};

/* Databases are copied by themselves; the rest of these is of the moment. */
static bool pack_is_left_out(const char *name)
{
	static const char *const ends[] = {".db",   ".db-wal", ".db-shm", ".db-journal", ".lock",
					   ".live", ".bad",    ".tmp",    ".copy"};
	size_t i;

	for (i = 0; i < ARRAY_LEN(ends); i++)
		if (text_ends(name, ends[i]))
			return true;
	return name[0] == '.';
}

static int pack_databases(struct pack *p, struct err *e)
{
	size_t i, n = store_reader_hosts(p->v.reader);
	char *name;
	int r = 0;

	for (i = 0; r == 0 && i < n; i++) {
		r = store_reader_copy(p->v.reader, (unsigned)i, p->copy, e);
		name = xasprintf("%s/%s", p->id, store_reader_file(p->v.reader, (unsigned)i));
		if (r == 0) {
			r = archive_add(p->a, p->copy, name, e);
			unlink(p->copy);
		}
		free(name);
	}
	return r;
}

static int pack_folder(struct pack *p, const char *dir, const char *name, unsigned depth,
		       struct err *e);

static int pack_one(struct pack *p, const char *dir, const char *name, const char *file,
		    unsigned depth, struct err *e)
{
	char *from = xasprintf("%s/%s", dir, file), *to = xasprintf("%s/%s", name, file);
	struct stat st;
	int r = 0;

	if (lstat(from, &st) < 0)
		r = 0; /* it has gone meanwhile */
	else if (S_ISDIR(st.st_mode) && depth < PACK_DEPTH_MAX)
		r = pack_folder(p, from, to, depth + 1, e);
	else if (S_ISREG(st.st_mode))
		r = archive_add(p->a, from, to, e);
	else
		fprintf(stderr, "lapse pack: left out: %s is a link or no file\n", from);
	free(from);
	free(to);
	return r;
}

static int pack_folder(struct pack *p, const char *dir, const char *name, unsigned depth,
		       struct err *e)
{
	struct dirent **files;
	int i, n = scandir(dir, &files, NULL, alphasort), r = 0;

	if (n < 0)
		return err_errno(e, -errno, "cannot read the folder %s", dir);
	for (i = 0; i < n; i++) {
		if (r == 0 && !pack_is_left_out(files[i]->d_name))
			r = pack_one(p, dir, name, files[i]->d_name, depth, e);
		free(files[i]);
	}
	free(files);
	return r;
}

/* Beside the output, where there is room for it anyway. */
static char *pack_copy_place(const char *output)
{
	const char *tmp = getenv("TMPDIR"), *slash = strrchr(output, '/');
	int pid = (int)getpid();

	if (strcmp(output, "-") == 0)
		return xasprintf("%s/.lapse-pack-%d.tmp", tmp && *tmp ? tmp : "/tmp", pid);
	return slash ? xasprintf("%.*s/.lapse-pack-%d.tmp", (int)(slash - output), output, pid)
		     : xasprintf(".lapse-pack-%d.tmp", pid);
}

static int pack_all(struct pack *p, const char *output, struct err *e)
{
	int r = outfile_open(&p->out, output, e), code;

	if (r < 0)
		return r;
	p->copy = pack_copy_place(output);
	r = archive_new(&p->out, e, &p->a);
	if (r == 0)
		r = pack_databases(p, e);
	if (r == 0)
		r = pack_folder(p, p->v.dir, p->id, 0, e);
	code = archive_end(p->a, r == 0, e);
	r = r < 0 ? r : code;
	p->bytes = p->out.bytes;
	code = outfile_close(&p->out, r == 0, e);
	free(p->copy);
	return r < 0 ? r : code;
}

int cmd_pack(int argc, char **argv)
{
	const char *what = cmd_one_arg("pack", argc, argv, "RUN", "last");
	struct pack p = {0};
	struct err e = {0};
	char text[FMT_MAX], *name = NULL;
	int r;

	if (!what)
		return 2;
	if (runview_open(&p.v, "pack", pack_dir, what) < 0)
		return 1;
	if (store_reader_warning(p.v.reader)[0] != '\0') {
		fprintf(stderr,
			"lapse pack: not all of the run can be read; lapse fsck may help\n");
		runview_close(&p.v);
		return 1;
	}
	p.id = strrchr(p.v.dir, '/') ? strrchr(p.v.dir, '/') + 1 : p.v.dir;
	name = xasprintf("%s.tar.zst", p.id);
	if (!pack_output)
		pack_output = name;
	r = pack_all(&p, pack_output, &e);
	if (r < 0 && r != -EPIPE)
		fprintf(stderr, "lapse pack: %s\n", e.text);
	if (r == 0 && strcmp(pack_output, "-") != 0)
		printf("%s: %s\n", pack_output, fmt_bytes(text, (double)p.bytes));
	runview_close(&p.v);
	free(name);
	return r < 0 ? 1 : runview_flush();
}
