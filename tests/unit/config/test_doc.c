/* SPDX-License-Identifier: Apache-2.0
 *
 * test_doc.c - YAML that is taken as a tree, and what is refused with its line
 * and column, counted by hand.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "config/doc.h"

static struct err e;

static int parse(struct doc *d, const char *text)
{
	err_clear(&e);
	return doc_parse(d, "f", text, strlen(text), &e);
}

/* Text is refused, and the error is exactly this. */
static void refused(const char *text, const char *why)
{
	struct doc d;

	assert_int_not_equal(parse(&d, text), 0);
	assert_string_equal(e.text, why);
	doc_done(&d);
}

static void test_tree(void **state)
{
	struct doc d;
	const struct doc_node *n;

	(void)state;
	assert_int_equal(parse(&d, "a: 1\nb: [x, 'y']\n"), 0);
	n = &d.nodes[1];
	assert_int_equal(n->kind, DOC_MAP);
	n = &d.nodes[n->first];
	assert_string_equal(n->text, "a");
	n = &d.nodes[n->next];
	assert_string_equal(n->text, "1");
	assert_true(n->plain);
	assert_int_equal(n->line, 1);
	assert_int_equal(n->column, 4);
	n = &d.nodes[n->next];
	assert_string_equal(n->text, "b");
	n = &d.nodes[n->next];
	assert_int_equal(n->kind, DOC_LIST);
	assert_int_equal(n->next, 0);
	n = &d.nodes[n->first];
	assert_string_equal(n->text, "x");
	n = &d.nodes[n->next];
	assert_string_equal(n->text, "y");
	assert_false(n->plain);
	assert_int_equal(n->line, 2);
	assert_int_equal(n->column, 8);
	assert_int_equal(n->next, 0);
	doc_done(&d);
}

static void test_nothing(void **state)
{
	static const char *const texts[] = {"", "\n\n", "# a comment\n", "---\n", "~\n", "null"};
	struct doc d;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(texts); i++) {
		assert_int_equal(parse(&d, texts[i]), 0);
		assert_true(d.len < 2 || doc_is_null(&d.nodes[1]));
		doc_done(&d);
	}
	assert_int_equal(parse(&d, "'null'"), 0);
	assert_false(doc_is_null(&d.nodes[1]));
	doc_done(&d);
}

static void test_bom(void **state)
{
	struct doc d;

	(void)state;
	assert_int_equal(parse(&d, "\xef\xbb\xbf"
				   "a: 1\n"),
			 0);
	assert_string_equal(d.nodes[2].text, "a");
	doc_done(&d);
}

static void test_refused(void **state)
{
	(void)state;
	refused("a: 1\nb:\n  c: 2\n  c: 3\n",
		"f:4:3: the key \"c\" is in line 3 already; keep one");
	refused("a: &x 1\n", "f:1:4: anchors (&) and aliases (*) are not taken; write it out");
	refused("a: *x\n", "f:1:4: anchors (&) and aliases (*) are not taken; write it out");
	refused("a: !!python/object x\n", "f:1:4: tags (!) are not taken; leave it out");
	refused("a: 1\n---\nb: 2\n", "f:2:1: a second document begins; a file holds one");
	refused("a:\n\tb: 1\n", "f:2:1: a tab indents; use spaces");
	refused("a: \xff\n", "f:1:4: byte 0xff is not UTF-8; save the file as UTF-8");
	refused("\xff\xfe"
		"a\n",
		"f:1:1: byte 0xff is not UTF-8; save the file as UTF-8");
	refused("a: \xc3\xa4\xc3\n", "f:1:5: byte 0xc3 is not UTF-8; save the file as UTF-8");
	refused("a: b\n\x01", "f:2:1: control character 0x01; this is no text");
	refused("a: \"x\\0y\"\n", "f:1:4: a text must not hold the character \\0");
	refused("{a: 1}: 2\n", "f:1:1: a key must be a word, not a mapping or a list");
	refused("a: [1, 2\n", "f:2:1: did not find expected ',' or ']', while parsing a flow "
			      "sequence that begins in line 1");
	refused("a: b: c\n", "f:1:5: mapping values are not allowed in this context");
}

/* Keys may be equal in different mappings, and in long ones. */
static void test_keys(void **state)
{
	struct doc d;
	struct buf b;
	int i;

	(void)state;
	assert_int_equal(parse(&d, "a: {x: 1}\nb: {x: 1}\nx: {a: 1}\n"), 0);
	doc_done(&d);
	buf_init(&b, 1 << 20);
	for (i = 0; i < 8000; i++)
		buf_printf(&b, "k%d: %d\n", i, i);
	assert_int_equal(parse(&d, buf_str(&b)), 0);
	assert_int_equal(d.len, 2 + 16000);
	doc_done(&d);
	buf_puts(&b, "k77: 1\n");
	assert_int_equal(parse(&d, buf_str(&b)), -EINVAL);
	assert_string_equal(e.text, "f:8001:1: the key \"k77\" is in line 78 already; keep one");
	doc_done(&d);
	buf_done(&b);
}

static void test_limits(void **state)
{
	struct doc d;
	struct buf b;
	int i;

	(void)state;
	buf_init(&b, 2 << 20);
	for (i = 0; i < 16; i++)
		buf_putc(&b, '[');
	for (i = 0; i < 16; i++)
		buf_putc(&b, ']');
	assert_int_equal(parse(&d, buf_str(&b)), 0);
	doc_done(&d);
	buf_reset(&b);
	for (i = 0; i < 100000; i++)
		buf_putc(&b, '[');
	assert_int_equal(parse(&d, buf_str(&b)), -EINVAL);
	assert_string_equal(e.text, "f:1:17: more than 16 mappings and lists inside each other");
	doc_done(&d);
	buf_reset(&b);
	for (i = 0; i < 16383; i++)
		buf_puts(&b, "- x\n");
	assert_int_equal(parse(&d, buf_str(&b)), -EINVAL); /* with the list, 16384 */
	assert_string_equal(e.text, "f:16383:3: more than 16384 keys and values");
	doc_done(&d);
	buf_reset(&b);
	while (b.len <= 1 << 20)
		buf_puts(&b, "# a line of the comment that this file is full of\n");
	assert_int_equal(parse(&d, buf_str(&b)), -EFBIG);
	assert_string_equal(e.text, "f:1:1: more than 1 MiB; this is no configuration");
	doc_done(&d);
	buf_done(&b);
}

/* What a terminal would obey is not in the error, and a long name is cut. */
static void test_error_text(void **state)
{
	char name[600];
	struct doc d;

	(void)state;
	refused("\"\\e[2Jx\": 1\n\"\\e[2Jx\": 1\n",
		"f:2:1: the key \"?[2Jx\" is in line 1 already; keep one");
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	err_clear(&e);
	assert_int_equal(doc_parse(&d, name, "a: &x", 5, &e), -EINVAL);
	assert_ptr_equal(strstr(e.text, ":1:4: anchors"), e.text + 200);
	doc_done(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tree),       cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_bom),        cmocka_unit_test(test_refused),
		cmocka_unit_test(test_keys),       cmocka_unit_test(test_limits),
		cmocka_unit_test(test_error_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
