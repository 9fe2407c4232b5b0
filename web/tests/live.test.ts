// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LATE_MS, type LiveMessage, LiveStreams } from "../src/live-stream";

/** A stream that says what it is told to say. */
class Source {
	static CLOSED = 2;
	static all: Source[] = [];
	readyState = 1;
	onopen: (() => void) | null = null;
	onerror: (() => void) | null = null;
	private heard = new Map<string, (e: { data: string; lastEventId: string }) => void>();

	constructor(readonly address: string) {
		Source.all.push(this);
	}

	addEventListener(type: string, f: (e: { data: string; lastEventId: string }) => void): void {
		this.heard.set(type, f);
	}

	say(type: string, data: object = {}, lastEventId = ""): void {
		this.heard.get(type)?.({ data: JSON.stringify(data), lastEventId });
	}

	close(): void {
		this.readyState = 2;
	}
}

const told: string[] = [];
let streams: LiveStreams;

beforeEach(() => {
	vi.useFakeTimers();
	vi.stubGlobal("EventSource", Source);
	Source.all = [];
	told.length = 0;
	streams = new LiveStreams("live", (_run, m: LiveMessage) => told.push(m.type));
	streams.want("a");
	vi.advanceTimersByTime(100);
	Source.all[0]?.onopen?.();
});

afterEach(() => {
	streams.drop("a");
	vi.runOnlyPendingTimers();
	vi.useRealTimers();
	vi.unstubAllGlobals();
});

test("a stream that says nothing for 40 s is opened anew, behind the last event", () => {
	Source.all[0]?.say("points", { run: "a" }, "x-7");
	for (let i = 0; i < 10; i++) {
		vi.advanceTimersByTime(15_000);
		Source.all[0]?.say("beat");
	}
	expect(Source.all.length).toBe(1);
	vi.advanceTimersByTime(46_000);
	expect(Source.all.map((s) => s.address)).toEqual(["live?run=a", "live?run=a&after=x-7"]);
	expect(Source.all[0]?.readyState).toBe(2);
	expect(told).toEqual(["up", "points", "down"]);
});

test("somebody looks again: only a stream that is late is opened anew", () => {
	vi.advanceTimersByTime(10_000);
	streams.look(LATE_MS);
	expect(Source.all.length).toBe(1);
	vi.advanceTimersByTime(11_000);
	streams.look(LATE_MS);
	expect(Source.all.length).toBe(2);
	streams.look(0);
	expect(Source.all.length).toBe(3);
});

test("a run that has ended is not watched for silence", () => {
	Source.all[0]?.say("end", { run: "a" });
	vi.advanceTimersByTime(120_000);
	expect(Source.all.length).toBe(1);
	expect(told).toEqual(["up", "end"]);
});

test("runs beyond those of a stream are polled, and get a place when another has ended", () => {
	const polled = new Map<string, number>();

	streams = new LiveStreams("live", (run, m: LiveMessage) => m.type === "poll" && polled.set(run, (polled.get(run) ?? 0) + 1));
	for (const run of "abcdefghij") streams.want(run);
	Source.all = [];
	vi.advanceTimersByTime(100);
	Source.all[0]?.onopen?.();
	expect(Source.all[0]?.address).toBe("live?run=c&run=d&run=e&run=f&run=g&run=h&run=i&run=j");
	vi.advanceTimersByTime(10_000);
	expect([...polled]).toEqual([["a", 2], ["b", 2]]);
	Source.all[0]?.say("end", { run: "c" });
	Source.all[0]?.say("end", { run: "d" });
	vi.advanceTimersByTime(100);
	Source.all[1]?.onopen?.();
	expect(Source.all[1]?.address).toContain("run=a&run=b&run=e");
	vi.advanceTimersByTime(20_000);
	expect([...polled]).toEqual([["a", 2], ["b", 2]]);
	for (const run of "abcdefghij") streams.drop(run);
});
