/* SPDX-License-Identifier: Apache-2.0
 *
 * topdraw_priv.h - what the files of topdraw share: the panes, each with how many rows it
 * would like and how it is drawn.
 */
#ifndef CLI_TOPDRAW_PRIV_H
#define CLI_TOPDRAW_PRIV_H

#include "cli/topdraw.h"

#include <math.h>

/* The line above a pane, with what is said of its content; r loses its first row. */
void topdraw_title(struct topdraw *d, struct topgrid_rect *r, enum topview_pane pane,
		   const char *of);

/* Note how many rows there are and how many fit; the first that is to be shown. */
int topdraw_scroll(struct topdraw *d, enum topview_pane pane, int rows, int fit);

/* Rows that a pane of w columns has something for, its title among them; 0: nothing to show. */
int topdraw_gpus_want(const struct topdraw *d);
int topdraw_machine_want(const struct topdraw *d, int w);
int topdraw_processes_want(const struct topdraw *d);
int topdraw_events_want(const struct topdraw *d);

/* Draw a pane, title and all. */
void topdraw_training(struct topdraw *d, struct topgrid_rect r);
void topdraw_gpus(struct topdraw *d, struct topgrid_rect r);
void topdraw_machine(struct topdraw *d, struct topgrid_rect r);
void topdraw_processes(struct topdraw *d, struct topgrid_rect r);
void topdraw_events(struct topdraw *d, struct topgrid_rect r);

/* The two or three lines at the top: the run, its progress, where the time of a step goes. */
void topdraw_head(struct topdraw *d, struct topgrid_rect r);

/* The item's figure; NaN if there is no item. */
static inline double topdraw_of(const struct topmodel_item *i, int field)
{
	return i ? i->v[field] : NAN;
}

/* The end of what is shown. */
int64_t topdraw_end(const struct topdraw *d);

#endif
