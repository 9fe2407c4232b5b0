/* SPDX-License-Identifier: Apache-2.0 */
#include "server/guard.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/number.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

static const struct guard_text guard_texts[] = {
	[GUARD_PASS] = {200, "", ""},
	[GUARD_SET_COOKIE] = {303, "", ""},
	[GUARD_ADDRESS] =
		{403, "address-not-allowed",
		 "Your address is not among those that may ask this server (--allow-ip)."},
	[GUARD_USER] =
		{403, "other-user",
		 "This server is another user's. Who shares it starts it with --token-file."},
	[GUARD_HOST] =
		{421, "wrong-host",
		 "This server does not go by that name. Ask it as localhost or by its address; "
		 "--allow-host NAME adds names."},
	[GUARD_SITE] = {403, "foreign-site", "Other sites may not ask this server."},
	[GUARD_NO_TOKEN] = {401, "no-token",
			    "This needs the token that lapse printed at its start: open the link "
			    "with ?token=, or send \"Authorization: Bearer TOKEN\"."},
	[GUARD_WRONG_TOKEN] = {401, "wrong-token",
			       "That is not the token that lapse printed at its start."},
	[GUARD_TYPE] = {415, "bad-type", "Send JSON, with \"Content-Type: application/json\"."},
};

const struct guard_text *guard_text(enum guard_answer answer)
{
	return &guard_texts[answer];
}

/* ---- tokens ---------------------------------------------------------------------------- */

int guard_token(char ret[GUARD_TOKEN_LEN + 1])
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint8_t random[GUARD_TOKEN_LEN];
	size_t i;

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -errno;
	for (i = 0; i < GUARD_TOKEN_LEN; i++)
		ret[i] = letters[random[i] & 31];
	ret[GUARD_TOKEN_LEN] = '\0';
	return 0;
}

bool guard_equal(const char *a, const char *b)
{
	size_t na = strlen(a), nb = strlen(b), i;
	volatile unsigned differ = na != nb;

	for (i = 0; i < nb; i++)
		differ |= (unsigned)(unsigned char)(na ? a[i % na] : 0) ^ (unsigned char)b[i];
	return !differ;
}

void guard_cookie_name(uint16_t port, char ret[GUARD_COOKIE_MAX])
{
	snprintf(ret, GUARD_COOKIE_MAX, "lapse_%u", (unsigned)port);
}

/* Value of our cookie; false: it is not there, or too long to be ours. */
static bool guard_cookie(const char *cookies, uint16_t port, char out[GUARD_TOKEN_MAX + 1])
{
	char ours[GUARD_COOKIE_MAX];
	const char *p = cookies;
	size_t n, name;

	guard_cookie_name(port, ours);
	name = strlen(ours);
	while (p && *p) {
		p += strspn(p, " ;");
		n = strcspn(p, ";");
		if (n > name && !strncmp(p, ours, name) && p[name] == '=') {
			if (n - name - 1 > GUARD_TOKEN_MAX)
				return false;
			memcpy(out, p + name + 1, n - name - 1);
			out[n - name - 1] = '\0';
			return true;
		}
		p += n;
	}
	return false;
}

/* Token of the header, or NULL. */
static const char *guard_bearer(const struct guard_request *r)
{
	bool is = r->authorization && !strncasecmp(r->authorization, "Bearer ", 7);

	return is ? r->authorization + 7 : NULL;
}

bool guard_cookie_is_wrong(const struct guard_rules *rules, const struct guard_request *r)
{
	char cookie[GUARD_TOKEN_MAX + 1];

	return rules->token && guard_cookie(r->cookie, rules->port, cookie) &&
	       !guard_equal(cookie, rules->token);
}

/* Has the request the token in one of its places? */
static enum guard_answer guard_has_token(const struct guard_rules *rules,
					 const struct guard_request *r)
{
	char cookie[GUARD_TOKEN_MAX + 1];
	const char *given[2] = {guard_bearer(r), NULL};
	size_t i;

	if (guard_cookie(r->cookie, rules->port, cookie))
		given[1] = cookie;
	for (i = 0; i < ARRAY_LEN(given); i++)
		if (given[i] && guard_equal(given[i], rules->token))
			return GUARD_PASS;
	return given[0] || given[1] ? GUARD_WRONG_TOKEN : GUARD_NO_TOKEN;
}

/* ---- names ----------------------------------------------------------------------------- */

/* The name of "name:port", "[::1]:port". The port says nothing: behind a forwarded one ours
 * is another than the browser's. */
static bool guard_split(const char *host, char name[256])
{
	const char *end = host + strlen(host), *colon = strrchr(host, ':');
	int64_t port;

	if (*host == '[') {
		const char *close = strchr(host, ']');

		if (!close || (close[1] && close[1] != ':'))
			return false;
		colon = close[1] ? close + 1 : NULL;
		end = close;
		host++;
	} else if (colon) {
		end = colon;
	}
	if (colon && (number_int(colon + 1, &port) || port < 1 || port > 65535))
		return false;
	if (end == host || (size_t)(end - host) >= 256)
		return false;
	memcpy(name, host, (size_t)(end - host));
	name[end - host] = '\0';
	return true;
}

