/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

/* Table 3-7 of the Unicode standard: the range of the second byte depends on
 * the first; later ones are 80..BF. */
static const struct {
	unsigned char lo, hi, len, second_lo, second_hi;
} utf8_rows[] = {
	{0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf}, {0xe1, 0xec, 3, 0x80, 0xbf},
	{0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf}, {0xf0, 0xf0, 4, 0x90, 0xbf},
	{0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

size_t utf8_valid(const unsigned char *p, size_t len)
{
	size_t row, i;

	if (len == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	for (row = 0; row < sizeof(utf8_rows) / sizeof(utf8_rows[0]); row++)
		if (p[0] >= utf8_rows[row].lo && p[0] <= utf8_rows[row].hi)
			break;
	if (row == sizeof(utf8_rows) / sizeof(utf8_rows[0]) || utf8_rows[row].len > len)
		return 0;
	if (p[1] < utf8_rows[row].second_lo || p[1] > utf8_rows[row].second_hi)
		return 0;
	for (i = 2; i < utf8_rows[row].len; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return utf8_rows[row].len;
}

void utf8_clean(char *s, size_t len)
{
	unsigned char *p = (unsigned char *)s;
	size_t i = 0, n;

	while (i < len) {
		n = utf8_valid(p + i, len - i);
		/* C1 controls (U+0080 to U+009F) move a terminal's cursor too. */
		if (n == 0 || p[i] < 0x20 || p[i] == 0x7f ||
		    (n == 2 && p[i] == 0xc2 && p[i + 1] < 0xa0)) {
			p[i++] = '?';
			continue;
		}
		i += n;
	}
}

size_t utf8_put(char out[4], uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

int32_t utf8_hex4(const char *p)
{
	int32_t v = 0;
	int i;

	for (i = 0; i < 4; i++) {
		if (p[i] >= '0' && p[i] <= '9')
			v = v * 16 + (p[i] - '0');
		else if ((p[i] | 32) >= 'a' && (p[i] | 32) <= 'f')
			v = v * 16 + ((p[i] | 32) - 'a' + 10);
		else
			return -1;
	}
	return v;
}
