// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Answers, chartWidth, FRESH_MS, pointsFor, preloaded, preloadPage } from "../src/preload";

const RUN = "api/v1/runs/r-1";
let answers: Answers;
let come: (() => void)[];

/** What fetch() was asked, by the place of its answer in `come`. */
let asked: string[];

beforeEach(() => {
	vi.useFakeTimers();
	answers = new Map();
	come = [];
	asked = [];
	vi.stubGlobal("window", { lapseFirst: { answers, end: () => undefined } });
	vi.stubGlobal("fetch", (address: string) => {
		asked.push(address);
		return new Promise((done) => come.push(() => done(new Response(`of ${address}`))));
	});
});
afterEach(() => {
	vi.useRealTimers();
	vi.unstubAllGlobals();
});

describe("answers that were asked in advance", () => {
	it("are taken once", async () => {
		preloadPage(answers, "#/run/r-1", 1280);
		expect(asked[0]).toBe(RUN);
		come[0]?.();
		expect(await (await preloaded(RUN))?.text()).toBe(`of ${RUN}`);
		expect(preloaded(RUN)).toBe(undefined);
	});
	it("are dropped when they are old, not while they are waited for", async () => {
		preloadPage(answers, "#/run/r-1", 1280);
		await vi.advanceTimersByTimeAsync(60_000);
		come[0]?.();
		await vi.advanceTimersByTimeAsync(FRESH_MS - 1);
		expect([...answers.keys()]).toContain(RUN);
		await vi.advanceTimersByTimeAsync(1);
		expect(preloaded(RUN)).toBe(undefined);
		expect(answers.size).toBe(1); // the loss has not come
	});
	it("are dropped when they failed", async () => {
		vi.stubGlobal("fetch", () => Promise.reject(new TypeError("refused")));
		preloadPage(answers, "#/runs", 1280);
		await expect(preloaded("api/v1/info")).rejects.toThrow("refused");
		preloadPage(answers, "#/runs", 1280);
		await vi.advanceTimersByTimeAsync(FRESH_MS);
		expect(answers.size).toBe(0);
	});
	it("are those of a page that is narrower by its scroll bar", () => {
		// Two columns: (1294 - 32 - 12) / 2 - 18 = 607 px; with a scroll bar of 15 px 599.5 px.
		expect(pointsFor(chartWidth(1294))).toBe(800);
		expect(pointsFor(chartWidth(1294, 1279))).toBe(600);
		preloadPage(answers, "#/run/r-1", 1294);
		const loss = asked[1] ?? "";

		expect(loss).toMatch(/[?&]points=800&axis=time&/);
		expect(preloaded(loss.replace("axis=time", "axis=step"))).toBe(undefined);
		expect(preloaded(loss.replace("points=800", "points=600"))).not.toBe(undefined);
	});
});
