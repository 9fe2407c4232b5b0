/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h - the program's own messages: one line each, time, level, text, to a
 * descriptor (stderr unless log_open() says otherwise). Thread-safe: a line is
 * one write().
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

enum log_level {
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_INFO,
	LOG_LEVEL_WARN,
	LOG_LEVEL_ERROR
};

/* Write lines of level and above to fd, which stays the caller's. */
void log_open(int fd, enum log_level level);

/* Is fd the stream to the journal that the service manager gave us ($JOURNAL_STREAM)? */
bool log_is_journal(int fd);

/* From now on each line begins with its priority as the journal wants it, "<4>", instead
 * of time, pid and level, which the journal has itself. */
void log_for_journal(void);

void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(...) log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)

#endif
