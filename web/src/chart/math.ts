// SPDX-License-Identifier: Apache-2.0
//
// What charts compute: pure functions over lines.
import type { QuerySeries } from "../columns";
import { isShare, shorten } from "../fmt";

/** One line of a chart. Arrays have equal length; x ascends. */
export interface Line {
	/** Stays the same while the line does: what is hidden, its colour. */
	key: string;
	label: string;
	unit: string;
	/** Shown in %. */
	share: boolean;
	side: "left" | "right";
	x: ArrayLike<number>;
	/** Mean of a bucket, or a value; NaN: nothing to draw. */
	y: ArrayLike<number>;
	/** Smallest and greatest of a bucket. */
	lo?: ArrayLike<number>;
	hi?: ArrayLike<number>;
	/** The last value itself, where y is of buckets. */
	last?: number;
	/** y is the mean of so many series. */
	meanOf?: number;
	/** Values that are NaN in it. */
	nan?: ArrayLike<number>;
	/** Position in the palette; default: the line's place in the chart. */
	pen?: number;
	/** Drawn thin and pale: an attempt that was repeated, one rank of many. */
	faded?: boolean;
	/** A layer of a stack: its own values, which are what is told; y is its upper edge, lo its lower one. */
	own?: ArrayLike<number>;
}

/** Debiased exponential moving average. weight, 0 (as it is) to 1, is what remains of what
 * came a thousandth of the x range before, so that lines with few points and with many are
 * smoothed alike, and zooming in smooths what is seen. NaN stays and is passed over; a
 * constant stays constant. */
export function smooth(x: ArrayLike<number>, y: ArrayLike<number>, weight: number): Float64Array {
	const out = new Float64Array(y.length);
	const unit = ((x[x.length - 1] as number) - (x[0] as number)) / 1000 || 1;
	let last = 0;
	let norm = 0;
	let at = NaN;

	for (let i = 0; i < y.length; i++) {
		const v = y[i] as number;

		if (!Number.isFinite(v) || weight <= 0) {
			out[i] = v;
			continue;
		}
		const w = Number.isNaN(at) ? weight : weight ** (((x[i] as number) - at) / unit);

		at = x[i] as number;
		last = last * w + (1 - w) * v;
		norm = norm * w + (1 - w);
		out[i] = norm > 0 ? last / norm : v;
	}
	return out;
}

/** The q-th quantile (0 to 1) of sorted values, nearest rank. */
export function quantile(sorted: ArrayLike<number>, q: number): number {
	if (sorted.length === 0) return NaN;
	return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))] as number;
}

/** The range of the y axis that leaves outliers out: from the 5th to the 95th percentile of
 * all values, and three tenths on each side. null: no finite value. */
export function innerRange(values: Iterable<ArrayLike<number>>, log = false): [number, number] | null {
	const all: number[] = [];

	for (const y of values)
		for (let i = 0; i < y.length; i++) {
			const v = y[i] as number;

			if (Number.isFinite(v) && (!log || v > 0)) all.push(v);
		}
	if (all.length === 0) return null;
	const sorted = Float64Array.from(all).sort();
	const lo = quantile(sorted, 0.05);
	const hi = quantile(sorted, 0.95);

	if (log) return [lo / 1.2, hi * 1.2];
	const pad = (hi - lo) * 0.3 || Math.abs(hi) * 0.1 || 1;

	return [lo - pad, hi + pad];
}

export type Cell = number | null | undefined;

/** One x for all lines, and of each line a cell per x: undefined where it has no point (the
 * line goes on), null where its value is NaN (the line breaks). */
export function align(lines: readonly { x: ArrayLike<number>; ys: readonly ArrayLike<number>[] }[]): { x: number[]; cells: Cell[][][] } {
	const first = lines[0];

	if (!first) return { x: [], cells: [] };
	if (lines.every((l) => sameX(l.x, first.x)))
		return { x: Array.from(first.x), cells: lines.map((l) => l.ys.map((y) => toCells(y, y.length))) };
	const all = new Float64Array(lines.reduce((n, l) => n + l.x.length, 0));
	let at = 0;

	for (const l of lines) {
		all.set(l.x, at);
		at += l.x.length;
	}
	all.sort();
	const x: number[] = [];

	for (const v of all) if (x.length === 0 || v !== x[x.length - 1]) x.push(v);
	return { x, cells: lines.map((l) => spread(l, x)) };
}

