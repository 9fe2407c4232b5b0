/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_host.c - the parsers of the machine's texts on any bytes. The first byte, '0' to
 * '6', picks the parser; the rest is the text.
 */
#include "probe/linux/hosttext.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "probe/linux/cpuquota.h"
#include "probe/linux/psi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_require(bool ok)
{
	if (!ok)
		abort();
}

/* Every line is taken or refused, and none stays where it is. */
static void fuzz_cpu(const char *text, size_t len)
{
	const char *p = text, *end = text + len, *was = text;
	struct hosttext_cpu c;
	int err;

	while ((err = hosttext_cpu(&p, end, &c)) != -ENOENT) {
		fuzz_require(p > was && p <= end);
		fuzz_require(err || (c.fields > HOSTTEXT_IDLE && c.fields <= HOSTTEXT_CPU_STATES));
		was = p;
	}
	fuzz_require(p == was);
}

static void fuzz_pairs(const char *text, size_t len)
{
	static const struct hosttext_key keys[] = {
		HOSTTEXT_KEY("MemTotal", 0),      HOSTTEXT_KEY("MemAvailable", 1),
		HOSTTEXT_KEY("pgscan_direct", 2), HOSTTEXT_KEY("pgscan_direct_dma", 2),
		HOSTTEXT_KEY("ctxt", 3),
	};
	uint64_t v[4];
	uint32_t found;
	int i;

	found = hosttext_pairs(text, text + len, keys, ARRAY_LEN(keys), v, 4);
	fuzz_require(found < 16);
	for (i = 0; i < 4; i++)
		fuzz_require((found >> i & 1) || v[i] == 0);
}

static void fuzz_load(const char *text, size_t len)
{
	double v[3];
	int i;

	if (hosttext_load(text, text + len, v) == 0)
		for (i = 0; i < 3; i++)
			fuzz_require(isfinite(v[i]) && v[i] >= 0);
}

static void fuzz_list(const char *text, size_t len)
{
	uint64_t n;

	if (hosttext_list_len(text, text + len, &n) == 0)
		fuzz_require(n > 0 && n <= (len + 1) / 2 * (UINT64_C(1) << 32));
}

static void fuzz_clock(const char *text, size_t len)
{
	struct hosttext_clock c;

	if (hosttext_clock(text, text + len, &c) == 0)
		fuzz_require(c.n && c.min > 0 && c.min <= c.max && isfinite(c.sum) &&
			     c.sum >= c.max);
}

static void fuzz_psi(const char *text, size_t len)
{
	uint64_t some, full;

	if (psi_parse(text, len, &some, &full) == 0)
		fuzz_require(some != PSI_NONE || full != PSI_NONE);
}

static void fuzz_quota(const char *text, size_t len)
{
	double cpus;

	if (cpuquota_parse(text, len, &cpus) == 0)
		fuzz_require(isfinite(cpus) && cpus > 0);
}

static void (*const fuzz_parsers[])(const char *text, size_t len) = {
	fuzz_cpu, fuzz_pairs, fuzz_load, fuzz_list, fuzz_clock, fuzz_psi, fuzz_quota,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t which;
	char *copy;

	if (size == 0 || data[0] < '0' || data[0] - '0' >= (int)ARRAY_LEN(fuzz_parsers))
		return 0;
	which = data[0] - '0';
	/* A copy of the exact size: reading one byte past it is then seen. */
	copy = malloc(size > 1 ? size - 1 : 1);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	fuzz_parsers[which](copy, size - 1);
	free(copy);
	return 0;
}
