/* SPDX-License-Identifier: Apache-2.0
 *
 * failtest.c - see failtest.h.
 */
#include "failtest.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/store_priv.h"

/* Operations until the one that fails; that and all behind it (forever) or only
 * it. 0: off. */
static atomic_long failure_countdown;
static atomic_bool failure_hit;
bool failure_forever, failure_dies;

static bool failure_now(void)
{
	long left = atomic_load(&failure_countdown);

	while (left > (failure_forever ? 1 : 0) &&
	       !atomic_compare_exchange_weak(&failure_countdown, &left, left - 1))
		;
	if (left != 1)
		return false;
	if (failure_dies)
		_exit(FAILURE_DEATH);
	atomic_store(&failure_hit, true);
	return true;
}

bool failure_was_hit(void)
{
	return atomic_load(&failure_hit);
}

void failure_arm(long at)
{
	atomic_store(&failure_hit, false);
	atomic_store(&failure_countdown, at);
}

/* ---- a disk that fails ---------------------------------------------------------------- */

struct shim_file {
	sqlite3_file base;
	sqlite3_file *real;
};

static sqlite3_vfs shim_vfs, *shim_real;
int shim_code;
static bool shim_on;

static sqlite3_file *shim_of(sqlite3_file *f)
{
	return ((struct shim_file *)f)->real;
}

#define SHIM(name, args, call, code)                                                               \
	static int shim_##name args                                                                \
	{                                                                                          \
		if (failure_now())                                                                 \
			return shim_code ? shim_code : (code);                                     \
		return shim_of(f)->pMethods->call;                                                 \
	}
#define PASS(name, args, call)                                                                     \
	static int shim_##name args                                                                \
	{                                                                                          \
		return shim_of(f)->pMethods->call;                                                 \
	}

SHIM(read, (sqlite3_file * f, void *p, int n, sqlite3_int64 at), xRead(shim_of(f), p, n, at),
     SQLITE_IOERR_READ)
SHIM(write, (sqlite3_file * f, const void *p, int n, sqlite3_int64 at),
     xWrite(shim_of(f), p, n, at), SQLITE_IOERR_WRITE)
SHIM(truncate, (sqlite3_file * f, sqlite3_int64 n), xTruncate(shim_of(f), n), SQLITE_IOERR_TRUNCATE)
SHIM(sync, (sqlite3_file * f, int flags), xSync(shim_of(f), flags), SQLITE_IOERR_FSYNC)
SHIM(size, (sqlite3_file * f, sqlite3_int64 *n), xFileSize(shim_of(f), n), SQLITE_IOERR_FSTAT)
PASS(lock, (sqlite3_file * f, int how), xLock(shim_of(f), how))
PASS(unlock, (sqlite3_file * f, int how), xUnlock(shim_of(f), how))
PASS(reserved, (sqlite3_file * f, int *ret), xCheckReservedLock(shim_of(f), ret))
PASS(control, (sqlite3_file * f, int op, void *arg), xFileControl(shim_of(f), op, arg))
PASS(sector, (sqlite3_file * f), xSectorSize(shim_of(f)))
PASS(device, (sqlite3_file * f), xDeviceCharacteristics(shim_of(f)))
PASS(shm_map, (sqlite3_file * f, int page, int size, int extend, void volatile **p),
     xShmMap(shim_of(f), page, size, extend, p))
PASS(shm_lock, (sqlite3_file * f, int at, int n, int flags), xShmLock(shim_of(f), at, n, flags))
PASS(shm_unmap, (sqlite3_file * f, int delete), xShmUnmap(shim_of(f), delete))

static void shim_barrier(sqlite3_file *f)
{
	shim_of(f)->pMethods->xShmBarrier(shim_of(f));
}

static int shim_close(sqlite3_file *f)
{
	return shim_of(f)->pMethods->xClose(shim_of(f));
}

static const sqlite3_io_methods shim_methods = {
	.iVersion = 2,
	.xClose = shim_close,
	.xRead = shim_read,
	.xWrite = shim_write,
	.xTruncate = shim_truncate,
	.xSync = shim_sync,
	.xFileSize = shim_size,
	.xLock = shim_lock,
	.xUnlock = shim_unlock,
	.xCheckReservedLock = shim_reserved,
	.xFileControl = shim_control,
	.xSectorSize = shim_sector,
	.xDeviceCharacteristics = shim_device,
	.xShmMap = shim_shm_map,
	.xShmLock = shim_shm_lock,
	.xShmBarrier = shim_barrier,
	.xShmUnmap = shim_shm_unmap,
};

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out)
{
	struct shim_file *mine = (struct shim_file *)f;
	int rc;

	(void)vfs;
	f->pMethods = NULL;
	if (failure_now())
		return SQLITE_CANTOPEN;
	mine->real = (sqlite3_file *)(mine + 1);
	rc = shim_real->xOpen(shim_real, name, mine->real, flags, out);
	if (rc == SQLITE_OK)
		f->pMethods = &shim_methods;
	return rc;
}

