/* SPDX-License-Identifier: Apache-2.0
 *
 * A group's one file.
 */
#include "probe/linux/onefile.h"

#include <errno.h>
#include <stdlib.h>

int onefile_open(struct onefile *o, const struct probe_env *env, struct probe_set *s,
		 const char *path, struct err *e)
{
	size_t i;
	int err;

	err = textfile_init(&o->file, env->root, path);
	if (!err)
		err = textfile_read(&o->file, &o->buf, o->max);
	if (err == -ENOMEM)
		return err;
	if (err) {
		err_errno(e, err, "%s%s cannot be read", env->root, path);
		return -ENODEV;
	}
	for (i = 0; i < o->n; i++)
		o->points[i] = o->rows[i].labels ? PROBE_NONE : probe_point(s, &o->rows[i], "");
	return 0;
}

void onefile_done(struct onefile *o)
{
	textfile_done(&o->file);
	textbuf_done(&o->buf);
}

int onefile_new(const struct onefile *like, const struct probe_env *env, struct probe_set *s,
		const char *path, void **ret, struct err *e)
{
	struct onefile *o = malloc(sizeof(*o));
	int err;

	if (!o)
		return -ENOMEM;
	*o = *like;
	err = onefile_open(o, env, s, path, e);
	if (err)
		onefile_free(o);
	else
		*ret = o;
	return err;
}

void onefile_free(void *state)
{
	struct onefile *o = state;

	onefile_done(o);
	free(o);
}

void onefile_absent(struct onefile *o, struct probe_set *s, const char *why)
{
	size_t i;

	for (i = 0; i < o->n; i++)
		probe_absent(s, o->points[i], why);
}

bool onefile_read(struct onefile *o, struct probe_set *s)
{
	if (textfile_read(&o->file, &o->buf, o->max) == 0)
		return true;
	onefile_absent(o, s, o->unreadable);
	return false;
}
