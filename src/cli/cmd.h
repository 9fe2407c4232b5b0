/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd.h - the commands: each has its options (rows ended by name NULL, static
 * storage) and a function that runs it with the arguments behind the options,
 * argv[0] the first of them, and returns the exit status: 0, 1 it failed, 2 it
 * was called wrongly.
 */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include "cli/opt.h"

const struct opt *cmd_ls_options(void);
int cmd_ls(int argc, char **argv);

const struct opt *cmd_show_options(void);
int cmd_show(int argc, char **argv);

const struct opt *cmd_alerts_options(void);
int cmd_alerts(int argc, char **argv);

const struct opt *cmd_export_options(void);
int cmd_export(int argc, char **argv);

const struct opt *cmd_query_options(void);
int cmd_query(int argc, char **argv);

const struct opt *cmd_report_options(void);
int cmd_report(int argc, char **argv);

const struct opt *cmd_run_options(void);
int cmd_run(int argc, char **argv);

const struct opt *cmd_agent_options(void);
int cmd_agent(int argc, char **argv);

const struct opt *cmd_doctor_options(void);
int cmd_doctor(int argc, char **argv);
const struct opt *cmd_attach_options(void);
int cmd_attach(int argc, char **argv);
const struct opt *cmd_monitor_options(void);
int cmd_monitor(int argc, char **argv);
const struct opt *cmd_completion_options(void);
int cmd_completion(int argc, char **argv);
const struct opt *cmd_config_options(void);
int cmd_config(int argc, char **argv);

const struct opt *cmd_simulate_options(void);
int cmd_simulate(int argc, char **argv);

const struct opt *cmd_recover_options(void);
int cmd_recover(int argc, char **argv);

const struct opt *cmd_edit_options(void);
int cmd_edit(int argc, char **argv);

const struct opt *cmd_gc_options(void);
int cmd_gc(int argc, char **argv);

const struct opt *cmd_gpu_log_options(void);
int cmd_gpu_log(int argc, char **argv);

const struct opt *cmd_pack_options(void);
int cmd_pack(int argc, char **argv);

const struct opt *cmd_import_options(void);
int cmd_import(int argc, char **argv);

const struct opt *cmd_rm_options(void);
int cmd_rm(int argc, char **argv);

const struct opt *cmd_fsck_options(void);
int cmd_fsck(int argc, char **argv);

const struct opt *cmd_serve_options(void);
int cmd_serve(int argc, char **argv);

const struct opt *cmd_top_options(void);
int cmd_top(int argc, char **argv);

const struct opt *cmd_trace_options(void);
int cmd_trace(int argc, char **argv);

const struct opt *cmd_version_options(void);
int cmd_version(int argc, char **argv);

/* The only argument, or `missing` if there is none (NULL: then it is an error).
 * NULL after printing how the command wants to be called: return 2. */
const char *cmd_one_arg(const char *command, int argc, char **argv, const char *what,
			const char *missing);

#endif
