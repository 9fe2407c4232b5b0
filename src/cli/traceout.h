/* SPDX-License-Identifier: Apache-2.0
 *
 * traceout.h - what the subcommands of `lapse trace` print: which files and rows, sheets
 * and sentences in the order in which they were given; as text, JSON or CSV. The keys are
 * listed in docs/trace.md.
 */
#ifndef CLI_TRACEOUT_H
#define CLI_TRACEOUT_H

#include "base/fmt.h"
#include "report/sheet.h"
#include "cli/tracecmd.h"

struct traceout;

/* The set must outlive it. */
struct traceout *traceout_begin(const struct tracecmd_set *s);

/* Take a sheet over. Columns "file" and "rank" are hidden from people where they say
 * nothing. */
void traceout_sheet(struct traceout *o, struct sheet *sheet);
/* The same, all columns as they are. */
void traceout_sheet_as(struct traceout *o, struct sheet *sheet);
/* For people only. */
void traceout_people(struct traceout *o, struct sheet *sheet);
/* For programs only (and for --sheet). */
void traceout_data(struct traceout *o, struct sheet *sheet);

/* A sentence, at this place; in JSON among the notes. */
void traceout_say(struct traceout *o, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* About what is not in the traces: people see it at the end. */
void traceout_missing(struct traceout *o, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* For people only: lines (taken over, freed with free()), each with a dot before it. */
void traceout_list(struct traceout *o, const char *title, char *lines);

/* For people only: fn prints at this place. The data must outlive traceout_end(). */
void traceout_draw(struct traceout *o,
		   void (*fn)(const struct term *term, FILE *to, const void *data),
		   const void *data);
/* People see no list of files and rules at the top, and no notes on stderr: the command
 * shows these itself. */
void traceout_plain(struct traceout *o);

/* What every table begins with: the place of the file among the files, and its rank. */
#define TRACEOUT_FILE                                                                              \
	{"file", "FILE", SHEET_COUNT, 0},                                                          \
	{                                                                                          \
		"rank", "RANK", SHEET_COUNT, 0                                                     \
	}
void traceout_file(struct sheet *sheet, const struct tracecmd_set *s, size_t i);

/* Write each sheet (--sheet: that one) as NAME.csv into a folder, which is made if it is not
 * there; a file is replaced whole. What is printed then is a sheet "written" instead of these
 * sheets and what is said of them. 0; an exit status after printing why not. */
int traceout_folder(struct traceout *o, const char *folder);

/* Free without printing. */
void traceout_drop(struct traceout *o);
/* Print it all and free. The exit status. */
int traceout_end(struct traceout *o);

/* Text broken at spaces to the terminal's width (100 at most), the first line behind
 * `first` columns that are there already, the others indented. Ends the line. */
void traceout_wrap(const struct term *term, FILE *to, int first, int indent, const char *text);

/* Lines of a text, each with a dot before it and wrapped. */
void traceout_dots(const struct term *term, FILE *to, const char *lines);

/* "1,234,567": a number in groups of three. */
char *traceout_groups(char out[FMT_MAX], uint64_t n);

#endif
