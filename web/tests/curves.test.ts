// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { busy, held, middles, tracks } from "../src/trace/curves";
import type { Lane, Timeline } from "../src/trace/timeline";

type Bar = [start: number, dur: number, category?: string, count?: number];
const CATEGORIES = ["other", "kernel", "communication", "copy"];

/** Rows of bars, each of a lane of its own: [device, kind, bars]. */
function timeline(rows: [string, string, Bar[]][]): Timeline {
	const bars = rows.flatMap((r) => r[2]);
	const lanes: Lane[] = rows.map(([process, kind, b]) => ({ process, thread: "stream", kind, depths: 1, events: b.length }));
	let first = 0;

	return {
		head: { categories: CATEGORIES, lanes } as unknown as Timeline["head"],
		laneOf: new Map(),
		rows: Uint32Array.from(rows.flatMap(([, , b], i) => [i, 0, (first += b.length) - b.length, b.length])),
		start: Float64Array.from(bars, (b) => b[0]), dur: Float32Array.from(bars, (b) => b[1]), name: new Uint32Array(bars.length),
		event: new Uint32Array(0), count: Uint32Array.from(bars, (b) => b[3] ?? 1), category: Uint8Array.from(bars, (b) => CATEGORIES.indexOf(b[2] ?? "kernel")), nameOf: () => "",
	};
}

const shares = (t: Timeline, from: number, to: number, bins: number) => Object.fromEntries([...busy(t, from, to, bins).of].map(([d, y]) => [d, [...y].map((v) => Number(v.toFixed(9)))]));

describe("busy", () => {
	it("is the part of each bin in which a kernel ran", () => {
		// 1 ms in the first, all of the second, half of the third, nothing in the last.
		expect(shares(timeline([["GPU 0", "device", [[1, 1], [2, 3]]]]), 0, 8, 4)).toEqual({ "GPU 0": [0.5, 1, 0.5, 0] });
	});
	it("counts what ran on several streams at once only once", () => {
		const t = timeline([["GPU 0", "device", [[0, 4], [6, 1]]], ["GPU 0", "device", [[1, 2], [3, 2, "communication"], [6.5, 1]]]]);

		// 0 to 5, 6 to 7.5
		expect(shares(t, 0, 8, 4)).toEqual({ "GPU 0": [1, 1, 0.5, 0.75] });
	});
	it("parts devices, and leaves the host, marks and copies out", () => {
		const t = timeline([
			["python", "host", [[0, 8]]], ["GPU 0", "mark", [[0, 8]]], ["GPU 0", "device", [[0, 1], [1, 7, "copy"]]], ["GPU 1", "device", [[7, 1]]],
			["GPU 2", "device", [[0, 8, "copy"]]],
		]);

		expect(shares(t, 0, 8, 2)).toEqual({ "GPU 0": [0.25, 0], "GPU 1": [0, 0.25] });
	});
	it("of a part counts what reaches into it", () => {
		expect(shares(timeline([["GPU 0", "device", [[0, 3], [5, 10]]]]), 2, 6, 4)).toEqual({ "GPU 0": [1, 0, 0, 1] });
	});
	it("says whether bars were merged", () => {
		expect(busy(timeline([["GPU 0", "device", [[0, 1]]], ["python", "host", [[0, 1, "other", 9]]]]), 0, 1).merged).toBe(false);
		expect(busy(timeline([["GPU 0", "device", [[0, 1], [1, 1, "copy", 2]]]]), 0, 1).merged).toBe(true);
	});
	it("is never more than all", () => {
		const bars = Array.from({ length: 1000 }, (_, i): Bar => [i * 0.1, 0.1]);

		for (const v of busy(timeline([["GPU 0", "device", bars]]), 0, 100, 7).of.get("GPU 0") ?? []) {
			expect(v).toBeLessThanOrEqual(1);
			expect(v).toBeGreaterThan(0.9999);
		}
	});
});

describe("held", () => {
	const of = (x: number[], y: number[], from: number, to: number, bins: number) => {
		const { hi, lo } = held(x, y, from, to, bins);

		return [[...hi], [...lo]];
	};

	it("holds a value until the next, and knows the peak within a bin", () => {
		expect(of([0, 3, 3.5, 6], [1, 9, 2, 4], 0, 8, 4)).toEqual([[1, 9, 2, 4, 4], [1, 1, 2, 4, 4]]);
	});
	it("is nothing before the first, and has the one at the end", () => {
		expect(of([5, 8], [3, 7], 0, 8, 4)).toEqual([[NaN, NaN, 3, 7, 7], [NaN, NaN, 3, 3, 7]]);
	});
	it("begins with what was before a part", () => {
		expect(of([0, 1, 9], [5, 6, 1], 2, 4, 2)).toEqual([[6, 6, 6], [6, 6, 6]]);
	});
	it("keeps a peak of no length", () => {
		expect(of([0, 2, 2, 2], [1, 1, 8, 1], 0, 4, 2)).toEqual([[1, 8, 1], [1, 1, 1]]);
	});
});

describe("tracks", () => {
	it("are by key and column, in ms, of what is known", () => {
		const rows = [
			{ device: "GPU0", ts_ns: 1e6, allocated_bytes: 3, reserved_bytes: 4 }, { device: "CPU", ts_ns: 2e6, allocated_bytes: 5, reserved_bytes: null },
			{ device: "GPU0", ts_ns: 3e6, allocated_bytes: 0, reserved_bytes: 4 },
		];

		expect(tracks(rows, (r) => String(r.device), { allocated_bytes: "allocated", reserved_bytes: "reserved" }, "By")).toEqual([
			{ label: "GPU0 allocated", unit: "By", x: [1, 3], y: [3, 0] }, { label: "GPU0 reserved", unit: "By", x: [1, 3], y: [4, 4] }, { label: "CPU allocated", unit: "By", x: [2], y: [5] },
		]);
	});
	it("begin with the trace", () => expect(tracks([{ ts_ns: 1_419_247_332_596_028 + 2e6, length: 1 }], () => "stream 7", { length: "" }, "", 1_419_247_332_596_028)[0]?.x).toEqual([2]));
	it("of nothing are none", () => expect(tracks([], String, { a: "" }, "")).toEqual([]));
});

describe("middles", () => it("are the bins'", () => expect([...middles(2, 10, 4)]).toEqual([3, 5, 7, 9])));
