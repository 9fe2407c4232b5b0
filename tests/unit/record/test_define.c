/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions: what is the same metric, what is cut, what is refused, and that
 * an id holds for the life of the process and of its children.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared {
	struct lapse_stats stats;
	uint32_t ids[8][600];
	int words[4];
	pid_t pid;
};

static struct shared *sh;

static void assert_def(const struct tape *t, uint32_t id, int kind, const char *name,
		       const char *unit, const char *help, const char *labels)
{
	const struct rig_def *d = &t->defs[id - 1];

	assert_in_range(id, 1, t->n_defs);
	assert_int_equal(d->kind, kind);
	assert_string_equal(d->name, name);
	assert_string_equal(d->unit, unit);
	assert_string_equal(d->help, help);
	assert_string_equal(d->labels, labels);
}

static void same_child(void *arg)
{
	static const char *const ab[] = {"a", "1", "b", "2", NULL};
	static const char *const ba[] = {"b", "2", "a", "1", NULL};
	static const char *const twice[] = {"a", "1", "a", "9", "b", "2", NULL};
	static const char *const half[] = {"a", "1", "b", NULL};
	static const char *const none[] = {NULL};

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	CHECK(lapse_gauge("x", "s", "help", NULL).id == 1);
	CHECK(lapse_gauge("x", "s", "help", NULL).id == 1);
	CHECK(lapse_gauge("x", "By", "other help", none).id == 1); /* the first unit stays */
	CHECK(lapse_counter("x", "s", NULL, NULL).id == 2);
	CHECK(lapse_histogram("x", NULL, "", NULL).id == 3);
	CHECK(lapse_name("x").id == 4);
	CHECK(lapse_gauge("x", "s", NULL, ab).id == 5);
	CHECK(lapse_gauge("x", "s", NULL, ba).id == 5);
	CHECK(lapse_gauge("x", "s", NULL, twice).id == 5); /* of two equal keys the first */
	CHECK(lapse_gauge("x", "s", NULL, half).id == 6);  /* a key without a value */
	CHECK(lapse_gauge("y", "s", NULL, ab).id == 7);
	CHECK(lapse_name("x").id == 4);
	CHECK(lapse_gauge(NULL, "s", NULL, NULL).id == 0);
	CHECK(lapse_gauge("", "s", NULL, NULL).id == 0);
	CHECK(lapse_name(NULL).id == 0);
	CHECK(lapse_name("").id == 0);
	lapse_stats(&sh->stats);
	lapse_close();
}

static void test_same(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	rig_play(&rig, &t, same_child);
	assert_int_equal(t.a[0].n_defs, 7);
	assert_def(&t.a[0], 1, WIRE_KIND_GAUGE, "x", "s", "help", "");
	assert_def(&t.a[0], 2, WIRE_KIND_COUNTER, "x", "s", "", "");
	assert_def(&t.a[0], 3, WIRE_KIND_HISTOGRAM, "x", "", "", "");
	assert_def(&t.a[0], 4, WIRE_KIND_NAME, "x", "", "", "");
	assert_def(&t.a[0], 5, WIRE_KIND_GAUGE, "x", "s", "", "a=\"1\",b=\"2\"");
	assert_def(&t.a[0], 6, WIRE_KIND_GAUGE, "x", "s", "", "a=\"1\"");
	assert_def(&t.a[0], 7, WIRE_KIND_GAUGE, "y", "s", "", "a=\"1\",b=\"2\"");
	assert_int_equal(sh->stats.definitions, 7);
	assert_int_equal(sh->stats.refused, 0);
	assert_int_equal(t.a[0].reader.ctl->registry_refused, 0);
	rig_play_done(&rig, &t);
}

/* ---- texts ------------------------------------------------------------------- */

#define E_ACUTE "\xc3\xa9"

static const char *run_of(char *out, char c, size_t n, const char *tail)
{
	memset(out, c, n);
	strcpy(out + n, tail);
	return out;
}

