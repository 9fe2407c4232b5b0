/* SPDX-License-Identifier: Apache-2.0
 *
 * The group infiniband on a stored tree: a new card, an old one whose counters are full,
 * and Amazon's.
 */
#include "probe/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "reading.h"
#include "stored.h"
#include "taken.h"

#define NEW "device=\"mlx5_0\",port=\"1\""
#define OLD "device=\"mlx4_0\",port=\"2\""
#define EFA "device=\"efa_0\",port=\"1\""
#define PORT "sys/class/infiniband/mlx5_0/ports/1/"

static struct reading r;
static struct taken t;

static void test_figures(void **state)
{
	char root[STORED_PATH];

	(void)state;
	stored_copy("storage6", root);
	assert_int_equal(reading_open(&r, &probe_infiniband, root), 0);
	reading_at(&r, 1);
	assert_int_equal(probe_points(r.set), 3 * 13);
	assert_true(reading_value(&r, "infiniband/up", NEW) == 1);
	assert_true(reading_value(&r, "infiniband/rate", NEW) == 50e9);
	assert_true(reading_value(&r, "infiniband/up", OLD) == 0);
	assert_true(reading_value(&r, "infiniband/rate", OLD) == 312500000);
	assert_non_null(strstr(reading_why(&r, "infiniband/received", OLD), "its end"));
	assert_non_null(strstr(reading_why(&r, "infiniband/errors/link_downed", OLD), "its end"));
	assert_non_null(strstr(reading_why(&r, "infiniband/errors/symbol", NEW), "its end"));
	assert_non_null(
		strstr(reading_why(&r, "infiniband/errors/symbol", EFA), "no such counter"));
	assert_string_equal(reading_why(&r, "infiniband/sent", NEW), "needs a second reading");

	/* 1000 words more received, 250 sent; EFA counts bytes. Errors are not read yet. */
	stored_write(root, PORT "counters/port_rcv_data", "2000\n");
	stored_write(root, PORT "counters/port_xmit_data", "5000000250\n");
	stored_write(root, PORT "hw_counters/out_of_sequence", "13\n");
	stored_write(root, "sys/class/infiniband/efa_0/ports/1/hw_counters/rx_bytes", "1700\n");
	reading_at(&r, 2);
	assert_true(reading_value(&r, "infiniband/received", NEW) == 4000);
	assert_true(reading_value(&r, "infiniband/sent", NEW) == 1000);
	assert_true(reading_value(&r, "infiniband/received", EFA) == 1000);
	assert_string_equal(reading_why(&r, "infiniband/errors/out_of_sequence", NEW),
			    "needs a second reading");

	stored_write(root, PORT "counters/symbol_error", "0\n");
	stored_write(root, PORT "counters/port_rcv_errors", "N/A (no PMA)\n");
	stored_write(root, PORT "hw_counters/np_cnp_sent", "1100\n");
	stored_write(root, PORT "state", "2: INIT\n");
	reading_at(&r, 11);
	assert_true(reading_value(&r, "infiniband/errors/out_of_sequence", NEW) == 3);
	assert_true(reading_value(&r, "infiniband/errors/link_downed", NEW) == 0);
	assert_true(reading_value(&r, "infiniband/congestion/sent", NEW) == 1000);
	assert_string_equal(reading_why(&r, "infiniband/errors/symbol", NEW),
			    "needs a second reading");
	assert_string_equal(reading_why(&r, "infiniband/errors/received", NEW),
			    "the counter cannot be read");
	assert_true(reading_value(&r, "infiniband/up", NEW) == 0);
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 1);
	assert_string_equal(t.events[0].kind, "infiniband-link");
	assert_int_equal(t.events[0].severity, 3);
	assert_string_equal(t.events[0].text,
			    "the InfiniBand port mlx5_0/ports/1 is not active (state 2: INIT)");

	stored_remove(root, "sys/class/infiniband/mlx5_0");
	reading_at(&r, 21);
	assert_string_equal(reading_why(&r, "infiniband/received", NEW), "the port is gone");
	assert_true(reading_value(&r, "infiniband/received", EFA) == 0);
	taken_take(&t, r.set);
	assert_int_equal(t.n_events, 1);
	assert_string_equal(t.events[0].kind, "infiniband-gone");
	reading_close(&r);
	stored_remove(root, "");
}

static void test_none(void **state)
{
	(void)state;
	assert_int_equal(reading_open(&r, &probe_infiniband, stored_path("storage_el7")), -ENODEV);
	assert_non_null(strstr(r.err.text, "no InfiniBand"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_figures),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
