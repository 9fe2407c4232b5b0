/* SPDX-License-Identifier: Apache-2.0
 *
 * bigmem.c - malloc(), with an advice to the kernel from a size on where it pays. It does not in
 * a virtual machine whose free pages go back to its host: those are the large ones, and each costs
 * a way through the host then.
 */
#include "base/bigmem.h"

#include <glob.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BIGMEM_PAGE ((size_t)2 << 20)
#define BIGMEM_LEAST (4 * BIGMEM_PAGE)
#define BIGMEM_BALLOONS "/sys/bus/virtio/drivers/virtio_balloon/virtio*/features"
#define BIGMEM_REPORTING 5 /* VIRTIO_BALLOON_F_REPORTING; features are text, a 0 or 1 each */

static bool gives_back(void)
{
	glob_t found = {0};
	bool ret = false;

	if (!glob(BIGMEM_BALLOONS, 0, NULL, &found)) {
		for (size_t i = 0; i < found.gl_pathc; i++) {
			FILE *f = fopen(found.gl_pathv[i], "re");
			char bits[BIGMEM_REPORTING + 2] = "";

			if (f && fgets(bits, sizeof(bits), f))
				ret |= bits[BIGMEM_REPORTING] == '1';
			if (f)
				fclose(f);
		}
	}
	globfree(&found);
	return ret;
}

/* Does it pay here? Looked up once. */
static bool pays(size_t bytes)
{
	static _Atomic int known; /* 1: no, 2: yes */
	int is = bytes < BIGMEM_LEAST ? 1 : atomic_load(&known);

	if (!is) {
		is = gives_back() ? 1 : 2;
		atomic_store(&known, is);
	}
	return is == 2;
}

/* An advice on the large pages that lie within p: without it all works as well. */
static void advise(void *p, size_t bytes)
{
#ifdef MADV_HUGEPAGE
	uintptr_t from = ((uintptr_t)p + BIGMEM_PAGE - 1) & ~(uintptr_t)(BIGMEM_PAGE - 1);
	uintptr_t to = ((uintptr_t)p + bytes) & ~(uintptr_t)(BIGMEM_PAGE - 1);

	if (to > from)
		(void)madvise((char *)p + (from - (uintptr_t)p), to - from, MADV_HUGEPAGE);
#else
	(void)p;
	(void)bytes;
#endif
}

void *bigmem_alloc(size_t bytes)
{
	void *p;

	if (!pays(bytes) || posix_memalign(&p, BIGMEM_PAGE, bytes))
		return malloc(bytes);
	advise(p, bytes);
	return p;
}

void *bigmem_zeroed(size_t bytes)
{
	void *p = calloc(1, bytes);

	if (p && pays(bytes))
		advise(p, bytes);
	return p;
}
