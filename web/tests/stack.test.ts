// SPDX-License-Identifier: Apache-2.0
//
// stack.test.ts - layers add up to the step; empty bins are gaps.
import { describe, expect, it } from "vitest";
import { partPens } from "../src/palette";
import { along, binAt, layerAt, stack } from "../src/pages/stack";

const bins = {
	first: [10, 20, 30],
	last: [19, 29, 39],
	count: [10, 0, 5],
	mean_s: [1, 0, 2],
	max_s: [1.5, 0, 2.5],
	parts: [[0.5, 0, 1.25], [0.25, 0, 0.5], [0.25, 0, 0.25]],
};

describe("stack", () => {
	it("adds up to the step's mean, and leaves a gap", () => {
		const s = stack(bins);

		expect(s.x).toEqual([14.5, 24.5, 34.5]);
		expect(s.tops).toEqual([[0.5, null, 1.25], [0.75, null, 1.75], [1, null, 2]]);
	});
	it("finds layers by height", () => {
		const s = stack(bins);

		expect([0.1, 0.5, 0.6, 1, 1.01, -1].map((y) => layerAt(s, 0, y))).toEqual([0, 0, 1, 2, -1, -1]);
		expect(layerAt(s, 1, 0.1)).toBe(-1);
	});
	it("finds bins by step", () => {
		expect([9, 10, 19, 25, 39, 40].map((n) => binAt(bins, n))).toEqual([-1, 0, 0, -1, 2, -1]);
	});
});

describe("histogram", () => {
	it("places values", () => {
		expect([0, 1, 1.5, 2, 9].map((v) => along([1, 1.2, 2], v))).toEqual([0, 0, 0.5, 1, 1]);
		expect(along([1], 3)).toBe(0.5);
	});
});

describe("pens", () => {
	it("are the role's own, then what is free, never the grey of other", () => {
		const roles = ["span", "forward", "data", "data", "other", "span"];

		expect(partPens(roles.map((role) => ({ role })))).toEqual([2, 0, 1, 3, 7, 4]);
	});
	it("of many parts are all different", () => {
		const pens = partPens(Array.from({ length: 20 }, () => ({ role: "span" })));

		expect(new Set(pens).size).toBe(20);
		expect(pens.some((p) => p % 8 === 7)).toBe(false);
	});
});
