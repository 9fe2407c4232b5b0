/* SPDX-License-Identifier: Apache-2.0
 *
 * edit.c - what was changed of a run afterwards: a small file of its own, so that no
 * database needs to be written and a live run can be edited from any host.
 */
#include "base/file.h"
#include "base/mem.h"
#include "store/store_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#define EDIT_FILE "run.edit"

int store_edit_load(const char *dir, struct err *e, struct run_edit *ret)
{
	char *path = xasprintf("%s/" EDIT_FILE, dir), why[128] = "";
	struct buf text;
	int r;

	buf_init(&text, RUN_FILE_MAX);
	r = file_read_plain(AT_FDCWD, path, &text);
	if (r < 0)
		err_errno(e, r, "cannot read %s", path);
	else if (run_edit_parse(buf_str(&text), text.len, ret, why) < 0)
		r = err_set(e, -EBADMSG, "%s: %s; what it changes is not seen", path, why);
	buf_done(&text);
	free(path);
	return r;
}

int store_edit_save(const char *dir, const struct run_edit *edit, struct err *e)
{
	char *path = xasprintf("%s/" EDIT_FILE, dir), *text = xcalloc(RUN_FILE_MAX, 1);
	size_t len = 0;
	int r = run_edit_format(edit, text, RUN_FILE_MAX, &len);

	if (r == 0)
		r = file_write_atomic(AT_FDCWD, path, text, len, 0600);
	if (r < 0)
		err_errno(e, r, "cannot write %s", path);
	free(text);
	free(path);
	return r;
}
