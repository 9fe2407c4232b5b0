/* SPDX-License-Identifier: Apache-2.0
 *
 * make_known.c - makes the run of known_run.h for the end-to-end tests:
 * make_known ROOT STEPS [FROM TO].
 */
#include "known_run.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int64_t steps;

	if (argc != 3 && argc != 5) {
		fprintf(stderr, "usage: make_known ROOT STEPS [FROM TO]\n");
		return 2;
	}
	steps = atoll(argv[2]);
	known_run_make(argv[1], steps, argc == 5 ? atoll(argv[3]) : 0,
		       argc == 5 ? atoll(argv[4]) : steps);
	return 0;
}
