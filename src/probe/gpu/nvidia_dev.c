/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/gpu/nvidia_dev.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "probe/gpu/nvidia_field.h"
#include "probe/gpu/nvidia_gpm.h"
#include "probe/linux/textfile.h"
#include "wire/clock.h"

#define NVIDIA_FACTS_ROUND 4 /* GPUs whose facts are told in one reading */

static struct nvidia *nvidia_session;                           /* of the GPU thread */
static pthread_mutex_t nvidia_lock = PTHREAD_MUTEX_INITIALIZER; /* of nvidia_session and users */

void nvidia_labels(const struct nvidia_gpu *g, char labels[PROBE_LABELS_MAX])
{
	char number[16];

	labels[0] = '\0';
	snprintf(number, sizeof(number), "%u", g->number);
	probe_label(labels, PROBE_LABELS_MAX, "gpu", number);
	if (g->parent < 0)
		return;
	snprintf(number, sizeof(number), "%u", g->mig);
	probe_label(labels, PROBE_LABELS_MAX, "mig", number);
}

void nvidia_attrs(const struct nvidia_gpu *g, char *out, size_t cap, const char *more)
{
	snprintf(out, cap, "{\"gpu\":\"%u\",\"uuid\":\"%s\"%s}", g->number, g->uuid, more);
}

/* ---- list ------------------------------------------------------------------------- */

static struct nvidia_gpu *nvidia_find(struct nvidia *n, const char *uuid)
{
	size_t i;

	for (i = 0; i < n->n; i++)
		if (strcmp(n->gpus[i].uuid, uuid) == 0)
			return &n->gpus[i];
	return NULL;
}

/* Its index, unless a GPU that is lost has that number. */
static unsigned nvidia_number(const struct nvidia *n, unsigned index)
{
	unsigned next = 0;
	bool taken = false;
	size_t i;

	for (i = 0; i < n->n; i++) {
		if (n->gpus[i].parent >= 0)
			continue;
		taken |= n->gpus[i].number == index;
		if (n->gpus[i].number >= next)
			next = n->gpus[i].number + 1;
	}
	return taken ? next : index;
}

static struct nvidia_gpu *nvidia_add(struct nvidia *n, const char *uuid)
{
	struct nvidia_gpu *g;

	if (n->n == NVIDIA_GPUS_MAX)
		return NULL;
	g = &n->gpus[n->n++];
	memset(g, 0, sizeof(*g));
	snprintf(g->uuid, sizeof(g->uuid), "%s", uuid);
	g->parent = -1;
	return g;
}

static void nvidia_describe(struct nvidia *n, struct nvidia_gpu *g)
{
	struct nvml_pci pci = {0};

	if (!n->nvml->api.name || n->nvml->api.name(g->handle, g->name, sizeof(g->name)))
		snprintf(g->name, sizeof(g->name), "NVIDIA GPU");
	g->pci[0] = '\0';
	if (n->nvml->api.pci && n->nvml->api.pci(g->handle, &pci) == NVML_OK)
		snprintf(g->pci, sizeof(g->pci), "%04x:%02x:%02x.0", pci.domain & 0xffff,
			 pci.bus & 0xff, pci.device & 0xff);
}

static void nvidia_back(struct probe_set *s, const struct nvidia_gpu *g)
{
	char text[300], attrs[200];

	if (!s)
		return;
	snprintf(text, sizeof(text), "GPU %u (%s) is back", g->number, g->name);
	nvidia_attrs(g, attrs, sizeof(attrs), "");
	probe_event(s, 1, "gpu-back", text, attrs);
}

/* Put handle into the place of uuid. `seen` gets its place. */
static struct nvidia_gpu *nvidia_place(struct nvidia *n, struct probe_set *s,
				       struct nvml_device *handle, const char *uuid, bool *seen)
{
	struct nvidia_gpu *g = nvidia_find(n, uuid);
	bool was_lost = g && !g->handle;

	if (!g)
		g = nvidia_add(n, uuid);
	if (!g)
		return NULL;
	g->handle = handle;
	seen[g - n->gpus] = true;
	if (was_lost && g->parent < 0)
		nvidia_back(s, g);
	return g;
}

