/* SPDX-License-Identifier: Apache-2.0
 *
 * result.h - what a finished run says about itself, as text and as JSON.
 */
#ifndef CHARLM_RESULT_H
#define CHARLM_RESULT_H

#include <stdint.h>

#include "meter.h"

struct result {
	int64_t steps;
	double final_loss; /* training loss of the last step, nat per character; NaN: no step */
	double val_loss;   /* held-out loss at the end; NaN: not evaluated */
	double best_val_loss;
	double samples, tokens; /* sequences and characters trained on */
	double seconds;         /* wall time from the first step to the end, evaluations included */
	struct meter_times phase[METER_PHASES];
};

/* Print the block at the end of the run. */
void result_print(const struct result *s);

/* Write one JSON object. A number that is not finite becomes null. Returns 0
 * or a negative errno. */
int result_write(const struct result *s, const char *path);

#endif /* CHARLM_RESULT_H */
