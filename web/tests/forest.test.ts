// SPDX-License-Identifier: Apache-2.0
//
// forest.test.ts - scale of the forest plot; what differs between values.
import { describe, expect, it } from "vitest";
import { diffParts, forestScale, place } from "../src/pages/forest";

describe("scale", () => {
	it("is symmetric, with few ticks", () => {
		const s = forestScale([{ at: 0.1, lo: 0.05, hi: 0.15 }, { at: -0.02, lo: -0.04, hi: 0.01 }]);
		expect(s.lo).toBe(-s.hi);
		expect(s.ticks.length).toBeLessThanOrEqual(5);
		expect(s.ticks[(s.ticks.length - 1) / 2]).toBe(0);
		expect(s.hi).toBeGreaterThanOrEqual(0.15);
	});
	it("is not squeezed by one far interval", () => {
		const near = Array.from({ length: 9 }, () => ({ at: 0.02, lo: 0.01, hi: 0.03 }));
		const s = forestScale([...near, { at: 40, lo: 30, hi: 50 }]);
		expect(s.hi).toBeLessThan(0.5);
		expect(place(s, 40)).toEqual({ x: 1, beyond: 1 });
		expect(place(s, -40)).toEqual({ x: 0, beyond: -1 });
		expect(place(s, 0).x).toBeCloseTo(0.5);
	});
	it("of nothing is one per cent", () => {
		expect(forestScale([]).hi).toBeCloseTo(0.01);
	});
});

describe("differences", () => {
	it("mark the middle that differs", () => {
		expect(diffParts("train.py --lr 3e-4 --seed 1", ["train.py --lr 1e-3 --seed 1"])).toEqual([
			{ text: "train.py --lr ", differs: false },
			{ text: "3e-4 ", differs: true },
			{ text: "--seed 1", differs: false },
		]);
	});
	it("of equal values are none; of all, all", () => {
		expect(diffParts("a", ["a", "a"])).toEqual([{ text: "a", differs: false }]);
		expect(diffParts("1", ["2"])).toEqual([{ text: "1", differs: true }]);
	});
	it("never lose text", () => {
		for (const [v, o] of [["a b", "a b c"], ["x a", "a"], ["a a a", "a a"], ["", "q"]] as const)
			expect(diffParts(v, [o]).map((p) => p.text).join("")).toBe(v);
	});
});
