/* SPDX-License-Identifier: Apache-2.0
 *
 * keys.c - see keys.h. First our own settings, then the blocks of other
 * monitors' configuration files, which are taken as they stand.
 */
#include "config/keys.h"

#define KEYS_RING_KIB_MAX (1 << 24) /* 16 GiB, the largest ring (docs/wire.md) */
#define KEYS_LANES_MAX 256
#define KEYS_GIB_MAX (1 << 20)
#define KEYS_DAY_NS (24 * 3600 * INT64_C(1000000000))
#define KEYS_RECORD_BYTES 32 /* of a record with one value */

#define READ_RUN CONFIG_READ_RUN
#define READ_AGENT CONFIG_READ_AGENT
#define READ_PYTHON CONFIG_READ_PYTHON
#define READ_SERVE CONFIG_READ_SERVE

static const char *const keys_captures[] = {"environment",  "git",  "exceptions", "warnings",
					    "faulthandler", "exit", NULL};

static const char *const keys_helpers[] = {"gradients", "histograms",  "optimizer", "allocator",
					   "gc",        "tracemalloc", "compile",   NULL};

/* What can be said of a target (docs/scrape.md). */
static const struct config_key keys_scrape[] = {
	{.path = "url", .type = CONFIG_TEXT, .help = "address"},
	{.path = "preset", .type = CONFIG_TEXT, .help = "dcgm, node, ray, vllm"},
	{.path = "name", .type = CONFIG_TEXT, .help = "its label target"},
	{.path = "interval",
	 .type = CONFIG_DURATION,
	 .lo = 1000000000,
	 .hi = KEYS_DAY_NS,
	 .help = "between readings"},
	{.path = "timeout",
	 .type = CONFIG_DURATION,
	 .lo = 10000000,
	 .hi = KEYS_DAY_NS,
	 .help = "how long an answer may take"},
	{.path = "keep", .type = CONFIG_WORDS, .help = "patterns of names"},
	{.path = "drop", .type = CONFIG_WORDS, .help = "patterns of names"},
	{.path = "drop_labels", .type = CONFIG_WORDS, .help = "names of labels"},
	{.path = "buckets", .type = CONFIG_BOOL, .help = "histograms' buckets too"},
	{.path = "token_file", .type = CONFIG_TEXT, .help = "file with a bearer token"},
	{.path = "token_env", .type = CONFIG_TEXT, .help = "variable with a bearer token"},
	{.path = "ca_file", .type = CONFIG_TEXT, .help = "who signs its certificate"},
	{.path = "verify", .type = CONFIG_BOOL, .help = "false: any certificate"},
	{.path = NULL},
};

/* Half of a ring is the lane of the thread that opened it. */
static int64_t keys_ring_of_records(int64_t records)
{
	return (records * 2 * KEYS_RECORD_BYTES + 1023) / 1024;
}

/* A key of a foreign block that only has a type here. */
#define KEYS_NONE(path_, type_, preset_, help_)                                                    \
	{                                                                                          \
		.path = (path_), .type = (type_), .preset = (preset_), .help = (help_)             \
	}

