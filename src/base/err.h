/* SPDX-License-Identifier: Apache-2.0
 *
 * err.h - an error that a user must act on: an errno and a sentence that says
 * what failed, where, and what to do. Filled at the bottom, printed at the top.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

/* Zero-initialise it. code is 0 or a negative errno. */
struct err {
	int code;
	char text[512];
};

/* Set *e (may be NULL) unless it is set already (the first cause stays), and
 * return code, so that `return err_set(e, -EINVAL, ...)` reads well. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As err_set(); adds ": " and the system's text of -code. */
int err_errno(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Forget the error. */
void err_clear(struct err *e);

#endif
