/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.c - write a temporary file, flush it, rename it.
 */
#include "checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECKPOINT_HEADER_MAX 128

static int checkpoint_header(char *line, const struct model *m, const struct text *t)
{
	return snprintf(line, CHECKPOINT_HEADER_MAX,
			"charlm 1 vocab %zu dim %zu layers %zu heads %zu context %zu real %zu\n",
			t->vocab, m->config.dim, m->config.layers, m->config.heads,
			m->config.context, sizeof(real));
}

static int checkpoint_errno(void)
{
	return errno ? -errno : -EIO;
}

static int checkpoint_fill(FILE *f, const struct model *m, const struct text *t)
{
	char line[CHECKPOINT_HEADER_MAX];

	checkpoint_header(line, m, t);
	fputs(line, f);
	fwrite(t->symbol, 1, t->vocab, f);
	fwrite(m->w, sizeof(*m->w), m->params, f);
	if (fflush(f) || ferror(f) || fsync(fileno(f)))
		return checkpoint_errno();
	return 0;
}

int checkpoint_write(const char *path, const struct model *m, const struct text *t)
{
	char *temporary;
	FILE *f;
	int result;

	if (asprintf(&temporary, "%s.part", path) < 0)
		return -ENOMEM;
	errno = 0;
	f = fopen(temporary, "wbe");
	result = f ? checkpoint_fill(f, m, t) : checkpoint_errno();
	if (f && fclose(f) && !result)
		result = checkpoint_errno();
	if (!result && rename(temporary, path))
		result = checkpoint_errno();
	if (result && f)
		unlink(temporary);
	free(temporary);
	return result;
}

int checkpoint_read(const char *path, struct model *m, const struct text *t)
{
	char want[CHECKPOINT_HEADER_MAX], line[CHECKPOINT_HEADER_MAX];
	uint8_t symbol[256];
	real *w = malloc(m->params * sizeof(*w));
	FILE *f = w ? fopen(path, "rbe") : NULL;
	int result = f ? -EINVAL : -errno;

	checkpoint_header(want, m, t);
	if (f && fgets(line, sizeof(line), f) && !strcmp(line, want) &&
	    fread(symbol, 1, t->vocab, f) == t->vocab && !memcmp(symbol, t->symbol, t->vocab) &&
	    fread(w, sizeof(*w), m->params, f) == m->params && getc(f) == EOF) {
		memcpy(m->w, w, m->params * sizeof(*w));
		result = 0;
	}
	if (f)
		fclose(f);
	free(w);
	return result;
}
