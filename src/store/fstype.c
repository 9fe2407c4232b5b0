/* SPDX-License-Identifier: Apache-2.0
 *
 * fstype.c - on which file systems a write-ahead log is safe: its index is
 * shared memory and its locks must hold on this machine at once, so only local
 * ones that are known. Network, FUSE, 9p and parallel file systems are not here.
 */
#include "base/mem.h"
#include "store/store_priv.h"

#include <sys/vfs.h>

static const struct fstype {
	uint64_t magic;
	const char *name;
} fstype_local[] = {
	{0xef53, "ext2, ext3, ext4"}, {0x58465342, "xfs"},       {0x9123683e, "btrfs"},
	{0xca451a4e, "bcachefs"},     {0x2fc12fc1, "zfs"},       {0xf2f52010, "f2fs"},
	{0x3153464a, "jfs"},          {0x52654973, "reiserfs"},  {0x01021994, "tmpfs"},
	{0x858458f6, "ramfs"},        {0x794c7630, "overlayfs"},
};

bool fstype_is_wal_safe_magic(uint64_t magic)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(fstype_local); i++)
		if (fstype_local[i].magic == magic)
			return true;
	return false;
}

bool fstype_is_wal_safe(const char *dir)
{
	struct statfs st;

	return statfs(dir, &st) == 0 && fstype_is_wal_safe_magic((uint64_t)st.f_type & 0xffffffffu);
}

bool store_wal_is_safe(const char *dir)
{
	return fstype_is_wal_safe(dir);
}
