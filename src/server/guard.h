/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.h - who may ask the server for what: the checks of docs/http.md, "Security", as
 * functions of a request's head, so that they can be tested without a network.
 */
#ifndef SERVER_GUARD_H
#define SERVER_GUARD_H

#include "base/err.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GUARD_TOKEN_LEN 26  /* 130 bits in base32 */
#define GUARD_TOKEN_MAX 128 /* of a token file */
#define GUARD_NETS_MAX 64
#define GUARD_HOSTS_MAX 64
#define GUARD_WRONG_MAX 10 /* different wrong tokens of an address in GUARD_WRONG_NS */
#define GUARD_WRONG_NS 60000000000LL

/* An address as 16 bytes; IPv4 is mapped (::ffff:a.b.c.d). */
struct guard_address {
	uint8_t bytes[16];
};

struct guard_net {
	struct guard_address address;
	unsigned bits;
};

/* What is allowed. Strings are the caller's. */
struct guard_rules {
	uint16_t port;            /* ours: part of the cookie's name, since cookies know no ports */
	const char *const *hosts; /* names allowed in Host beside loopback's */
	size_t n_hosts;
	bool has_literals;            /* and every address: who names one cannot be rebound */
	const struct guard_net *nets; /* only from these; n 0: from everywhere */
	size_t n_nets;
	const char *token; /* needed for everything; NULL: only for acting */
	const char *page;  /* what our page sends in X-Lapse-Token when it acts */
	bool has_tls;
	int64_t user; /* without a token only this user and root may ask; -1: everybody */
};

/* A request's head; NULL: the field is not there. */
struct guard_request {
	const char *method, *path;
	struct guard_address from;
	int64_t user; /* who asks, of this machine; -1: not known */
	const char *host, *origin, *fetch_site, *fetch_mode, *fetch_dest;
	const char *cookie, *authorization, *page_token; /* X-Lapse-Token */
	const char *query_token;                         /* ?token= */
	const char *content_type;
};

enum guard_answer {
	GUARD_PASS,
	GUARD_SET_COOKIE, /* the token in the address is right: set the cookie, go to "/" */
	GUARD_ADDRESS,    /* 403 */
	GUARD_USER,       /* 403 */
	GUARD_HOST,       /* 421 */
	GUARD_SITE,       /* 403 */
	GUARD_NO_TOKEN,   /* 401 */
	GUARD_WRONG_TOKEN,
	GUARD_TYPE /* 415: acting without JSON */
};

enum guard_answer guard_check(const struct guard_rules *rules, const struct guard_request *r);

/* Status, code and sentence of an answer (docs/http.md). */
struct guard_text {
	int status;
	const char *code, *message;
};
const struct guard_text *guard_text(enum guard_answer answer);

/* Name of the cookie that carries the token of the server on this port. */
#define GUARD_COOKIE_MAX 16
void guard_cookie_name(uint16_t port, char ret[GUARD_COOKIE_MAX]);

/* A token from the kernel's random numbers, NUL-terminated. 0 or -errno. */
int guard_token(char ret[GUARD_TOKEN_LEN + 1]);

/* Equal, in a time that depends on the length of b only. */
bool guard_equal(const char *a, const char *b);

/* "10.0.0.0/8", "::1", "192.168.0.7". 0 or -EINVAL and *e. */
int guard_net_parse(const char *text, struct guard_net *ret, struct err *e);
bool guard_net_has(const struct guard_net *net, const struct guard_address *a);

/* Address of a socket address of either family; all zero for others. */
struct guard_address guard_address_of(const struct sockaddr *sa);

/* Is there a cookie of ours with another token, as of a server that was here before? */
bool guard_cookie_is_wrong(const struct guard_rules *rules, const struct guard_request *r);

/* Wrong tokens by address; one thread at a time. Zero-initialise. */
struct guard_wrongs {
	struct guard_wrong {
		struct guard_address from;
		int64_t since_ns;
		unsigned n;
		uint64_t tried[GUARD_WRONG_MAX]; /* hashes */
	} list[256];                             /* the oldest makes room */
};
/* Count a wrong token. false: it came from this address before, which is no new guess. */
bool guard_wrong_add(struct guard_wrongs *w, const struct guard_address *from, const char *token,
		     int64_t now_ns);
/* Count those of a request. false: none is new. */
bool guard_wrong_count(struct guard_wrongs *w, const struct guard_rules *rules,
		       const struct guard_request *r, int64_t now_ns);
/* Must this address wait (429)? */
bool guard_must_wait(const struct guard_wrongs *w, const struct guard_address *from,
		     int64_t now_ns);

#endif