static void texts_child(void *arg)
{
	static const char *const odd[] = {"k", "a\"b\\c\nd\te" E_ACUTE, NULL};
	static char a[2000], b[2000], c[2000], key[3000];
	const char *labels[70];
	const char *const long_value[] = {"a", "1", "b", run_of(a, 'v', 1020, ""), "c", "3", NULL};
	const char *const exact[] = {"k", run_of(b, 'v', 1023 - 4, ""), NULL};
	const char *const quotes[] = {"k", run_of(c, '"', 1200, ""), "z", "1", NULL};
	const char *const long_key[] = {run_of(key, 'k', 2500, ""), "1", "z", "1", NULL};
	static char keys[34][8];
	char text[700], unit[100], help[700];
	int i;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	CHECK(lapse_gauge("odd", NULL, NULL, odd).id == 1);
	CHECK(lapse_gauge(run_of(text, 'n', 255, ""), run_of(unit, 'u', 63, ""),
			  run_of(help, 'h', 511, ""), NULL)
		      .id == 2);
	CHECK(lapse_gauge(run_of(text, 'n', 256, ""), NULL, NULL, NULL).id == 2); /* cut to that */
	CHECK(lapse_gauge(run_of(text, 'm', 254, E_ACUTE), run_of(unit, 'u', 62, E_ACUTE),
			  run_of(help, 'h', 510, E_ACUTE), NULL)
		      .id == 3);
	CHECK(lapse_gauge("long", NULL, NULL, long_value).id == 4);
	CHECK(lapse_gauge("exact", NULL, NULL, exact).id == 5);
	CHECK(lapse_gauge("quotes", NULL, NULL, quotes).id == 6);
	CHECK(lapse_gauge("key", NULL, NULL, long_key).id == 7);
	for (i = 0; i < 34; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%02d", i);
		labels[2 * i] = keys[i];
		labels[2 * i + 1] = "v";
	}
	labels[68] = NULL;
	CHECK(lapse_gauge("many", NULL, NULL, labels).id == 8);
	lapse_close();
}

static void test_texts(void **state)
{
	char name[256], unit[64], help[512], labels[1024];
	struct rig rig;
	struct tapes t;

	(void)state;
	rig_play(&rig, &t, texts_child);
	assert_int_equal(t.a[0].n_defs, 8);
	assert_string_equal(t.a[0].defs[0].labels, "k=\"a\\\"b\\\\c\\nd\te" E_ACUTE "\"");
	run_of(name, 'n', 255, "");
	run_of(unit, 'u', 63, "");
	run_of(help, 'h', 511, "");
	assert_def(&t.a[0], 2, WIRE_KIND_GAUGE, name, unit, help, "");
	run_of(name, 'm', 254, "");
	run_of(unit, 'u', 62, "");
	run_of(help, 'h', 510, "");
	assert_def(&t.a[0], 3, WIRE_KIND_GAUGE, name, unit, help, "");
	/* A label that does not fit is left out whole: what stays can be read. */
	assert_string_equal(t.a[0].defs[3].labels, "a=\"1\",c=\"3\"");
	snprintf(labels, 5, "k=\"v");
	run_of(labels + 3, 'v', 1023 - 4, "\"");
	assert_string_equal(t.a[0].defs[4].labels, labels);
	assert_int_equal(strlen(t.a[0].defs[4].labels), 1023);
	assert_string_equal(t.a[0].defs[5].labels, "z=\"1\"");
	assert_string_equal(t.a[0].defs[6].labels, "z=\"1\"");
	/* 32 labels of 7 bytes and 31 commas. */
	assert_int_equal(strlen(t.a[0].defs[7].labels), 32 * 7 + 31);
	rig_play_done(&rig, &t);
}

/* ---- limits ---------------------------------------------------------------------- */

/* Entry: 16 bytes and the strings, rounded up to 8. */
#define COUNT_MAX 8192
#define BYTES_MAX (256 << 10)

static uint32_t numbered(const char *prefix, int i)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%05d", prefix, i);
	return lapse_gauge(name, NULL, NULL, NULL).id;
}

static void count_child(void *arg)
{
	struct lapse_metric none;
	int i;

	(void)arg;
	/* Without a ring, so that only the library's own limit counts. */
	for (i = 0; i < COUNT_MAX; i++)
		CHECK(numbered("n", i) == (uint32_t)i + 1);
	CHECK(numbered("n", i) == 0);
	CHECK(lapse_open(NULL) == 0);
	none = lapse_gauge("one more", NULL, NULL, NULL);
	CHECK(none.id == 0);
	CHECK(lapse_name("and a name").id == 0);
	CHECK(numbered("n", 0) == 1 && numbered("n", 4000) == 4001);
	lapse_set(none, 1);
	lapse_set((struct lapse_metric){COUNT_MAX}, 2);
	lapse_stats(&sh->stats);
	lapse_close();
}

