/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

struct guard {
	_Atomic(char *) base; /* NULL: free */
	size_t len;
	atomic_int broken;
};

static struct guard guards[GUARD_MAX];

static void guard_on_sigbus(int sig, siginfo_t *info, void *context)
{
	char *at = info->si_addr, *base;
	size_t i;

	(void)context;
	for (i = 0; i < GUARD_MAX; i++) {
		base = atomic_load(&guards[i].base);
		if (!base || at < base || at >= base + guards[i].len)
			continue;
		atomic_store(&guards[i].broken, 1);
		if (mmap(base, guards[i].len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == base)
			return;
	}
	/* Not ours: back to the default, and the access faults again. */
	signal(sig, SIG_DFL);
}

static int guard_install(void)
{
	struct sigaction sa = {.sa_sigaction = guard_on_sigbus,
			       .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigemptyset(&sa.sa_mask);
	return sigaction(SIGBUS, &sa, NULL) < 0 ? -errno : 0;
}

int guard_map(int fd, size_t len, struct guard **ret)
{
	int err = guard_install();
	struct guard *g = NULL;
	char *base;
	size_t i;

	for (i = 0; i < GUARD_MAX && !err && !g; i++)
		if (!atomic_load(&guards[i].base))
			g = &guards[i];
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

void *guard_base(const struct guard *g)
{
	return atomic_load(&g->base);
}

int guard_is_broken(const struct guard *g)
{
	return atomic_load(&g->broken);
}

void guard_unmap(struct guard *g)
{
	char *base = g ? atomic_load(&g->base) : NULL;

	if (!base)
		return;
	munmap(base, g->len);
	atomic_store(&g->base, NULL);
}