function spread(l: { x: ArrayLike<number>; ys: readonly ArrayLike<number>[] }, x: readonly number[]): Cell[][] {
	const out: Cell[][] = l.ys.map(() => new Array<Cell>(x.length).fill(undefined));
	let at = 0;

	for (let i = 0; i < l.x.length; i++) {
		while (at < x.length && (x[at] as number) < (l.x[i] as number)) at++;
		l.ys.forEach((y, k) => {
			const v = y[i] as number;

			(out[k] as Cell[])[at] = Number.isFinite(v) ? v : null;
		});
	}
	return out;
}

function sameX(a: ArrayLike<number>, b: ArrayLike<number>): boolean {
	if (a === b) return true;
	if (a.length !== b.length) return false;
	for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
	return true;
}

function toCells(y: ArrayLike<number>, n: number): Cell[] {
	const out = new Array<Cell>(n);

	for (let i = 0; i < n; i++) out[i] = Number.isFinite(y[i]) ? (y[i] as number) : null;
	return out;
}

/** On a grid all series have the same x, and buckets without points are NaN: those are left
 * out here, so that only values that are NaN break a line. */
export function packed(s: QuerySeries): Record<string, Float64Array> {
	const { count, x } = s.col;

	if (s.raw || !count || !x) return s.col;
	let n = 0;

	for (const c of count) if (c > 0) n++;
	if (n === x.length) return s.col;
	const keep = new Uint32Array(n);

	n = 0;
	count.forEach((c, i) => {
		if (c > 0) keep[n++] = i;
	});
	return Object.fromEntries(Object.entries(s.col).map(([k, v]) => [k, Float64Array.from(keep, (i) => v[i] as number)]));
}

const PERCENTILES = ["p50", "p95", "p99"] as const;

/** Lines of series: a line each, of histograms one for each percentile; of groups the mean,
 * from the smallest to the greatest value. */
export function linesOf(series: readonly QuerySeries[], options: { side?: "left" | "right"; prefix?: string } = {}): Line[] {
	const labels = labelsOf(series);

	return series.flatMap((s, i) => {
		const c = s.group === undefined ? packed(s) : s.col;
		const x = c.x ?? new Float64Array(0);
		const y = c.y ?? c.mean ?? new Float64Array(x.length).fill(NaN);
		const last = finiteLast(c.last ?? []);
		const most = c.series?.reduce((a, n) => Math.max(a, n), 0) ?? 0;
		const line: Line = {
			key: (options.prefix ?? "") + (s.group ?? s.id + (s.rate ? "/rate" : "")),
			label: labels[i] ?? s.name,
			unit: s.unit,
			// One that was recorded in percent is no share.
			share: isShare(s.name, s.unit) && !y.some((v) => v > 1.5),
			side: options.side ?? "left",
			x,
			y,
			// Of a group the smallest and greatest value of all, not of the series' means: a peak is seen.
			lo: c.low ?? c.min,
			hi: c.high ?? c.max,
			last: Number.isFinite(last) && !s.rate ? last : undefined,
			meanOf: most > 1 ? most : undefined,
			nan: s.raw ? nanMarks(y) : c.nan,
		};

		if (s.kind !== "histogram" || !c.p50) return [line];
		return PERCENTILES.filter((p) => c[p]).map((p, k): Line => ({
			...line, key: `${line.key}/${p}`, label: series.length > 1 ? `${line.label} ${p}` : p, y: c[p] as Float64Array, last: undefined,
			lo: k === 0 ? line.lo : undefined, hi: k === 0 ? line.hi : undefined, nan: undefined,
		}));
	});
}

/** The last finite value; NaN: there is none. */
export function finiteLast(y: ArrayLike<number>): number {
	for (let i = y.length - 1; i >= 0; i--) if (Number.isFinite(y[i])) return y[i] as number;
	return NaN;
}

function nanMarks(y: ArrayLike<number>): Float64Array | undefined {
	let any = false;
	const out = Float64Array.from(y, (v) => {
		if (Number.isFinite(v)) return 0;
		any = true;
		return 1;
	});

	return any ? out : undefined;
}

interface Named {
	name: string;
	label: Record<string, string>;
	host: string;
	rank: number | null;
	role: string;
	process: number;
	rate?: boolean;
	group?: string;
}

