// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import * as fmt from "../src/fmt";

// The same words as tests/unit/base/test_fmt.c of the commands.
test("bytes, counts and seconds have three digits", () => {
	expect(fmt.bytes(12)).toBe("12 B");
	expect(fmt.bytes(1536)).toBe("1.50 KiB");
	expect(fmt.bytes(1.5 * 2 ** 30)).toBe("1.50 GiB");
	expect(fmt.bytes(1023.9)).toBe("1.00 KiB");
	expect(fmt.bytesOf(62.5 * 2 ** 30, 80 * 2 ** 30)).toBe("62.5 / 80.0 GiB");
	expect(fmt.bytesOf(2 ** 20, null)).toBe("1.00 MiB");
	expect(fmt.count(12300)).toBe("12.3 k");
	expect(fmt.count(1.2e6)).toBe("1.20 M");
	expect(fmt.count(7)).toBe("7");
	expect(fmt.seconds(350e-9)).toBe("350 ns");
	expect(fmt.seconds(0.0123)).toBe("12.3 ms");
	expect(fmt.seconds(2.5)).toBe("2.50 s");
	expect(fmt.seconds(192)).toBe("3 min 12 s");
	expect(fmt.seconds(7500)).toBe("2 h 05 min");
	expect(fmt.seconds(3 * 86400 + 4 * 3600)).toBe("3 d 04 h");
	expect(fmt.seconds(-75)).toBe("-1 min 15 s");
});

test("whole numbers in groups", () => {
	expect([0, 999, 1000, -1234567, 1e15].map((v) => fmt.group(v))).toEqual(["0", "999", "1,000", "-1,234,567", "1,000,000,000,000,000"]);
	expect(fmt.group(NaN)).toBe("NaN");
});

test("what is unknown is no zero", () => {
	for (const f of [fmt.bytes, fmt.count, fmt.seconds, fmt.percent, fmt.number, fmt.group]) expect(f(null)).toBe("–");
	expect(fmt.value(undefined, "By")).toBe("–");
	expect(fmt.number(NaN)).toBe("NaN");
	expect(fmt.number(-Infinity)).toBe("−∞");
});

test("values by unit", () => {
	expect(fmt.value(2 ** 20, "By/s")).toBe("1.00 MiB/s");
	expect(fmt.value(5e6, "ns")).toBe("5.00 ms");
	expect(fmt.value(71, "Cel")).toBe("71 °C");
	expect(fmt.value(0.934, "1", true)).toBe("93.4 %");
	expect(fmt.value(1, "1", true)).toBe("100 %");
	expect(fmt.value(1.4e9, "Hz")).toBe("1.40 GHz");
	expect(fmt.value(2.25, "nat")).toBe("2.25 nat");
	expect(fmt.value(0.00001234, "")).toBe("1.234e-5");
});

test("which metrics are shares", () => {
	for (const name of ["cpu/busy", "gpu/throttled", "pressure/io", "gpu/sm/active", "cpu/core/busy{cpu=\"0\"}", "throughput/mfu", "throughput/hfu", "cgroup/pressure/io/full", "process/gpu/busy"]) expect(fmt.isShare(name, "1")).toBe(true);
	for (const name of ["tasks/running", "load/1m", "loss", "experts/active", "mfu", "active"]) expect(fmt.isShare(name, "1")).toBe(false);
	expect(fmt.isShare("memory/busy", "By")).toBe(false);
	// Of lapse's own ones a share has the unit 1.
	expect(fmt.isShare("throughput/mfu", "")).toBe(false);
});

test("times", () => {
	expect(fmt.utc(Date.UTC(2026, 10, 28, 1, 2, 3, 456))).toBe("2026-11-28T01:02:03.456Z");
	expect(fmt.toMs("1795874709123456789")).toBeCloseTo(1795874709123.456, 3);
	expect(fmt.toMs("2026-11-28T14:05:09.123456789Z")).toBe(Date.UTC(2026, 10, 28, 14, 5, 9, 123));
	expect(fmt.toMs(null)).toBe(null);
	expect(fmt.toMs("nonsense")).toBe(null);
	expect(fmt.ago(1000, 181_000)).toBe("3 min ago");
	expect(fmt.ago(5_000, 1000)).toBe("now");
	expect(fmt.ago(7_201_000, 1000)).toBe("in 2 h");
});

test("long names are cut between characters", () => {
	expect(fmt.shorten("abc", 5)).toBe("abc");
	expect(fmt.shorten("abcdefghij", 5)).toBe("abc…j");
	expect(fmt.shorten("😀".repeat(40), 10)).not.toContain("\ufffd");
	expect(Array.from(fmt.shorten("x".repeat(10_000), 80)).length).toBe(80);
});
