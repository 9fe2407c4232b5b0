/* SPDX-License-Identifier: Apache-2.0
 *
 * Two threads in a process of its own: one reads the store, which may take long, one
 * draws. They are told by one byte each what to do; the end of the socket (whoever
 * started it is dead) means to clear the line and leave.
 */
#include "cli/launch_status.h"

#include "base/mem.h"
#include "cli/statusbar.h"
#include "cli/statusread.h"
#include "report/table.h"
#include "wire/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS_SECOND_NS 1000000000LL
#define STATUS_LOG_NS (10 * STATUS_SECOND_NS)
#define STATUS_ANSWER_MS 200
#define STATUS_CLEAR_MS 100
#define STATUS_SOCKET 3 /* its descriptors */
#define STATUS_SIGNALS 4

enum {
	STATUS_PAUSE = 'p',
	STATUS_RESUME = 'c',
	STATUS_QUIT = 'q',
	STATUS_DONE = 'k'
};

/* ---- the process ------------------------------------------------------------------- */

struct status {
	const struct launch_status_of *of;
	pthread_mutex_t lock;
	struct statusline now; /* under the lock, as the next two */
	bool known, paused;
	struct statusbar bar;
	size_t shown;    /* LINE: columns taken */
	int64_t next_ns; /* when to show it again, CLOCK_MONOTONIC */
};

static void *status_reader(void *arg)
{
	struct statusread *r;
	struct status *s = arg;
	struct statusline line;
	bool paused;

	r = statusread_new(s->of->dir, s->of->start_ns, s->of->total);
	for (;;) {
		pthread_mutex_lock(&s->lock);
		paused = s->paused;
		pthread_mutex_unlock(&s->lock);
		if (!paused) {
			statusread_next(r, &line);
			pthread_mutex_lock(&s->lock);
			s->now = line;
			s->known = true;
			pthread_mutex_unlock(&s->lock);
		}
		usleep(STATUS_SECOND_NS / 1000);
	}
	return NULL;
}

static void status_text(struct status *s, char out[STATUSLINE_MAX], size_t columns)
{
	struct statusline line;

	pthread_mutex_lock(&s->lock);
	line = s->now;
	if (!s->known)
		statusline_init(&line);
	pthread_mutex_unlock(&s->lock);
	/* The clock goes on also when the disk does not. */
	line.elapsed_s = (double)(clock_ns(CLOCK_REALTIME) - s->of->start_ns) / 1e9;
	statusline_text(out, &line, columns);
}

/* false: the terminal is gone. */
static bool status_show_bar(struct status *s)
{
	char text[STATUSLINE_MAX];
	size_t columns = statusbar_columns(&s->bar);

	if (columns == 0) {
		statusbar_clear(&s->bar, 0);
		return true;
	}
	if (!statusbar_may(&s->bar))
		return true;
	status_text(s, text, columns);
	return statusbar_draw(&s->bar, text) == 0;
}

static bool status_show_line(struct status *s)
{
	char text[STATUSLINE_MAX];
	size_t columns = statusbar_columns(&s->bar);

	if (columns == 0 || !statusbar_may(&s->bar))
		return true;
	status_text(s, text, columns);
	s->shown = strlen(text);
	return dprintf(s->bar.fd, "\r\033[K%s", text) > 0 || errno == EAGAIN;
}

static bool status_show_log(struct status *s)
{
	char text[STATUSLINE_MAX];

	status_text(s, text, STATUSLINE_MAX - 1);
	return dprintf(STDERR_FILENO, "lapse: %s\n", text) > 0;
}

static void status_clear(struct status *s)
{
	if (s->of->style == LAUNCH_STATUS_BAR)
		statusbar_clear(&s->bar, STATUS_CLEAR_MS);
	else if (s->shown)
		dprintf(s->bar.fd, "\r\033[K");
	s->shown = 0;
}

static void status_pause(struct status *s, bool paused)
{
	pthread_mutex_lock(&s->lock);
	s->paused = paused;
	pthread_mutex_unlock(&s->lock);
	s->next_ns = clock_ns(CLOCK_MONOTONIC);
}

/* What the starter says. false: leave. */
static bool status_hear(struct status *s)
{
	char word = STATUS_QUIT, done = STATUS_DONE;
	ssize_t n = recv(STATUS_SOCKET, &word, 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n == 1 && word == STATUS_RESUME) {
		status_pause(s, false);
		return true;
	}
	status_pause(s, true);
	status_clear(s);
	(void)!send(STATUS_SOCKET, &done, 1, MSG_NOSIGNAL);
	return n == 1 && word == STATUS_PAUSE;
}

