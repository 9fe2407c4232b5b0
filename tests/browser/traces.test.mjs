// SPDX-License-Identifier: Apache-2.0
//
// The page Traces: files of a run, views of a trace, timeline and flame graph, speedscope.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { before, drag, fitsWidth, idsOf, later, like, open, placeOf, runsOf, same, serve, test, until, useBrowser } from "./harness.mjs";

let server, id, traces, empty;

/** A trace as PyTorch's profiler writes it: steps of 10 ms, in each operators within operators and
 * their kernels. */
function trace(rank, steps, each = 20) {
	const rows = [];
	const row = (cat, name, ts, dur, pid, tid, args) => rows.push({ ph: "X", cat, name, ts, dur, pid, tid, args });

	for (let s = 0; s < steps; s++) {
		const at = s * 10_000;

		row("user_annotation", `ProfilerStep#${s + 5}`, at, 9_990, 100, 100, {});
		for (let i = 0; i < each; i++) {
			const t = at + 100 + (i * 9_000) / each;
			const w = 6_000 / each;
			const correlation = s * each + i + 1;

			row("cpu_op", i % 3 ? "aten::linear" : "aten::conv2d", t, w, 100, 100, { "External id": correlation });
			row("cpu_op", "aten::addmm", t + w * 0.1, w * 0.8, 100, 100, { "External id": correlation });
			row("cuda_runtime", "cudaLaunchKernel", t + w * 0.3, w * 0.2, 100, 100, { correlation, "External id": correlation });
			row("kernel", i % 5 ? "sm90_gemm_f16" : "ncclDevKernel_AllReduce", t + w, w * 0.7, 0, 7, { correlation, device: 0, stream: 7, "External id": correlation });
		}
	}
	// Rank 1 knows its allocator, too: a block of 3 MiB in the first operator.
	if (rank === 1)
		for (const [ts, bytes] of [[101, 3 << 20], [9_000, -(3 << 20)]])
			rows.push({ ph: "i", cat: "cpu_instant_event", s: "t", name: "[memory]", pid: 100, tid: 100, ts, args: { "Device Type": 1, "Device Id": 0, Addr: 64, Bytes: bytes, "Total Allocated": Math.max(bytes, 0), "Total Reserved": 4 << 20 } });
	// As real ones: the clock does not begin with the trace.
	for (const r of rows) r.ts += 1_419_247_332_000;
	return { schemaVersion: 1, distributedInfo: { backend: "nccl", rank, world_size: 2 }, deviceProperties: [{ id: 0, name: "Test GPU", totalGlobalMem: 8e9, numSms: 100 }], traceEvents: rows };
}

useBrowser();
before(async () => {
	const folder = mkdtempSync(path.join(tmpdir(), "lapse-browser-"));
	const ids = idsOf(runsOf("kinds"));

	id = ids.finished;
	cpSync(path.join(runsOf("kinds"), id), path.join(folder, id), { recursive: true });
	cpSync(path.join(runsOf("kinds"), ids.empty), path.join(folder, ids.empty), { recursive: true });
	mkdirSync(path.join(folder, id, "profile"));
	for (const rank of [0, 1]) writeFileSync(path.join(folder, id, "profile", `rank_${rank}_steps_5-7.pt.trace.json.gz`), gzipSync(JSON.stringify(trace(rank, 3))));
	writeFileSync(path.join(folder, id, "many.trace.json"), JSON.stringify(trace(0, 500, 100)));
	writeFileSync(path.join(folder, id, "bad.trace.json"), "this is none");
	for (const old of ["bad.trace.json", "many.trace.json"]) utimesSync(path.join(folder, id, old), 1e9, 1e9);
	writeFileSync(path.join(folder, id, "<img src=x onerror=\"document.title='owned'\">\u202e.csv"), "a,b\n");
	writeFileSync(path.join(folder, id, "weights.bin"), "x");
	later(() => rmSync(folder, { recursive: true, force: true }));
	server = await serve(folder);
	traces = `${server}/#/run/${id}/traces`;
	empty = `${server}/#/run/${ids.empty}/traces`;
});

const file = (name, view = "") => `${traces}?file=${encodeURIComponent(name)}${view && `&view=${view}`}`;
const ONE = "profile/rank_0_steps_5-7.pt.trace.json.gz";
const rows = (page, name) => page.getByRole("table", { name, exact: true }).locator(".tbody [role=row]");
/** Colours on a canvas, by how many of its pixels have them; the ground is left out. */
const colours = (page) => page.locator(".bars canvas").evaluate((el) => {
	const { data } = el.getContext("2d").getImageData(0, 0, el.width, el.height);
	const seen = new Map();

	for (let i = 0; i < data.length; i += 4) {
		const key = (data[i] << 16) | (data[i + 1] << 8) | data[i + 2];

		seen.set(key, (seen.get(key) ?? 0) + 1);
	}
	return [...seen.values()].sort((a, b) => b - a).slice(1).filter((n) => n > 50).length;
});

