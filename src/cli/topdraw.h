/* SPDX-License-Identifier: Apache-2.0
 *
 * topdraw.h - a frame of `lapse top`: the model, as somebody wants to see it, drawn into cells.
 */
#ifndef CLI_TOPDRAW_H
#define CLI_TOPDRAW_H

#include "cli/topgrid.h"
#include "cli/topmodel.h"
#include "cli/topview.h"

struct topdraw {
	struct topgrid *g;
	struct topview *v;
	struct topmodel *m;
	int64_t now_ns;   /* UTC */
	const char *note; /* of the run that is shown, or what is wrong; "" none */
	bool is_wrong;    /* the note is of the second kind */
	bool is_once;     /* nobody can press keys */
};

/* Draw all of the grid. Traces that are shown are wanted (topmodel_trace()); what keys must
 * know for moving is put into the view. Any size of grid will do. */
void topdraw_frame(struct topdraw *d);

#endif
