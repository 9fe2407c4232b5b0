/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_ask.c - parameters of the routes about a run's data: lines NAME=VALUE as one
 * request to each of them. What passes the table must parse or be refused with a sentence;
 * a time that is taken must become the same again.
 */
#include "server/ask.h"
#include "server/eventlist.h"
#include "server/routes_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct store_series fuzz_series[] = {
	{.host_name = "node0",
	 .id = 1,
	 .rank = -1,
	 .role = "host",
	 .name = "gpu/busy",
	 .labels = "gpu=\"0\"",
	 .unit = "1",
	 .help = "",
	 .source = "probe",
	 .kind = SINK_GAUGE},
	{.host_name = "node0",
	 .id = 2,
	 .rank = 0,
	 .role = "trainer",
	 .name = "tokens",
	 .labels = "",
	 .unit = "",
	 .help = "",
	 .source = "record",
	 .kind = SINK_COUNTER},
};

static void fuzz_times(const char *text)
{
	int64_t ns, again;
	struct buf b;

	if (ask_ms(text, &ns) != 0)
		return;
	buf_init(&b, 64);
	ask_put_ms(&b, ns);
	if (ask_ms(buf_str(&b), &again) != 0 || again != ns)
		abort();
	buf_done(&b);
}

static void fuzz_range(const struct route_ask *a)
{
	const struct ask_text t = {.axis = param_text(a, "axis"),
				   .from = param_text(a, "from"),
				   .to = param_text(a, "to"),
				   .attempts = param_text(a, "attempts")};
	struct err e = {0};
	struct ask ask;
	int r = ask_parse(&t, 1767323045123456789LL, &ask, &e);

	if ((r < 0) != (e.text[0] != '\0') || (r < 0 && r != -EINVAL))
		abort();
	if (r == 0 && ask.range.by_time && ask.range.time_min > ask.range.time_max)
		abort();
	if (r == 0 && ask.range.by_step && ask.range.step_min == SINK_STEP_NONE)
		abort();
}

static void fuzz_series_of(const struct route_ask *a)
{
	static const struct ask_limit limit = {3, "ask for fewer"};
	static struct runview view = {.series = (struct store_series *)fuzz_series, .n_series = 2};
	struct http_reply reply = {.body = {.max = 1 << 20}};
	struct ask_series chosen;
	struct querydata q;

	querydata_init(&q, &view);
	if (ask_choose(a, &q, &limit, &chosen, &reply)) {
		if (q.n == 0 || q.n > 3 || reply.status)
			abort();
		if (param_text(a, "group"))
			querydata_group(&q, param_text(a, "group"));
	} else if (reply.status < 400 || reply.body.len == 0) {
		abort();
	}
	querydata_done(&q);
	buf_done(&reply.body);
}

static void fuzz_route(const struct route *route, const struct http_request *r)
{
	const struct route_ask a = {.request = r, .route = route};
	struct http_reply reply = {.body = {.max = 1 << 20}};
	struct eventlist_at at;
	size_t i;

	if (params_check(route, r, &reply)) {
		fuzz_range(&a);
		fuzz_series_of(&a);
		if (param_text(&a, "after"))
			eventlist_parse_at(param_text(&a, "after"), &at);
	} else if (reply.status != 400 || reply.body.len == 0) {
		abort();
	}
	buf_done(&reply.body);
	for (i = 0; i < r->n_params; i++)
		fuzz_times(r->params[i].value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct route *const groups[] = {route_query, route_events, route_export,
						     route_compat};
	static struct http_request r;
	char *text = malloc(size + 1), *line, *equals, *save = NULL;
	size_t i, k;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	r = (struct http_request){.method = "GET", .path = "/"};
	for (line = strtok_r(text, "\n", &save); line && r.n_params < HTTP_PARAMS_MAX;
	     line = strtok_r(NULL, "\n", &save)) {
		equals = strchr(line, '=');
		if (equals)
			*equals = '\0';
		r.params[r.n_params].name = line;
		r.params[r.n_params++].value = equals ? equals + 1 : "";
	}
	for (i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		for (k = 0; groups[i][k].path; k++)
			fuzz_route(&groups[i][k], &r);
	free(text);
	return 0;
}
