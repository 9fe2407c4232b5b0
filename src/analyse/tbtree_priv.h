/* SPDX-License-Identifier: Apache-2.0
 *
 * tbtree_priv.h - steps of tbtree_new() that tbtreestat.c does, in this order.
 */
#ifndef ANALYSE_TBTREE_PRIV_H
#define ANALYSE_TBTREE_PRIV_H

#include "analyse/tbtree.h"

/* Exact: launches that no operator has by its external id go to the innermost one around. */
void tbtree_outer(struct tbtree *t);

/* Make an operator one with its only child of the same name. */
void tbtree_collapse(struct tbtree *t);

/* Sum host, device and tensor-core times up, children first. */
void tbtree_stat(struct tbtree *t);

#endif
