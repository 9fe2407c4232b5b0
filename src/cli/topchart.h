/* SPDX-License-Identifier: Apache-2.0
 *
 * topchart.h - a line chart in cells: dots of braille, eight to a cell, or two to a cell of
 * ASCII. Each column shows all values from the smallest to the greatest that fall into it.
 */
#ifndef CLI_TOPCHART_H
#define CLI_TOPCHART_H

#include "base/fmt.h"
#include "cli/topgrid.h"
#include "cli/toptrace.h"

#define TOPCHART_LINES 8u /* of a chart; the first is the one that figures are of */
#define TOPCHART_W_MIN 12 /* columns below which there is only a title */

struct topchart {
	const char *title, *labels, *note; /* "" none */
	const char *unit;
	const struct toptrace *lines[TOPCHART_LINES];
	size_t n;
	struct toptrace_axis axis;
	int color;      /* style of the first line */
	double smooth;  /* 0: off */
	bool log, clip; /* logarithmic where all is above 0; without the outermost 2 % */
	bool is_chosen;
};

/* Draw it into the part. Nothing is drawn outside of it. */
void topchart_draw(struct topgrid *g, const struct topgrid_rect *r, const struct topchart *c);

/* A line without title or scale, from 0 to `top` (NaN: the greatest), in the part. */
void topchart_spark(struct topgrid *g, const struct topgrid_rect *r, const struct toptrace *t,
		    const struct toptrace_axis *a, double top, int style);

/* "1.85", "412 MiB", "96.1 ms", "1.20 M". Returns out. */
const char *topchart_value(char out[FMT_MAX], double v, const char *unit);

#endif