/* "localhost", or an address: of loopback, if not any. */
static bool guard_is_address(const char *name, bool any)
{
	struct in_addr four;
	struct in6_addr six;

	if (!strcasecmp(name, "localhost"))
		return true;
	if (inet_pton(AF_INET, name, &four) == 1)
		return any || (ntohl(four.s_addr) >> 24) == 127;
	return inet_pton(AF_INET6, name, &six) == 1 && (any || IN6_IS_ADDR_LOOPBACK(&six));
}

static bool guard_host_is_ours(const struct guard_rules *rules, const char *host)
{
	char name[256];
	size_t i;

	if (!host || !guard_split(host, name))
		return false;
	if (guard_is_address(name, rules->has_literals))
		return true;
	for (i = 0; i < rules->n_hosts; i++)
		if (!strcasecmp(rules->hosts[i], name))
			return true;
	return false;
}

/* An origin is ours if it is the host that was asked, which is one of ours. Without TLS of
 * our own there may be some before us. */
static bool guard_origin_is_ours(const struct guard_rules *rules, const struct guard_request *r)
{
	static const char *const schemes[] = {"https://", "http://"};
	size_t i, n;

	for (i = 0; i < (rules->has_tls ? 1 : ARRAY_LEN(schemes)); i++) {
		n = strlen(schemes[i]);
		if (!strncasecmp(r->origin, schemes[i], n) && !strcasecmp(r->origin + n, r->host))
			return true;
	}
	return false;
}

/* May it come from where the browser says that it comes from? A page of another site may
 * link to ours, and nothing else. */
static bool guard_site_is_ours(const struct guard_rules *rules, const struct guard_request *r,
			       bool acts)
{
	const char *site = r->fetch_site;
	bool navigates = r->fetch_mode && !strcasecmp(r->fetch_mode, "navigate") &&
			 (!r->fetch_dest || !strcasecmp(r->fetch_dest, "document"));

	if (r->origin && !guard_origin_is_ours(rules, r))
		return false;
	if (!site || !strcasecmp(site, "same-origin") || !strcasecmp(site, "none"))
		return true;
	return !acts && navigates && !strcmp(r->path, "/");
}

/* ---- all of it ------------------------------------------------------------------------- */

static bool guard_is_json(const char *type)
{
	static const char json[] = "application/json";

	return type && !strncasecmp(type, json, sizeof(json) - 1) &&
	       strchr(" ;", type[sizeof(json) - 1]);
}

static bool guard_acts(const struct guard_request *r)
{
	return strcmp(r->method, "GET") && strcmp(r->method, "HEAD");
}

static enum guard_answer guard_may_look(const struct guard_rules *rules,
					const struct guard_request *r, bool acts)
{
	if (!rules->token)
		return GUARD_PASS;
	if (r->query_token && !acts && !strcmp(r->path, "/"))
		return guard_equal(r->query_token, rules->token) ? GUARD_SET_COOKIE
								 : GUARD_WRONG_TOKEN;
	return guard_has_token(rules, r);
}

/* What acts needs the page's token, or the server's as a header: a cookie alone is sent by
 * the browser whoever asks. */
static enum guard_answer guard_may_act(const struct guard_rules *rules,
				       const struct guard_request *r)
{
	const char *bearer = guard_bearer(r);
	bool has_page = r->page_token && guard_equal(r->page_token, rules->page);
	bool has_header = rules->token && bearer && guard_equal(bearer, rules->token);

	if (!guard_is_json(r->content_type))
		return GUARD_TYPE;
	if (has_page || has_header)
		return GUARD_PASS;
	return r->page_token ? GUARD_WRONG_TOKEN : GUARD_NO_TOKEN;
}

/* On a machine of many users a loopback address alone keeps nobody out. */
static bool guard_user_is_ours(const struct guard_rules *rules, const struct guard_request *r)
{
	return rules->token || rules->user < 0 || r->user <= 0 || r->user == rules->user;
}

enum guard_answer guard_check(const struct guard_rules *rules, const struct guard_request *r)
{
	bool acts = guard_acts(r);
	bool is_in = !rules->n_nets;
	enum guard_answer answer;
	size_t i;

	for (i = 0; i < rules->n_nets && !is_in; i++)
		is_in = guard_net_has(&rules->nets[i], &r->from);
	if (!is_in)
		return GUARD_ADDRESS;
	if (!guard_user_is_ours(rules, r))
		return GUARD_USER;
	if (!guard_host_is_ours(rules, r->host))
		return GUARD_HOST;
	if (!guard_site_is_ours(rules, r, acts))
		return GUARD_SITE;
	answer = guard_may_look(rules, r, acts);
	if (answer == GUARD_PASS && acts)
		answer = guard_may_act(rules, r);
	return answer;
}

