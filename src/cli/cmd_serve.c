/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_serve.c - `lapse serve`: the dashboard and its HTTP interface, for folders of runs;
 * or, started by `lapse run`, for the runs of an agent as long as there are any.
 */
#include "cli/cmd.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/servewatch.h"
#include "cli/settings.h"
#include "server/routes.h"
#include "server/server.h"
#include "store/folder.h"
#include "store/store.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SERVE_CLIENTS 512
#define SERVE_LOOK_S 1 /* between looks at the rendezvous folder */
#define SERVE_IDLE_NS 60000000000LL
#define SERVE_OPEN_NS (8 * 3600000000000LL) /* after the last run, for a page that is open */
#define SERVE_REFRESH_NS 250000000LL
#define SERVE_TOKEN_FILE_MAX 4096
#define SERVE_TITLE_MAX 100 /* bytes */

static struct serve {
	const char *host, *token_file, *cert, *key, *config, *rendezvous, *title;
	int64_t port, max_clients, refresh_ns, idle_exit_ns, end_with;
	bool openapi, verbose;
	const char *hosts[GUARD_HOSTS_MAX];
	struct guard_net nets[GUARD_NETS_MAX];
	size_t n_hosts, n_nets;
	char *roots[SERVER_ROOTS_MAX];
	size_t n_roots;
	char *token;
} serve = {.port = -1, .max_clients = -1, .refresh_ns = -1, .idle_exit_ns = SERVE_IDLE_NS};

static int serve_add_host(const char *arg, void *to)
{
	(void)to;
	if (serve.n_hosts == GUARD_HOSTS_MAX || !*arg || strpbrk(arg, "/:@ ")) {
		fprintf(stderr,
			"lapse serve: --allow-host: \"%s\" is no name like gpu1.example.org, or "
			"there are more than %d\n",
			arg, GUARD_HOSTS_MAX);
		return -EINVAL;
	}
	serve.hosts[serve.n_hosts++] = arg;
	return 0;
}

/* Networks with commas between. 0 or -EINVAL and *e. */
static int serve_add_nets(const char *list, struct err *e)
{
	char *one;
	size_t n;
	int r = 0;

	for (; *list && !r; list += n + strspn(list + n, ", ")) {
		n = strcspn(list, ", ");
		one = xstrndup(list, n);
		if (serve.n_nets == GUARD_NETS_MAX)
			r = err_set(e, -EINVAL, "more than %d networks", GUARD_NETS_MAX);
		else
			r = guard_net_parse(one, &serve.nets[serve.n_nets], e);
		serve.n_nets += r == 0;
		free(one);
	}
	return r;
}

static int serve_add_net(const char *arg, void *to)
{
	struct err e = {0};

	(void)to;
	if (!serve_add_nets(arg, &e))
		return 0;
	fprintf(stderr, "lapse serve: --allow-ip: %s\n", e.text);
	return -EINVAL;
}