static int shim_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	(void)vfs;
	return failure_now() ? SQLITE_IOERR_DELETE : shim_real->xDelete(shim_real, name, sync);
}

void shim_install(void)
{
	shim_real = sqlite3_vfs_find(NULL);
	shim_vfs = *shim_real;
	shim_vfs.zName = "shim";
	shim_vfs.szOsFile = (int)sizeof(struct shim_file) + shim_real->szOsFile;
	shim_vfs.xOpen = shim_open;
	shim_vfs.xDelete = shim_delete;
	sqlite3_vfs_register(&shim_vfs, 1);
	shim_on = true;
}

void shim_remove(void)
{
	shim_on = false;
	sqlite3_vfs_register(shim_real, 1);
	sqlite3_vfs_unregister(&shim_vfs);
}

/* ---- memory that fails --------------------------------------------------------------------- */

/* The linker leads calls of the store and of what is below it here. Those inside
 * the x family, which never fail by contract, are let through. */
static _Thread_local int memory_sure;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__real_xcalloc(size_t n, size_t size);
void *__real_xrealloc(void *p, size_t n, size_t size);
void *__wrap_xcalloc(size_t n, size_t size);
void *__wrap_xrealloc(void *p, size_t n, size_t size);

bool memory_on; /* else failures are the disk's */

static bool memory_fails(void)
{
	return memory_on && !memory_sure && failure_now();
}

void *__wrap_malloc(size_t n)
{
	return memory_fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return memory_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return memory_fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_xcalloc(size_t n, size_t size)
{
	void *p;

	memory_sure++;
	p = __real_xcalloc(n, size);
	memory_sure--;
	return p;
}

void *__wrap_xrealloc(void *p, size_t n, size_t size)
{
	memory_sure++;
	p = __real_xrealloc(p, n, size);
	memory_sure--;
	return p;
}

void *__real_xgrow(void *items, size_t len, size_t *cap, size_t size);
void *__wrap_xgrow(void *items, size_t len, size_t *cap, size_t size);

void *__wrap_xgrow(void *items, size_t len, size_t *cap, size_t size)
{
	void *p;

	memory_sure++;
	p = __real_xgrow(items, len, cap, size);
	memory_sure--;
	return p;
}

char *__real_xstrdup(const char *text);
char *__real_xstrndup(const char *text, size_t n);
char *__wrap_xstrdup(const char *text);
char *__wrap_xstrndup(const char *text, size_t n);

char *__wrap_xstrdup(const char *text)
{
	char *copy;

	memory_sure++;
	copy = __real_xstrdup(text);
	memory_sure--;
	return copy;
}

char *__wrap_xstrndup(const char *text, size_t n)
{
	char *copy;

	memory_sure++;
	copy = __real_xstrndup(text, n);
	memory_sure--;
	return copy;
}

static sqlite3_mem_methods memory_real;

static void *memory_malloc(int n)
{
	return memory_fails() ? NULL : memory_real.xMalloc(n);
}

static void *memory_realloc(void *p, int n)
{
	return memory_fails() ? NULL : memory_real.xRealloc(p, n);
}

/* SQLite's own memory: must be set before it is first used. */
void memory_install(void)
{
	sqlite3_mem_methods mine;

	sqlite3_config(SQLITE_CONFIG_GETMALLOC, &memory_real);
	mine = memory_real;
	mine.xMalloc = memory_malloc;
	mine.xRealloc = memory_realloc;
	sqlite3_config(SQLITE_CONFIG_MALLOC, &mine);
	sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
}

/* ---- files that are not databases ---------------------------------------------------------------
 */

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);

static bool files_fail(void)
{
	if (memory_on || !shim_on || !failure_now())
		return false;
	errno = EIO;
	return true;
}

int __wrap_rename(const char *from, const char *to)
{
	return files_fail() ? -1 : __real_rename(from, to);
}

int __wrap_fsync(int fd)
{
	return files_fail() ? -1 : __real_fsync(fd);
}

ssize_t __wrap_write(int fd, const void *data, size_t len)
{
	return files_fail() ? -1 : __real_write(fd, data, len);
}