/** What tells these series apart, in as few words as possible: "gpu 0", "loss", "rank 3 loss". */
export function labelsOf(series: readonly Named[]): string[] {
	if (series.length > 0 && series[0]?.group !== undefined) {
		const one = new Set(series.map((s) => s.name)).size === 1;

		return series.map((s) => shorten(one ? (/\{(.*)\}/.exec(s.group ?? "")?.[1]?.replace(/"/g, "") || s.name) : (s.group ?? s.name), 90));
	}
	const keys = new Map<string, Set<string>>();
	const parts = series.map((s) => {
		const p = new Map<string, string>([["name", s.name]]);

		for (const [k, v] of Object.entries(s.label ?? {})) p.set(k, v);
		if (s.rank != null) p.set("rank", p.get("rank") ?? String(s.rank));
		p.set("host", p.get("host") ?? s.host);
		p.set("process", p.get("process") ?? `${s.role} ${s.process}`);
		return p;
	});

	for (const p of parts)
		for (const [k, v] of p) keys.set(k, (keys.get(k) ?? new Set()).add(v));
	const differ = (k: string) => (keys.get(k)?.size ?? 0) > 1 || parts.some((p) => !p.has(k));
	const used = [...keys.keys()].filter((k) => k !== "process" && k !== "host" && differ(k));
	const say = (p: Map<string, string>, with_: readonly string[]) =>
		with_.map((k) => (p.has(k) ? (k === "name" ? p.get(k) : `${k} ${p.get(k)}`) : "")).filter(Boolean).join(" ");
	const distinct = (with_: readonly string[]) => new Set(parts.map((p) => say(p, with_))).size === parts.length;

	for (const more of ["host", "process"]) if (!distinct(used) && keys.has(more)) used.push(more);
	if (used.length === 0) used.push("name");
	return parts.map((p) => shorten(say(p, used) || (p.get("name") ?? ""), 90));
}

/** In words, for those who do not see the chart. */
export function summarize(title: string, lines: readonly Line[], show: (v: number, l: Line) => string): string {
	if (lines.length === 0) return `${title}: nothing recorded.`;
	const texts = lines.slice(0, 8).map((l) => {
		let n = 0;
		let nan = 0;
		let lo = Infinity;
		let hi = -Infinity;
		let last = NaN;

		for (let i = 0; i < l.y.length; i++) {
			const v = (l.own ?? l.y)[i] as number;

			if (l.nan && (l.nan[i] as number) > 0) nan++;
			if (!Number.isFinite(v)) continue;
			n++;
			last = l.last ?? v;
			lo = Math.min(lo, !l.own && l.lo && Number.isFinite(l.lo[i]) ? (l.lo[i] as number) : v);
			hi = Math.max(hi, !l.own && l.hi && Number.isFinite(l.hi[i]) ? (l.hi[i] as number) : v);
		}
		if (n === 0) return `${l.label}: ${nan > 0 ? "only NaN" : "no values"}`;
		return `${l.label}: last ${show(last, l)}, from ${show(lo, l)} to ${show(hi, l)}${nan ? `, NaN at ${nan} places` : ""}`;
	});

	if (lines.length > 8) texts.push(`and ${lines.length - 8} more`);
	return `${title}. ${texts.join("; ")}.`;
}

/** Add points that came live behind those of an answer; only later ones, in order. */
export function extend(line: Line, x: readonly number[], y: readonly number[]): Line {
	const last = line.x.length ? (line.x[line.x.length - 1] as number) : -Infinity;
	const keep: number[] = [];
	let top = last;

	for (let i = 0; i < x.length; i++)
		if ((x[i] as number) > top) {
			keep.push(i);
			top = x[i] as number;
		}
	if (keep.length === 0) return line;
	const grow = (a: ArrayLike<number>, f: (i: number) => number) => {
		const out = new Float64Array(a.length + keep.length);

		out.set(a);
		keep.forEach((i, k) => (out[a.length + k] = f(i)));
		return out;
	};
	const at = (i: number) => y[i] as number;

	return {
		...line,
		x: grow(line.x, (i) => x[i] as number),
		y: grow(line.y, at),
		last: line.last === undefined ? undefined : finiteLast([line.last, ...keep.map(at)]),
		lo: line.lo && grow(line.lo, at),
		hi: line.hi && grow(line.hi, at),
		nan: (line.nan || keep.some((i) => !Number.isFinite(at(i)))) ? grow(line.nan ?? new Float64Array(line.x.length), (i) => (Number.isFinite(at(i)) ? 0 : 1)) : undefined,
	};
}
