/* SPDX-License-Identifier: Apache-2.0
 *
 * servewatch.h - the server that goes with an agent: which folders its runs are in, and
 * whether there is anything left to show.
 */
#ifndef CLI_SERVEWATCH_H
#define CLI_SERVEWATCH_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define SERVEWATCH_LOCK                                                                            \
	"http.lock"               /* in the rendezvous folder: held by its server, with its pid    \
				   */
#define SERVEWATCH_ADDRESS "http" /* its URL, one line */

struct servewatch {
	int dirfd, lock; /* -1: none */
};

/* Become the server of the rendezvous folder ($LAPSE_RENDEZVOUS as usual). -EAGAIN: there
 * is one. */
int servewatch_open(struct servewatch *w, struct err *e);
/* Say where we are; "" no more. */
int servewatch_say(const struct servewatch *w, const char *url, struct err *e);
void servewatch_close(struct servewatch *w);

/* Call fn with the folder of runs of each run that is there, until it returns non-zero.
 * True: the agent lives, or a run does. */
bool servewatch_look(const struct servewatch *w, int (*fn)(void *arg, const char *root), void *arg);

/* The URL of the rendezvous folder's server, if it lives: true. */
bool servewatch_url(int dirfd, char *out, size_t cap);

#endif
