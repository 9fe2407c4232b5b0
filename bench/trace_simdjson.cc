/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_simdjson.cc - what a fast general JSON library does with a trace.
 */
#include "trace_simdjson.h"

#include <simdjson.h>

static volatile double sink;

uint64_t simdjson_on_demand(const char *path)
{
	uint64_t n = 0;
	double sum = 0;

	try {
		simdjson::padded_string text = simdjson::padded_string::load(path);
		simdjson::ondemand::parser parser;
		simdjson::ondemand::document doc = parser.iterate(text);

		for (simdjson::ondemand::object event : doc["traceEvents"]) {
			for (auto field : event) {
				std::string_view key = field.unescaped_key();

				if (key == "ts" || key == "dur")
					sum += double(field.value());
				else if (key == "name")
					sum += double(std::string_view(field.value()).size());
			}
			n++;
		}
	} catch (const simdjson::simdjson_error &) {
		return 0;
	}
	sink = sum;
	return n;
}

uint64_t simdjson_dom(const char *path)
{
	uint64_t n = 0;
	double sum = 0;

	try {
		simdjson::dom::parser parser;
		simdjson::dom::element doc = parser.load(path);

		for (simdjson::dom::object event : doc["traceEvents"].get_array()) {
			double number;
			std::string_view name;

			if (!event["ts"].get(number))
				sum += number;
			if (!event["dur"].get(number))
				sum += number;
			if (!event["name"].get(name))
				sum += double(name.size());
			n++;
		}
	} catch (const simdjson::simdjson_error &) {
		return 0;
	}
	sink = sum;
	return n;
}
