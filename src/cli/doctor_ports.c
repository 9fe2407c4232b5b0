/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor_ports.c - who listens on the ports that dashboards and exporters use.
 */
#include "cli/doctor.h"

#include "base/mem.h"
#include "base/ports.h"

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

void doctor_ports(struct doctor *d)
{
	char who[160];
	size_t i;

	for (i = 0; i < ARRAY_LEN(ports_rows); i++)
		if (ports_listener(ports_rows[i].port, who, sizeof(who)))
			doctor_add(d, "ports", DOCTOR_NOTE, NULL,
				   "%d, the usual port of %s, is held by %s", ports_rows[i].port,
				   ports_rows[i].what, who);
}