static void nvidia_find_mig(struct nvidia *n, struct probe_set *s, size_t at, bool *seen)
{
	const struct nvml_api *a = &n->nvml->api;
	unsigned now = 0, pending = 0, max = 0, i;
	struct nvml_device *handle;
	struct nvidia_gpu *m;
	char uuid[96];

	n->gpus[at].divided = false;
	if (!a->mig_mode || !a->mig_max || !a->mig_by_index ||
	    a->mig_mode(n->gpus[at].handle, &now, &pending) || now != 1)
		return;
	n->gpus[at].divided = true;
	if (a->mig_max(n->gpus[at].handle, &max))
		return;
	for (i = 0; i < max && i < NVIDIA_MIG_MAX; i++) {
		if (a->mig_by_index(n->gpus[at].handle, i, &handle) ||
		    a->uuid(handle, uuid, sizeof(uuid)))
			continue;
		m = nvidia_place(n, s, handle, uuid, seen);
		if (!m)
			return;
		m->parent = (int)at;
		m->number = n->gpus[at].number;
		m->mig = i;
		snprintf(m->name, sizeof(m->name), "%s", n->gpus[at].name);
		if (!a->gpu_instance || a->gpu_instance(handle, &m->gpu_instance))
			m->gpu_instance = UINT32_MAX;
	}
}

static void nvidia_register(struct nvidia *n, struct nvidia_gpu *g)
{
	const unsigned long long wanted =
		NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT_ECC | NVML_EVENT_SINGLE_BIT_STORM |
		NVML_EVENT_DRAM_RETIREMENT | NVML_EVENT_DRAM_RETIREMENT_FAILED | NVML_EVENT_POISON |
		NVML_EVENT_POISON_FATAL | NVML_EVENT_UNAVAILABLE | NVML_EVENT_RECOVERY;
	const struct nvml_api *a = &n->nvml->api;
	unsigned long long can = NVML_EVENT_XID;

	g->events = false;
	if (!n->set || !a->event_register || !a->event_wait)
		return;
	if (a->event_types && a->event_types(g->handle, &can))
		can = NVML_EVENT_XID;
	g->events = (can & wanted) && !a->event_register(g->handle, can & wanted, n->set);
}

/* Those of the list that did not show up. */
static void nvidia_unseen(struct nvidia *n, struct probe_set *s, const bool *seen,
			  const struct probe_now *now)
{
	size_t i;

	for (i = 0; i < n->n; i++) {
		struct nvidia_gpu *g = &n->gpus[i];

		if (seen[i] || !g->handle)
			continue;
		if (g->parent < 0)
			nvidia_gone(n, s, g, NVML_GPU_NOT_FOUND, now);
		g->handle = NULL;
		g->ret = NVML_GPU_NOT_FOUND;
	}
	n->lost = false;
	for (i = 0; i < n->n; i++)
		n->lost |= !n->gpus[i].handle && n->gpus[i].parent < 0;
}

/* Learn what those can that are new. */
static void nvidia_learn(struct nvidia *n, struct probe_set *s, const struct probe_now *now)
{
	size_t i;
	int ret;

	for (i = 0; i < n->n; i++) {
		struct nvidia_gpu *g = &n->gpus[i];

		if (g->classified || !g->handle)
			continue;
		ret = g->parent < 0 ? nvidia_classify(n, g) : 0;
		if (!ret)
			ret = nvidia_gpm_classify(n, g);
		if (ret)
			nvidia_gone(n, s, g, ret, now);
		else
			g->classified = true;
	}
}

/* Go through what the driver lists. s and now NULL: at the start. */
static int nvidia_enumerate(struct nvidia *n, struct probe_set *s, const struct probe_now *now)
{
	bool seen[NVIDIA_GPUS_MAX] = {false};
	struct nvml_device *handle;
	struct nvidia_gpu *g;
	unsigned count = 0, i;
	char uuid[96];
	unsigned number;
	bool known;
	int ret;

	ret = NVML_TIMED(n->nvml, NVML_CALL_DISCOVER, n->nvml->api.count(&count));
	if (ret)
		return ret;
	for (i = 0; i < count; i++) {
		nvml_begin(n->nvml);
		ret = nvml_end(n->nvml, NVML_CALL_DISCOVER, n->nvml->api.by_index(i, &handle));
		if (ret || n->nvml->api.uuid(handle, uuid, sizeof(uuid)))
			continue;
		known = nvidia_find(n, uuid) != NULL;
		number = nvidia_number(n, i);
		g = nvidia_place(n, s, handle, uuid, seen);
		if (!g)
			break;
		if (!known)
			g->number = number;
		nvidia_describe(n, g);
		if (!g->events)
			nvidia_register(n, g);
		nvidia_find_mig(n, s, (size_t)(g - n->gpus), seen);
	}
	nvidia_unseen(n, s, seen, now);
	nvidia_learn(n, s, now);
	return 0;
}

/* ---- lost and back ------------------------------------------------------------------ */

