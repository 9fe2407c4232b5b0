// SPDX-License-Identifier: Apache-2.0
//
// A trace as bars in rows: the binary answer of trace/timeline (docs/http.md), and what of it is
// drawn at some zoom. Pure: no page.

export interface Lane {
	process: string;
	thread: string;
	kind: string;
	depths: number;
	events: number;
}

export interface Head {
	file: string;
	rank: number | null;
	first_ms: number;
	last_ms: number;
	from_ms: number;
	to_ms: number;
	events: number;
	bars: number;
	merged_ms: number;
	left_out: number;
	categories: string[];
	lanes: Lane[];
	steps: [number, number, number][];
	notes: string[];
}

/** Bars of a row are neighbours, sorted by start, and do not overlap. */
export interface Timeline {
	head: Head;
	/** The place of a lane in head.lanes, by its laneKey(). */
	laneOf: ReadonlyMap<string, number>;
	/** Of each row: lane, depth, first bar, number of bars. */
	rows: Uint32Array;
	start: Float64Array;
	dur: Float32Array;
	name: Uint32Array;
	count: Uint32Array;
	/** Place in the trace's list of events; of a bar that stands for several that of the longest. */
	event: Uint32Array;
	category: Uint8Array;
	nameOf: (name: number) => string;
}

export const laneKey = (l?: Pick<Spot, "process" | "thread" | "kind">) => `${l?.kind} ${l?.process} ${l?.thread}`;

/** Of lanes with the same names the first. */
const lanesOf = (lanes: readonly Lane[]) => new Map(lanes.map((l, i) => [laneKey(l), i] as const).reverse());

const even = (n: number) => (n + 7) & ~7;

export function decodeTimeline(buffer: ArrayBuffer): Timeline {
	const view = new DataView(buffer);
	const text = new TextDecoder();
	const u32 = (at: number) => view.getUint32(at, true);

	if (buffer.byteLength < 24 || text.decode(new Uint8Array(buffer, 0, 4)) !== "LTL2") throw new Error("The answer is no timeline.");
	const [h, e, r, n, t] = [4, 8, 12, 16, 20].map(u32) as [number, number, number, number, number];
	const head = JSON.parse(text.decode(new Uint8Array(buffer, 24, h))) as Head;
	let at = 24 + h;
	const take = (bytes: number) => {
		const here = at;

		at += even(bytes);
		return here;
	};
	const rows = new Uint32Array(buffer, take(16 * r), 4 * r);
	const start = new Float64Array(buffer, take(8 * e), e);
	const dur = new Float32Array(buffer, take(4 * e), e);
	const name = new Uint32Array(buffer, take(4 * e), e);
	const count = new Uint32Array(buffer, take(4 * e), e);
	const event = new Uint32Array(buffer, take(4 * e), e);
	const category = new Uint8Array(buffer, take(e), e);
	const offsets = new Uint32Array(buffer, take(4 * (n + 1)), n + 1);
	const texts = new Uint8Array(buffer, at, t);
	const known = new Map<number, string>();

	return {
		head, laneOf: lanesOf(head.lanes), rows, start, dur, name, count, event, category,
		nameOf: (i) => {
			let s = known.get(i);

			if (s === undefined) known.set(i, (s = text.decode(texts.subarray(offsets[i], offsets[i + 1]))));
			return s;
		},
	};
}

/** The first bar of [lo, hi) that ends after t. */
export function firstAfter(t: Timeline, lo: number, hi: number, ms: number): number {
	while (lo < hi) {
		const mid = (lo + hi) >>> 1;

		if ((t.start[mid] as number) + (t.dur[mid] as number) <= ms) lo = mid + 1;
		else hi = mid;
	}
	return lo;
}

/** What of a row is drawn: fn(x, width, bar, whether it stands for others too) in px from the left. What is narrower than a pixel is
 * drawn a pixel wide, one for all that begin in it, so that a row costs as many calls as it has
 * pixels at most, however many bars there are. */
export function visit(t: Timeline, row: number, from: number, to: number, width: number, fn: (x: number, w: number, bar: number, many: boolean) => void): void {
	const lo = t.rows[4 * row + 2] as number;
	const hi = lo + (t.rows[4 * row + 3] as number);
	const scale = width / (to - from);
	let run = -1; // bar whose column is being extended
	let x0 = 0;
	let x1 = 0;
	let i = firstAfter(t, lo, hi, from);

	while (i < hi && (t.start[i] as number) < to) {
		const x = Math.max(((t.start[i] as number) - from) * scale, 0);
		const w = Math.min(((t.start[i] as number) + (t.dur[i] as number) - from) * scale, width) - x;

		if (w >= 1) {
			if (run >= 0) fn(x0, x1 - x0, run, true);
			run = -1;
			fn(x, w, i++, false);
			continue;
		}
		const p = Math.floor(x);

		if (run >= 0 && p <= x1 && t.category[i] === t.category[run]) x1 = p + 1;
		else {
			if (run >= 0) fn(x0, x1 - x0, run, true);
			run = i;
			x0 = p;
			x1 = p + 1;
		}
		// On to the first that reaches into the next pixel: mostly it is near.
		const next = from + (p + 1) / scale;
		let step = 1;

		while (i + step < hi && (t.start[i + step] as number) + (t.dur[i + step] as number) <= next) step *= 2;
		i = firstAfter(t, i + 1, Math.min(i + step + 1, hi), next);
	}
	if (run >= 0) fn(x0, x1 - x0, run, true);
}

