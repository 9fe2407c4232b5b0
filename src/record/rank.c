/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rank this process is: given, or from the variables that launchers set.
 */
#include "record/record_priv.h"

#include <errno.h>
#include <stdlib.h>

/* In order of precedence; a row counts if its first variable is a number. */
static const struct {
	const char *rank, *local_rank, *world_size;
} rank_rows[] = {
	{"RANK", "LOCAL_RANK", "WORLD_SIZE"},
	{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"PMI_RANK", "PMI_LOCAL_RANK", "PMI_SIZE"},
};

/* The variable as a number from 0 to 2^31 - 1, or -1. */
static int rank_number(const char *name)
{
	const char *text = getenv(name);
	char *end;
	long v;

	if (!text || text[0] < '0' || text[0] > '9')
		return -1;
	v = strtol(text, &end, 10);
	return *end || v > INT32_MAX ? -1 : (int)v;
}

static void rank_store(struct wire_ctl *ctl, int rank, int local_rank, int world_size)
{
	__atomic_store_n(&ctl->rank, rank, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->local_rank, local_rank, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->world_size, world_size, __ATOMIC_RELAXED);
}

void rec_rank_from_environment(struct wire_ctl *ctl)
{
	size_t i;
	int rank;

	if (rec.opt.has_rank) {
		rank_store(ctl, rec.opt.rank, rec.opt.local_rank, rec.opt.world_size);
		return;
	}
	for (i = 0; i < sizeof(rank_rows) / sizeof(rank_rows[0]); i++) {
		rank = rank_number(rank_rows[i].rank);
		if (rank < 0)
			continue;
		rank_store(ctl, rank, rank_number(rank_rows[i].local_rank),
			   rank_number(rank_rows[i].world_size));
		return;
	}
}

void lapse_set_rank(int rank, int local_rank, int world_size)
{
	struct wire_ctl *ctl = rec_ctl();

	if (!ctl)
		return;
	/* Children made later keep it. */
	rec.opt.has_rank = 1;
	rec.opt.rank = rank;
	rec.opt.local_rank = local_rank;
	rec.opt.world_size = world_size;
	rank_store(ctl, rank, local_rank, world_size);
}