static void status_loop(struct status *s)
{
	static bool (*const show[])(struct status * s) = {
		[LAUNCH_STATUS_BAR] = status_show_bar,
		[LAUNCH_STATUS_LINE] = status_show_line,
		[LAUNCH_STATUS_LOG] = status_show_log,
	};
	int64_t every = s->of->style == LAUNCH_STATUS_LOG ? STATUS_LOG_NS : STATUS_SECOND_NS, left;
	struct pollfd p[2] = {{.fd = STATUS_SOCKET, .events = POLLIN},
			      {.fd = STATUS_SIGNALS, .events = POLLIN}};
	struct signalfd_siginfo info;

	s->next_ns = clock_ns(CLOCK_MONOTONIC) +
		     (s->of->style == LAUNCH_STATUS_LOG ? STATUS_LOG_NS : STATUS_SECOND_NS / 4);
	for (;;) {
		left = s->next_ns - clock_ns(CLOCK_MONOTONIC);
		if (!s->paused && left <= 0) {
			if (!show[s->of->style](s))
				return;
			s->next_ns += left < -every ? every - left : every;
			left = s->next_ns - clock_ns(CLOCK_MONOTONIC);
		}
		if (poll(p, 2, s->paused ? -1 : (int)(left / 1000000) + 1) <= 0)
			continue;
		if (p[0].revents && !status_hear(s))
			return;
		/* The window has another size: at once. */
		if (p[1].revents && read(STATUS_SIGNALS, &info, sizeof(info)) > 0)
			s->next_ns = clock_ns(CLOCK_MONOTONIC);
	}
}

/* Only what is ours stays open: a lock of the run's must not live on in us. */
static void status_descriptors(int socket)
{
	sigset_t resize;
	int fd = fcntl(socket, F_DUPFD, 64), null = open("/dev/null", O_RDWR);

	if (fd < 0 || null < 0)
		_exit(0);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(fd, STATUS_SOCKET);
	sigemptyset(&resize);
	sigaddset(&resize, SIGWINCH);
	close_range(STATUS_SIGNALS, ~0U, 0);
	fd = signalfd(-1, &resize, SFD_NONBLOCK);
	if (fd >= 0 && fd != STATUS_SIGNALS)
		dup2(fd, STATUS_SIGNALS);
}

static _Noreturn void status_process(const struct launch_status_of *of, int socket, bool color)
{
	struct status s = {.of = of, .lock = PTHREAD_MUTEX_INITIALIZER, .bar = {.fd = -1}};
	pthread_t reader;
	sigset_t all;

	prctl(PR_SET_NAME, "lapse-status");
	prctl(PR_SET_PDEATHSIG, 0);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	status_descriptors(socket);
	if (of->style != LAUNCH_STATUS_LOG && statusbar_open(&s.bar, STDERR_FILENO, color) < 0)
		_exit(0);
	if (pthread_create(&reader, NULL, status_reader, &s) != 0)
		_exit(0);
	status_loop(&s);
	_exit(0);
}

/* ---- who starts it --------------------------------------------------------------------- */

void launch_status_init(struct launch_status *s)
{
	*s = (struct launch_status){.fd = -1};
}

void launch_status_start(struct launch_status *s, const struct launch_status_of *of)
{
	const char *name = getenv("TERM");
	struct term term;
	int fds[2];

	term_look(&term, stderr);
	if (of->style != LAUNCH_STATUS_LOG &&
	    (term.width == 0 || !name || !name[0] || strcmp(name, "dumb") == 0))
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return;
	fflush(stderr);
	s->style = of->style;
	s->pid = fork();
	if (s->pid == 0)
		status_process(of, fds[1], term.color);
	close(fds[1]);
	if (s->pid < 0) {
		close(fds[0]);
		s->pid = 0;
		return;
	}
	s->fd = fds[0];
}

/* Say it, and wait for the answer. false: there is none in time. */
static bool status_say(const struct launch_status *s, char word)
{
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	char answer;

	if (send(s->fd, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
		return true; /* it is gone, and has cleared the line */
	if (word == STATUS_RESUME)
		return true;
	return poll(&p, 1, STATUS_ANSWER_MS) > 0 && recv(s->fd, &answer, 1, MSG_DONTWAIT) >= 0;
}

void launch_status_pause(struct launch_status *s)
{
	if (s->fd >= 0)
		status_say(s, STATUS_PAUSE);
}

void launch_status_resume(struct launch_status *s)
{
	if (s->fd >= 0)
		status_say(s, STATUS_RESUME);
}

void launch_status_stop(struct launch_status *s)
{
	bool cleared;
	int i;

	if (s->fd < 0)
		return;
	cleared = status_say(s, STATUS_QUIT);
	close(s->fd);
	s->fd = -1;
	for (i = 0; i < 20 && waitpid(s->pid, NULL, WNOHANG) == 0; i++) {
		/* Its other thread may be in the hands of a disk: then it stays behind. */
		if (i == 0)
			kill(s->pid, cleared ? SIGCONT : SIGKILL);
		usleep(10000);
	}
	s->pid = 0;
	/* Whoever writes next waits for the terminal anyway. */
	if (!cleared && s->style == LAUNCH_STATUS_BAR)
		(void)!write(STDERR_FILENO, "\0337\033[r\0338", 7);
}
