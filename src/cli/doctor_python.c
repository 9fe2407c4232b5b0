/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor_python.c - the interpreter that would train, and what of the packages that
 * lapse works with is installed there. Asks their metadata and imports only lapse:
 * importing a framework may take ten seconds and a GPU.
 */
#include "cli/doctor.h"

#include "base/buf.h"
#include "base/mem.h"
#include "wire/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PYTHON_TIMEOUT_MS 30000
#define PYTHON_OUTPUT_MAX (64u << 10)

/* Prints lines "KEY\tVALUE". */
static char python_script[] =
	"import sys, os\n"
	"def say(k, v): print(k + '\\t' + ' '.join(str(v).split()))\n"
	"say('python', '.'.join(map(str, sys.version_info[:3])))\n"
	"say('path', sys.executable)\n"
	"if sys.version_info < (3, 9): sys.exit()\n"
	"import importlib.metadata as m, importlib.util as u\n"
	"for name in ('torch', 'lightning', 'pytorch-lightning', 'transformers', 'hydra-core',\n"
	"             'tensorboard', 'torch-tb-profiler', 'wandb', 'ray', 'jax', 'psutil'):\n"
	"    try: say('package ' + name, m.version(name))\n"
	"    except m.PackageNotFoundError: pass\n"
	"try:\n"
	"    import lapse\n"
	"    say('lapse', lapse.__version__); say('lapse path', os.path.dirname(lapse.__file__))\n"
	"except ModuleNotFoundError as e: say('lapse missing', e)\n"
	"except Exception as e: say('lapse broken', repr(e))\n"
	"spec = u.find_spec('torch')\n"
	"if spec and spec.origin:\n"
	"    try:\n"
	"        text = open(os.path.join(os.path.dirname(spec.origin), 'version.py')).read()\n"
	"        scope = {}; exec(text, scope); say('torch cuda', scope.get('cuda') or 'none')\n"
	"    except Exception: pass\n"
	"def there(n):\n"
	"    try: return u.find_spec(n) is not None\n"
	"    except ImportError: return False\n"
	"say('hydra', 'yes' if there('hydra_plugins.lapse_search_path') else 'no')\n"
	"try: say('factory', 'yes' if any(e.group.endswith('.callbacks_factory')\n"
	"    for d in m.distributions() if d.metadata['Name'] == 'lapse' for e in d.entry_points) "
	"else 'no')\n"
	"except Exception: pass\n"
	"traces = [f for d, _, fs in os.walk('profiler_traces') for f in fs\n"
	"          if f.endswith(('.json', '.json.gz'))][:1000]\n"
	"say('traces', len(traces))\n"
	"key = os.environ.get('WANDB_API_KEY')\n"
	"try: key = key or 'api.wandb.ai' in open(os.path.expanduser('~/.netrc')).read()\n"
	"except OSError: pass\n"
	"say('wandb login', 'yes' if key else 'no')\n";

/* What it writes, until it closes its output or the time is over. */
static int python_collect(int fd, struct buf *out)
{
	struct pollfd p = {fd, POLLIN, 0};
	int64_t until = clock_ns(CLOCK_MONOTONIC) + PYTHON_TIMEOUT_MS * 1000000ll;
	char part[4096];
	int64_t left;
	ssize_t n;

	for (;;) {
		left = (until - clock_ns(CLOCK_MONOTONIC)) / 1000000;
		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return -ETIMEDOUT;
		n = read(fd, part, sizeof(part));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		buf_append(out, part, (size_t)n);
	}
}

static int python_ask(const char *program, struct buf *out)
{
	char dash_c[] = "-c";
	char *argv[] = {xstrdup(program), dash_c, python_script, NULL};
	posix_spawn_file_actions_t actions;
	int pipes[2], err;
	pid_t pid;

	if (pipe(pipes) < 0)
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1, 0);
	posix_spawn_file_actions_addclose(&actions, pipes[0]);
	posix_spawn_file_actions_addclose(&actions, pipes[1]);
	err = posix_spawnp(&pid, program, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(pipes[1]);
	free(argv[0]);
	if (err) {
		close(pipes[0]);
		return -err;
	}
	err = python_collect(pipes[0], out);
	close(pipes[0]);
	if (err)
		kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return err;
}

/* The value of a line "KEY\tVALUE", which the caller frees; NULL: there is none. */
static char *python_value(const struct buf *text, const char *key)
{
	size_t n = strlen(key);
	const char *p = text->data;

	while (p && *p) {
		if (strncmp(p, key, n) == 0 && p[n] == '\t')
			return xstrndup(p + n + 1, strcspn(p + n + 1, "\n"));
		p = strchr(p, '\n');
		p = p ? p + 1 : NULL;
	}
	return NULL;
}

