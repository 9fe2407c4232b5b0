// SPDX-License-Identifier: Apache-2.0
//
// heat.ts - a heat map of shares (0 to 1) of many rows over time, as pure functions: colours,
// which bucket a pixel shows, which cell the pointer is on. The canvas is in heatmap.tsx.

/** Colours from 0 to 1, one hue to the next with luminance always falling (light) or rising
 * (dark): what is busy stands out from the page, and is told apart without seeing colours. */
export const RAMP = {
	light: ["#edf2f7", "#c9deee", "#93c1e2", "#4f97cd", "#2266ab", "#124a90", "#0a2c64"],
	dark: ["#151c26", "#163a5c", "#1c6096", "#2f8bbf", "#55b3d3", "#8ed3cf", "#d8eeb0"],
};

const CHANNELS = [16, 8, 0] as const;

/** 256 colours of a ramp as RGB bytes. */
export function lut(ramp: readonly string[]): Uint8Array {
	const out = new Uint8Array(256 * 3);
	const stops = ramp.map((c) => parseInt(c.slice(1), 16));
	for (let i = 0; i < 256; i++) {
		const at = (i / 255) * (stops.length - 1);
		const k = Math.min(Math.floor(at), stops.length - 2);
		CHANNELS.forEach((shift, c) => {
			const a = (stops[k]! >> shift) & 255;
			const b = (stops[k + 1]! >> shift) & 255;
			out[i * 3 + c] = Math.round(a + (b - a) * (at - k));
		});
	}
	return out;
}

export interface HeatRow {
	label: string;
	v: ArrayLike<number | null>;
}

/** Median distance of neighbours; 0 of fewer than two. */
export function spacing(x: ArrayLike<number>): number {
	const d: number[] = [];
	for (let i = 1; i < x.length; i++) d.push(x[i]! - x[i - 1]!);
	d.sort((a, b) => a - b);
	return d.length ? d[d.length >> 1]! : 0;
}

/** Index of the bucket that holds `at`: the last that begins at or before it, if it is no
 * older than two and a half spacings; -1: none, which is a gap. */
export function bucketAt(x: ArrayLike<number>, at: number, step: number): number {
	let lo = 0;
	let hi = x.length;
	while (lo < hi) {
		const mid = (lo + hi) >> 1;
		if (x[mid]! <= at) lo = mid + 1;
		else hi = mid;
	}
	if (!lo) return -1;
	return at - x[lo - 1]! <= (step ? step * 2.5 : Infinity) ? lo - 1 : -1;
}

/** The bucket of each of `width` pixels from x0 to x1. */
export function columns(x: ArrayLike<number>, x0: number, x1: number, width: number): Int32Array {
	const out = new Int32Array(width);
	const step = spacing(x);
	for (let px = 0; px < width; px++)
		out[px] = bucketAt(x, x0 + ((px + 0.5) / width) * (x1 - x0), step);
	return out;
}

/** RGBA of width × rows, a pixel row a row; transparent where nothing is known. */
export function heatPixels(
	rows: readonly HeatRow[], cols: Int32Array, colours: Uint8Array,
): Uint8ClampedArray<ArrayBuffer> {
	const width = cols.length;
	const out = new Uint8ClampedArray(width * rows.length * 4);
	rows.forEach((row, r) => {
		for (let px = 0; px < width; px++) {
			const v = cols[px]! < 0 ? null : row.v[cols[px]!];
			if (v === null || v === undefined || !(v === v)) continue;
			const c = Math.round(Math.min(1, Math.max(0, v)) * 255) * 3;
			const o = (r * width + px) * 4;
			out[o] = colours[c]!;
			out[o + 1] = colours[c + 1]!;
			out[o + 2] = colours[c + 2]!;
			out[o + 3] = 255;
		}
	});
	return out;
}

/** Height of a row in CSS pixels, so that few rows are no wall and many still fit. */
export function rowHeight(rows: number): number {
	return Math.max(2, Math.min(18, Math.floor(320 / Math.max(1, rows))));
}

/** Each row's y for its label, so that labels do not touch: every n-th. */
export function labelEvery(rows: number, height: number): number {
	for (const n of [1, 2, 4, 8, 16, 32, 64, 128, 256]) if (n * height >= 14) return n;
	return Math.max(1, rows);
}

/** Numbers in names compare as numbers: cpu 2 before cpu 10. */
export function byNumber(a: string, b: string): number {
	return a.localeCompare(b, "en", { numeric: true });
}
