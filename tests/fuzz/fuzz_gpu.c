/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_gpu.c - texts about GPUs on any bytes: lists of fields, formats and ids of
 * gpu-log, files of GPU drivers, answers of NVIDIA's driver. The first byte, '0' to
 * '4', picks what; the rest is the text.
 */
#include "cli/gpuquery.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "probe/gpu/card.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_require(bool ok)
{
	if (!ok)
		abort();
}

static void fuzz_list(const char *text)
{
	static struct gpuquery q;
	struct err e = {0};

	if (gpuquery_parse(&q, text, &e) == 0)
		fuzz_require(q.n > 0 && q.n <= GPUQUERY_MAX && e.code == 0);
	else
		fuzz_require(e.text[0] != '\0');
}

static void fuzz_format(const char *text)
{
	static struct gpuquery q;
	struct err e = {0};

	if (gpuquery_format(&q, text, &e) == 0)
		fuzz_require(strstr(text, "csv") != NULL);
}

static void fuzz_id(const char *text)
{
	struct nvml_pci pci = {{0}, 0, 0x17, 0, 0, 0, {0}};

	gpuquery_is(text, 3, "GPU-0", &pci);
}

static void fuzz_file(const char *text)
{
	double v = NAN;
	int how;

	for (how = CARD_GAUGE; how <= CARD_NEVER; how++)
		if (card_number(text, (enum card_how)how, &v) == 0)
			fuzz_require(isfinite(v));
}

static void fuzz_field(const uint8_t *data, size_t size)
{
	struct nvml_field f = {0};
	double v = NAN;
	uint64_t u;

	memcpy(&f, data, size < sizeof(f) ? size : sizeof(f));
	if (nvml_field_number(&f, &v) == 0)
		fuzz_require(f.ret == NVML_OK && isfinite(v));
	if (nvml_field_u64(&f, &u) == 0)
		fuzz_require(u < 0x7ffffffffffffff0U);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0)
		return 0;
	text = malloc(size);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0]) {
	case '0':
		fuzz_list(text);
		break;
	case '1':
		fuzz_format(text);
		break;
	case '2':
		fuzz_id(text);
		break;
	case '3':
		fuzz_file(text);
		break;
	default:
		fuzz_field(data + 1, size - 1);
	}
	free(text);
	return 0;
}
