/* SPDX-License-Identifier: Apache-2.0
 *
 * server.h - the server: its options, its life, and what all routes share: the folders it
 * serves, runs that are open, the index of runs.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "base/err.h"
#include "report/runview.h"
#include "server/guard.h"
#include "server/http.h"
#include "store/index.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SERVER_PORT 8080u
#define SERVER_PORTS 100u /* tried from there on, if none is asked for */
#define SERVER_ROOTS_MAX 64u
#define SERVER_PARTS_MAX 16u

struct server_options {
	const char *const *roots; /* folders of runs, at least one */
	size_t n_roots;
	const char *address;      /* NULL, "localhost": 127.0.0.1 and ::1 */
	int port;                 /* -1: the first free one from SERVER_PORT on; 0: any */
	const char *const *hosts; /* allowed in Host beside loopback's */
	size_t n_hosts;
	const struct guard_net *nets;
	size_t n_nets;
	const char *token;      /* NULL: made if the address is not loopback */
	const char *cert, *key; /* PEM files; NULL: no TLS */
	unsigned max_clients;
	const char *program; /* path of lapse, for `lapse trace` as a child */
	const char *title;   /* of the page; NULL: "lapse" */
	int64_t refresh_ns;  /* live updates are at least so far apart */
};

struct server;

/* Start: listen, threads. 0, or -errno and *e. */
int server_start(const struct server_options *o, struct err *e, struct server **ret);
void server_stop(struct server *s);
/* "http://127.0.0.1:8080/" with ?token= if one is needed; the server's. */
const char *server_url(const struct server *s);
const struct server_options *server_asked(const struct server *s);
/* A folder more, while it runs (the agent's runs); no effect if it is there. */
int server_add_root(struct server *s, const char *root, struct err *e);

/* ---- for routes: any thread --------------------------------------------------------- */

/* A run that is open for one request at a time: what changed in the store since it was
 * opened is seen. */
struct server_run {
	struct runview v;
	char id[256];
	uint64_t version; /* grows when the store of the run has grown */
	bool is_live;     /* it runs, as the store says */
};

/* The run with this id (args[0] as a rule), or NULL: then the reply has the error. Give it
 * back when done; others meanwhile get a view of their own. */
struct server_run *server_take_run(struct server *s, const char *id, struct http_reply *reply);
void server_give_run(struct server *s, struct server_run *run);

/* The index of all runs of all folders, refreshed if it is older than a second, locked until
 * given back. */
struct server_index {
	struct index **of; /* of each root; NULL: that folder cannot be read now */
	const char *const *roots;
	size_t n;
};
const struct server_index *server_take_index(struct server *s);
void server_give_index(struct server *s);

/* The folder of a run by its id; "last" is the newest of all. 0, or -ENOENT. */
int server_run_dir(struct server *s, const char *id, char *out, size_t cap);

/* At most 8 heavy questions at a time; others wait, at most 10 s (false: reply has 503). */
bool server_heavy_begin(struct server *s, struct http_reply *reply);
void server_heavy_end(struct server *s);

/* What a group of routes keeps between requests: made when it is first asked for, by the
 * address of its part, which is static. */
struct server_part {
	void *(*make)(struct server *s);
	/* The server stops: end threads, close streams; requests may still come. NULL: nothing. */
	void (*stop)(void *state);
	/* There are no more requests. */
	void (*done)(void *state);
};
void *server_part(struct server *s, const struct server_part *part);

/* What the page sends as X-Lapse-Token when it acts. */
const char *server_page_token(const struct server *s);
/* Does looking need a token, too? */
bool server_needs_token(const struct server *s);
void server_counts(struct server *s, struct http_counts *ret);

#endif