/* clang-format off */
static const struct opt serve_rows[] = {
	{.name = "port", .letter = 'p', .type = OPT_INT, .value = "PORT", .to = &serve.port,
	 .lo = 0, .hi = 65535,
	 .help = "port; 0: any (default: the first free one from 8080 on)"},
	{.name = "host", .type = OPT_STR, .value = "ADDRESS", .to = &serve.host,
	 .help = "address to listen on; others than this machine need a token (default: "
		 "127.0.0.1 and ::1)"},
	{.name = "token-file", .type = OPT_STR, .value = "FILE", .to = &serve.token_file,
	 .help = "token that everybody needs; without it one is made where others than this "
		 "machine may ask"},
	{.name = "allow-host", .type = OPT_CALL, .value = "NAME", .call = serve_add_host,
	 .help = "a name under which browsers may ask; may be repeated"},
	{.name = "allow-ip", .type = OPT_CALL, .value = "NET,...", .call = serve_add_net,
	 .help = "only these may ask: 10.0.0.0/8, 192.168.0.7; may be repeated"},
	{.name = "tls-cert", .type = OPT_STR, .value = "FILE", .to = &serve.cert,
	 .help = "certificate, PEM, with those that sign it"},
	{.name = "tls-key", .type = OPT_STR, .value = "FILE", .to = &serve.key,
	 .help = "its key, PEM"},
	{.name = "max-clients", .type = OPT_INT, .value = "N", .to = &serve.max_clients,
	 .lo = 8, .hi = 65536, .help = "connections at a time (default: 512)"},
	{.name = "refresh", .type = OPT_DURATION, .value = "TIME", .to = &serve.refresh_ns,
	 .lo = 100000000, .hi = 3600000000000,
	 .help = "live updates are at least so far apart (default: 250ms)"},
	{.name = "title", .type = OPT_STR, .value = "TEXT", .to = &serve.title,
	 .help = "title of the pages, at most 100 bytes (default: lapse)"},
	{.name = "config", .letter = 'c', .type = OPT_STR, .value = "FILE", .to = &serve.config,
	 .help = "take settings from this YAML file (default $LAPSE_CONFIG)"},
	{.name = "rendezvous", .type = OPT_STR, .value = "DIR", .to = &serve.rendezvous,
	 .help = "serve the runs of the agent that meets its programs in DIR, as long as there "
		 "are any (lapse run starts it so)"},
	{.name = "idle-exit", .type = OPT_DURATION, .value = "TIME", .to = &serve.idle_exit_ns,
	 .help = "with --rendezvous: leave so long after the last run (default: 60s)"},
	{.name = "end-with", .type = OPT_INT, .value = "PID", .to = &serve.end_with, .lo = 1,
	 .hi = INT_MAX, .help = "end when this process has ended"},
	{.name = "openapi", .type = OPT_FLAG, .to = &serve.openapi,
	 .help = "print what can be asked as an OpenAPI document"},
	{.name = "verbose", .letter = 'v', .type = OPT_FLAG, .to = &serve.verbose,
	 .help = "a line for each request"},
	{.name = NULL},
};
/* clang-format on */

const struct opt *cmd_serve_options(void)
{
	return serve_rows;
}

/* ---- what is asked for ------------------------------------------------------------------- */

static void serve_set_text(const struct config *c, const char **option, const char *path)
{
	if (!*option && config_from(c, path, NULL) != CONFIG_FROM_DEFAULT)
		*option = xstrdup(config_text(c, path)); /* for the life of the process */
}

static void serve_set_number(const struct config *c, int64_t *option, const char *path,
			     int64_t otherwise)
{
	if (*option < 0)
		*option = config_number(c, path, otherwise);
}

/* What no argument says, the environment and the file do. */
static int serve_configure(void)
{
	struct settings settings;
	struct err e = {0};
	const char *nets, *hosts;
	int r = settings_load(&settings, "serve", serve.config);
	size_t i;

	if (r)
		return r;
	for (i = 0; settings_note(&settings, i); i++)
		log_warn("%s", settings_note(&settings, i));
	serve_set_text(settings.config, &serve.host, "dashboard.host");
	serve_set_text(settings.config, &serve.token_file, "dashboard.token_file");
	serve_set_text(settings.config, &serve.cert, "dashboard.tls_cert");
	serve_set_text(settings.config, &serve.key, "dashboard.tls_key");
	serve_set_text(settings.config, &serve.title, "dashboard.title");
	serve_set_number(settings.config, &serve.port, "dashboard.port", -1);
	serve_set_number(settings.config, &serve.max_clients, "dashboard.max_clients",
			 SERVE_CLIENTS);
	serve_set_number(settings.config, &serve.refresh_ns, "dashboard.refresh_interval",
			 SERVE_REFRESH_NS);
	nets = config_text(settings.config, "dashboard.allowed_ips");
	if (nets && !serve.n_nets)
		r = serve_add_nets(nets, &e);
	if (r)
		log_error("dashboard.allowed_ips: %s", e.text);
	hosts = config_text(settings.config, "dashboard.allowed_hosts");
	for (; hosts && *hosts && !r; hosts += strcspn(hosts, ",") + (strchr(hosts, ',') != NULL))
		r = serve_add_host(xstrndup(hosts, strcspn(hosts, ",")), NULL);
	settings_done(&settings);
	return r ? 2 : 0;
}

