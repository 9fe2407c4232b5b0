/* SPDX-License-Identifier: Apache-2.0
 *
 * feed_list.h - what changes in the list of runs, seen from outside: folders that come, go
 * and change, runs that begin and end being written. No store is opened.
 */
#ifndef SERVER_FEED_LIST_H
#define SERVER_FEED_LIST_H

#include "base/buf.h"

#include <stdint.h>

#define FEED_LIST_NS 2000000000LL /* between two looks */
#define FEED_LIST_IDS 200u        /* ids of a kind in an event */

struct feed_list;

/* As the folders are now. */
struct feed_list *feed_list_new(char *const *roots);
void feed_list_free(struct feed_list *l);
/* Append an event `runs` (it has no id) if something changed. */
void feed_list_look(struct feed_list *l, char *const *roots, struct buf *out);
/* Append one that says: ask for the list. */
void feed_list_more(struct buf *out);

#endif
