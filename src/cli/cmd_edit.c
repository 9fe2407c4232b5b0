/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_edit.c - `lapse edit`: changes name, project, tags and notes of a run.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/tags.h"
#include "report/runview.h"

static const char *edit_dir, *edit_name, *edit_project, *edit_tags, *edit_notes;

const struct opt *cmd_edit_options(void)
{
	static const struct opt rows[] = {
		{.name = "dir",
		 .letter = 'd',
		 .type = OPT_STR,
		 .value = "DIR",
		 .to = &edit_dir,
		 .help = "folder of the runs (default: $LAPSE_DIR, else ./lapse-runs)"},
		{.name = "name",
		 .type = OPT_STR,
		 .value = "NAME",
		 .to = &edit_name,
		 .help = "another name"},
		{.name = "project",
		 .type = OPT_STR,
		 .value = "PROJECT",
		 .to = &edit_project,
		 .help = "another project; \"\": none"},
		{.name = "tags",
		 .type = OPT_STR,
		 .value = "TAGS",
		 .to = &edit_tags,
		 .help = "a,b: these; +a,-b: add a, remove b; \"\": none"},
		{.name = "notes",
		 .type = OPT_STR,
		 .value = "TEXT",
		 .to = &edit_notes,
		 .help = "other notes; \"\": none"},
		{0},
	};

	return rows;
}

/* One field, if it was given. */
static int edit_set(const char *option, const char *from, char *to, size_t cap, bool *has)
{
	if (!from)
		return 0;
	if (strlen(from) >= cap) {
		fprintf(stderr, "lapse edit: --%s: more than %zu bytes\n", option, cap - 1);
		return 2;
	}
	memset(to, 0, cap);
	memcpy(to, from, strlen(from));
	*has = true;
	return 0;
}

static int edit_apply(const struct runview *v, struct run_edit *edit)
{
	char tags[sizeof(edit->tags)], why[128];
	int status;

	if (edit_tags && tags_change(v->run.tags, edit_tags, tags, sizeof(tags), why) < 0) {
		fprintf(stderr, "lapse edit: --tags: %s\n", why);
		return 2;
	}
	status = edit_set("name", edit_name, edit->name, sizeof(edit->name), &edit->has_name);
	if (status == 0)
		status = edit_set("project", edit_project, edit->project, sizeof(edit->project),
				  &edit->has_project);
	if (status == 0)
		status = edit_set("tags", edit_tags ? tags : NULL, edit->tags, sizeof(edit->tags),
				  &edit->has_tags);
	if (status == 0)
		status = edit_set("notes", edit_notes, edit->notes, sizeof(edit->notes),
				  &edit->has_notes);
	return status;
}

int cmd_edit(int argc, char **argv)
{
	const char *what = cmd_one_arg("edit", argc, argv, "RUN", NULL);
	struct run_edit *edit;
	struct err e = {0};
	struct runview v = {0};
	int r, status;

	if (!what)
		return 2;
	if (!edit_name && !edit_project && !edit_tags && !edit_notes) {
		fprintf(stderr, "lapse edit: say what to change: --name, --project, --tags or "
				"--notes\n");
		return 2;
	}
	if (runview_open(&v, "edit", edit_dir, what) < 0)
		return 1;
	edit = xcalloc(1, sizeof(*edit));
	r = store_edit_load(v.dir, &e, edit);
	if (r < 0 && r != -ENOENT && r != -EBADMSG) {
		status = 1;
	} else {
		err_clear(&e);
		status = edit_apply(&v, edit);
		if (status == 0 && store_edit_save(v.dir, edit, &e) < 0)
			status = 1;
	}
	if (e.code)
		fprintf(stderr, "lapse edit: %s\n", e.text);
	free(edit);
	runview_close(&v);
	return status;
}
