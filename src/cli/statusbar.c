/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/statusbar.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define STATUSBAR_BYTES_MAX 8192

/* ESC 7 and ESC 8 keep and restore the cursor; setting the region moves it. */
void statusbar_frame(struct buf *out, int rows, bool begin, bool color, const char *text)
{
	/* Out of the last row: a line down (at the end the screen scrolls), and up again. */
	if (begin)
		buf_printf(out, "\033D\0337\033[1;%dr\0338\033[A", rows - 1);
	buf_printf(out, "\0337\033[1;%dr\033[%d;1H\033[0m\033[2K%s%s%s\0338", rows - 1, rows,
		   color ? "\033[7m" : "", text, color ? "\033[0m" : "");
}

void statusbar_unframe(struct buf *out, int rows)
{
	buf_printf(out, "\0337\033[r\033[%d;1H\033[2K\0338", rows);
}

int statusbar_open(struct statusbar *b, int terminal, bool color)
{
	char path[32];
	int err;

	*b = (struct statusbar){.fd = -1, .color = color};
	buf_init(&b->waiting, STATUSBAR_BYTES_MAX);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", terminal);
	b->fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	err = b->fd < 0 ? -errno : 0;
	if (!err && tcgetpgrp(b->fd) < 0)
		err = -errno; /* not the terminal of our session */
	if (err)
		statusbar_close(b);
	return err;
}

void statusbar_close(struct statusbar *b)
{
	if (b->fd >= 0)
		close(b->fd);
	b->fd = -1;
	buf_done(&b->waiting);
}

bool statusbar_may(const struct statusbar *b)
{
	struct termios attr;

	return tcgetpgrp(b->fd) == getpgrp() && tcgetattr(b->fd, &attr) == 0 &&
	       (attr.c_lflag & ICANON);
}

size_t statusbar_columns(const struct statusbar *b)
{
	struct winsize size;

	if (ioctl(b->fd, TIOCGWINSZ, &size) < 0 || size.ws_row < STATUSBAR_ROWS_MIN ||
	    size.ws_col < STATUSBAR_COLUMNS_MIN)
		return 0;
	/* In the last column the cursor would wait to wrap. */
	return (size_t)size.ws_col - 1;
}

/* Write what waits. 1: not all. */
static int statusbar_flush(struct statusbar *b)
{
	size_t at = 0;
	ssize_t n;

	while (at < b->waiting.len) {
		n = write(b->fd, b->waiting.data + at, b->waiting.len - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			return -errno;
		if (n <= 0)
			break;
		at += (size_t)n;
	}
	b->waiting.len -= at;
	memmove(b->waiting.data, b->waiting.data + at, b->waiting.len);
	return b->waiting.len > 0;
}

int statusbar_draw(struct statusbar *b, const char *text)
{
	struct winsize size;
	int late = b->waiting.len ? statusbar_flush(b) : 0;

	if (late)
		return late < 0 ? late : 0;
	if (ioctl(b->fd, TIOCGWINSZ, &size) < 0)
		return -errno;
	statusbar_frame(&b->waiting, size.ws_row,
			size.ws_row != b->rows || size.ws_col != b->columns, b->color, text);
	b->rows = size.ws_row;
	b->columns = size.ws_col;
	late = statusbar_flush(b);
	return late < 0 ? late : 0;
}

int statusbar_clear(struct statusbar *b, int ms)
{
	struct pollfd p = {.fd = b->fd, .events = POLLOUT};
	struct winsize size;
	int late;

	if (b->rows == 0)
		return 0;
	if (ioctl(b->fd, TIOCGWINSZ, &size) < 0)
		return -errno;
	statusbar_unframe(&b->waiting, size.ws_row);
	b->rows = 0;
	late = statusbar_flush(b);
	while (late > 0 && ms > 0) {
		poll(&p, 1, 10);
		ms -= 10;
		late = statusbar_flush(b);
	}
	return late > 0 ? -EAGAIN : late;
}
