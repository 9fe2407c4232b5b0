/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rank a process is: the variables of each launcher, what is no number,
 * who wins, and ranks that arrive late.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct row {
	const char *set[12]; /* NAME, VALUE, ... */
	int rank, local_rank, world_size;
};

static const struct row rows[] = {
	{{NULL}, -1, -1, -1},
	{{"RANK", "3", "LOCAL_RANK", "1", "WORLD_SIZE", "8"}, 3, 1, 8},
	{{"SLURM_PROCID", "4", "SLURM_LOCALID", "0", "SLURM_NTASKS", "16"}, 4, 0, 16},
	{{"OMPI_COMM_WORLD_RANK", "5", "OMPI_COMM_WORLD_LOCAL_RANK", "2", "OMPI_COMM_WORLD_SIZE",
	  "6"},
	 5,
	 2,
	 6},
	{{"PMI_RANK", "6", "PMI_SIZE", "7"}, 6, -1, 7},
	{{"RANK", "0"}, 0, -1, -1},
	/* The first launcher that names a rank, and all of its numbers. */
	{{"RANK", "1", "SLURM_PROCID", "2", "SLURM_LOCALID", "3", "SLURM_NTASKS", "4"}, 1, -1, -1},
	{{"WORLD_SIZE", "9", "SLURM_PROCID", "2", "SLURM_NTASKS", "4"}, 2, -1, 4},
	/* Not numbers. */
	{{"RANK", ""}, -1, -1, -1},
	{{"RANK", "x"}, -1, -1, -1},
	{{"RANK", "3x", "SLURM_PROCID", "2"}, 2, -1, -1},
	{{"RANK", "-1", "PMI_RANK", "2"}, 2, -1, -1},
	{{"RANK", " 1"}, -1, -1, -1},
	{{"RANK", "+1"}, -1, -1, -1},
	{{"RANK", "1.5"}, -1, -1, -1},
	{{"RANK", "2147483648"}, -1, -1, -1},
	{{"RANK", "99999999999999999999999999"}, -1, -1, -1},
	{{"RANK", "2147483647", "LOCAL_RANK", "0x1", "WORLD_SIZE", "many"}, 2147483647, -1, -1},
	{{"RANK", "007"}, 7, -1, -1},
};

static void row_child(void *arg)
{
	const struct row *row = arg;
	size_t i;

	for (i = 0; i < 12 && row->set[i]; i += 2)
		setenv(row->set[i], row->set[i + 1], 1);
	CHECK(lapse_open(NULL) == 0);
}

static void assert_rank(const struct tape *t, int rank, int local_rank, int world_size)
{
	assert_int_equal(t->reader.ctl->rank, rank);
	assert_int_equal(t->reader.ctl->local_rank, local_rank);
	assert_int_equal(t->reader.ctl->world_size, world_size);
}

static void play(void (*fn)(void *arg), void *arg, int rank, int local_rank, int world_size)
{
	struct rig rig;
	struct tapes t;

	rig_make(&rig);
	rig_run(fn, arg);
	tapes_read(&rig, &t);
	assert_rank(&t.a[0], rank, local_rank, world_size);
	tapes_done(&t);
	rig_done(&rig);
}

static void test_variables(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		play(row_child, (void *)&rows[i], rows[i].rank, rows[i].local_rank,
		     rows[i].world_size);
}

static void option_child(void *arg)
{
	struct lapse_options o = {
		.size = sizeof(o), .has_rank = 1, .rank = 0, .local_rank = -1, .world_size = 2};

	(void)arg;
	setenv("RANK", "5", 1);
	CHECK(lapse_open(&o) == 0);
}

static void late_child(void *arg)
{
	(void)arg;
	setenv("RANK", "5", 1);
	lapse_set_rank(1, 1, 1); /* no ring yet: nothing */
	CHECK(lapse_open(NULL) == 0);
	lapse_set_rank(7, 3, 64);
	lapse_set_rank(8, -1, 64);
}

/* What was said late holds for rings and children that come later. */
static void later_child(void *arg)
{
	int status;
	pid_t pid;

	(void)arg;
	setenv("RANK", "5", 1);
	CHECK(lapse_open(NULL) == 0);
	lapse_set_rank(9, 2, 10);
	lapse_close();
	CHECK(lapse_open(NULL) == 0);
	pid = fork();
	if (pid == 0) {
		lapse_set(lapse_gauge("g", NULL, NULL, NULL), 1);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void test_late(void **state)
{
	struct rig rig;
	struct tapes t;
	size_t i;

	(void)state;
	play(option_child, NULL, 0, -1, 2);
	play(late_child, NULL, 8, -1, 64);
	rig_make(&rig);
	rig_run(later_child, NULL);
	tapes_read(&rig, &t);
	assert_int_equal(t.n, 3);
	for (i = 0; i < 3; i++)
		assert_rank(&t.a[i], 9, 2, 10);
	tapes_done(&t);
	rig_done(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_variables),
		cmocka_unit_test(test_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
