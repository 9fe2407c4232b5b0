/* SPDX-License-Identifier: Apache-2.0
 *
 * One group, read at times of the test's choice.
 */
#include "reading.h"

#include "known.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

int reading_open(struct reading *r, const struct probe_group *group, const char *root)
{
	int err;

	memset(r, 0, sizeof(*r));
	r->group = group;
	r->env.root = root;
	r->set = probe_set_new();
	assert_non_null(r->set);
	err = group->open(&r->env, r->set, &r->state, &r->err);
	if (err) {
		assert_int_equal(probe_points(r->set), 0);
		assert_true(r->err.text[0] != '\0');
		probe_set_free(r->set);
		r->set = NULL;
	}
	return err;
}

void reading_close(struct reading *r)
{
	r->group->close(r->state);
	probe_set_free(r->set);
	memset(r, 0, sizeof(*r));
}

static bool reading_of_group(const struct reading *r, const struct probe_metric *m)
{
	return m >= r->group->metrics && m < r->group->metrics + r->group->n_metrics;
}

void reading_at(struct reading *r, double mono_s)
{
	const struct probe_now now = {(int64_t)(mono_s * 1e9), (int64_t)(mono_s * 1e9)};
	struct probe_view v;
	uint32_t i;

	probe_set_begin(r->set, &now);
	r->group->read(r->state, r->set, &now);
	probe_set_end(r->set);
	for (i = 0; i < probe_points(r->set); i++) {
		probe_point_at(r->set, i, &v);
		assert_true(reading_of_group(r, v.metric));
		assert_true((v.metric->labels != NULL) == (v.labels[0] != '\0'));
		if (v.known ? v.why != NULL : !v.why || !v.why[0])
			fail_msg("%s{%s}: a value or a reason", v.metric->name, v.labels);
	}
}

double reading_value(const struct reading *r, const char *name, const char *labels)
{
	return known_value(r->set, name, labels);
}

const char *reading_why(const struct reading *r, const char *name, const char *labels)
{
	return known_why(r->set, name, labels);
}

bool reading_has(const struct reading *r, const char *name, const char *labels)
{
	struct probe_view v;

	return known_find(r->set, name, labels, &v);
}
