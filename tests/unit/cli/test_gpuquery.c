/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of fields, formats and ids as nvidia-smi takes them.
 */
#include "cli/gpuquery.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct gpuquery query;

static void header(const char *list, const char *format, int driver, const char *want)
{
	struct err e = {0};
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	assert_int_equal(gpuquery_parse(&query, list, &e), 0);
	assert_int_equal(gpuquery_format(&query, format, &e), 0);
	gpuquery_header(&query, driver, f);
	fclose(f);
	assert_string_equal(text, want);
	free(text);
}

static void heads_are_nvidia_smis(void **state)
{
	(void)state;
	header("timestamp,pstate,temperature.gpu,utilization.gpu,memory.total", "csv", 550,
	       "timestamp, pstate, temperature.gpu, utilization.gpu [%], memory.total [MiB]\n");
	header("index, power.draw, clocks.sm,clocks.mem,clocks.gr", "csv", 550,
	       "index, power.draw [W], clocks.current.sm [MHz], clocks.current.memory [MHz], "
	       "clocks.current.graphics [MHz]\n");
	header("gpu_name,gpu_bus_id,gpu_uuid,power.draw", "csv,nounits", 550,
	       "name, pci.bus_id, uuid, power.draw\n");
	header("clocks_throttle_reasons.active", "csv", 580, "clocks_event_reasons.active\n");
	header("clocks_throttle_reasons.active", "csv", 470, "clocks_throttle_reasons.active\n");
	header("clocks.max.mem", "nounits,csv", 470, "clocks.max.memory\n");
}

static void wrong_ones_are_named(void **state)
{
	struct err e = {0};

	(void)state;
	assert_int_equal(gpuquery_parse(&query, "index,utilisation.gpu", &e), -EINVAL);
	assert_string_equal(e.text, "field \"utilisation.gpu\" is not known; did you mean "
				    "utilization.gpu?");
	err_clear(&e);
	assert_int_equal(gpuquery_parse(&query, " , ", &e), -EINVAL);
	err_clear(&e);
	assert_int_equal(gpuquery_format(&query, "csv,no_header", &e), -EINVAL);
	assert_non_null(strstr(e.text, "\"no_header\""));
	err_clear(&e);
	assert_int_equal(gpuquery_format(&query, "noheader", &e), -EINVAL);
}

static void ids_of_all_kinds(void **state)
{
	struct nvml_pci pci = {{0}, 0, 0x17, 0, 0, 0, {0}};
	const char *uuid = "GPU-30b619de-87f2-1862-0d07-a595da8fe417";

	(void)state;
	assert_true(gpuquery_is("3", 3, uuid, &pci));
	assert_false(gpuquery_is("1", 3, uuid, &pci));
	assert_true(gpuquery_is(uuid, 3, uuid, &pci));
	assert_true(gpuquery_is("00000000:17:00.0", 3, uuid, &pci));
	assert_true(gpuquery_is("0000:17:00.0", 3, uuid, &pci));
	assert_false(gpuquery_is("0000:18:00.0", 3, uuid, &pci));
	assert_false(gpuquery_is("", 0, uuid, &pci));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads_are_nvidia_smis),
		cmocka_unit_test(wrong_ones_are_named),
		cmocka_unit_test(ids_of_all_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