static int serve_read_token(struct err *e)
{
	struct buf b;
	struct stat st;
	int r;

	if (!serve.token_file)
		return 0;
	buf_init(&b, SERVE_TOKEN_FILE_MAX);
	r = file_read(AT_FDCWD, serve.token_file, &b);
	if (r < 0)
		err_errno(e, r, "cannot read the token in %s", serve.token_file);
	else
		serve.token = xstrndup(buf_str(&b), strcspn(buf_str(&b), "\r\n"));
	if (!r && stat(serve.token_file, &st) == 0 && (st.st_mode & 077))
		log_warn("others can read the token in %s: chmod 600 %s", serve.token_file,
			 serve.token_file);
	buf_done(&b);
	return r;
}

static bool serve_is_run(const char *dir)
{
	struct folder_info info;

	return folder_look(dir, NULL, &info) == 0 && info.is_run;
}

/* A folder of runs; that of a run stands for the one in which it is. */
static int serve_add_root(const char *arg, struct err *e)
{
	char root[4096];
	struct stat st;
	size_t i;
	int r = store_root(arg, root, sizeof(root));

	if (r)
		return err_errno(e, r, "folder of runs %s", arg ? arg : "");
	if (arg && (stat(root, &st) < 0 || !S_ISDIR(st.st_mode)))
		return err_errno(e, errno ? -errno : -ENOTDIR, "%s", root);
	if (arg && serve_is_run(root) && strrchr(root, '/') > root)
		*strrchr(root, '/') = '\0';
	for (i = 0; i < serve.n_roots; i++)
		if (!strcmp(serve.roots[i], root))
			return 0;
	if (serve.n_roots == SERVER_ROOTS_MAX)
		return err_set(e, -E2BIG, "at most %u folders", SERVER_ROOTS_MAX);
	serve.roots[serve.n_roots++] = xstrdup(root);
	return 0;
}

static int serve_print_openapi(void)
{
	struct buf b;

	buf_init(&b, 1u << 20);
	routes_openapi(&b);
	fwrite(buf_str(&b), 1, b.len, stdout);
	buf_done(&b);
	return runview_flush();
}

/* ---- its life -------------------------------------------------------------------------------- */

static int serve_start(struct err *e, struct server **ret)
{
	char program[4096] = "";
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	const struct server_options o = {
		.roots = (const char *const *)serve.roots,
		.n_roots = serve.n_roots,
		.address = serve.host,
		.port = (int)serve.port,
		.hosts = serve.hosts,
		.n_hosts = serve.n_hosts,
		.nets = serve.nets,
		.n_nets = serve.n_nets,
		.token = serve.token,
		.cert = serve.cert,
		.key = serve.key,
		.max_clients = (unsigned)serve.max_clients,
		.program = n > 0 ? program : "lapse",
		.title = serve.title,
		.refresh_ns = serve.refresh_ns,
	};

	return server_start(&o, e, ret);
}

/* Threads that come inherit this: signals are for the one that waits for them. */
static void serve_block(sigset_t *set)
{
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, set, NULL);
}

static void serve_say(const struct server *s)
{
	size_t i;

	printf("%s\n", server_url(s));
	fflush(stdout);
	for (i = 0; i < serve.n_roots; i++)
		fprintf(stderr, "lapse serve: the runs in %s%s", serve.roots[i],
			i + 1 < serve.n_roots ? "\n" : "; Ctrl-C ends it\n");
	if (server_needs_token(s) && !serve.cert)
		fprintf(stderr,
			"lapse serve: others may ask with the token in this link, which travels in "
			"the clear: use --tls-cert and --tls-key, or SSH (docs/dashboard.md)\n");
}

/* Until a signal, or the end of the process with which it is to end: began is its start. */
static void serve_wait(const sigset_t *set, uint64_t began)
{
	const struct timespec look = {.tv_sec = SERVE_LOOK_S};
	int sig;

	if (!serve.end_with)
		sigwait(set, &sig);
	else
		while (began && rendezvous_start_time(serve.end_with) == began)
			if (sigtimedwait(set, NULL, &look) > 0)
				break;
}