/* ---- addresses ------------------------------------------------------------------------- */

static struct guard_address guard_map(const struct in_addr *four)
{
	struct guard_address a = {{0}};

	a.bytes[10] = a.bytes[11] = 0xff;
	memcpy(a.bytes + 12, four, 4);
	return a;
}

struct guard_address guard_address_of(const struct sockaddr *sa)
{
	struct guard_address a = {{0}};

	if (sa && sa->sa_family == AF_INET)
		return guard_map(&((const struct sockaddr_in *)(const void *)sa)->sin_addr);
	if (sa && sa->sa_family == AF_INET6)
		memcpy(a.bytes, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	return a;
}

int guard_net_parse(const char *text, struct guard_net *ret, struct err *e)
{
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : strlen(text);
	struct guard_net net = {.bits = 128};
	char address[INET6_ADDRSTRLEN];
	unsigned shift = 0, most = 128;
	struct in_addr four;
	int64_t bits;

	if (n >= sizeof(address))
		goto bad;
	memcpy(address, text, n);
	address[n] = '\0';
	if (inet_pton(AF_INET, address, &four) == 1) {
		net.address = guard_map(&four);
		shift = 96;
		most = 32;
	} else if (inet_pton(AF_INET6, address, net.address.bytes) != 1) {
		goto bad;
	}
	if (slash) {
		if (number_int(slash + 1, &bits) || bits < 0 || bits > most)
			goto bad;
		net.bits = shift + (unsigned)bits;
	}
	*ret = net;
	return 0;
bad:
	return err_set(e, -EINVAL,
		       "\"%s\" is no address or network like 10.0.0.0/8, 192.168.0.7 or fd00::/8",
		       text);
}

bool guard_net_has(const struct guard_net *net, const struct guard_address *a)
{
	unsigned whole = net->bits / 8, rest = net->bits % 8;
	uint8_t mask = (uint8_t)(0xff00u >> rest);

	if (memcmp(net->address.bytes, a->bytes, whole))
		return false;
	return !rest || ((net->address.bytes[whole] ^ a->bytes[whole]) & mask) == 0;
}

/* ---- who guesses ------------------------------------------------------------------------- */

/* The address's own, or one that is made so. */
static struct guard_wrong *guard_wrong_of(struct guard_wrongs *w, const struct guard_address *from,
					  int64_t now_ns)
{
	struct guard_wrong *at = &w->list[0];
	size_t i;

	for (i = 0; i < ARRAY_LEN(w->list); i++) {
		if (w->list[i].n && !memcmp(&w->list[i].from, from, sizeof(*from))) {
			at = &w->list[i];
			break;
		}
		if (w->list[i].since_ns < at->since_ns)
			at = &w->list[i];
	}
	if (!at->n || memcmp(&at->from, from, sizeof(*from)) ||
	    now_ns - at->since_ns > GUARD_WRONG_NS)
		*at = (struct guard_wrong){.from = *from, .since_ns = now_ns};
	return at;
}

/* A page that was left open sends its old cookie for ever, and tries nothing by it. The token
 * of a file may be one that people think of: so what differs is counted wherever it stands. */
bool guard_wrong_add(struct guard_wrongs *w, const struct guard_address *from, const char *token,
		     int64_t now_ns)
{
	struct guard_wrong *at = guard_wrong_of(w, from, now_ns);
	uint64_t hash = map_hash(token, strlen(token));
	unsigned i;

	for (i = 0; i < at->n; i++)
		if (at->tried[i] == hash)
			return false;
	if (at->n < GUARD_WRONG_MAX)
		at->tried[at->n++] = hash;
	return true;
}

bool guard_wrong_count(struct guard_wrongs *w, const struct guard_rules *rules,
		       const struct guard_request *r, int64_t now_ns)
{
	char cookie[GUARD_TOKEN_MAX + 1];
	bool has_cookie = guard_cookie(r->cookie, rules->port, cookie), is_new = false;
	const struct {
		const char *given, *right;
	} places[] = {
		{strcmp(r->path, "/") ? NULL : r->query_token, rules->token},
		{guard_bearer(r), rules->token},
		{has_cookie ? cookie : NULL, rules->token},
		{guard_acts(r) ? r->page_token : NULL, rules->page},
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(places); i++)
		if (places[i].given && places[i].right &&
		    !guard_equal(places[i].given, places[i].right))
			is_new |= guard_wrong_add(w, &r->from, places[i].given, now_ns);
	return is_new;
}

bool guard_must_wait(const struct guard_wrongs *w, const struct guard_address *from, int64_t now_ns)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(w->list); i++)
		if (w->list[i].n >= GUARD_WRONG_MAX &&
		    !memcmp(&w->list[i].from, from, sizeof(*from)))
			return now_ns - w->list[i].since_ns <= GUARD_WRONG_NS;
	return false;
}
