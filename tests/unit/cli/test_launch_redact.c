/* SPDX-License-Identifier: Apache-2.0
 *
 * test_launch_redact.c - which arguments are hidden, which are not, and that a
 * shell reads the stored line as the same words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/launch_redact.h"

static void test_names(void **state)
{
	static const char *const secret[] = {
		"--api-key",   "API_KEY",    "apikey",        "OPENAI_API_KEY_PROD",
		"hf_token",    "token",      "wandbApiKey",   "--db-password",
		"passwd",      "MYSQL_PWD",  "my.secret",     "--credentials",
		"auth",        "oauth",      "Authorization", "KEY2",
		"accessToken", "AUTH_TOKEN", "passphrase",
	};
	static const char *const open[] = {
		"--tokenizer",
		"--max-tokens",
		"tokens_per_batch",
		"--author",
		"lr",
		"num_key_value_heads",
		"pad_token_id",
		"authentic",
		"keyboard",
		"",
		"--",
		"secretary",
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(secret) / sizeof(secret[0]); i++)
		if (!launch_redact_is_secret(secret[i], strlen(secret[i])))
			fail_msg("not hidden: %s", secret[i]);
	for (i = 0; i < sizeof(open) / sizeof(open[0]); i++)
		if (launch_redact_is_secret(open[i], strlen(open[i])))
			fail_msg("hidden: %s", open[i]);
}

static void test_commands(void **state)
{
	static const struct {
		const char *argv[6];
		const char *want;
	} rows[] = {
		{{"python3", "train.py", "--lr", "0.1"}, "python3 train.py --lr 0.1"},
		{{"x", "--api-key=abc def"}, "x --api-key=REDACTED"},
		{{"x", "--api-key", "abc", "next"}, "x --api-key REDACTED next"},
		{{"x", "--token", "--lr", "3"}, "x --token --lr 3"},
		{{"x", "--api-key", "-abc", "-v"}, "x --api-key REDACTED -v"},
		{{"x", "-token", "-"}, "x -token REDACTED"},
		{{"sh", "-c", "x --token -abc --lr 3"}, "sh -c 'x --token REDACTED --lr 3'"},
		{{"sh", "-c", "x --token --lr 3"}, "sh -c 'x --token --lr 3'"},
		{{"x", "--token"}, "x --token"},
		{{"x", "token", "abc"}, "x token abc"},
		{{"env", "API_KEY=abc", "x"}, "env API_KEY=REDACTED x"},
		{{"x", "+model.auth=abc"}, "x +model.auth=REDACTED"},
		{{"x", "--max-tokens", "512"}, "x --max-tokens 512"},
		{{"x", "--db=postgres://me:pw@host/db"}, "x --db=postgres://me:REDACTED@host/db"},
		{{"x", "postgres://me:p@w:x@host"}, "x postgres://me:REDACTED@host"},
		{{"x", "ssh://git@host:22/r"}, "x ssh://git@host:22/r"},
		{{"x", "http://h/p?a=1&token=abc&b=2"}, "x 'http://h/p?a=1&token=REDACTED&b=2'"},
		{{"curl", "-H", "Authorization: Bearer abc"}, "curl -H 'Authorization: REDACTED'"},
		{{"x", "{\"api_key\": \"abc\", \"lr\": 1}"},
		 "x '{\"api_key\": \"REDACTED\", \"lr\": 1}'"},
		{{"sh", "-c", "echo a; PASSWORD=abc x --token def && y"},
		 "sh -c 'echo a; PASSWORD=REDACTED x --token REDACTED && y'"},
		{{"sh", "-c", "x --secret 'a b' c"}, "sh -c 'x --secret '\\''REDACTED'\\'' c'"},
		{{"x", ""}, "x ''"},
		{{"x", "it's"}, "x 'it'\\''s'"},
		{{"x", "--key="}, "x --key="},
	};
	struct buf out;
	size_t i;

	(void)state;
	buf_init(&out, 4096);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		buf_reset(&out);
		launch_redact_command((char *const *)rows[i].argv, &out);
		assert_int_equal(out.error, 0);
		assert_string_equal(buf_str(&out), rows[i].want);
	}
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_commands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
