/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/launch_describe.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "cli/launch_redact.h"
#include "wire/clock.h"

#define DESCRIBE_COMMAND_MAX (4u << 20) /* more than the kernel takes */

static void describe_copy(char *to, size_t cap, const char *from)
{
	snprintf(to, cap, "%s", from ? from : "");
}

static const char *describe_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static const char *describe_default_name(char *const argv[])
{
	const char *program = describe_base_name(argv[0]);
	int i;

	if (strncmp(program, "python", 6) != 0)
		return program;
	for (i = 1; argv[i]; i++)
		if (argv[i][0] != '-' && strlen(argv[i]) > 3 &&
		    strcmp(argv[i] + strlen(argv[i]) - 3, ".py") == 0)
			return describe_base_name(argv[i]);
	return program;
}

void launch_describe_user(unsigned uid, char *to, size_t cap)
{
	FILE *file = fopen("/etc/passwd", "re");
	struct passwd *p = NULL;

	while (file && (p = fgetpwent(file)) != NULL && p->pw_uid != uid)
		;
	if (p)
		describe_copy(to, cap, p->pw_name);
	else
		snprintf(to, cap, "%u", uid);
	if (file)
		fclose(file);
}

void launch_describe(struct run_start *r, const struct launch_labels *labels, char *const argv[])
{
	const char *user = getenv("LOGNAME");
	struct buf command;

	if (!user || !user[0])
		user = getenv("USER");
	buf_init(&command, DESCRIBE_COMMAND_MAX);
	launch_redact_command(argv, &command);
	describe_copy(r->command, sizeof(r->command), buf_str(&command));
	buf_done(&command);
	describe_copy(r->name, sizeof(r->name),
		      labels->name ? labels->name : describe_default_name(argv));
	describe_copy(r->project, sizeof(r->project), labels->project);
	describe_copy(r->tags, sizeof(r->tags), labels->tags);
	describe_copy(r->notes, sizeof(r->notes), labels->notes);
	utf8_clean(r->name, strlen(r->name));
	utf8_clean(r->project, strlen(r->project));
	utf8_clean(r->tags, strlen(r->tags));
	if (!getcwd(r->cwd, sizeof(r->cwd)))
		r->cwd[0] = '\0';
	if (gethostname(r->host, sizeof(r->host) - 1) < 0)
		describe_copy(r->host, sizeof(r->host), "localhost");
	if (user && user[0])
		describe_copy(r->user, sizeof(r->user), user);
	else
		launch_describe_user(geteuid(), r->user, sizeof(r->user));
	r->start_ns = clock_ns(CLOCK_REALTIME);
	r->start_boot_ns = clock_ns(CLOCK_BOOTTIME);
}
