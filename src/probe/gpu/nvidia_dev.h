/* SPDX-License-Identifier: Apache-2.0
 *
 * nvidia_dev.h - the NVIDIA GPUs of the machine and their MIG instances: found once,
 * looked for again, lost and back. Shared by the groups of the GPU thread, which alone may
 * call these functions.
 */
#ifndef PROBE_GPU_NVIDIA_DEV_H
#define PROBE_GPU_NVIDIA_DEV_H

#include "probe/gpu/nvml.h"
#include "probe/probe.h"

#define NVIDIA_GPUS_MAX 512         /* GPUs and instances followed */
#define NVIDIA_MIG_MAX 16           /* instances of a GPU looked for */
#define NVIDIA_FIELDS_MAX 40        /* rows of nvidia_fields (nvidia_field.h) */
#define NVIDIA_SLOW_NS 100000       /* what takes longer is for the slow group */
#define NVIDIA_LOOK_NS 60000000000  /* between looks for new GPUs and instances */
#define NVIDIA_AGAIN_NS 30000000000 /* between attempts to find a lost one */

/* What is asked how, learned when a GPU is found. */
enum nvidia_class {
	NVIDIA_NO, /* not told; why says why */
	NVIDIA_FAST,
	NVIDIA_SLOW
};

struct nvidia_gpu {
	struct nvml_device *handle; /* NULL while it is lost */
	char uuid[96], name[96];
	char pci[16];    /* "0000:18:00.0", as /sys names it; "" unknown */
	unsigned number; /* label gpu: NVIDIA's index, kept for this uuid */
	int parent;      /* of an instance: its GPU's place in the list; -1 */
	unsigned mig;    /* of an instance: label mig */
	unsigned gpu_instance;
	bool divided; /* MIG is on */
	bool classified, told;
	int ret; /* why it is lost */

	uint8_t field[NVIDIA_FIELDS_MAX]; /* enum nvidia_class */
	const char *field_why[NVIDIA_FIELDS_MAX];
	bool throttle_slow; /* fields of reasons are read by the slow group */

	enum nvidia_class gpm;
	const char *gpm_why;
	struct nvml_gpm_sample *gpm_sample[2];
	int64_t gpm_ns; /* CLOCK_MONOTONIC of gpm_sample[0]; 0: none */

	uint64_t xids;
	bool events; /* registered */
};

struct nvidia {
	struct nvml *nvml;
	struct nvidia_gpu *gpus; /* never removed: a place stays a GPU's */
	size_t n;
	unsigned users, generation;
	struct nvml_event_set *set;
	struct nvml_gpm_get *gpm_get; /* room for an answer */
	char driver[80];
	const char *root;
	int64_t look_ns, again_ns; /* CLOCK_MONOTONIC when next */
	bool lost;                 /* some are */
	bool driver_gone;
};

/* Find all. 0, -ENODEV and *e, -ENOMEM. */
int nvidia_open(const struct probe_env *env, struct nvidia **ret, struct err *e);
void nvidia_close(struct nvidia *n);

/* Look for what came, went and came back, when it is time; events and some facts go to s. */
void nvidia_check(struct nvidia *n, struct probe_set *s, const struct probe_now *now);

/* A call said `ret` for g: if that means that it is gone, remember and tell, and return true. */
bool nvidia_gone(struct nvidia *n, struct probe_set *s, struct nvidia_gpu *g, int ret,
		 const struct probe_now *now);

/* Labels gpu="0" or gpu="0",mig="1" into labels. */
void nvidia_labels(const struct nvidia_gpu *g, char labels[PROBE_LABELS_MAX]);

/* The JSON object of an event of g: its number and uuid, and more (",\"xid\":79"). */
void nvidia_attrs(const struct nvidia_gpu *g, char *out, size_t cap, const char *more);

/* Read the events that the driver has collected: each is an event of s, XIDs are counted in
 * gpus[].xids. */
void nvidia_events(struct nvidia *n, struct probe_set *s);

#endif
