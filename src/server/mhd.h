/* SPDX-License-Identifier: Apache-2.0
 *
 * mhd.h - libmicrohttpd, loaded when the first server starts: a program that serves
 * nothing neither needs it nor pays for it. Its types are its own header's.
 */
#ifndef SERVER_MHD_H
#define SERVER_MHD_H

#include "base/err.h"

#include <microhttpd.h>

#define MHD_CALLS(X)                                                                               \
	X(start_daemon)                                                                            \
	X(stop_daemon)                                                                             \
	X(quiesce_daemon)                                                                          \
	X(suspend_connection)                                                                      \
	X(resume_connection)                                                                       \
	X(queue_response)                                                                          \
	X(create_response_from_buffer)                                                             \
	X(create_response_from_callback)                                                           \
	X(create_response_from_fd_at_offset64)                                                     \
	X(destroy_response)                                                                        \
	X(add_response_header)                                                                     \
	X(get_connection_info)                                                                     \
	X(get_connection_values_n)                                                                 \
	X(lookup_connection_value)                                                                 \
	X(get_version)

struct mhd_api {
#define MHD_MEMBER(name) __typeof__(&MHD_##name) name;
	MHD_CALLS(MHD_MEMBER)
#undef MHD_MEMBER
};

/* The calls, for the life of the process; from any thread. NULL and *e, -ENOENT, says how to
 * get it. */
const struct mhd_api *mhd_load(struct err *e);

#endif
