/* SPDX-License-Identifier: Apache-2.0
 *
 * The public header as C++98: LAPSE_SCOPE ends a span at the end of a block, by
 * return and by an exception. Exit status 0 if all was as it must be.
 */
#include <lapse/lapse.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static int scoped(bool leave)
{
	LAPSE_SCOPE("plain");
	if (leave)
		throw 1;
	return 0;
}

static bool scope_works()
{
	struct lapse_stats before, after;
	int caught = 0;

	if (lapse_open(NULL) != 0)
		return false;
	lapse_stats(&before);
	for (int i = 0; i < 3; i++) {
		try {
			scoped(i == 1);
		} catch (int what) {
			caught += what;
		}
	}
	lapse_stats(&after);
	lapse_set_rank(0, 0, 1);
	lapse_log_at(NULL, 0, LAPSE_STEP_NONE, LAPSE_NOW);
	lapse_close();
	return caught == 1 && after.accepted - before.accepted == 3 && after.definitions == 1;
}

int main()
{
	char dir[] = "/tmp/lapse-test-XXXXXX", command[64];
	bool works;

	if (!mkdtemp(dir) || setenv("LAPSE_RENDEZVOUS", dir, 1) != 0)
		return 2;
	works = scope_works();
	std::sprintf(command, "rm -r %s", dir);
	if (std::system(command) != 0)
		return 3;
	std::printf("1..1\n%sok 1 - scope in C++98\n", works ? "" : "not ");
	return works ? 0 : 1;
}
