// SPDX-License-Identifier: Apache-2.0
//
// Curves over the time of a trace. Pure: no page.
import type { Line } from "../chart/math";
import type { Row } from "./sheets";
import type { Timeline } from "./timeline";

export const BINS = 300;

/** The share of each bin of [from, to) in which a kernel ran, by device; of those that ran one.
 * `merged`: bars stand for several events, so that gaps between these would count as busy. */
export function busy(t: Timeline, from: number, to: number, bins = BINS): { of: Map<string, Float64Array>; merged: boolean } {
	const isKernel = t.head.categories.map((c) => c === "kernel" || c === "communication");
	const bars = new Map<string, number[]>();
	let merged = false;

	for (let r = 0; r < t.rows.length; r += 4) {
		const [lane, , first, n] = t.rows.subarray(r, r + 4) as unknown as [number, number, number, number];
		const l = t.head.lanes[lane];

		if (l?.kind !== "device") continue;
		for (let i = first; i < first + n; i++) {
			merged ||= (t.count[i] as number) > 1;
			if (!isKernel[t.category[i] as number]) continue;
			if (!bars.has(l.process)) bars.set(l.process, []);
			bars.get(l.process)?.push(i);
		}
	}
	const of = new Map<string, Float64Array>();
	const width = (to - from) / bins;

	for (const [device, list] of bars) {
		const out = new Float64Array(bins);
		let end = from; // all before is counted

		list.sort((a, b) => (t.start[a] as number) - (t.start[b] as number));
		for (const i of list) {
			const a = Math.max(t.start[i] as number, end);
			const b = Math.min((t.start[i] as number) + (t.dur[i] as number), to);

			if (b <= a) continue;
			end = b;
			for (let k = Math.floor((a - from) / width); k < bins && from + k * width < b; k++)
				out[k] = Math.min(1, (out[k] as number) + Math.max(0, Math.min(b, from + (k + 1) * width) - Math.max(a, from + k * width)) / width);
		}
		of.set(device, out);
	}
	return { of, merged };
}

/** The greatest and the least in each bin of a value that holds until the next, and behind them
 * what it is at the end; NaN before the first. */
export function held(x: ArrayLike<number>, y: ArrayLike<number>, from: number, to: number, bins = BINS): { hi: Float64Array; lo: Float64Array } {
	const hi = new Float64Array(bins + 1).fill(NaN);
	const lo = new Float64Array(bins + 1).fill(NaN);
	const width = (to - from) / bins;
	let i = 0;
	let now = NaN;

	while (i < x.length && (x[i] as number) < from) now = y[i++] as number;
	for (let k = 0; k < bins; k++) {
		const end = k === bins - 1 ? to : from + (k + 1) * width;
		const add = (v: number) => {
			if (Number.isNaN(v)) return;
			if (!(v <= (hi[k] as number))) hi[k] = v;
			if (!(v >= (lo[k] as number))) lo[k] = v;
		};

		if (!((x[i] as number) <= from + k * width)) add(now);
		while (i < x.length && ((x[i] as number) < end || (k === bins - 1 && x[i] === to))) add((now = y[i++] as number));
	}
	hi[bins] = lo[bins] = now;
	return { hi, lo };
}

/** The middles of the bins. */
export const middles = (from: number, to: number, bins = BINS) => Float64Array.from({ length: bins }, (_, k) => from + ((k + 0.5) * (to - from)) / bins);

export const line = (label: string, unit: string, x: ArrayLike<number>, y: ArrayLike<number>, more?: Partial<Line>): Line => ({ key: label, label, unit, share: false, side: "left", x, y, ...more });

export interface Track {
	label: string;
	unit: string;
	x: number[];
	y: number[];
}

/** A sheet of values in time as one track for each key and column that has any; `zero`: when the
 * trace began, by the sheet's clock. */
export function tracks(rows: readonly Row[], label: (r: Row) => string, columns: Record<string, string>, unit: string, zero = 0): Track[] {
	const of = new Map<string, Track>();

	for (const r of rows)
		for (const [column, title] of Object.entries(columns)) {
			if (r[column] == null) continue;
			const name = `${label(r)} ${title}`.trim();
			let t = of.get(name);

			if (!t) of.set(name, (t = { label: name, unit, x: [], y: [] }));
			t.x.push((Number(r.ts_ns) - zero) / 1e6);
			t.y.push(Number(r[column]));
		}
	return [...of.values()];
}
