// SPDX-License-Identifier: Apache-2.0
//
// heat.test.ts - the heat map's colours, gaps and sizes.
import { describe, expect, it } from "vitest";
import {
	RAMP, bucketAt, byNumber, columns, heatPixels, labelEvery, lut, rowHeight, spacing,
} from "../src/pages/heat";

// Relative luminance of WCAG 2.
function luminance(r: number, g: number, b: number): number {
	const f = (v: number) => {
		const s = v / 255;
		return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
	};
	return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
}

describe("colours", () => {
	it.each([["light", -1], ["dark", 1]] as const)("%s: luminance goes one way", (name, way) => {
		const c = lut(RAMP[name]);
		let before = luminance(c[0]!, c[1]!, c[2]!);
		for (let i = 1; i < 256; i++) {
			const now = luminance(c[3 * i]!, c[3 * i + 1]!, c[3 * i + 2]!);
			expect((now - before) * way).toBeGreaterThanOrEqual(-1e-3);
			before = now;
		}
		const ends = [0, 255].map((i) => luminance(c[3 * i]!, c[3 * i + 1]!, c[3 * i + 2]!));
		const contrast = (Math.max(...ends) + 0.05) / (Math.min(...ends) + 0.05);
		expect(contrast).toBeGreaterThan(10);
	});
	it("begin and end with the ramp's own", () => {
		const c = lut(["#010203", "#ffffff"]);
		expect([...c.slice(0, 3)]).toEqual([1, 2, 3]);
		expect([...c.slice(-3)]).toEqual([255, 255, 255]);
	});
});

describe("buckets", () => {
	const x = [0, 10, 20, 30, 100, 110];
	it("median distance", () => {
		expect(spacing(x)).toBe(10);
		expect(spacing([5])).toBe(0);
	});
	it("holds until two and a half spacings, then it is a gap", () => {
		expect(bucketAt(x, -1, 10)).toBe(-1);
		expect(bucketAt(x, 0, 10)).toBe(0);
		expect(bucketAt(x, 19.9, 10)).toBe(1);
		expect(bucketAt(x, 55, 10)).toBe(3);
		expect(bucketAt(x, 56, 10)).toBe(-1);
		expect(bucketAt(x, 500, 0)).toBe(5);
	});
	it("one a pixel, at its middle", () => {
		expect([...columns([0, 10, 20, 30], 0, 40, 8)]).toEqual([0, 0, 1, 1, 2, 2, 3, 3]);
	});
});

describe("pixels", () => {
	const colours = lut(["#000000", "#ffffff"]);
	it("clamp, and leave what is not known transparent", () => {
		const rows = [
			{ label: "0", v: [0, 0.5, 2] },
			{ label: "1", v: [NaN, null, -1] },
		];
		const p = heatPixels(rows, Int32Array.from([0, 1, 2, -1]), colours);
		expect(p.length).toBe(4 * 2 * 4);
		expect([...p.slice(0, 4)]).toEqual([0, 0, 0, 255]);
		expect(p[4]).toBe(128);
		expect([...p.slice(8, 12)]).toEqual([255, 255, 255, 255]);
		expect(p[15]).toBe(0);
		expect([p[19], p[23], p[27]]).toEqual([0, 0, 255]);
	});
});

describe("sizes", () => {
	it.each([[1, 18], [8, 18], [64, 5], [128, 2], [1000, 2]])("%i rows: %i pixels", (n, h) => {
		expect(rowHeight(n)).toBe(h);
	});
	it("labels do not touch", () => {
		expect(labelEvery(8, 18)).toBe(1);
		expect(labelEvery(64, 5)).toBe(4);
		expect(labelEvery(128, 2)).toBe(8);
	});
	it("numbers in order", () => {
		expect(["cpu10", "cpu2", "cpu1"].sort(byNumber)).toEqual(["cpu1", "cpu2", "cpu10"]);
	});
});
