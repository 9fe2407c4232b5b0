/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_subs.h - the subcommands of `lapse trace`, and what their files share.
 */
#ifndef CLI_TRACE_SUBS_H
#define CLI_TRACE_SUBS_H

#include "analyse/coverage.h"
#include "analyse/numeric.h"
#include "cli/tracecmd.h"
#include "cli/traceout.h"

/* Options of subcommands that have no others: of all; with --steps and --hta; with
 * --plugin; with --steps. */
const struct opt *trace_plain_options(void);
const struct opt *trace_hta_options(void);
const struct opt *trace_plugin_options(void);
const struct opt *trace_steps_options(void); /* all, and --steps */

/* Load, fill, print, free: the run of most subcommands. fill gives 0 or -errno, of which
 * the user is told. */
int trace_run(const struct tracecmd_wish *w,
	      int (*fill)(struct tracecmd_set *s, struct traceout *o), int argc, char **argv);

/* Bytes of a row of a sheet of so many columns, for lists that are as long as the trace. */
uint32_t trace_list_bytes(size_t columns);

/* Can coverage judge this on the view? Of a part of a trace it cannot know what lies outside. */
bool trace_is_told(const struct tracecmd_set *s, size_t i, enum coverage_id id);

/* A number, missing if it is NaN. */
void trace_number(struct sheet *sheet, double v);
/* mean, std, min, 25 %, 50 %, 75 %, max. */
void trace_describe(struct sheet *sheet, const struct numeric_describe *d);
/* A text of a trace by its id; missing for 0. */
void trace_text_cell(struct sheet *sheet, const struct trace *t, uint32_t id);

/* What those add of which `tables` prints all. */
int trace_temporal_fill(struct tracecmd_set *s, struct traceout *o);
int trace_idle_fill(struct tracecmd_set *s, struct traceout *o);
int trace_kernels_fill(struct tracecmd_set *s, struct traceout *o);
int trace_overlap_fill(struct tracecmd_set *s, struct traceout *o);
int trace_launch_fill(struct tracecmd_set *s, struct traceout *o);
int trace_queue_fill(struct tracecmd_set *s, struct traceout *o);
int trace_bandwidth_fill(struct tracecmd_set *s, struct traceout *o);
int trace_annotations_fill(struct tracecmd_set *s, struct traceout *o);

/* One line each in tracecmds.c. */
int trace_temporal(int argc, char **argv);
const struct opt *trace_idle_options(void);
int trace_idle(int argc, char **argv);
int trace_overlap(int argc, char **argv);

const struct opt *trace_kernels_options(void);
int trace_kernels(int argc, char **argv);
const struct opt *trace_annotations_options(void);
int trace_annotations(int argc, char **argv);

const struct opt *trace_launch_options(void);
int trace_launch(int argc, char **argv);
const struct opt *trace_queue_options(void);
int trace_queue(int argc, char **argv);
const struct opt *trace_bandwidth_options(void);
int trace_bandwidth(int argc, char **argv);
const struct opt *trace_tables_options(void);
int trace_tables(int argc, char **argv);

int trace_steps(int argc, char **argv);
const struct opt *trace_gpu_options(void);
int trace_gpu(int argc, char **argv);
const struct opt *trace_memory_options(void);
int trace_memory(int argc, char **argv);
const struct opt *trace_top_options(void);
int trace_top(int argc, char **argv);

const struct opt *trace_critical_options(void);
int trace_critical(int argc, char **argv);
const struct opt *trace_sequences_options(void);
int trace_sequences(int argc, char **argv);
const struct opt *trace_stacks_options(void);
int trace_stacks(int argc, char **argv);
/* The same for `convert`: with these two options. */
int trace_stacks_as(const char *command, const char *to, const char *file, int argc, char **argv);

const struct opt *trace_diff_options(void);
int trace_diff(int argc, char **argv);
const struct opt *trace_ranks_options(void);
int trace_ranks(int argc, char **argv);

int trace_summary(int argc, char **argv);
int trace_score(int argc, char **argv);

const struct opt *trace_timeline_options(void);
int trace_timeline(int argc, char **argv);
const struct opt *trace_convert_options(void);
int trace_convert(int argc, char **argv);
const struct opt *trace_merge_options(void);
int trace_merge(int argc, char **argv);
const struct opt *trace_import_options(void);
int trace_import(int argc, char **argv);
int trace_validate(int argc, char **argv);
const struct opt *trace_repair_options(void);
int trace_repair(int argc, char **argv);

#endif
