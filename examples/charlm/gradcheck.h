/* SPDX-License-Identifier: Apache-2.0
 *
 * gradcheck.h - proof that model_backward() is the derivative of
 * model_forward(): the unit test of the model.
 */
#ifndef CHARLM_GRADCHECK_H
#define CHARLM_GRADCHECK_H

#include <stdint.h>

/* Compare the gradients of a small model, in double, with central differences,
 * and print one line for each array of parameters. Returns 0 if all agree, 1 if
 * one does not, -1 if there was no memory. */
int gradcheck_run(uint64_t seed);

#endif /* CHARLM_GRADCHECK_H */
