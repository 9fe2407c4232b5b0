/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor_ports.c - whether the dashboard can be served, and who listens on the ports that
 * dashboards and exporters use.
 */
#include "cli/doctor.h"

#include "base/mem.h"
#include "base/ports.h"
#include "cli/servewatch.h"
#include "server/mhd.h"
#include "wire/rendezvous.h"

#include <unistd.h>

static const struct {
	int port;
	const char *what;
} ports_rows[] = {
	{8080, "the dashboard"},
	{6006, "TensorBoard"},
	{8000, "a Prometheus exporter in training programs"},
	{8050, "Dash applications"},
	{9400, "the DCGM exporter"},
};

/* The library, and the server that goes with the agent. */
static void ports_dashboard(struct doctor *d)
{
	int dirfd = rendezvous_open(0);
	struct err e = {0};
	char url[512];

	if (!mhd_load(&e))
		doctor_add(d, "dashboard", DOCTOR_NOTE, "install libmicrohttpd12",
			   "%s; without it there is no dashboard", e.text);
	else if (dirfd >= 0 && servewatch_url(dirfd, url, sizeof(url)))
		doctor_add(d, "dashboard", DOCTOR_OK, NULL, "of live runs: %s", url);
	else
		doctor_add(d, "dashboard", DOCTOR_OK, NULL, "libmicrohttpd %s: it can be served",
			   mhd_load(NULL)->get_version());
	if (dirfd >= 0)
		close(dirfd);
}

void doctor_ports(struct doctor *d)
{
	char who[160];
	size_t i;

	ports_dashboard(d);
	for (i = 0; i < ARRAY_LEN(ports_rows); i++)
		if (ports_listener(ports_rows[i].port, who, sizeof(who)))
			doctor_add(d, "ports", DOCTOR_NOTE, NULL,
				   "%d, the usual port of %s, is held by %s", ports_rows[i].port,
				   ports_rows[i].what, who);
}
