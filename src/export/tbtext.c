/* SPDX-License-Identifier: Apache-2.0
 *
 * tbtext.c - what is known of a run as Markdown for TensorBoard's text tab, and
 * its configuration as hyperparameters.
 */
#include "export/tensorboard_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fmt.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "export/protobuf.h"

#define TBTEXT_CELL_MAX 4096u /* bytes of a cell; the rest is cut */
#define TBTEXT_CONFIG "config/"

/* ---- Markdown ------------------------------------------------------------------- */

/* Foreign text in one line: nothing that ends a cell or is no UTF-8. */
static void tbtext_cell(struct buf *b, const char *text)
{
	char *s = xstrndup(text, strnlen(text, TBTEXT_CELL_MAX));
	const char *p;

	utf8_clean(s, strlen(s));
	for (p = s; *p; p++) {
		if (strchr("|\\`*_<>[]", *p))
			buf_putc(b, '\\');
		buf_putc(b, *p);
	}
	free(s);
}

static void tbtext_row(struct buf *b, const char *name, const char *value)
{
	if (!value[0])
		return;
	buf_printf(b, "| %s | ", name);
	tbtext_cell(b, value);
	buf_puts(b, " |\n");
}

static void tbtext_outcome(struct buf *b, const struct store_run *run)
{
	char text[FMT_MAX * 2];

	snprintf(text, sizeof(text), "%s", run_outcome_name(run->outcome));
	if (run->outcome == RUN_EXITED || (run->outcome == RUN_HUNG && run->code >= 0))
		snprintf(text, sizeof(text), "%s %d", run_outcome_name(run->outcome), run->code);
	else if (run->signal)
		snprintf(text, sizeof(text), "%s by signal %d", run_outcome_name(run->outcome),
			 run->signal);
	tbtext_row(b, "outcome", text);
	tbtext_row(b, "evidence", run->evidence);
	if (run->end_ns)
		tbtext_row(b, "end", fmt_utc(text, run->end_ns));
}

void tbtext_run(struct buf *b, const struct store_run *run, uint64_t late)
{
	char text[FMT_MAX];

	buf_puts(b, "| run | |\n|---|---|\n");
	tbtext_row(b, "id", run->id);
	tbtext_row(b, "name", run->name);
	tbtext_row(b, "project", run->project);
	tbtext_row(b, "tags", run->tags);
	tbtext_row(b, "notes", run->notes);
	tbtext_row(b, "command", run->command);
	tbtext_row(b, "folder", run->cwd);
	tbtext_row(b, "hosts", run->hosts);
	tbtext_row(b, "user", run->user);
	tbtext_row(b, "start", fmt_utc(text, run->start_ns));
	tbtext_outcome(b, run);
	if (late) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)late);
		tbtext_row(b, "points left out", text);
	}
}

struct tbtext_attrs {
	struct buf *b;
	bool any;
	/* hyperparameters: of the first process that has some */
	unsigned host;
	uint32_t process;
};

static int tbtext_attr_row(void *arg, unsigned host, uint32_t process, const char *key,
			   const char *value)
{
	struct tbtext_attrs *a = arg;

	buf_printf(a->b, "| %u/%u | ", host, process);
	tbtext_cell(a->b, key);
	buf_puts(a->b, " | ");
	tbtext_cell(a->b, value);
	buf_puts(a->b, " |\n");
	/* What does not fit is cut between rows. */
	if (a->b->error)
		a->b->error = 0;
	return 0;
}

int tbtext_attrs(struct buf *b, struct store_reader *r, struct err *e)
{
	struct tbtext_attrs a = {.b = b};

	buf_puts(b, "| host/process | attribute | value |\n|---|---|---|\n");
	return store_reader_attrs(r, tbtext_attr_row, &a, e);
}

void tbtext_event(struct buf *b, const struct store_event *e, const char *who)
{
	static const char *const severities[] = {"debug", "info", "warning", "error"};
	unsigned severity = e->severity < 0 || e->severity > 3 ? 3 : (unsigned)e->severity;

	buf_printf(b, "**%s** ", severities[severity]);
	tbtext_cell(b, e->text);
	if (who[0]) {
		buf_puts(b, " (");
		tbtext_cell(b, who);
		buf_putc(b, ')');
	}
	if (e->step != SINK_STEP_NONE)
		buf_printf(b, " step %lld", (long long)e->step);
	if (e->attrs[0]) {
		buf_puts(b, " ");
		tbtext_cell(b, e->attrs);
	}
}

/* ---- hyperparameters -------------------------------------------------------------- */

enum {
	HPARAMS_START = 3,
	HPARAMS_END = 4
};
enum {
	START_HPARAMS = 1,
	START_TIME = 5,
	END_STATUS = 1,
	END_TIME = 2
};
enum {
	STATUS_SUCCESS = 1,
	STATUS_FAILURE = 2
};
enum {
	ENTRY_KEY = 1,
	ENTRY_VALUE = 2
};
enum {
	VALUE_NUMBER = 2,
	VALUE_STRING = 3,
	VALUE_BOOL = 4
};

/* Text that is a finite number is one; true and false are truth values. */
static void tbtext_value(struct buf *b, const char *text)
{
	char *end;
	double number = strtod(text, &end);

	if (end != text && *end == '\0' && isfinite(number) && !strpbrk(text, "xX \t\n"))
		protobuf_double(b, VALUE_NUMBER, number);
	else if (strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0)
		protobuf_int(b, VALUE_BOOL, text[0] == 't' || text[0] == 'T');
	else
		protobuf_str(b, VALUE_STRING, text);
}

static int tbtext_hparam(void *arg, unsigned host, uint32_t process, const char *key,
			 const char *value)
{
	struct tbtext_attrs *a = arg;
	size_t entry, inner;
	char *clean, *name;

	if (strncmp(key, TBTEXT_CONFIG, strlen(TBTEXT_CONFIG)) != 0 ||
	    (a->any && (host != a->host || process != a->process)))
		return 0;
	a->any = true;
	a->host = host;
	a->process = process;
	clean = xstrndup(value, strnlen(value, TBTEXT_CELL_MAX));
	utf8_clean(clean, strlen(clean));
	name = xstrdup(key + strlen(TBTEXT_CONFIG));
	utf8_clean(name, strlen(name));
	entry = protobuf_begin(a->b, START_HPARAMS);
	protobuf_str(a->b, ENTRY_KEY, name);
	inner = protobuf_begin(a->b, ENTRY_VALUE);
	tbtext_value(a->b, clean);
	protobuf_end(a->b, inner);
	protobuf_end(a->b, entry);
	free(clean);
	free(name);
	return 0;
}

int tbtext_hparams(struct buf *b, struct store_reader *r, const struct store_run *run,
		   struct err *e)
{
	struct tbtext_attrs a = {.b = b};
	size_t start = protobuf_begin(b, HPARAMS_START);
	int err = store_reader_attrs(r, tbtext_hparam, &a, e);

	if (!err && a.any && !b->error) {
		protobuf_double(b, START_TIME, (double)run->start_ns / 1e9);
		protobuf_end(b, start);
	} else {
		buf_reset(b);
	}
	return err;
}

void tbtext_hparams_end(struct buf *b, const struct store_run *run)
{
	size_t end = protobuf_begin(b, HPARAMS_END);

	protobuf_int(b, END_STATUS,
		     run->outcome == RUN_EXITED && run->code == 0 ? STATUS_SUCCESS
								  : STATUS_FAILURE);
	protobuf_double(b, END_TIME, (double)run->end_ns / 1e9);
	protobuf_end(b, end);
}
