/* SPDX-License-Identifier: Apache-2.0
 *
 * server_priv.h - the server from inside: what its files and the way of a request share.
 */
#ifndef SERVER_SERVER_PRIV_H
#define SERVER_SERVER_PRIV_H

#include "server/guard.h"
#include "server/server.h"

#include <pthread.h>

#define SERVER_ADDRESSES 2
#define SERVER_HEAVY_MAX 8
#define SERVER_IDLE_MAX 16u    /* views that wait for their next request */
#define SERVER_IDLE_RUN_MAX 4u /* of one run */

struct server_shelf;

struct server {
	struct server_options o; /* with strings of its own */
	struct http *http[SERVER_ADDRESSES];
	size_t n_http;
	struct guard_rules rules;
	char token[GUARD_TOKEN_MAX + 1], page[GUARD_TOKEN_LEN + 1];
	char *cert, *key; /* texts */
	char **hosts;     /* allowed in Host: those asked for, and our own names */
	size_t n_hosts;
	char url[512];
	uint16_t port;

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t less_heavy;
	unsigned n_heavy;
	struct guard_wrongs wrongs;
	char *roots[SERVER_ROOTS_MAX];
	size_t n_roots;
	struct server_shelf *shelves;
	unsigned n_idle;

	pthread_mutex_t index_lock; /* of what follows; taken before `lock` */
	struct server_index index;
	struct index *indexes[SERVER_ROOTS_MAX];
	const char *index_roots[SERVER_ROOTS_MAX];
	int64_t index_ns; /* when it was refreshed; 0: never */

	pthread_mutex_t parts_lock;
	struct {
		const struct server_part *part;
		void *state;
	} parts[SERVER_PARTS_MAX];
	size_t n_parts;
	bool is_stopping;
};

/* May the request pass, counting wrong tokens? false: its address must wait. *ret_guess: it
 * has a wrong token that is new. */
bool server_check(struct server *s, const struct guard_request *r, enum guard_answer *ret,
		  bool *ret_guess);

/* The field Set-Cookie: with the token, or to delete the cookie. */
#define SERVER_COOKIE_MAX (GUARD_TOKEN_MAX + 128)
void server_cookie(const struct server *s, bool is_set, char out[SERVER_COOKIE_MAX]);

/* serverrun.c: let go of runs that are being written and that nobody asks for; the end. */
void server_runs_tick(void *server);
void server_runs_done(struct server *s);
void server_index_done(struct server *s);

#endif
