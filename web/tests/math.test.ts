// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { align, extend, innerRange, type Line, labelsOf, linesOf, packed, quantile, smooth, summarize } from "../src/chart/math";
import { alone, relative } from "../src/chart/plot";
import type { QuerySeries } from "../src/columns";

const line = (more: Partial<Line>): Line => ({ key: "k", label: "loss", unit: "", share: false, side: "left", x: [], y: [], ...more });
const series = (more: Partial<QuerySeries>): QuerySeries => ({
	id: "h/1", name: "loss", labels: "", label: {}, unit: "", kind: "gauge", host: "h", process: 1, pid: 1, role: "trainer", rank: null, rate: false, raw: true, lost: 0, columns: [], col: {}, ...more,
});

test("the moving average begins unbiased", () => {
	// By hand, 0.5 a thousandth of the range, the last point two thousandths on:
	// 4; (4·0.25 + 8·0.5) / 0.75; NaN stays; then (5·0.25 + 0·0.75) / (0.75·0.25 + 0.75).
	const x = [0, 1, 2, 3, 1000];
	const s = smooth(x, [4, 8, NaN, 0, 7], 0.5);

	expect(s[0]).toBe(4);
	expect(s[1]).toBeCloseTo(5 / 0.75, 12);
	expect(s[2]).toBeNaN();
	expect(s[3]).toBeCloseTo(1.25 / 0.9375, 12);
	expect(s[4]).toBeCloseTo(7, 12);
	for (const v of smooth([...Array(50).keys()], new Array(50).fill(0.1), 0.97)) expect(v).toBeCloseTo(0.1, 12);
	expect([...smooth([1, 2], [1, 5], 0)]).toEqual([1, 5]);
	expect([...smooth([3], [2], 0.9)]).toEqual([2]);
});

test("quantiles and the range without outliers", () => {
	const v = Array.from({ length: 100 }, (_, i) => i + 1);

	expect(quantile(v, 0.05)).toBe(5);
	expect(quantile(v, 0.95)).toBe(95);
	expect(quantile([], 0.5)).toBeNaN();
	expect(innerRange([[...v, NaN, 1e9]])?.[1]).toBe(96 + 0.3 * 90); // of 101 values the 6th and the 96th
	expect(innerRange([[NaN]])).toBe(null);
	expect(innerRange([[3, 3]])).toEqual([2.7, 3.3]);
	expect(innerRange([[-1, 0, 10]], true)?.[0]).toBeCloseTo(10 / 1.2);
});

test("lines with other x share one axis: no point goes on, NaN breaks", () => {
	const a = align([{ x: [1, 3], ys: [[10, NaN]] }, { x: [2, 3], ys: [[20, 30]] }]);

	expect(a.x).toEqual([1, 2, 3]);
	expect(a.cells[0]?.[0]).toEqual([10, undefined, null]);
	expect(a.cells[1]?.[0]).toEqual([undefined, 20, 30]);
	expect(align([])).toEqual({ x: [], cells: [] });
	expect(align([{ x: [1, 2], ys: [[1, NaN]] }]).cells[0]?.[0]).toEqual([1, null]);
});

test("values without a neighbour are found", () => {
	expect(alone([1, null, 2, 3, null, undefined, 4])).toEqual([0, 6]);
	expect(alone([1, undefined, 2])).toEqual([]);
	expect(alone([null, 5, null])).toEqual([1]);
	expect(alone([7])).toEqual([0]);
	expect(alone([])).toEqual([]);
});

test("empty buckets of a grid are left out, NaN ones stay", () => {
	const s = series({ raw: false, col: { x: Float64Array.of(1, 2, 3), mean: Float64Array.of(5, NaN, NaN), min: Float64Array.of(5, NaN, NaN), max: Float64Array.of(5, NaN, NaN), count: Float64Array.of(2, 0, 4), nan: Float64Array.of(0, 0, 4) } });

	expect([...(packed(s).x ?? [])]).toEqual([1, 3]);
	const [l] = linesOf([s]);

	expect([...(l?.nan as Float64Array)]).toEqual([0, 4]);
	expect([...(l?.y as Float64Array)]).toEqual([5, NaN]);
});

test("a group is mean and band; a histogram its percentiles", () => {
	const col = { x: Float64Array.of(1), min: Float64Array.of(1), mean: Float64Array.of(2), max: Float64Array.of(3), series: Float64Array.of(2), low: Float64Array.of(0), high: Float64Array.of(9) };

	expect(linesOf([series({ group: "loss", col })])[0]).toMatchObject({ lo: col.low, hi: col.high, meanOf: 2 });
	expect(linesOf([series({ group: "loss", col: { ...col, series: Float64Array.of(1) } })])[0]).toMatchObject({ lo: col.low, hi: col.high, meanOf: undefined });
	const h = linesOf([series({ kind: "histogram", raw: false, col: { x: Float64Array.of(1), mean: Float64Array.of(2), p50: Float64Array.of(2), p95: Float64Array.of(3), p99: Float64Array.of(4) } })]);

	expect(h.map((l) => l.label)).toEqual(["p50", "p95", "p99"]);
});

test("labels say what differs and no more", () => {
	expect(labelsOf([series({})])).toEqual(["loss"]);
	expect(labelsOf([series({ label: { gpu: "0" } }), series({ label: { gpu: "1" } })])).toEqual(["gpu 0", "gpu 1"]);
	expect(labelsOf([series({ name: "loss" }), series({ name: "val/loss" })])).toEqual(["loss", "val/loss"]);
	expect(labelsOf([series({ rank: 0 }), series({ rank: 1 })])).toEqual(["rank 0", "rank 1"]);
	expect(labelsOf([series({ host: "a" }), series({ host: "b" })])).toEqual(["host a", "host b"]);
	expect(new Set(labelsOf([series({ process: 1 }), series({ process: 2 })])).size).toBe(2);
});

test("live points go behind an answer, older ones are in it already", () => {
	const l = extend(line({ x: [1, 2], y: [5, 6] }), [1.5, 2, 3, 2.5, 4], [0, 0, 7, 0, NaN]);

	expect([...(l.x as Float64Array)]).toEqual([1, 2, 3, 4]);
	expect([...(l.y as Float64Array)]).toEqual([5, 6, 7, NaN]);
	expect([...(l.nan as Float64Array)]).toEqual([0, 0, 0, 1]);
	const same = line({ x: [1], y: [1] });

	expect(extend(same, [0, 1], [9, 9])).toBe(same);
});

test("a chart in words", () => {
	const show = (v: number) => String(v);

	expect(summarize("Loss", [], show)).toBe("Loss: nothing recorded.");
	expect(summarize("Loss", [line({ x: [1, 2], y: [3, 1], nan: [0, 0] })], show)).toBe("Loss. loss: last 1, from 1 to 3.");
	expect(summarize("Loss", [line({ x: [1], y: [NaN], nan: [1] })], show)).toBe("Loss. loss: only NaN.");
});

test("times since the start", () => {
	expect(relative(0)).toBe("0:00");
	expect(relative(61_000)).toBe("1:01");
	expect(relative(3_600_000)).toBe("1:00:00");
	expect(relative(250)).toBe("250 ms");
	expect(relative(1500)).toBe("0:01.5");
});

test("a share that was recorded in percent is a number", () => {
	const of = (v: number) => linesOf([series({ name: "throughput/mfu", unit: "1", col: { x: Float64Array.of(1), y: Float64Array.of(v) } })])[0]?.share;

	expect([of(0.415), of(41.5)]).toEqual([true, false]);
});
