/* SPDX-License-Identifier: Apache-2.0
 *
 * real.h - the number type of the model: float when it trains, double when its
 * gradients are checked. gradcheck.c compiles matrix.c and model.c a second
 * time with CHARLM_DOUBLE set, so the code that is checked is the code that
 * trains; the second copy carries the names below.
 */
#ifndef CHARLM_REAL_H
#define CHARLM_REAL_H

#include <math.h>

#ifdef CHARLM_DOUBLE
typedef double real;
#define real_exp exp
#define real_sqrt sqrt
#define real_abs fabs
#define mat_mul mat64_mul
#define mat_dot mat64_dot
#define mat_softmax mat64_softmax
#define model_init model64_init
#define model_done model64_done
#define model_forward model64_forward
#define model_backward model64_backward
#define model_probabilities model64_probabilities
#else
typedef float real;
#define real_exp expf
#define real_sqrt sqrtf
#define real_abs fabsf
#endif

#endif /* CHARLM_REAL_H */