/** The bar of a row at that time; the next one within `near` ms; -1: none. */
export function barAt(t: Timeline, row: number, ms: number, near: number): number {
	const lo = t.rows[4 * row + 2] as number;
	const hi = lo + (t.rows[4 * row + 3] as number);
	const i = firstAfter(t, lo, hi, ms - near);

	return i < hi && (t.start[i] as number) <= ms + near ? i : -1;
}

// ---- one event --------------------------------------------------------------------------

/** Where an event is, as the answer says it. */
export interface Spot {
	event: number;
	name: string;
	process: string;
	thread: string;
	kind: string;
	start_ms: number;
	dur_ns: number;
}

/** All about an event: trace/timeline with `event`. */
export interface Picked extends Spot {
	category: string;
	cat: string | null;
	self_ns: number;
	args: { key: string; value: string; bytes?: number }[];
	args_left_out: number;
	links: (Spot & { role: "launch" | "work" | "forward" | "backward" })[];
	links_left_out: number;
}

/** The row and bar of an event; of one that a longer bar stands for, that bar; null: it is not there. */
export function locate(t: Timeline, e: Spot): [row: number, bar: number] | null {
	const lane = t.laneOf.get(laneKey(e));
	let near: [number, number] | null = null;

	for (let r = 0; 4 * r < t.rows.length; r++) {
		if (t.rows[4 * r] !== lane) continue;
		const lo = t.rows[4 * r + 2] as number;
		const hi = lo + (t.rows[4 * r + 3] as number);
		// Ends are rounded.
		let i = Math.max(lo, firstAfter(t, lo, hi, e.start_ms) - 1);

		for (; i < hi && (t.start[i] as number) <= e.start_ms; i++) {
			if (t.event[i] === e.event) return [r, i];
			if ((t.count[i] as number) > 1 && (t.start[i] as number) + (t.dur[i] as number) >= e.start_ms) near = [r, i];
		}
	}
	return near;
}

// ---- flame graphs -----------------------------------------------------------------------

export interface Speedscope {
	shared: { frames: { name: string }[] };
	profiles: { samples: number[][]; weights: number[]; unit: string; name: string }[];
}

interface Node {
	frame: number;
	total: number;
	children: Map<number, Node>;
}

/** A sampled profile as a timeline of one lane: a row a depth, the largest first. */
export function flame(s: Speedscope, which = 0): Timeline {
	const profile = s.profiles[which];
	const root: Node = { frame: -1, total: 0, children: new Map() };
	const unit = { nanoseconds: 1e-6, microseconds: 1e-3, seconds: 1e3 }[profile?.unit ?? ""] ?? 1;

	profile?.samples.forEach((stack, i) => {
		const ms = (profile.weights[i] ?? 0) * unit;
		let at = root;

		at.total += ms;
		for (const frame of stack) {
			let next = at.children.get(frame);

			if (!next) at.children.set(frame, (next = { frame, total: 0, children: new Map() }));
			next.total += ms;
			at = next;
		}
	});
	const depths: { start: number[]; dur: number[]; name: number[] }[] = [];
	const walk = (node: Node, depth: number, start: number) => {
		for (const child of [...node.children.values()].sort((a, b) => b.total - a.total)) {
			const d = (depths[depth] ??= { start: [], dur: [], name: [] });

			d.start.push(start);
			d.dur.push(child.total);
			d.name.push(child.frame);
			walk(child, depth + 1, start);
			start += child.total;
		}
	};

	walk(root, 0, 0);
	const all = (key: "start" | "dur" | "name") => depths.flatMap((d) => d[key]);
	const rows: number[] = [];
	let first = 0;

	depths.forEach((d, i) => {
		rows.push(0, i, first, d.start.length);
		first += d.start.length;
	});
	const name = Uint32Array.from(all("name"));
	const nameOf = (i: number) => s.shared.frames[i]?.name ?? "";
	// A colour by name: the same function has the same one everywhere.
	const hue = (text: string) => {
		let h = 0;

		for (let i = 0; i < text.length; i++) h = (h * 31 + text.charCodeAt(i)) | 0;
		return (h >>> 3) % 8;
	};

	const lanes = [{ process: "", thread: "", kind: "flame", depths: depths.length, events: first }];

	return {
		head: {
			file: profile?.name ?? "", rank: null, first_ms: 0, last_ms: root.total, from_ms: 0, to_ms: root.total, events: first, bars: first, merged_ms: 0, left_out: 0,
			categories: [], lanes, steps: [], notes: [],
		},
		laneOf: lanesOf(lanes),
		rows: Uint32Array.from(rows), start: Float64Array.from(all("start")), dur: Float32Array.from(all("dur")), name, count: new Uint32Array(first).fill(1), event: name,
		category: Uint8Array.from(name, (n) => hue(nameOf(n))), nameOf,
	};
}