test("files are listed, one is shown and can be had", async () => {
	const page = await open(traces);

	await page.getByText("The GPU", { exact: false }).first().waitFor();
	await same(() => rows(page, "Files of the run").count(), 6);
	await page.getByRole("table", { name: "steps" }).waitFor();
	await same(() => rows(page, "steps").count(), 3);
	const [download] = await Promise.all([
		page.waitForEvent("download"),
		rows(page, "Files of the run").filter({ hasText: "rank_1" }).getByText("Download").click(),
	]);

	assert.equal(download.suggestedFilename(), "rank_1_steps_5-7.pt.trace.json.gz");
	await page.picture("traces", true);
	assert.ok((await page.evaluate(() => window.shift)) < 0.1);
	await page.done();
});

test("timeline: zoom, pan, search, what is under the pointer", async () => {
	const page = await open(file(ONE, "timeline"));
	const canvas = page.locator(".bars canvas");

	await canvas.waitFor();
	await page.waitForFunction(() => document.querySelector(".bars canvas").width > 300);
	await page.getByText("243 events").waitFor();
	await until(async () => (await colours(page)) >= 4, "of four colours");
	await page.picture("traces-timeline");
	const box = await placeOf(canvas);
	let side = 0;
	const look = (x, y, what) => until(async () => {
		side ^= 1; // a pointer that rests is told once: perhaps before it was drawn
		await page.mouse.move(box.x + x + side, box.y + y);
		return what.test(await page.locator(".bars output").innerText());
	}, `told: ${what}`);

	await look(200, 22 + 20 + 8, /ProfilerStep#5.*ms/);
	await page.mouse.dblclick(box.x + 200, box.y + 50);
	await look(box.width / 2, 50, /ProfilerStep#5/);
	await page.mouse.move(box.x + 300, box.y + 100);
	await page.keyboard.down("Control");
	for (let i = 0; i < 4; i++) await page.mouse.wheel(0, -100);
	await page.keyboard.up("Control");
	await canvas.focus();
	for (const key of ["ArrowRight", "w", "s", "a", "0"]) await page.keyboard.press(key);
	await page.getByLabel("Find a name").fill("addmm");
	await page.waitForFunction(() => location.hash.includes("find=addmm"));
	await page.picture("traces-find");
	await page.done();
});

/** How many pixels of a part of the timeline have the colour of text, as outlines and arrows have. */
const inked = (page, top, bottom) => page.locator(".bars canvas").evaluate((el, [top, bottom]) => {
	const copy = Object.assign(document.createElement("canvas"), { width: el.width, height: el.height }).getContext("2d", { willReadFrequently: true });
	const scale = el.width / el.clientWidth;

	copy.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--text");
	copy.fillRect(0, 0, 1, 1);
	const want = copy.getImageData(0, 0, 1, 1).data;

	copy.drawImage(el, 0, 0);
	const { data } = copy.getImageData(0, top * scale, el.width, (bottom - top) * scale);
	let n = 0;

	for (let i = 0; i < data.length; i += 4) n += [0, 1, 2].every((k) => Math.abs(data[i + k] - want[k]) < 12);
	return n;
}, [top, bottom]);

// Rows of the host are 17 px below each other from 42 px on, that of the stream is at 134 px: what
// is between them is crossed by the arrow only. Of step 5 event 0 is the step, then come four for
// each operator: it, aten::addmm, its launch, its kernel.
for (const dark of [false, true])
	test(`an event: its arguments, the arrow from a launch to its kernel (${dark ? "dark" : "light"})`, async () => {
		const page = await open(file(ONE, "timeline"), { dark });
		const canvas = page.locator(".bars canvas");
		const event = page.getByRole("region", { name: "Event" });
		const chosen = (n) => page.waitForFunction((want) => (/event=(\d+)/.exec(location.hash)?.[1] ?? null) === want, n);

		await page.getByText("243 events").waitFor();
		await event.getByText("No event is chosen.").waitFor();
		assert.equal(await inked(page, 114, 132), 0);
		const box = await placeOf(canvas);
		// The kernel of the second operator begins after 0.85 ms of 29.99 and takes 0.21 ms.
		const at = (ms) => box.x + (box.width * ms) / 29.99;

		await page.mouse.click(at(0.95), box.y + 142, { button: "right" });
		await chosen(null);
		await page.mouse.click(at(0.95), box.y + 142);
		await chosen("8");
		await event.getByRole("heading", { name: "sm90_gemm_f16" }).waitFor();
		await like(() => event.innerText(), /correlation\s+2\s+device\s+0\s+stream\s+7\s+External id\s+2/);
		await like(() => event.innerText(), /Start\s+0\.850000 ms\s+Duration\s+210 µs \(210,000 ns\)/);
		await page.mouse.move(box.x + 5, box.y + 5);
		await until(async () => (await inked(page, 114, 132)) > 5, "drawn: the arrow");
		await page.picture(`traces-event-${dark ? "dark" : "light"}`);
		await event.getByRole("button", { name: "launched by cudaLaunchKernel" }).click();
		await chosen("7");
		await event.getByRole("button", { name: "launched sm90_gemm_f16" }).waitFor();
		await canvas.focus();
		await page.keyboard.press("j");
		await chosen("8");
		await event.getByRole("heading", { name: "sm90_gemm_f16" }).waitFor();
		await page.keyboard.press(",");
		await chosen("4");
		await event.getByRole("heading", { name: "ncclDevKernel_AllReduce" }).waitFor();
		await page.keyboard.press(".");
		await chosen("8");
		await page.keyboard.press("Escape");
		await chosen(null);
		await event.getByText("No event is chosen.").waitFor();
		await until(async () => (await inked(page, 114, 132)) === 0, "gone: the arrow");
		await page.done();
	});

test("an event of an address that the trace has not", async () => {
	const page = await open(file(ONE, "timeline") + "&event=999999", { expect: ["422"] });

	const event = page.getByRole("region", { name: "Event" });

	await event.getByText("there is no event with a begin and an end at place 999999").waitFor();
	const again = page.waitForRequest(/event=999999/);

	await event.getByRole("button", { name: "Try again" }).click();
	await again;
	await event.getByText("there is no event with a begin and an end at place 999999").waitFor();
	await page.evaluate(() => (location.hash = location.hash.replace("999999", "8")));
	await event.getByRole("heading", { name: "sm90_gemm_f16" }).waitFor();
	await page.done();
});

test("many events: merged ones are asked for again where they are zoomed into", async () => {
	const page = await open(file("many.trace.json", "timeline") + "&events=5000");
	const asked = [];

	page.on("request", (r) => r.url().includes("/timeline/") && asked.push(r.url()));
	await page.getByText("200,500 events").waitFor();
	const box = await placeOf(page.locator(".bars canvas"));

	await page.mouse.dblclick(box.x + 400, box.y + 50);
	await page.waitForFunction(() => performance.getEntriesByType("resource").filter((e) => e.name.includes("/timeline/")).length >= 2);
	assert.ok(asked.some((a) => /from=\d/.test(a)), asked.join());
	await page.picture("traces-many");
	await page.done();
});

test("a step of the page Phases is where the timeline begins", async () => {
	const page = await open(file(ONE, "timeline") + "&step=6");
	const canvas = page.locator(".bars canvas");

	await page.getByText("243 events").waitFor();
	const box = await placeOf(canvas);

	await page.mouse.move(box.x + box.width / 2, box.y + 50);
	await page.getByText("ProfilerStep#6").waitFor();
	await page.done();
});

test("operators, utilisation, memory, ranks", async () => {
	const page = await open(file(ONE, "operators"));

	await rows(page, "operators").filter({ hasText: "aten::addmm" }).waitFor();
	await rows(page, "kernels").filter({ hasText: "sm90_gemm_f16" }).waitFor();
	await page.getByRole("switch", { name: "with the other rank" }).click();
	await page.getByRole("table", { name: "operators" }).getByRole("columnheader", { name: "rank" }).waitFor();
	await page.getByRole("link", { name: "Utilisation" }).click();
	await page.getByRole("table", { name: "temporal" }).waitFor();
	await page.getByRole("table", { name: "idle" }).waitFor();
	await page.picture("traces-utilisation", true);
	await page.getByRole("link", { name: "Memory" }).click();
	await page.getByText("profile_memory").first().waitFor();
	await page.goto(file(ONE.replace("rank_0", "rank_1"), "memory"));
	await rows(page, "devices").filter({ hasText: "3.00 MiB" }).waitFor();
	await rows(page, "owners").first().waitFor();
	await page.getByRole("link", { name: "Ranks" }).click();
	await page.getByRole("table", { name: "ranks" }).waitFor();
	await same(() => rows(page, "ranks").count(), 2);
	await page.done();
});

/** What a chart shows: rows of its CSV, [line, unit, ms, value, …]. */
async function csv(page, chart, heading) {
	const [download] = await Promise.all([
		page.waitForEvent("download"),
		page.getByRole("button", { name: `Menu of ${heading}` }).click().then(() => page.getByRole("menuitem", { name: "Save what is shown as CSV" }).click()),
	]);

	assert.equal(download.suggestedFilename(), chart + ".csv");
	return readFileSync(await download.path(), "utf8").trim().split("\n").slice(1).map((row) => row.split(","));
}

const plot = (page, chart) => page.locator(`[data-chart=${chart}] .plot`);
const words = async (page, chart, until) => {
	const p = plot(page, chart);

	await page.waitForFunction(([c, t]) => document.querySelector(`[data-chart=${c}] .plot`)?.getAttribute("aria-label").includes(t), [chart, until]);
	await p.locator("canvas").waitFor();
	return p.getAttribute("aria-label");
};

test("curves over time: how busy, queues, memory", async () => {
	const page = await open(file(ONE.replace("rank_0", "rank_1"), "utilisation"));

	await like(() => words(page, "busy", "GPU 0"), /^Share of the time in kernels\. GPU 0: last 0 %, from 0 % to 100 %\.$/);
	// One kernel at a time waits, until the one before has run.
	await like(() => words(page, "queue", "stream 7"), /stream 7: last 0, from 0 to 1\.$/);
	const points = await csv(page, "Share_of_the_time_in_kernels", "Share of the time in kernels");

	assert.equal(points.length, 300);
	// 60 kernels of 0.21 ms, none at the same time, in 29.99 ms.
	const sum = points.reduce((n, row) => n + Number(row[3]), 0);

	assert.ok(Math.abs((sum * 29.99) / 300 - 60 * 0.21) < 0.001, String(sum));
	await page.picture("traces-busy", true);
	// Zoomed to the first kernel and what is around it: the bins are made anew.
	await drag(plot(page, "busy").locator(".u-over"), 0.001, 0.06);
	let zoomed;

	await until(async () => {
		zoomed = await csv(page, "Share_of_the_time_in_kernels", "Share of the time in kernels");
		return zoomed.length === 300 && Number(zoomed[299][2]) < 3;
	}, "of the first 3 ms: 300 bins");
	assert.ok(zoomed.every((row) => row[3] >= 0 && row[3] <= 1) && zoomed.some((row) => row[3] === "1"));
	await page.goto(file(ONE.replace("rank_0", "rank_1"), "memory"));
	await like(() => words(page, "memory", "GPU0"), /GPU0 allocated: last 0 B, from 0 B to 3\.00 MiB; GPU0 reserved: last 4\.00 MiB, from 4\.00 MiB to 4\.00 MiB\.$/);
	await page.picture("traces-memory", true);
	await page.goto(file(ONE, "memory"));
	await plot(page, "memory").getByText("profile_memory=True").waitFor();
	await page.done();
});

test("curves of more events than the timeline parts: the command's own", async () => {
	const page = await open(file("many.trace.json", "utilisation") + "&events=5000");

	// 100 kernels of 0.042 ms in each 10 ms.
	await like(() => words(page, "busy", "GPU 0"), /GPU 0: last 0 %, from 0 % to 42\.0 %\.$/);
	await page.done();
});

test("flame graph", async () => {
	const page = await open(file(ONE, "flame"), { dark: true });

	await page.locator(".bars canvas").waitFor();
	await page.waitForFunction(() => document.querySelector(".bars canvas").width > 300);
	await until(async () => (await colours(page)) >= 3, "of three colours");
	const box = await placeOf(page.locator(".bars canvas"));

	await page.mouse.move(box.x + 50, box.y + 22 + 8);
	await page.getByText("of all").waitFor();
	await page.picture("traces-flame-dark");
	await page.getByRole("switch", { name: "device time" }).click();
	await page.waitForFunction(() => location.hash.includes("device=1"));
	await page.done();
});

test("speedscope shows the same profile", async () => {
	const page = await open(file(ONE, "speedscope"), { expect: ["GPU stall", "GL Driver", "WebGL", "GroupMarkerNotSet"] });
	const frame = page.frameLocator("iframe.speedscope");

	await frame.getByText("Left Heavy").first().waitFor();
	await page.waitForTimeout(300);
	await page.picture("traces-speedscope");
	await page.done();
});

test("what cannot be shown says so; nothing at all; narrow", async () => {
	for (const [name, text] of [["bad.trace.json", "is no trace"], ["weights.bin", "download it"], ["none.json", "no such file"]]) {
		const page = await open(file(name), { expect: ["422"] });

		await page.getByText(text).first().waitFor();
		await page.done();
	}
	const none = await open(empty);

	await none.getByText("No traces, profiles or other files").waitFor();
	await none.done();
	const phone = await open(file(ONE), { width: 390, height: 800 });

	await phone.getByRole("table", { name: "steps" }).waitFor();
	await fitsWidth(phone);
	await phone.picture("traces-phone");
	await phone.done();
});