static void nvidia_tell_lost(struct nvidia *n, struct probe_set *s, const struct nvidia_gpu *g,
			     int ret, bool all)
{
	char text[400], attrs[200];

	if (all) {
		if (!n->driver_gone)
			probe_event(s, 3, "gpu-lost",
				    "the NVIDIA driver was unloaded: no GPU can be read", "");
		return;
	}
	snprintf(text, sizeof(text), "GPU %u (%s) is lost: %s", g->number, g->name, nvml_why(ret));
	nvidia_attrs(g, attrs, sizeof(attrs), "");
	probe_event(s, 3, "gpu-lost", text, attrs);
}

bool nvidia_gone(struct nvidia *n, struct probe_set *s, struct nvidia_gpu *g, int ret,
		 const struct probe_now *now)
{
	bool all = ret == NVML_UNINITIALIZED || ret == NVML_DRIVER_NOT_LOADED;
	size_t i;

	if (!nvml_is_gone(ret))
		return false;
	if (g->parent >= 0)
		g = &n->gpus[g->parent];
	if (!g->handle)
		return true;
	if (s)
		nvidia_tell_lost(n, s, g, ret, all);
	n->driver_gone |= all;
	n->lost = true;
	n->again_ns = (now ? now->mono_ns : clock_ns(CLOCK_MONOTONIC)) + NVIDIA_AGAIN_NS;
	for (i = 0; i < n->n; i++) {
		struct nvidia_gpu *o = &n->gpus[i];

		if (!all && o != g && (o->parent < 0 || &n->gpus[o->parent] != g))
			continue;
		o->handle = NULL;
		o->ret = ret;
	}
	return true;
}

/* Free what belongs to the library as it is initialised now. */
static void nvidia_release(struct nvidia *n)
{
	size_t i;

	for (i = 0; i < n->n; i++) {
		nvidia_gpm_done(n, &n->gpus[i]);
		n->gpus[i].events = false;
	}
	if (n->set && n->nvml->api.event_set_free)
		n->nvml->api.event_set_free(n->set);
	n->set = NULL;
}

static void nvidia_make_set(struct nvidia *n)
{
	if (n->nvml->api.event_set_create && n->nvml->api.event_set_create(&n->set))
		n->set = NULL;
}

static void nvidia_again(struct nvidia *n, struct probe_set *s, const struct probe_now *now)
{
	struct err e = {0};
	size_t i;

	n->again_ns = now->mono_ns + NVIDIA_AGAIN_NS;
	nvidia_release(n);
	if (nvml_restart(n->nvml, &e)) {
		if (!n->driver_gone)
			probe_event(s, 3, "gpu-lost", e.text, "");
		n->driver_gone = true;
		for (i = 0; i < n->n; i++) {
			n->gpus[i].handle = NULL;
			n->gpus[i].ret = NVML_DRIVER_NOT_LOADED;
		}
		return;
	}
	nvidia_make_set(n);
	if (nvidia_enumerate(n, s, now) == NVML_OK)
		n->driver_gone = false;
}

static bool nvidia_changed(struct nvidia *n)
{
	unsigned count = 0, here = 0, now, pending;
	size_t i;

	if (n->nvml->api.count(&count))
		return false;
	for (i = 0; i < n->n; i++) {
		struct nvidia_gpu *g = &n->gpus[i];

		if (g->parent >= 0 || !g->handle)
			continue;
		here++;
		/* Instances are made and removed while MIG is on: then look at all. */
		now = 0;
		if (n->nvml->api.mig_mode && !n->nvml->api.mig_mode(g->handle, &now, &pending) &&
		    (now == 1 || g->divided))
			return true;
	}
	return here != count;
}

/* ---- facts --------------------------------------------------------------------------- */

static void nvidia_fact(struct probe_set *s, const struct nvidia_gpu *g, const char *key,
			const char *value)
{
	char name[64];

	if (!value[0])
		return;
	if (g->parent < 0)
		snprintf(name, sizeof(name), "gpu/%u/%s", g->number, key);
	else
		snprintf(name, sizeof(name), "gpu/%u/mig/%u/%s", g->number, g->mig, key);
	probe_fact(s, name, value);
}

static void nvidia_fact_numa(struct nvidia *n, struct probe_set *s, const struct nvidia_gpu *g)
{
	char path[96], text[32];
	uint64_t node;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", g->pci);
	if (!g->pci[0] || textfile_u64(n->root, path, &node))
		return;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)node);
	nvidia_fact(s, g, "numa", text);
}

