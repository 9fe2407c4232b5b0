/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static size_t clock_read_file(const char *path, char *out, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, out, cap);
	close(fd);
	return n > 0 ? (size_t)n : 0;
}

uint32_t clock_kind(void)
{
#if defined(__aarch64__)
	return WIRE_CLOCK_CNTVCT;
#elif defined(__x86_64__)
	char text[16];
	size_t n = clock_read_file("/sys/devices/system/clocksource/clocksource0/"
				   "current_clocksource",
				   text, sizeof(text));

	if (n >= 4 && memcmp(text, "tsc\n", 4) == 0)
		return WIRE_CLOCK_TSC;
#endif
	return WIRE_CLOCK_MONOTONIC;
}

void clock_anchor(uint32_t kind, struct wire_anchor *out)
{
	uint64_t before, after, best = UINT64_MAX;
	struct wire_anchor a = {0};
	int i;

	for (i = 0; i < 3; i++) {
		before = clock_ticks(kind);
		a.mono_ns = clock_ns(CLOCK_MONOTONIC);
		a.boot_ns = clock_ns(CLOCK_BOOTTIME);
		a.real_ns = clock_ns(CLOCK_REALTIME);
		after = clock_ticks(kind);
		if (after - before >= best)
			continue;
		best = after - before;
		a.ticks = before + (after - before) / 2;
		*out = a;
	}
}

static int clock_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void clock_boot_id(uint8_t out[16])
{
	char text[64];
	size_t n = clock_read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text)), i, k = 0;

	memset(out, 0, 16);
	for (i = 0; i < n && k < 32; i++) {
		int h = clock_hex(text[i]);

		if (h < 0)
			continue;
		out[k / 2] = (uint8_t)(out[k / 2] << 4 | h);
		k++;
	}
}
