/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.h - the weights in a file: a line of text with the shape of the
 * model, the alphabet, then the numbers as the machine holds them.
 */
#ifndef CHARLM_CHECKPOINT_H
#define CHARLM_CHECKPOINT_H

#include "model.h"
#include "text.h"

/* Write a new file beside path, then put it in the place of path: at every
 * moment path is the old or the new checkpoint. Returns 0 or a negative errno. */
int checkpoint_write(const char *path, const struct model *m, const struct text *t);

/* Read the weights into m, which must have the shape and the alphabet of the
 * file. Returns 0 or a negative errno: -EINVAL it is not a checkpoint of such a
 * model. */
int checkpoint_read(const char *path, struct model *m, const struct text *t);

#endif /* CHARLM_CHECKPOINT_H */