static int serve_here(int argc, char **argv)
{
	uint64_t began = serve.end_with ? rendezvous_start_time(serve.end_with) : 0;
	struct server *s = NULL;
	struct err e = {0};
	sigset_t set;
	int i, r = 0;

	for (i = 0; i < argc && !r; i++)
		r = serve_add_root(argv[i], &e);
	if (!r && !argc)
		r = serve_add_root(NULL, &e);
	if (!r)
		r = serve_read_token(&e);
	serve_block(&set);
	if (!r)
		r = serve_start(&e, &s);
	if (r) {
		fprintf(stderr, "lapse serve: %s\n", e.text);
		return 1;
	}
	serve_say(s);
	serve_wait(&set, began);
	server_stop(s);
	return 0;
}

/* ---- with an agent ------------------------------------------------------------------------- */

static void serve_open_log(void)
{
	int dir = rendezvous_open(1), fd = -1;

	if (dir >= 0) {
		fd = openat(dir, "agent.log",
			    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
		close(dir);
	}
	if (fd >= 0)
		log_open(fd, serve.verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO);
}

static int serve_found(void *arg, const char *root)
{
	struct err e = {0};

	if (server_add_root(arg, root, &e) < 0)
		log_warn("the dashboard: %s", e.text);
	return 0;
}

static int serve_first(void *arg, const char *root)
{
	(void)arg;
	return serve_add_root(root, NULL) == -E2BIG;
}

/* Until a signal, or a while after the last run; a page that is still open is served some
 * hours longer. */
static void serve_watch(const struct servewatch *w, struct server *s, const sigset_t *set)
{
	const struct timespec look = {.tv_sec = SERVE_LOOK_S};
	int64_t now, run_ns = clock_ns(CLOCK_MONOTONIC), asked_ns = run_ns;
	struct http_counts counts;
	uint64_t asked = 0;

	while (sigtimedwait(set, NULL, &look) < 0) {
		now = clock_ns(CLOCK_MONOTONIC);
		server_counts(s, &counts);
		if (counts.open || counts.requests != asked)
			asked_ns = now;
		asked = counts.requests;
		if (servewatch_look(w, serve_found, s))
			run_ns = now;
		else if (now - run_ns >= serve.idle_exit_ns &&
			 (now - asked_ns >= serve.idle_exit_ns || now - run_ns >= SERVE_OPEN_NS))
			break;
	}
}

static int serve_agents(void)
{
	struct servewatch w;
	struct server *s = NULL;
	struct err e = {0};
	sigset_t set;
	int r = servewatch_open(&w, &e);

	if (r)
		goto out;
	serve_block(&set);
	servewatch_look(&w, serve_first, NULL);
	r = serve_read_token(&e);
	if (!r)
		r = serve_start(&e, &s);
	if (!r)
		r = servewatch_say(&w, server_url(s), &e);
	if (!r) {
		log_info("the dashboard is at %.*s", (int)strcspn(server_url(s), "?"),
			 server_url(s));
		serve_watch(&w, s, &set);
	}
	servewatch_say(&w, "", NULL);
	server_stop(s);
	servewatch_close(&w);
out:
	if (r && r != -EAGAIN)
		log_warn("no dashboard: %s", e.text);
	return r && r != -EAGAIN;
}

int cmd_serve(int argc, char **argv)
{
	int r;

	/* Few heaps, which grow by much at a time: requests are short, threads are many. */
	mallopt(M_ARENA_MAX, 4);
	mallopt(M_TOP_PAD, 1 << 20);
	if (serve.openapi)
		return serve_print_openapi();
	if (serve.rendezvous && setenv("LAPSE_RENDEZVOUS", serve.rendezvous, 1) < 0)
		return 1;
	if (serve.rendezvous && (argc || serve.end_with)) {
		fprintf(stderr, "lapse serve: --rendezvous takes no folder and no --end-with\n");
		return 2;
	}
	if (serve.rendezvous)
		serve_open_log();
	else
		log_open(STDERR_FILENO, serve.verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN);
	r = serve_configure();
	if (r)
		return r;
	if (serve.title && (!*serve.title || strlen(serve.title) > SERVE_TITLE_MAX)) {
		fprintf(stderr, "lapse serve: the title must have 1 to %d bytes\n",
			SERVE_TITLE_MAX);
		return 2;
	}
	return serve.rendezvous ? serve_agents() : serve_here(argc, argv);
}