static void python_lapse(struct doctor *d, const struct buf *text)
{
	char *version = python_value(text, "lapse"), *broken = python_value(text, "lapse broken");

	if (version && strcmp(version, LAPSE_VERSION) == 0)
		doctor_add(d, "python", DOCTOR_OK, NULL, "the package lapse %s can be imported",
			   version);
	else if (version)
		doctor_add(d, "python", DOCTOR_WARNING, "install the same version of both",
			   "the package lapse is %s, this program is %s", version, LAPSE_VERSION);
	else if (broken)
		doctor_add(d, "python", DOCTOR_WARNING, "install it again for this interpreter",
			   "the package lapse cannot be imported: %s", broken);
	else
		doctor_add(d, "python", DOCTOR_NOTE, "pip install the wheel of lapse there",
			   "the package lapse is not installed: machine, GPUs and processes are "
			   "recorded, losses and phases are not");
	free(version);
	free(broken);
}

static void python_packages(struct doctor *d, const struct buf *text)
{
	const char *p = text->data;
	struct buf list;
	char *cuda = python_value(text, "torch cuda"), *login = python_value(text, "wandb login");
	char *wandb = python_value(text, "package wandb");

	buf_init(&list, 4096);
	while (p && *p) {
		const char *tab = strchr(p, '\t'), *end = strchr(p, '\n');

		if (strncmp(p, "package ", 8) == 0 && tab && end && tab < end)
			buf_printf(&list, "%s%.*s %.*s", list.len ? ", " : "", (int)(tab - p - 8),
				   p + 8, (int)(end - tab - 1), tab + 1);
		p = end ? end + 1 : NULL;
	}
	if (list.len)
		doctor_add(d, "python", DOCTOR_OK, NULL, "%s%s%s", list.data,
			   cuda ? "; torch is built for CUDA " : "", cuda ? cuda : "");
	if (wandb && login && strcmp(login, "no") == 0)
		doctor_add(d, "python", DOCTOR_NOTE, "wandb login",
			   "wandb is installed and has no key");
	buf_done(&list);
	free(cuda);
	free(login);
	free(wandb);
}

/* What attaches lapse to frameworks without a change of the program. */
static void python_frameworks(struct doctor *d, const struct buf *text)
{
	char *hydra = python_value(text, "package hydra-core"),
	     *plugin = python_value(text, "hydra");
	char *factory = python_value(text, "factory"), *version = python_value(text, "lapse");
	const char *asked = getenv("LAPSE_LIGHTNING");
	bool wants = version && asked && *asked && strcmp(asked, "0") != 0;

	if (version && hydra && plugin && strcmp(plugin, "yes") == 0)
		doctor_add(d, "python", DOCTOR_OK, NULL,
			   "Hydra applications find the config group callbacks of lapse");
	else if (version && hydra)
		doctor_add(d, "python", DOCTOR_WARNING, "install the wheel of lapse again",
			   "Hydra does not find lapse's config group: hydra_plugins is not there");
	if (wants && factory && strcmp(factory, "yes") == 0)
		doctor_add(d, "python", DOCTOR_OK, NULL,
			   "LAPSE_LIGHTNING=%s: every Lightning Trainer gets callbacks", asked);
	else if (wants)
		doctor_add(d, "python", DOCTOR_WARNING, "install the wheel of lapse again",
			   "LAPSE_LIGHTNING is set, but lapse's entry points are not installed");
	free(hydra);
	free(plugin);
	free(factory);
	free(version);
}

/* "TensorBoard shows nothing": are there traces, and what could show them? */
static void python_traces(struct doctor *d, const struct buf *text)
{
	char *traces = python_value(text, "traces"),
	     *board = python_value(text, "package tensorboard");
	char *plugin = python_value(text, "package torch-tb-profiler");

	if (traces && strcmp(traces, "0") != 0)
		doctor_add(d, "python", DOCTOR_OK, NULL,
			   "%s traces in ./profiler_traces: lapse trace summary profiler_traces%s",
			   traces,
			   board && !plugin ? " (TensorBoard does not show them: its plugin "
					      "torch-tb-profiler is not installed)"
					    : "");
	free(traces);
	free(board);
	free(plugin);
}

void doctor_python(struct doctor *d)
{
	const char *program = d->python ? d->python : "python3";
	char *version, *path;
	struct buf text;
	int err;

	buf_init(&text, PYTHON_OUTPUT_MAX);
	err = python_ask(program, &text);
	version = python_value(&text, "python");
	path = python_value(&text, "path");
	if (err == -ENOENT)
		doctor_add(d, "python", d->python ? DOCTOR_WARNING : DOCTOR_NOTE,
			   "name the interpreter: lapse doctor --python PATH", "there is no %s",
			   program);
	else if (err || !version)
		doctor_add(d, "python", DOCTOR_WARNING, NULL, "%s cannot be asked: %s", program,
			   err ? strerror(-err) : "it answers nothing");
	else if (atoi(version) < 3 || (atoi(version) == 3 && atoi(strchr(version, '.') + 1) < 9))
		doctor_add(d, "python", DOCTOR_WARNING, "use Python 3.9 or newer",
			   "%s is Python %s", path ? path : program, version);
	else {
		doctor_add(d, "python", DOCTOR_OK, NULL, "%s, %s", version, path ? path : program);
		python_lapse(d, &text);
		python_packages(d, &text);
		python_frameworks(d, &text);
		python_traces(d, &text);
	}
	free(version);
	free(path);
	buf_done(&text);
}
