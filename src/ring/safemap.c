/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/safemap.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

struct safemap {
	_Atomic(char *) base; /* NULL: free */
	size_t len;
	atomic_int broken;
};

static struct safemap safemaps[SAFEMAP_MAX];

static void safemap_on_sigbus(int sig, siginfo_t *info, void *context)
{
	char *at = info->si_addr, *base;
	size_t i;

	(void)context;
	for (i = 0; i < SAFEMAP_MAX; i++) {
		base = atomic_load(&safemaps[i].base);
		if (!base || at < base || at >= base + safemaps[i].len)
			continue;
		atomic_store(&safemaps[i].broken, 1);
		if (mmap(base, safemaps[i].len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == base)
			return;
	}
	/* Not ours: back to the default, and the access faults again. */
	signal(sig, SIG_DFL);
}

static int safemap_install(void)
{
	struct sigaction sa = {.sa_sigaction = safemap_on_sigbus,
			       .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigemptyset(&sa.sa_mask);
	return sigaction(SIGBUS, &sa, NULL) < 0 ? -errno : 0;
}

int safemap_new(int fd, size_t len, struct safemap **ret)
{
	int err = safemap_install();
	struct safemap *g = NULL;
	char *base;
	size_t i;

	for (i = 0; i < SAFEMAP_MAX && !err && !g; i++)
		if (!atomic_load(&safemaps[i].base))
			g = &safemaps[i];
	if (err)
		return err;
	if (!g)
		return -ENOSPC;
	base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	g->len = len;
	atomic_store(&g->broken, 0);
	atomic_store(&g->base, base);
	*ret = g;
	return 0;
}

void *safemap_base(const struct safemap *g)
{
	return atomic_load(&g->base);
}

int safemap_is_broken(const struct safemap *g)
{
	return atomic_load(&g->broken);
}

void safemap_free(struct safemap *g)
{
	char *base = g ? atomic_load(&g->base) : NULL;

	if (!base)
		return;
	munmap(base, g->len);
	atomic_store(&g->base, NULL);
}
