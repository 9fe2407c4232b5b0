/* SPDX-License-Identifier: Apache-2.0
 *
 * nvidia_event.c - what NVIDIA's driver reports by itself: Xid errors, and what befell the
 * memory.
 */
#include "probe/gpu/nvidia_dev.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define NVIDIA_EVENTS_ROUND 32 /* events taken in one reading */

static const struct {
	unsigned xid;
	const char *text;
} nvidia_xids[] = {
	{13, "an error of the program on the GPU (illegal address or instruction)"},
	{31, "a page fault of the program on the GPU"},
	{32, "a broken command stream: driver, PCIe or memory"},
	{43, "the program's channel was stopped after its own error"},
	{45, "a channel was removed, as when a program is killed"},
	{48, "a memory error that could not be corrected: the GPU is to be reset"},
	{61, "the GPU's own controller stopped"},
	{62, "the GPU's own controller halted"},
	{63, "a row of memory will be replaced at the next reset"},
	{64, "a row of memory could not be replaced"},
	{74, "an error of NVLink"},
	{79, "the GPU fell off the bus: reboot, and check power, cooling and seating"},
	{92, "many memory errors that were corrected"},
	{94, "a memory error that hit one program: restart it"},
	{95, "a memory error that hit all programs: reset the GPU"},
	{119, "the GPU's system processor does not answer: reset the GPU"},
	{120, "the GPU's system processor failed: reset the GPU"},
	{149, "an error of NVLink's network"},
};

static const struct {
	unsigned long long type;
	int severity;
	const char *text;
} nvidia_types[] = {
	{NVML_EVENT_DOUBLE_BIT_ECC, 3, "a memory error could not be corrected"},
	{NVML_EVENT_SINGLE_BIT_STORM, 2, "a storm of memory errors that are corrected"},
	{NVML_EVENT_DRAM_RETIREMENT, 2, "memory was retired"},
	{NVML_EVENT_DRAM_RETIREMENT_FAILED, 3, "memory could not be retired"},
	{NVML_EVENT_POISON, 3, "poisoned data was found and contained"},
	{NVML_EVENT_POISON_FATAL, 3, "poisoned data was found and not contained"},
	{NVML_EVENT_UNAVAILABLE, 3, "the GPU is not available"},
	{NVML_EVENT_RECOVERY, 2, "the driver wants the GPU to be recovered (gpu/recovery)"},
};

static void nvidia_xid(struct probe_set *s, struct nvidia_gpu *g, unsigned long long xid)
{
	const char *what = "see NVIDIA's list of XIDs";
	char text[400], more[64], attrs[200];
	size_t i;

	for (i = 0; i < ARRAY_LEN(nvidia_xids); i++)
		if (nvidia_xids[i].xid == xid)
			what = nvidia_xids[i].text;
	g->xids++;
	snprintf(more, sizeof(more), ",\"xid\":%llu", xid);
	nvidia_attrs(g, attrs, sizeof(attrs), more);
	if (xid == 999)
		snprintf(text, sizeof(text), "GPU %u (%s): the driver reports an error", g->number,
			 g->name);
	else
		snprintf(text, sizeof(text), "GPU %u (%s): Xid %llu, %s", g->number, g->name, xid,
			 what);
	probe_event(s, 3, "xid", text, attrs);
}

static void nvidia_event(struct nvidia *n, struct probe_set *s, const struct nvml_event *e)
{
	struct nvidia_gpu *g = NULL;
	char text[400], attrs[200];
	size_t i;

	for (i = 0; i < n->n && !g; i++)
		if (n->gpus[i].handle == e->device && n->gpus[i].parent < 0)
			g = &n->gpus[i];
	if (!g)
		return;
	if (e->type & NVML_EVENT_XID) {
		nvidia_xid(s, g, e->data);
		return;
	}
	for (i = 0; i < ARRAY_LEN(nvidia_types); i++) {
		if (!(e->type & nvidia_types[i].type))
			continue;
		snprintf(text, sizeof(text), "GPU %u (%s): %s", g->number, g->name,
			 nvidia_types[i].text);
		nvidia_attrs(g, attrs, sizeof(attrs), "");
		probe_event(s, nvidia_types[i].severity, "gpu-fault", text, attrs);
	}
}

void nvidia_events(struct nvidia *n, struct probe_set *s)
{
	struct nvml_event e;
	int i;

	if (!n->set || !n->nvml->api.event_wait)
		return;
	for (i = 0; i < NVIDIA_EVENTS_ROUND; i++) {
		memset(&e, 0, sizeof(e));
		nvml_begin(n->nvml);
		if (nvml_end(n->nvml, NVML_CALL_EVENTS, n->nvml->api.event_wait(n->set, &e, 0)))
			return;
		nvidia_event(n, s, &e);
	}
}
