/* SPDX-License-Identifier: Apache-2.0
 *
 * folder.h - a run's folder as files: is it one, is somebody writing it, how large
 * is it; and removing it so that whoever is killed meanwhile leaves no half of
 * a run. Links are never followed, other file systems not entered.
 */
#ifndef STORE_FOLDER_H
#define STORE_FOLDER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum folder_state {
	FOLDER_ENDED, /* all hosts' ends are recorded, and nobody writes */
	FOLDER_OPEN,  /* no end is recorded or it cannot be read, but nobody writes here; it
			 has not changed for FOLDER_QUIET_S */
	FOLDER_LIVE   /* a process of this machine writes it, or it has changed lately
			 without an end: perhaps another machine does */
};

#define FOLDER_QUIET_S (24 * 3600)

struct folder_info {
	enum folder_state state;
	bool is_written;   /* a process of this machine holds the lock of a database */
	bool is_away;      /* a host's live database is elsewhere (HOST.live), and was not
				       brought home yet */
	bool is_run;       /* it has a database of lapse */
	uint64_t bytes;    /* on disk, of all files in it */
	int64_t change_ns; /* UTC, latest change of a database; 0: none */
	int64_t end_ns;    /* UTC, end that is recorded; else change_ns */
};

/* Look at the folder DIR. 0, or -ENOENT, -ENOTDIR (also: a link), and *e. */
int folder_look(const char *dir, struct err *e, struct folder_info *ret);

/* Is a database in DIR written now, by a process of this machine or, as HOST.live says,
 * elsewhere? Opens none: for processes that read them meanwhile. */
bool folder_is_written(const char *dir);

/* Bytes on disk of all files in DIR; what vanishes meanwhile is not counted. */
uint64_t folder_bytes(const char *dir);

/* Remove the folder DIR and all in it: first it is renamed to ".NAME.removed", then
 * emptied. -EBUSY: a database in it is being written by a process of this
 * machine; -EINVAL: it is no run's (no database of lapse in it, and `any` false).
 * What could not be deleted is named in *e and stays in ".NAME.removed". */
int folder_remove(const char *dir, bool any, struct err *e);

/* Finish what was killed in folder_remove(): delete the folders ".*.removed" in ROOT.
 * Their number, or -errno. */
int folder_sweep(const char *root, struct err *e);

#endif
