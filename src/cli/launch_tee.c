/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_tee.c - see launch_tee.h. It reads only when all that it has read is
 * written, so that a slow reader of stderr slows the command, as without lapse.
 */
#include "cli/launch_tee.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <termios.h>
#include <unistd.h>

#define LAUNCH_TEE_DRAIN (1u << 20) /* as large as a pipe can be */
#define LAUNCH_TEE_WAIT_MS 100

void launch_tee_init(struct launch_tee *t)
{
	memset(t, 0, sizeof(*t));
	t->from = t->child_end = -1;
}

static int tee_open_pty(struct launch_tee *t)
{
	struct termios attr;
	int zero = 0;

	t->from = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->from < 0)
		return -errno;
	if (ioctl(t->from, TIOCSPTLCK, &zero) < 0)
		return -errno;
	t->child_end = ioctl(t->from, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->child_end < 0)
		return -errno;
	if (tcgetattr(STDERR_FILENO, &attr) < 0)
		return -errno;
	/* The real terminal will do this; twice would be "\r\r\n". */
	attr.c_oflag &= ~(tcflag_t)OPOST;
	if (tcsetattr(t->child_end, TCSANOW, &attr) < 0)
		return -errno;
	t->is_pty = true;
	launch_tee_resize(t);
	return 0;
}

int launch_tee_open(struct launch_tee *t)
{
	int fds[2], flags, err = 0;

	flags = fcntl(STDERR_FILENO, F_GETFD);
	if (flags < 0 || (flags & FD_CLOEXEC))
		return -EBADF;
	if (isatty(STDERR_FILENO)) {
		err = tee_open_pty(t);
	} else if (pipe2(fds, O_CLOEXEC) < 0) {
		err = -errno;
	} else {
		t->from = fds[0];
		t->child_end = fds[1];
	}
	if (!err && fcntl(t->from, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		err = -errno;
	if (err) {
		launch_tee_close_child_end(t);
		if (t->from >= 0)
			close(t->from);
		t->from = -1;
	}
	return err;
}

void launch_tee_close_child_end(struct launch_tee *t)
{
	if (t->child_end >= 0)
		close(t->child_end);
	t->child_end = -1;
}

void launch_tee_resize(const struct launch_tee *t)
{
	struct winsize size;

	if (t->is_pty && t->from >= 0 && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0)
		ioctl(t->from, TIOCSWINSZ, &size);
}

int launch_tee_poll(const struct launch_tee *t, short *ret_events)
{
	if (t->from < 0)
		return -1;
	*ret_events = t->pending_len ? POLLOUT : POLLIN;
	return t->pending_len ? STDERR_FILENO : t->from;
}

static void tee_keep(struct launch_tee *t, const char *data, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		t->tail[t->total++ % LAUNCH_TEE_TAIL] = data[i];
}

static void tee_close(struct launch_tee *t)
{
	close(t->from);
	t->from = -1;
	t->pending_len = 0;
}

/* One read. false: nothing there, or the end. */
static bool tee_read(struct launch_tee *t)
{
	ssize_t n = read(t->from, t->pending, sizeof(t->pending));

	if (n > 0) {
		t->pending_len = (size_t)n;
		t->pending_at = 0;
		tee_keep(t, t->pending, (size_t)n);
		return true;
	}
	/* A pseudo-terminal that nobody holds any more gives EIO. */
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		tee_close(t);
	return false;
}

/* One write of what was read. */
static void tee_write(struct launch_tee *t)
{
	ssize_t n = write(STDERR_FILENO, t->pending + t->pending_at, t->pending_len);

	if (n >= 0) {
		t->pending_at += (size_t)n;
		t->pending_len -= (size_t)n;
	} else if (errno != EINTR && errno != EAGAIN) {
		/* Nobody reads stderr: the command shall see that itself. */
		tee_close(t);
	}
}

void launch_tee_step(struct launch_tee *t)
{
	if (t->from < 0)
		return;
	if (t->pending_len)
		tee_write(t);
	else
		tee_read(t);
}

static bool tee_is_writable(int timeout_ms)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

	return poll(&p, 1, timeout_ms) > 0;
}

/* Copy on for processes that outlive the command and hold the other end, or
 * until a slow reader has taken what is left. */
static void tee_leave_copier(struct launch_tee *t)
{
	struct pollfd p = {.fd = t->from, .events = POLLIN};
	unsigned from = (unsigned)t->from;

	if (fork() != 0)
		return;
	prctl(PR_SET_NAME, "lapse-copier");
	if (from > 3)
		close_range(3, from - 1, 0);
	close_range(from + 1, ~0U, 0);
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	while (t->from >= 0) {
		if (t->pending_len && tee_is_writable(-1))
			tee_write(t);
		else if (!t->pending_len && poll(&p, 1, -1) > 0)
			tee_read(t);
	}
	_exit(0);
}

void launch_tee_finish(struct launch_tee *t)
{
	size_t budget = LAUNCH_TEE_DRAIN;

	/* Neither a process left behind that writes on nor a reader of stderr
	 * that sleeps may hold us here. */
	while (t->from >= 0 && budget > 0) {
		if (t->pending_len) {
			if (!tee_is_writable(LAUNCH_TEE_WAIT_MS))
				break;
			tee_write(t);
		} else if (tee_read(t)) {
			budget -= t->pending_len < budget ? t->pending_len : budget;
		} else {
			break;
		}
	}
	if (t->from >= 0)
		tee_leave_copier(t);
	if (t->from >= 0)
		close(t->from);
	t->from = -1;
}

size_t launch_tee_tail(const struct launch_tee *t, char out[LAUNCH_TEE_TAIL])
{
	size_t n = t->total < LAUNCH_TEE_TAIL ? (size_t)t->total : LAUNCH_TEE_TAIL;
	uint64_t from = t->total - n;
	size_t i;

	for (i = 0; i < n; i++)
		out[i] = t->tail[(from + i) % LAUNCH_TEE_TAIL];
	return n;
}
