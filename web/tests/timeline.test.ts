// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { barAt, decodeTimeline, firstAfter, flame, locate, type Timeline, visit } from "../src/trace/timeline";

/** The bytes that docs/http.md describes, written by hand. */
function bytes(rows: number[][], bars: [number, number, number, number, number][], names: string[], lanes: object[] = []): ArrayBuffer {
	const encode = (s: string) => new TextEncoder().encode(s);
	let head = JSON.stringify({ lanes, steps: [], categories: [], file: "é.json" });

	while (encode(head).length % 8) head += " ";
	const h = encode(head);
	const t = encode(names.join(""));
	const parts: Uint8Array[] = [encode("LTL2"), new Uint8Array(Uint32Array.of(h.length, bars.length, rows.length, names.length, t.length).buffer), h];
	const add = (a: ArrayBufferView) => {
		const b = new Uint8Array(a.buffer, a.byteOffset, a.byteLength);

		parts.push(b, new Uint8Array((8 - (b.length % 8)) % 8));
	};

	add(Uint32Array.from(rows.flat()));
	add(Float64Array.from(bars, (b) => b[0]));
	add(Float32Array.from(bars, (b) => b[1]));
	for (const i of [2, 3] as const) add(Uint32Array.from(bars, (b) => b[i]));
	add(Uint32Array.from(bars, (_, i) => i + 100));
	add(Uint8Array.from(bars, (b) => b[4]));
	const offsets = [0];

	for (const n of names) offsets.push((offsets.at(-1) as number) + encode(n).length);
	add(Uint32Array.from(offsets));
	parts.push(t);
	const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
	let at = 0;

	for (const p of parts) {
		out.set(p, at);
		at += p.length;
	}
	return out.buffer;
}

/** One row of bars: [start, duration], all of category 1. */
const line = (bars: [number, number][]): Timeline =>
	decodeTimeline(bytes([[0, 0, 0, bars.length]], bars.map(([s, d]) => [s, d, 0, 1, 1]), ["a"]));

describe("decodeTimeline", () => {
	it("reads all parts, whatever their lengths", () => {
		const t = decodeTimeline(bytes([[0, 0, 0, 2], [1, 3, 2, 1]], [[0.5, 1, 1, 1, 3], [2, 0.25, 0, 7, 4], [9, 1, 2, 1, 0]], ["aten::mm", "ü", ""]));

		expect(t.head.file).toBe("é.json");
		expect([...t.rows]).toEqual([0, 0, 0, 2, 1, 3, 2, 1]);
		expect([...t.start]).toEqual([0.5, 2, 9]);
		expect([...t.dur]).toEqual([1, 0.25, 1]);
		expect([...t.count]).toEqual([1, 7, 1]);
		expect([...t.category]).toEqual([3, 4, 0]);
		expect([...t.event]).toEqual([100, 101, 102]);
		expect([...t.name].map(t.nameOf)).toEqual(["ü", "aten::mm", ""]);
	});
	it("refuses what is none", () => {
		expect(() => decodeTimeline(new ArrayBuffer(40))).toThrow("no timeline");
		expect(() => decodeTimeline(new ArrayBuffer(3))).toThrow("no timeline");
	});
});

describe("visit", () => {
	const draw = (t: Timeline, from: number, to: number, width: number) => {
		const out: [number, number, number, boolean][] = [];

		visit(t, 0, from, to, width, (...one) => out.push(one));
		return out;
	};

	it("draws wide bars as they are, cut at the window", () => {
		expect(draw(line([[0, 4], [5, 5], [20, 5]]), 2, 12, 100)).toEqual([[0, 20, 0, false], [30, 50, 1, false]]);
	});
	it("leaves out nothing that is short", () => {
		expect(draw(line([[1, 0.001], [50, 0.001], [99, 0]]), 0, 100, 100)).toEqual([[1, 1, 0, true], [50, 1, 1, true], [99, 1, 2, true]]);
	});
	it("costs by the pixels, not by the bars", () => {
		const t = line(Array.from({ length: 100_000 }, (_, i) => [i, 0.9]));
		const drawn = draw(t, 0, 100_000, 500);

		expect(drawn).toEqual([[0, 500, 0, true]]);
		// Bars of which only some are short: the wide ones are there.
		const mixed = line(Array.from({ length: 10_000 }, (_, i) => [i, i % 100 === 50 ? 0.99 : 0.01]));
		const seen = draw(mixed, 5000, 5200, 400);

		expect(seen.filter(([, , , many]) => !many).map(([, , bar]) => bar)).toEqual([5050, 5150]);
	});
	it("draws every pixel that a bar lies in, and no other", () => {
		let x = 7;
		const random = () => (x = (x * 16807) % 2147483647) / 2147483647;

		for (let round = 0; round < 50; round++) {
			let at = 0;
			const bars = Array.from({ length: 300 }, () => {
				const start = at + (random() < 0.1 ? random() * 40 : random());
				const dur = random() < 0.1 ? random() * 20 : random() * 0.5;

				at = start + dur;
				return [start, Math.fround(dur)] as [number, number];
			});
			const width = 200;
			const pixels = new Uint8Array(width);
			const scale = width / at;

			for (const [px, w] of draw(line(bars), 0, at, width)) for (let p = Math.floor(px); p < px + w && p < width; p++) pixels[p] = 1;
			for (const [s, d] of bars) expect(pixels[Math.min(Math.floor(s * scale), width - 1)], `${s} ${d}`).toBe(1);
			for (let p = 0; p < width; p++)
				if (pixels[p]) expect(bars.some(([s, d]) => Math.floor(s * scale) <= p + 1 && (s + d) * scale >= p - 1)).toBe(true);
		}
	});
});