static void test_count_limit(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	rig_play(&rig, &t, count_child);
	assert_int_equal(t.a[0].n_defs, COUNT_MAX);
	assert_string_equal(t.a[0].defs[COUNT_MAX - 1].name, "n08191");
	assert_int_equal(sh->stats.definitions, COUNT_MAX);
	assert_int_equal(sh->stats.refused, 3);
	/* The one refused before there was a control page, too. */
	assert_int_equal(t.a[0].reader.ctl->registry_refused, 3);
	assert_int_equal(tape_records(&t.a[0]), 1);
	assert_int_equal(tape_at(&t.a[0], 0)->id, COUNT_MAX);
	rig_play_done(&rig, &t);
}

/* 64 bytes each: 16 + 48. */
#define WIDE "this-prefix-fills-forty-three-bytes-of-it.."

static void bytes_child(void *arg)
{
	uint64_t room = BYTES_MAX / 64;
	uint64_t i;

	(void)arg;
	for (i = 0; i < room; i++)
		CHECK(numbered(WIDE, (int)i) == i + 1);
	CHECK(numbered(WIDE, (int)i) == 0);
	CHECK(lapse_open(NULL) == 0);
	CHECK(numbered(WIDE, 17) == 18);
	lapse_stats(&sh->stats);
	lapse_close();
}

static void test_bytes_limit(void **state)
{
	struct rig rig;
	struct tapes t;

	(void)state;
	assert_int_equal(strlen(WIDE) + 5, 48);
	rig_play(&rig, &t, bytes_child);
	assert_int_equal(t.a[0].n_defs, BYTES_MAX / 64);
	assert_int_equal(sh->stats.refused, 1);
	rig_play_done(&rig, &t);
}

/* ---- rings come and go --------------------------------------------------------------- */

static void reopen_child(void *arg)
{
	struct lapse_metric a, b, c;

	(void)arg;
	a = lapse_gauge("a", NULL, NULL, NULL); /* before there is a ring */
	CHECK(a.id == 1);
	CHECK(lapse_open(NULL) == 0);
	b = lapse_gauge("b", NULL, NULL, NULL);
	lapse_set(a, 1);
	lapse_close();
	c = lapse_gauge("c", NULL, NULL, NULL); /* between two */
	CHECK(b.id == 2 && c.id == 3);
	CHECK(lapse_open(NULL) == 0);
	CHECK(lapse_gauge("a", NULL, NULL, NULL).id == 1);
	CHECK(lapse_gauge("d", NULL, NULL, NULL).id == 4);
	lapse_set(a, 2);
	lapse_set(c, 3);
	lapse_close();
}

static void test_reopen(void **state)
{
	struct rig rig;
	struct tapes t;
	int i;

	(void)state;
	rig_play(&rig, &t, reopen_child);
	assert_int_equal(t.n, 2);
	assert_in_range(t.a[0].n_defs, 2, 3); /* c may be told to the closed ring */
	assert_int_equal(t.a[1].n_defs, 4);
	for (i = 0; i < 4; i++) {
		char name[2] = {(char)('a' + i), '\0'};

		assert_string_equal(t.a[1].defs[i].name, name);
	}
	assert_int_equal(tape_at(&t.a[0], 0)->id, 1);
	assert_int_equal(tape_at(&t.a[1], 0)->id, 1);
	assert_int_equal(tape_at(&t.a[1], 1)->id, 3);
	rig_play_done(&rig, &t);
}

/* A full registry must go with small rings, too. */
static void full_child(void *arg)
{
	struct lapse_options o = {.size = sizeof(o), .ring_bytes = 192 << 10};
	pid_t pid;
	int i;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	for (i = 0; i < BYTES_MAX / 64 - 1; i++)
		CHECK(numbered(WIDE, i) == (uint32_t)i + 1);
	pid = fork();
	if (pid == 0) {
		lapse_set((struct lapse_metric){100}, 1);
		_exit(lapse_is_open() ? 0 : 1);
	}
	sh->pid = pid;
	CHECK(waitpid(pid, &i, 0) == pid && i == 0);
	lapse_close();
	CHECK(lapse_open(&o) == 0);
	lapse_set((struct lapse_metric){200}, 2);
	lapse_close();
}

