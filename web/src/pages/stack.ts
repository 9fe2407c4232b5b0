// SPDX-License-Identifier: Apache-2.0
//
// stack.ts - what a step is made of, as pure functions: layers that add to the step's time, as
// the verdict's bins have them, and how a histogram is cut.

export interface Bins {
	first: number[];
	last: number[];
	count: number[];
	mean_s: number[];
	max_s: number[];
	parts: number[][];
}

export interface Stack {
	/** Middle of each bin, in steps. */
	x: number[];
	/** Upper edges from the bottom up; the last is the step's mean. */
	tops: (number | null)[][];
}

/** Layers in the order of `bins.parts` from the bottom up. Where a bin has no step, a gap. */
export function stack(bins: Bins): Stack {
	const x = bins.first.map((f, i) => (f + bins.last[i]!) / 2);
	const sums = new Array<number>(x.length).fill(0);
	const tops = bins.parts.map((part) =>
		sums.map((_, i) => (bins.count[i] ? (sums[i]! += part[i] ?? 0) : null)));

	return { x, tops };
}

/** The layer at height y of bin i, from the bottom; -1: above all. */
export function layerAt(s: Stack, i: number, y: number): number {
	return y < 0 ? -1 : s.tops.findIndex((t) => t[i] != null && y <= t[i]!);
}

/** The bin that holds a step, -1: none. */
export function binAt(bins: Bins, step: number): number {
	return bins.first.findIndex((f, i) => step >= f && step <= bins.last[i]! && bins.count[i]! > 0);
}

/** Where a value lies among the edges of a histogram, 0 to 1 of its width; clamped. */
export function along(edges: readonly number[], v: number): number {
	const lo = edges[0] ?? 0;
	const hi = edges[edges.length - 1] ?? 1;

	return hi > lo ? Math.min(1, Math.max(0, (v - lo) / (hi - lo))) : 0.5;
}