describe("barAt", () => {
	const t = line([[0, 1], [2, 1], [4, 0]]);

	it("finds what is there, or near", () => {
		expect(barAt(t, 0, 0.5, 0)).toBe(0);
		expect(barAt(t, 0, 1.5, 0.1)).toBe(-1);
		expect(barAt(t, 0, 1.95, 0.1)).toBe(1);
		expect(barAt(t, 0, 4.01, 0.1)).toBe(2);
		expect(barAt(t, 0, 9, 0.1)).toBe(-1);
		expect(firstAfter(t, 0, 3, 1)).toBe(1);
	});
});

describe("locate", () => {
	const host = { process: "python 7", thread: "thread 7", kind: "host" };
	const stream = { process: "GPU 0", thread: "stream 7", kind: "device" };
	// Two rows of the host, one of the stream; the last bar of it stands for three events.
	const t = decodeTimeline(bytes(
		[[0, 0, 0, 2], [0, 1, 2, 2], [1, 0, 4, 2]],
		[[0, 5, 0, 1, 1], [5, 5, 0, 1, 1], [1, 2, 0, 1, 1], [5, 0, 0, 1, 1], [2, 1, 0, 1, 3], [4, 3, 0, 3, 3]], ["a"], [host, stream],
	));
	const at = (event: number, start_ms: number, lane: typeof host) => locate(t, { ...lane, event, name: "", start_ms, dur_ns: 0 });

	it("finds an event by its lane, begin and place", () => {
		expect(at(100, 0, host)).toEqual([0, 0]);
		expect(at(101, 5, host)).toEqual([0, 1]);
		expect(at(103, 5, host)).toEqual([1, 3]);
		expect(at(104, 2, stream)).toEqual([2, 4]);
	});
	it("knows the lanes by their names; of two with the same names the first", () => {
		const two = decodeTimeline(bytes([[0, 0, 0, 1], [1, 0, 1, 1], [2, 0, 2, 1]], [[0, 5, 0, 1, 1], [0, 5, 0, 1, 1], [0, 5, 0, 1, 1]], ["a"], [stream, host, host]));

		expect([...t.laneOf].sort()).toEqual([["device GPU 0 stream 7", 1], ["host python 7 thread 7", 0]]);
		expect(two.laneOf.get("host python 7 thread 7")).toBe(1);
		expect(locate(two, { ...host, event: 101, name: "", start_ms: 0, dur_ns: 0 })).toEqual([1, 1]);
		expect(locate(two, { ...host, event: 102, name: "", start_ms: 0, dur_ns: 0 })).toBe(null);
	});
	it("finds the bar that stands for it", () => {
		expect(at(55, 6, stream)).toEqual([2, 5]);
		expect(at(105, 5.5, stream)).toEqual([2, 5]);
	});
	it("finds nothing that is not there", () => {
		expect(at(55, 1, host)).toBe(null);
		expect(at(104, 2, host)).toBe(null);
		expect(at(100, 0, { ...host, thread: "thread 8" })).toBe(null);
	});
});

describe("flame", () => {
	it("adds up stacks, the largest first", () => {
		const t = flame({
			shared: { frames: [{ name: "main" }, { name: "a" }, { name: "b" }] },
			profiles: [{ name: "host", unit: "nanoseconds", samples: [[0, 1], [0, 2], [0], [0, 1, 2]], weights: [1e6, 5e6, 1e6, 2e6] }],
		});

		expect(t.head.last_ms).toBe(9);
		expect([...t.rows]).toEqual([0, 0, 0, 1, 0, 1, 1, 2, 0, 2, 3, 1]);
		expect([...t.name].map(t.nameOf)).toEqual(["main", "b", "a", "b"]);
		expect([...t.start]).toEqual([0, 0, 5, 5]);
		expect([...t.dur]).toEqual([9, 5, 3, 2]);
		expect(t.category[1]).toBe(t.category[3]);
	});
	it("of nothing is nothing", () => {
		expect(flame({ shared: { frames: [] }, profiles: [] }).head.bars).toBe(0);
	});
});
