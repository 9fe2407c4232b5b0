/* SPDX-License-Identifier: Apache-2.0
 *
 * judge PAGE RUN - what the oracle says of a stored run, as JSON, for tests that
 * are not written in C. Exit status 0 whatever it says; 1: it cannot be read.
 */
#include "base/json.h"
#include "oracle.h"

#include <stdio.h>
#include <string.h>

static void judge_process(struct json *j, const struct calls_process *page,
			  const struct oracle_process *p)
{
	uint64_t worst = 0;
	int i;

	for (i = 0; i < CALLS_SLOTS; i++)
		if (page->slot[i].worst_ns > worst)
			worst = page->slot[i].worst_ns;
	json_object(j);
	json_kuint(j, "pid", page->pid);
	json_kuint(j, "closed", page->state == CALLS_CLOSED);
	json_kuint(j, "found", p->found);
	json_kuint(j, "returned", p->returned);
	json_kuint(j, "points", p->points);
	json_kuint(j, "stored", p->stored);
	json_kuint(j, "dropped", p->dropped);
	json_kuint(j, "overwritten", p->overwritten);
	json_kuint(j, "broken", p->broken);
	json_kuint(j, "worst_ns", worst);
	json_object_end(j);
}

int main(int argc, char **argv)
{
	static struct calls calls;
	static struct oracle o;
	struct buf out;
	struct json j;
	uint64_t i;

	if (argc != 3) {
		fprintf(stderr, "usage: judge PAGE RUN_FOLDER\n");
		return 2;
	}
	if (oracle_calls(argv[1], &calls) < 0) {
		fprintf(stderr, "judge: %s: no page of calls\n", argv[1]);
		return 1;
	}
	oracle_judge(argv[2], &calls, false, &o);
	buf_init(&out, 4u << 20);
	json_init(&j, &out);
	json_object(&j);
	json_kstr(&j, "outcome", run_outcome_name(o.outcome));
	json_kint(&j, "code", o.code);
	json_kint(&j, "signal", o.signal);
	json_kstr(&j, "id", o.id);
	json_kstr(&j, "problems", buf_str(&o.problems));
	json_kstr(&j, "events", buf_str(&o.events));
	json_kstr(&j, "warning", buf_str(&o.warning));
	json_key(&j, "processes");
	json_array(&j);
	for (i = 0; i < o.n; i++)
		judge_process(&j, &calls.process[i], &o.process[i]);
	json_array_end(&j);
	json_object_end(&j);
	puts(buf_str(&out));
	buf_done(&out);
	oracle_done(&o);
	return 0;
}