static void nvidia_facts(struct nvidia *n, struct probe_set *s, struct nvidia_gpu *g)
{
	const struct nvml_api *a = &n->nvml->api;
	struct nvml_memory m;
	unsigned mw;
	char text[64];

	nvidia_fact(s, g, "name", g->name);
	nvidia_fact(s, g, "uuid", g->uuid);
	if (a->memory && a->memory(g->handle, &m) == NVML_OK) {
		snprintf(text, sizeof(text), "%llu", m.total);
		nvidia_fact(s, g, "memory", text);
	}
	if (g->parent >= 0)
		return;
	nvidia_fact(s, g, "vendor", "nvidia");
	nvidia_fact(s, g, "pci", g->pci);
	nvidia_fact(s, g, "mig", g->divided ? "on" : "off");
	nvidia_fact_numa(n, s, g);
	if (a->power_enforced && a->power_enforced(g->handle, &mw) == NVML_OK) {
		snprintf(text, sizeof(text), "%g", mw / 1e3);
		nvidia_fact(s, g, "power_limit", text);
	}
}

static void nvidia_tell(struct nvidia *n, struct probe_set *s)
{
	int cuda = 0, told = 0;
	char text[32];
	size_t i;

	for (i = 0; i < n->n && told < NVIDIA_FACTS_ROUND; i++) {
		struct nvidia_gpu *g = &n->gpus[i];

		if (g->told || !g->handle)
			continue;
		g->told = true;
		told++;
		nvidia_facts(n, s, g);
	}
	if (!told)
		return;
	if (n->driver[0])
		probe_fact(s, "gpu/nvidia/driver", n->driver);
	if (n->nvml->api.cuda_version && n->nvml->api.cuda_version(&cuda) == NVML_OK) {
		snprintf(text, sizeof(text), "%d.%d", cuda / 1000, cuda % 1000 / 10);
		probe_fact(s, "gpu/nvidia/cuda", text);
	}
}

void nvidia_check(struct nvidia *n, struct probe_set *s, const struct probe_now *now)
{
	if (n->lost && now->mono_ns >= n->again_ns) {
		nvidia_again(n, s, now);
	} else if (!n->look_ns) {
		n->look_ns = now->mono_ns + NVIDIA_LOOK_NS;
	} else if (now->mono_ns >= n->look_ns) {
		n->look_ns = now->mono_ns + NVIDIA_LOOK_NS;
		if (!n->lost && nvidia_changed(n))
			nvidia_enumerate(n, s, now);
	}
	nvidia_tell(n, s);
}

/* ---- session --------------------------------------------------------------------------- */

static void nvidia_free(struct nvidia *n)
{
	if (n->nvml) {
		nvidia_release(n);
		nvml_close(n->nvml);
	}
	free(n->gpm_get);
	free(n->gpus);
	free(n);
}

static int nvidia_make(const struct probe_env *env, struct nvidia **ret, struct err *e)
{
	struct nvidia *n = calloc(1, sizeof(*n));
	int err = -ENOMEM, got;

	if (n)
		n->gpus = calloc(NVIDIA_GPUS_MAX, sizeof(*n->gpus));
	if (n)
		n->gpm_get = calloc(1, sizeof(*n->gpm_get));
	if (n && n->gpus && n->gpm_get)
		err = nvml_open(&n->nvml, e);
	if (err) {
		if (n)
			nvidia_free(n);
		return err;
	}
	n->root = env->root;
	nvidia_make_set(n);
	if (!n->nvml->api.driver_version ||
	    n->nvml->api.driver_version(n->driver, sizeof(n->driver)))
		n->driver[0] = '\0';
	got = nvidia_enumerate(n, NULL, NULL);
	if (got || n->n == 0) {
		err_set(e, -ENODEV, "the NVIDIA driver %s: %s",
			got ? "does not list its GPUs" : "lists no GPU that this user may use",
			got ? nvml_why(got) : "check the cgroup's device list and --gpus");
		nvidia_free(n);
		return -ENODEV;
	}
	*ret = n;
	return 0;
}

int nvidia_open(const struct probe_env *env, struct nvidia **ret, struct err *e)
{
	int err = 0;

	/* A stored tree is another machine: what the driver of this one says does not belong
	 * to it, unless the library is a stored one too. */
	if (env->root[0] && !getenv("LAPSE_NVML"))
		return err_set(e, -ENODEV, "the tree %s has no driver to ask", env->root);
	pthread_mutex_lock(&nvidia_lock);
	if (!nvidia_session)
		err = nvidia_make(env, &nvidia_session, e);
	if (!err) {
		nvidia_session->users++;
		*ret = nvidia_session;
	}
	pthread_mutex_unlock(&nvidia_lock);
	return err;
}

void nvidia_close(struct nvidia *n)
{
	if (!n)
		return;
	pthread_mutex_lock(&nvidia_lock);
	if (--n->users == 0) {
		nvidia_session = NULL;
		nvidia_free(n);
	}
	pthread_mutex_unlock(&nvidia_lock);
}