/* clang-format off */
const struct config_key config_keys[] = {
	{.path = "run.dir", .type = CONFIG_TEXT, .readers = READ_RUN | READ_PYTHON,
	 .preset = "lapse-runs", .env = "LAPSE_DIR", .option = "run --dir", .python = "dir",
	 .help = "folder of all runs; relative to the working folder"},
	{.path = "run.name", .type = CONFIG_TEXT, .readers = READ_RUN | READ_PYTHON,
	 .env = "LAPSE_NAME", .option = "run --name", .python = "name",
	 .help = "name of the run; none: the program or Python script"},
	{.path = "run.project", .type = CONFIG_TEXT, .readers = READ_RUN | READ_PYTHON,
	 .env = "LAPSE_PROJECT", .option = "run --project", .python = "project",
	 .help = "project that the run belongs to"},
	{.path = "run.tags", .type = CONFIG_WORDS, .readers = READ_RUN | READ_PYTHON,
	 .env = "LAPSE_TAGS", .option = "run --tags", .python = "tags",
	 .help = "words to find the run by"},
	{.path = "run.notes", .type = CONFIG_TEXT, .readers = READ_RUN | READ_PYTHON,
	 .env = "LAPSE_NOTES", .option = "run --notes", .python = "notes",
	 .help = "what you want to remember of this run"},
	{.path = "run.quiet", .type = CONFIG_BOOL, .readers = READ_RUN, .preset = "false",
	 .option = "run --quiet",
	 .help = "write nothing, also where stderr is a terminal"},
	{.path = "run.status", .type = CONFIG_BOOL, .readers = READ_RUN, .preset = "false",
	 .option = "run --status",
	 .help = "show a line at the bottom of the terminal while the command runs"},
	{.path = "run.total_steps", .type = CONFIG_INT, .readers = READ_RUN,
	 .lo = 1, .hi = INT64_C(1000000000000000), .option = "run --total-steps",
	 .help = "steps in all, for the time that is left in the status line; none: what the "
		 "program says"},
	{.path = "run.tee_stderr", .type = CONFIG_BOOL, .readers = READ_RUN, .preset = "false",
	 .option = "run --tee-stderr",
	 .help = "keep the last 64 KiB of the command's stderr"},
	{.path = "run.stall_after", .type = CONFIG_DURATION, .readers = READ_RUN,
	 .option = "run --stall-after",
	 .help = "hung after so long without progress; 0: never; none: learned from the run, "
		 "if its program records"},
	{.path = "run.agent", .type = CONFIG_BOOL, .readers = READ_RUN, .preset = "true",
	 .option = "run --no-agent",
	 .help = "start an agent; false: records wait in shared memory for lapse recover"},
	{.path = "run.scrape", .type = CONFIG_ITEMS, .readers = READ_RUN, .option = "run --scrape",
	 .items = keys_scrape,
	 .help = "other programs that are asked for their metrics while it runs (scrape.md)"},

	{.path = "agent.idle_exit", .type = CONFIG_DURATION, .readers = READ_RUN | READ_AGENT,
	 .option = "agent --idle-exit",
	 .help = "the agent leaves after so long without a run; 0: never; none: 60 s for one "
		 "that was started by itself, never for lapse agent"},
	{.path = "agent.verbose", .type = CONFIG_BOOL, .readers = READ_AGENT, .preset = "false",
	 .option = "agent --verbose",
	 .help = "more messages in agent.log"},
	{.path = "agent.machine", .type = CONFIG_BOOL, .readers = READ_AGENT, .preset = "false",
	 .option = "agent --machine",
	 .help = "while no run is live, keep the machine's figures in runs named machine "
		 "(service.md)"},
	{.path = "agent.machine_keep", .type = CONFIG_DURATION, .readers = READ_AGENT,
	 .preset = "7d", .help = "delete runs named machine that are older; 0: keep no figures"},
	{.path = "agent.machine_interval", .type = CONFIG_DURATION, .readers = READ_AGENT,
	 .preset = "10s", .lo = 50000000, .hi = KEYS_DAY_NS,
	 .help = "probe.interval while no run is live"},
	{.path = "agent.machine_dir", .type = CONFIG_TEXT, .readers = READ_AGENT,
	 .help = "absolute path of the folder of these runs; none: machine in $STATE_DIRECTORY, "
		 "else in /var/lib/lapse (root), $XDG_STATE_HOME/lapse or ~/.local/state/lapse"},
	{.path = "agent.scrape", .type = CONFIG_ITEMS, .readers = READ_AGENT, .items = keys_scrape,
	 .help = "other programs that are asked for the machine's metrics (scrape.md)"},

	{.path = "probe.interval", .type = CONFIG_DURATION, .readers = READ_AGENT,
	 .preset = "1s", .lo = 50000000, .hi = KEYS_DAY_NS,
	 .help = "between readings of machine, GPUs and processes; groups that are read less "
		 "often by themselves (lapse doctor) scale with it"},
	{.path = "probe.every", .type = CONFIG_WORDS, .readers = READ_AGENT,
	 .help = "GROUP=TIME for single groups of metrics: [nvidia=100ms, disk=5s]"},
	{.path = "probe.off", .type = CONFIG_WORDS, .readers = READ_AGENT,
	 .help = "groups of metrics that are not read"},
	{.path = "probe.warmup", .type = CONFIG_DURATION, .readers = READ_AGENT,
	 .lo = 50000000, .hi = KEYS_DAY_NS,
	 .help = "probe.interval until a process of the run has done 10 steps; none: the same"},
	{.path = "probe.steady", .type = CONFIG_DURATION, .readers = READ_AGENT,
	 .lo = 50000000, .hi = KEYS_DAY_NS,
	 .help = "probe.interval afterwards; none: the same"},
	{.path = "probe.checkpoint", .type = CONFIG_DURATION, .readers = READ_AGENT,
	 .lo = 50000000, .hi = KEYS_DAY_NS,
	 .help = "probe.interval while a span named *checkpoint* or *save* is open; none: the "
		 "same"},
	{.path = "probe.stalled", .type = CONFIG_DURATION, .readers = READ_AGENT,
	 .lo = 50000000, .hi = KEYS_DAY_NS,
	 .help = "probe.interval while the run is called hung; none: the same"},
	{.path = "probe.pss", .type = CONFIG_BOOL, .readers = READ_AGENT, .preset = "false",
	 .help = "read the proportional memory of a process a minute too: 12 ms a GiB, and it "
		 "holds a lock of the process meanwhile"},

	{.path = "store.keep_raw", .type = CONFIG_DURATION, .readers = READ_AGENT,
	 .help = "single points of a run that are older go while it is recorded, summaries and "
		 "events stay; 0 or none: no limit"},
	{.path = "store.max_size", .type = CONFIG_BYTES, .readers = READ_AGENT,
	 .help = "of a larger file of a run and host the oldest single points go; 0 or none: no "
		 "limit"},
	{.path = "store.cleanup", .type = CONFIG_BOOL, .readers = READ_AGENT, .preset = "true",
	 .help = "false: store.keep_raw and store.max_size have no effect"},

	{.path = "store.live", .type = CONFIG_TEXT, .readers = READ_AGENT, .preset = "auto",
	 .help = "where a database is while it is written: local (in store.local_dir, moved into "
		 "the run's folder at the end), in-place, or auto: local if a WAL is not safe in "
		 "the run's folder"},
	{.path = "store.local_dir", .type = CONFIG_TEXT, .readers = READ_AGENT,
	 .help = "absolute path of a folder on a local disk, ours alone; none: "
		 "$XDG_STATE_HOME/lapse/live or ~/.local/state/lapse/live, else "
		 "/var/tmp/lapse-UID/live"},
	{.path = "store.copy_every", .type = CONFIG_DURATION, .readers = READ_AGENT,
	 .preset = "5m",
	 .help = "between copies of a local database into the run's folder, which other hosts read"},

	{.path = "alert.enabled", .type = CONFIG_BOOL, .readers = READ_RUN | READ_AGENT,
	 .preset = "true",
	 .help = "look for what is wrong while runs are recorded (alerts.md)"},
	{.path = "alert.off", .type = CONFIG_WORDS, .readers = READ_RUN | READ_AGENT,
	 .help = "alerts that are not looked for: [gpu-idle, io-wait]"},
	{.path = "alert.limits", .type = CONFIG_WORDS, .readers = READ_RUN | READ_AGENT,
	 .help = "RULE=NUMBER for single alerts: [gpu-hot=85, stall=300]"},

	{.path = "record.ring_kib", .type = CONFIG_INT, .readers = READ_PYTHON,
	 .env = "LAPSE_RING_KIB", .python = "ring_kib", .hi = KEYS_RING_KIB_MAX,
	 .help = "size of a process's ring in KiB; none or 0: 8448"},
	{.path = "record.lanes", .type = CONFIG_INT, .readers = READ_PYTHON,
	 .env = "LAPSE_LANES", .python = "lanes", .hi = KEYS_LANES_MAX,
	 .help = "threads of a process that can record at the same time; none or 0: 16"},

	{.path = "python.capture", .type = CONFIG_CHOICES, .readers = READ_PYTHON,
	 .preset = "true", .env = "LAPSE_CAPTURE", .python = "capture",
	 .choices = keys_captures,
	 .help = "what is recorded without being asked: true (all), false (nothing), or some "
		 "of environment, git, exceptions, warnings, faulthandler, exit"},
	{.path = "python.start_agent", .type = CONFIG_BOOL, .readers = READ_PYTHON,
	 .preset = "true", .env = "LAPSE_START_AGENT", .python = "start_agent",
	 .help = "start an agent if none runs and this is not inside lapse run"},
	{.path = "python.role", .type = CONFIG_TEXT, .readers = READ_PYTHON,
	 .env = "LAPSE_ROLE", .python = "role",
	 .help = "what the process is; none: trainer, or worker in a child of multiprocessing"},
	{.path = "python.config", .type = CONFIG_FREE, .readers = READ_PYTHON,
	 .help = "hyperparameters, freely nested: each leaf becomes the attribute config/PATH"},

	{.path = "torch.helpers", .type = CONFIG_CHOICES, .readers = READ_PYTHON,
	 .preset = "false", .env = "LAPSE_TORCH_HELPERS", .choices = keys_helpers,
	 .help = "what lapse.torch.from_config() measures: true (all), false (nothing), or some "
		 "of gradients, histograms, optimizer, allocator, gc, tracemalloc, compile"},
	{.path = "torch.layers", .type = CONFIG_WORDS, .readers = READ_PYTHON,
	 .env = "LAPSE_TORCH_LAYERS",
	 .help = "layers or patterns whose gradients are watched one by one; none: the total alone"},
	{.path = "torch.every", .type = CONFIG_INT, .readers = READ_PYTHON, .preset = "10",
	 .env = "LAPSE_TORCH_EVERY", .lo = 1, .hi = 1 << 30,
	 .help = "steps between measurements; ten times as many for histograms and tracemalloc"},
	{.path = "torch.ranks", .type = CONFIG_TEXT, .readers = READ_PYTHON, .preset = "all",
	 .env = "LAPSE_TORCH_RANKS",
	 .help = "of a distributed program: all record, zero (rank 0 alone) does, or rank 0 "
		 "records the aggregate of all"},
	{.path = "profile.enabled", .type = CONFIG_BOOL, .readers = READ_PYTHON, .preset = "false",
	 .env = "LAPSE_PROFILE", .help = "trace some steps with PyTorch's profiler"},
	{.path = "profile.dir", .type = CONFIG_TEXT, .readers = READ_PYTHON,
	 .preset = "./profiler_traces", .env = "LAPSE_PROFILE_DIR", .help = "folder of the traces"},
	{.path = "profile.wait", .type = CONFIG_INT, .readers = READ_PYTHON, .preset = "5",
	 .env = "LAPSE_PROFILE_WAIT", .help = "steps of a cycle before the profiler warms up"},
	{.path = "profile.warmup", .type = CONFIG_INT, .readers = READ_PYTHON, .preset = "2",
	 .env = "LAPSE_PROFILE_WARMUP", .help = "steps in which it warms up"},
	{.path = "profile.active", .type = CONFIG_INT, .readers = READ_PYTHON, .preset = "3",
	 .env = "LAPSE_PROFILE_ACTIVE", .lo = 1, .hi = 1 << 30,
	 .help = "steps that it records, into one trace"},
	{.path = "profile.repeat", .type = CONFIG_INT, .readers = READ_PYTHON, .preset = "1",
	 .env = "LAPSE_PROFILE_REPEAT", .help = "cycles; 0: until the training ends"},

	{.path = "dashboard.enabled", .type = CONFIG_BOOL, .readers = READ_RUN,
	 .env = "LAPSE_DASHBOARD", .option = "run --dashboard",
	 .help = "serve the dashboard while a run is live (default: if stderr is a terminal)"},
	{.path = "dashboard.host", .type = CONFIG_TEXT, .readers = READ_SERVE,
	 .preset = "127.0.0.1", .env = "LAPSE_DASHBOARD_HOST", .option = "serve --host",
	 .help = "address to listen on; others than this machine need a token"},
	{.path = "dashboard.port", .type = CONFIG_INT, .readers = READ_SERVE, .lo = 1,
	 .hi = 65535, .env = "LAPSE_DASHBOARD_PORT", .option = "serve --port",
	 .help = "port to listen on (default: the first free one from 8080 on)"},
	{.path = "dashboard.refresh_interval", .type = CONFIG_DURATION, .readers = READ_SERVE,
	 .preset = "250ms", .lo = 100000000, .hi = 3600000000000, .option = "serve --refresh",
	 .help = "live updates are at least so far apart"},
	{.path = "dashboard.allowed_ips", .type = CONFIG_WORDS, .readers = READ_SERVE,
	 .option = "serve --allow-ip", .help = "only these addresses and networks may connect"},
	{.path = "dashboard.allowed_hosts", .type = CONFIG_WORDS, .readers = READ_SERVE,
	 .option = "serve --allow-host", .help = "names under which browsers may ask"},
	{.path = "dashboard.token_file", .type = CONFIG_TEXT, .readers = READ_SERVE,
	 .option = "serve --token-file", .help = "file with the token that everybody needs"},
	{.path = "dashboard.tls_cert", .type = CONFIG_TEXT, .readers = READ_SERVE,
	 .option = "serve --tls-cert", .help = "certificate, PEM"},
	{.path = "dashboard.tls_key", .type = CONFIG_TEXT, .readers = READ_SERVE,
	 .option = "serve --tls-key", .help = "its key, PEM"},
	{.path = "dashboard.title", .type = CONFIG_TEXT, .readers = READ_SERVE, .preset = "lapse",
	 .option = "serve --title", .help = "title of the pages"},
	{.path = "dashboard.max_clients", .type = CONFIG_INT, .readers = READ_SERVE, .lo = 8,
	 .hi = 65536, .preset = "512", .option = "serve --max-clients",
	 .help = "connections at a time"},

	/* What other monitors call a setting of ours. */
	{.path = "enable_dashboard", .type = CONFIG_BOOL, .same_as = "dashboard.enabled",
	 .help = "dashboard.enabled"},
	{.path = "visualization.dashboard", .type = CONFIG_BOOL, .same_as = "dashboard.enabled",
	 .help = "dashboard.enabled"},
	{.path = "dashboard_host", .type = CONFIG_TEXT, .same_as = "dashboard.host",
	 .help = "dashboard.host"},
	{.path = "dashboard_port", .type = CONFIG_INT, .lo = 1, .hi = 65535,
	 .same_as = "dashboard.port", .help = "dashboard.port"},
	{.path = "save_dir", .type = CONFIG_TEXT, .same_as = "run.dir",
	 .help = "run.dir"},
	{.path = "monitoring.save_dir", .type = CONFIG_TEXT, .same_as = "run.dir",
	 .help = "run.dir"},
	{.path = "monitoring.interval", .type = CONFIG_DURATION, .same_as = "probe.interval",
	 .lo = 50000000, .hi = KEYS_DAY_NS, .help = "probe.interval"},
	{.path = "performance_tuning.buffer_size", .type = CONFIG_INT, .lo = 1, .hi = 1 << 28,
	 .same_as = "record.ring_kib", .convert = keys_ring_of_records,
	 .help = "record.ring_kib, for so many records of one value in the first thread"},
	{.path = "metrics_collection.buffer_size", .type = CONFIG_INT, .lo = 1, .hi = 1 << 28,
	 .same_as = "record.ring_kib", .convert = keys_ring_of_records,
	 .help = "record.ring_kib, for so many records of one value in the first thread"},
	{.path = "performance_tuning.max_database_size_gb", .type = CONFIG_NUMBER,
	 .hi = KEYS_GIB_MAX, .same_as = "store.max_size", .scale = 1 << 30,
	 .help = "store.max_size, in GiB"},
	{.path = "performance_tuning.auto_cleanup", .type = CONFIG_BOOL,
	 .same_as = "store.cleanup", .help = "store.cleanup"},
	{.path = "metrics_collection.auto_cleanup", .type = CONFIG_BOOL,
	 .same_as = "store.cleanup", .help = "store.cleanup"},
	{.path = "monitoring.visualization", .type = CONFIG_BLOCK, .same_as = "visualization",
	 .help = "the block visualization"},
	{.path = "monitoring.alerting", .type = CONFIG_BLOCK, .same_as = "alerting",
	 .help = "the block alerting"},
	{.path = "monitoring.analysis", .type = CONFIG_BLOCK, .same_as = "analysis",
	 .help = "the block analysis"},

	{.path = "alerting.enabled", .type = CONFIG_BOOL, .same_as = "alert.enabled",
	 .help = "alert.enabled"},
	{.path = "alert_system.enabled", .type = CONFIG_BOOL, .same_as = "alert.enabled",
	 .help = "alert.enabled"},
	{.path = "enable_alerts", .type = CONFIG_BOOL, .same_as = "alert.enabled",
	 .help = "alert.enabled"},

	{.path = "gradient_monitoring.track_layers", .type = CONFIG_WORDS,
	 .same_as = "torch.layers", .help = "torch.layers"},

	/* What lapse.configure() reads. */
	{.path = "monitoring.enabled", .type = CONFIG_BOOL, .readers = READ_PYTHON,
	 .preset = "true", .help = "false: lapse.configure() measures nothing"},
	{.path = "monitoring.metrics", .type = CONFIG_WORDS, .readers = READ_PYTHON,
	 .help = "gradient_norms, model_parameters and learning_rate are gradients, histograms "
		 "and optimizer of torch.helpers; other names are recorded anyway, or logged by "
		 "the program"},
	{.path = "track_gradients", .type = CONFIG_BOOL, .readers = READ_PYTHON,
	 .preset = "false", .help = "watch gradients, as torch.helpers: [gradients]"},
	{.path = "gradient_monitoring.compute_layer_stats", .type = CONFIG_BOOL,
	 .readers = READ_PYTHON, .preset = "false",
	 .help = "without torch.layers: one by one the gradients of each outermost module"},
	{.path = "gradient_monitoring.detect_gradient_explosion", .type = CONFIG_BOOL,
	 .readers = READ_PYTHON, .preset = "true",
	 .help = "say so when gradients that are watched explode"},
	{.path = "distributed_monitoring", .type = CONFIG_BOOL, .readers = READ_PYTHON,
	 .preset = "true", .help = "false: as if each process were alone"},
	{.path = "track_rank_0_only", .type = CONFIG_BOOL, .readers = READ_PYTHON,
	 .preset = "false", .help = "as torch.ranks: zero"},

	/* What has no effect in this version: the default is what lapse does. */
	KEYS_NONE("visualization.tensorboard", CONFIG_BOOL, "false", "write TensorBoard files"),
	KEYS_NONE("visualization.prometheus", CONFIG_BOOL, "false", "serve Prometheus metrics"),
	KEYS_NONE("visualization.grafana", CONFIG_BOOL, "false", "Grafana dashboards"),
	KEYS_NONE("alerting.email_notifications", CONFIG_BOOL, "false", "alerts by mail"),
	KEYS_NONE("alerting.slack_notifications", CONFIG_BOOL, "false", "alerts by Slack"),
	KEYS_NONE("alerting.thresholds.loss_increase", CONFIG_NUMBER, NULL, "ratio"),
	KEYS_NONE("alerting.thresholds.gpu_memory", CONFIG_NUMBER, NULL, "ratio"),
	KEYS_NONE("alerting.thresholds.cpu_usage", CONFIG_NUMBER, NULL, "ratio"),
	KEYS_NONE("alerting.thresholds.training_speed", CONFIG_NUMBER, NULL, "ratio"),
	KEYS_NONE("analysis.trend_analysis", CONFIG_BOOL, "false", "find trends"),
	KEYS_NONE("analysis.anomaly_detection", CONFIG_BOOL, "false", "find anomalies"),
	KEYS_NONE("analysis.performance_regression", CONFIG_BOOL, "false",
		  "compare with a stored baseline"),
	KEYS_NONE("alert_system.thresholds.cpu_usage_percent", CONFIG_NUMBER, NULL, "percent"),
	KEYS_NONE("alert_system.thresholds.memory_usage_percent", CONFIG_NUMBER, NULL, "percent"),
	KEYS_NONE("alert_system.thresholds.gpu_memory_usage_percent", CONFIG_NUMBER, NULL,
		  "percent"),
	KEYS_NONE("alert_system.thresholds.gpu_temperature_celsius", CONFIG_NUMBER, NULL,
		  "degrees Celsius"),
	KEYS_NONE("alert_system.thresholds.disk_usage_percent", CONFIG_NUMBER, NULL, "percent"),
	KEYS_NONE("alert_system.thresholds.training_loss_spike", CONFIG_NUMBER, NULL, "factor"),
	KEYS_NONE("alert_system.thresholds.grad_norm_exploded", CONFIG_NUMBER, NULL, "norm"),
	KEYS_NONE("alert_system.thresholds.learning_rate_too_low", CONFIG_NUMBER, NULL, "rate"),
	KEYS_NONE("performance_tuning.high_frequency_mode", CONFIG_BOOL, "true",
		  "for more than 100 steps a second"),
	KEYS_NONE("performance_tuning.batch_metrics_collection", CONFIG_BOOL, "true",
		  "store many records at once"),
	KEYS_NONE("performance_tuning.max_events_per_second", CONFIG_INT, NULL,
		  "records to keep of a second"),
	KEYS_NONE("performance_tuning.flush_interval", CONFIG_DURATION, "1s", "between commits"),
	KEYS_NONE("performance_tuning.use_memory_maps", CONFIG_BOOL, "true",
		  "records go through mapped memory"),
	KEYS_NONE("metrics_collection.flush_interval", CONFIG_DURATION, "1s", "between commits"),
	KEYS_NONE("metrics_collection.compression_enabled", CONFIG_BOOL, "true",
		  "compress what is stored"),
	KEYS_NONE("metrics_collection.save_interval", CONFIG_INT, NULL, "steps between writes"),
	KEYS_NONE("tensorboard_dir", CONFIG_TEXT, NULL, "folder of TensorBoard files"),
	KEYS_NONE("visualization_dir", CONFIG_TEXT, NULL, "folder of pictures"),
	KEYS_NONE("enable_performance_monitor", CONFIG_BOOL, "true", "record performance"),
	{.path = NULL},
};
/* clang-format on */

const char *config_type_name(enum config_type type)
{
	static const char *const names[] = {
		[CONFIG_BOOL] = "true or false", [CONFIG_TEXT] = "text",
		[CONFIG_WORDS] = "list",         [CONFIG_CHOICES] = "list",
		[CONFIG_INT] = "whole number",   [CONFIG_DURATION] = "duration",
		[CONFIG_BYTES] = "size",         [CONFIG_NUMBER] = "number",
		[CONFIG_FREE] = "mapping",       [CONFIG_BLOCK] = "block",
		[CONFIG_ITEMS] = "list",
	};

	return names[type];
}
