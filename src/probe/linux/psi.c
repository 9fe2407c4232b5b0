/* SPDX-License-Identifier: Apache-2.0
 *
 * Totals of pressure stall information. Format: the kernel's accounting/psi.rst.
 */
#include "probe/linux/psi.h"

#include "probe/linux/proc.h"

#include <errno.h>
#include <string.h>

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=123" */
static int psi_total(const char *line, const char *eol, uint64_t *ret)
{
	static const char key[] = " total=";
	const char *p = memmem(line, (size_t)(eol - line), key, sizeof(key) - 1);
	uint64_t v;

	if (!p)
		return -EBADMSG;
	p += sizeof(key) - 1;
	if (proc_number(&p, eol, &v) || p != eol || v == PSI_NONE)
		return -EBADMSG;
	*ret = v;
	return 0;
}

int psi_parse(const char *text, size_t len, uint64_t *some_us, uint64_t *full_us)
{
	const char *next = text, *end = text + len, *line, *eol;
	uint64_t some = PSI_NONE, full = PSI_NONE;
	int err = 0;

	while (!err && (line = proc_line(&next, end, &eol))) {
		if (proc_begins(line, eol, "some "))
			err = psi_total(line, eol, &some);
		else if (proc_begins(line, eol, "full "))
			err = psi_total(line, eol, &full);
	}
	if (err || (some == PSI_NONE && full == PSI_NONE))
		return -EBADMSG;
	*some_us = some;
	*full_us = full;
	return 0;
}
