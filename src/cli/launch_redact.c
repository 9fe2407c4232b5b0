/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_redact.c - see launch_redact.h. Names are split into words, words are
 * looked up in a table; when in doubt a value is hidden.
 */
#include "cli/launch_redact.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

struct secret_word {
	const char *word;
	bool at_end;            /* also as the end of a longer word: "apikey" */
	const char *not_before; /* words that make it harmless when they follow */
};

static const struct secret_word secret_words[] = {
	{"key", true, " value values head heads dim size padding "},
	{"keys", true, NULL},
	{"token", true, " id ids type types length len count limit budget "},
	{"secret", true, NULL},
	{"secrets", true, NULL},
	{"password", true, NULL},
	{"passwords", true, NULL},
	{"passwd", true, NULL},
	{"passphrase", true, NULL},
	{"pwd", false, NULL},
	{"credential", true, NULL},
	{"credentials", true, NULL},
	{"auth", true, NULL},
	{"authorization", true, NULL},
};

#define SECRET_WORD_MAX 31

/* The next word at *p, in lower case; longer ones keep their end, which is what
 * is compared. false: none left. */
static bool secret_next_word(const char **p, const char *end, char word[SECRET_WORD_MAX + 1])
{
	const char *q = *p;
	size_t n = 0;

	while (q < end && !isalpha((unsigned char)*q))
		q++;
	for (; q < end && isalpha((unsigned char)*q); q++) {
		if (n > 0 && isupper((unsigned char)*q) && islower((unsigned char)q[-1]))
			break;
		if (n == SECRET_WORD_MAX)
			memmove(word, word + 1, --n);
		word[n++] = (char)tolower((unsigned char)*q);
	}
	word[n] = '\0';
	*p = q;
	return n > 0;
}

static bool secret_word_matches(const struct secret_word *s, const char *word, const char *next)
{
	size_t n = strlen(word), m = strlen(s->word);
	char padded[SECRET_WORD_MAX + 3];

	if (n < m || (n > m && !s->at_end) || strcmp(word + n - m, s->word) != 0)
		return false;
	if (!s->not_before || !next[0])
		return true;
	snprintf(padded, sizeof(padded), " %s ", next);
	return strstr(s->not_before, padded) == NULL;
}

bool launch_redact_is_secret(const char *name, size_t len)
{
	char word[SECRET_WORD_MAX + 1] = "", next[SECRET_WORD_MAX + 1] = "";
	const char *p = name, *end = name + len;
	bool more = secret_next_word(&p, end, word);
	size_t i;

	while (more) {
		more = secret_next_word(&p, end, next);
		for (i = 0; i < ARRAY_LEN(secret_words); i++)
			if (secret_word_matches(&secret_words[i], word, next))
				return true;
		memcpy(word, next, sizeof(word));
	}
	return false;
}

static bool redact_is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.' || c == '+';
}

/* Is it the next option, and no value? A secret may begin with one dash. */
static bool redact_is_option(const char *text)
{
	return strncmp(text, "--", 2) == 0;
}

#define REDACT_WORD_END " \t\n\"'&;|)`"
#define REDACT_HEADER_END "\n\"'}" /* "Authorization: Bearer X" */

/* Behind the name that ends at q: where its value begins, NULL if none follows.
 * *ret_stop: the characters that end the value; "": it is the whole rest. */
static const char *redact_find_value(bool whole, bool option, const char *q, const char **ret_stop)
{
	bool quoted = *q == '"' || *q == '\'';
	const char *p = q + quoted + strspn(q + quoted, " \t");

	if (*p == '=') {
		*ret_stop = whole ? "" : REDACT_WORD_END;
		p++;
	} else if (*p == ':' && strncmp(p, "://", 3) != 0) {
		*ret_stop = REDACT_HEADER_END;
		p++;
	} else if (option && !quoted && p > q && !redact_is_option(p)) {
		*ret_stop = REDACT_WORD_END;
	} else {
		return NULL;
	}
	return p + strspn(p, " \t");
}

/* Append what is behind the secret name that ends at q, up to the end of its
 * value. Returns where to go on. */
static const char *redact_value(bool whole, bool option, const char *q, struct buf *out)
{
	const char *stop = "", *p = redact_find_value(whole, option, q, &stop);
	size_t n;

	if (!p)
		return q;
	if (*stop && (*p == '"' || *p == '\''))
		stop = *p++ == '"' ? "\"" : "'";
	n = *stop ? strcspn(p, stop) : strlen(p);
	if (n == 0)
		return q;
	buf_append(out, q, (size_t)(p - q));
	buf_puts(out, LAUNCH_REDACTED);
	return p + n;
}

/* At "://": the password in user:password@host. Returns where to go on. */
static const char *redact_url(const char *p, struct buf *out)
{
	const char *from = p + 3, *end = from + strcspn(from, "/?# \t\n\"'");
	const char *at = memrchr(from, '@', (size_t)(end - from));
	const char *colon = at ? memchr(from, ':', (size_t)(at - from)) : NULL;

	if (!colon) {
		buf_append(out, p, 3);
		return from;
	}
	buf_append(out, p, (size_t)(colon + 1 - p));
	buf_puts(out, LAUNCH_REDACTED);
	return at;
}

/* Append one argument without its secrets. true: it names the value that the
 * next argument is. */
static bool redact_arg(const char *arg, struct buf *out)
{
	const char *p = arg, *q;

	while (*p) {
		if (strncmp(p, "://", 3) == 0) {
			p = redact_url(p, out);
			continue;
		}
		for (q = p; redact_is_name(*q); q++)
			;
		if (q == p) {
			buf_putc(out, *p++);
			continue;
		}
		buf_append(out, p, (size_t)(q - p));
		if (launch_redact_is_secret(p, (size_t)(q - p))) {
			if (p == arg && *q == '\0')
				return *p == '-';
			q = redact_value(p == arg, *p == '-', q, out);
		}
		p = q;
	}
	return false;
}

static void redact_quote(const char *arg, struct buf *out)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "_@%+=:,./-";

	if (*arg && strspn(arg, safe) == strlen(arg)) {
		buf_puts(out, arg);
		return;
	}
	buf_putc(out, '\'');
	for (; *arg; arg++) {
		if (*arg == '\'')
			buf_puts(out, "'\\''");
		else
			buf_putc(out, *arg);
	}
	buf_putc(out, '\'');
}

void launch_redact_command(char *const argv[], struct buf *out)
{
	bool hide = false;
	struct buf one;
	size_t i;

	buf_init(&one, out->max);
	for (i = 0; argv[i]; i++) {
		if (i > 0)
			buf_putc(out, ' ');
		buf_reset(&one);
		if (hide && !redact_is_option(argv[i])) {
			buf_puts(&one, LAUNCH_REDACTED);
			hide = false;
		} else {
			hide = redact_arg(argv[i], &one);
		}
		redact_quote(buf_str(&one), out);
	}
	buf_done(&one);
}
