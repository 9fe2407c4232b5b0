/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_list.h - what changes in the list of runs, seen from outside: folders that come, go
 * and change, runs that begin and end being written. No store is opened.
 */
#ifndef SERVER_HUB_LIST_H
#define SERVER_HUB_LIST_H

#include "base/buf.h"

#include <stdint.h>

#define HUB_LIST_NS 2000000000LL /* between two looks */
#define HUB_LIST_IDS 200u        /* ids of a kind in an event */

struct hub_list;

/* As the folders are now. */
struct hub_list *hub_list_new(char *const *roots);
void hub_list_free(struct hub_list *l);
/* Append an event `runs` (it has no id) if something changed. */
void hub_list_look(struct hub_list *l, char *const *roots, struct buf *out);
/* Append one that says: ask for the list. */
void hub_list_more(struct buf *out);

#endif