static void test_full_registry(void **state)
{
	struct rig rig;
	struct tapes t;
	int i;

	(void)state;
	rig_play(&rig, &t, full_child);
	assert_int_equal(t.n, 3);
	for (i = 0; i < 3; i++)
		assert_int_equal(t.a[i].n_defs, BYTES_MAX / 64 - 1);
	assert_int_equal(tape_at(tapes_of(&t, sh->pid), 0)->id, 100);
	assert_int_equal(tape_at(&t.a[2], 0)->id, 200);
	rig_play_done(&rig, &t);
}

/* ---- threads ------------------------------------------------------------------------------ */

static void *definer(void *arg)
{
	uint32_t *ids = arg;
	int self = (int)((uint32_t(*)[600])arg - sh->ids), i;

	__atomic_fetch_add(&sh->words[0], 1, __ATOMIC_ACQ_REL);
	rig_until(&sh->words[0], 8);
	for (i = 0; i < 500; i++)
		ids[i] = numbered("common", self % 2 ? i : 499 - i);
	for (i = 0; i < 100; i++)
		ids[500 + i] = numbered("own", self * 100 + i);
	return NULL;
}

static void threads_child(void *arg)
{
	pthread_t thread[8];
	int i;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	for (i = 0; i < 8; i++)
		CHECK(pthread_create(&thread[i], NULL, definer, sh->ids[i]) == 0);
	for (i = 0; i < 8; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	lapse_close();
}

static void test_threads(void **state)
{
	struct rig rig;
	struct tapes t;
	char name[32];
	int i, k;

	(void)state;
	rig_play(&rig, &t, threads_child);
	assert_int_equal(t.a[0].n_defs, 500 + 8 * 100);
	for (k = 0; k < 8; k++) {
		for (i = 0; i < 600; i++) {
			assert_in_range(sh->ids[k][i], 1, 1300);
			if (i < 500)
				snprintf(name, sizeof(name), "common%05d", k % 2 ? i : 499 - i);
			else
				snprintf(name, sizeof(name), "own%05d", k * 100 + i - 500);
			assert_string_equal(t.a[0].defs[sh->ids[k][i] - 1].name, name);
		}
	}
	rig_play_done(&rig, &t);
}

#define FORKS 60

static void *definer_on(void *arg)
{
	int i;

	(void)arg;
	/* A new definition now and then, as long as there is room. */
	for (i = 0; !__atomic_load_n(&sh->words[1], __ATOMIC_ACQUIRE); i++)
		numbered(i % 3 ? "busy" : WIDE, i % 64 ? i % 100 : i / 64 % 1500);
	return NULL;
}

/* fork() at any moment of another thread's definition. */
static void fork_child(void *arg)
{
	pthread_t thread;
	int i, status;
	pid_t pid;

	(void)arg;
	CHECK(lapse_open(NULL) == 0);
	CHECK(pthread_create(&thread, NULL, definer_on, NULL) == 0);
	for (i = 0; i < FORKS; i++) {
		pid = fork();
		if (pid == 0) {
			uint32_t id = numbered("child", i);

			CHECK(id != 0 && id == numbered("child", i));
			lapse_set((struct lapse_metric){id}, i);
			_exit(0);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	rig_set(&sh->words[1], 1);
	pthread_join(thread, NULL);
	lapse_close();
}

static void test_fork_while_defining(void **state)
{
	struct rig rig;
	struct tapes t;
	char name[32];
	size_t i;

	(void)state;
	rig_play(&rig, &t, fork_child);
	assert_int_equal(t.n, 1 + FORKS);
	for (i = 1; i < t.n; i++) {
		const struct wire_rec *r = tape_at(&t.a[i], 0);

		snprintf(name, sizeof(name), "child%05d", (int)r->value);
		assert_in_range(r->id, 1, t.a[i].n_defs);
		assert_string_equal(t.a[i].defs[r->id - 1].name, name);
	}
	rig_play_done(&rig, &t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same),        cmocka_unit_test(test_texts),
		cmocka_unit_test(test_count_limit), cmocka_unit_test(test_bytes_limit),
		cmocka_unit_test(test_reopen),      cmocka_unit_test(test_full_registry),
		cmocka_unit_test(test_threads),     cmocka_unit_test(test_fork_while_defining),
	};

	sh = rig_share(sizeof(*sh));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
