/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_tb.h - one trace with the rows, operators and steps that several subcommands look
 * at, made in one go.
 */
#ifndef CLI_TRACE_TB_H
#define CLI_TRACE_TB_H

#include "analyse/tbsteps.h"
#include "cli/traceout.h"

struct trace_tb {
	struct tbrows *rows;
	struct tbtree *tree;
	struct tbsteps *steps;
};

/* Of trace i by the exact rule, the part that fits, or all by the plugin's with --plugin. 0 or
 * -errno. */
int trace_tb_new(const struct tracecmd_set *s, size_t i, struct trace_tb *ret);
void trace_tb_done(struct trace_tb *tb);

/* A time of the variant in microseconds. */
static inline double trace_tb_us(const struct trace_tb *tb, double time)
{
	return time / tb->rows->per_us;
}

#endif
