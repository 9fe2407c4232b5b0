/* SPDX-License-Identifier: Apache-2.0
 *
 * cats.h - categories of events by name, today's and those before PyTorch 1.13.
 */
#ifndef TRACE_CATS_H
#define TRACE_CATS_H

#include "trace/trace.h"

enum trace_cat cats_of(const char *name);

#endif
