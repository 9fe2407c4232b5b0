// SPDX-License-Identifier: Apache-2.0
//
// The page System: CPUs, memory, pressure, disks, network, GPUs, processes; of one large
// machine, of a live run, of none.
import assert from "node:assert/strict";
import { before, drag, fitsWidth, idsOf, like, liveRun, open, placeOf, runsOf, same, serve, test, until, useBrowser } from "./harness.mjs";

let large, largeIds, kinds, ids;

useBrowser();
before(async () => {
	large = await serve(runsOf("large"));
	largeIds = idsOf(runsOf("large"));
	kinds = await serve(runsOf("kinds"));
	ids = idsOf(runsOf("kinds"));
});

/** Scroll through the page, so that all that waits to be seen is there. */
async function walk(page) {
	await page.evaluate(async () => {
		const frame = () => new Promise((r) => requestAnimationFrame(r));

		for (let y = 0; y < document.documentElement.scrollHeight; y += 500) {
			scrollTo(0, y);
			// What has come into sight is told with a frame, and asks for its data then.
			for (let i = 0; i < 3; i++) await frame();
		}
	});
	await page.waitForFunction(() => !document.querySelector(".spinner"));
	await page.evaluate(() => scrollTo(0, 0));
}

const heat = (page, name) => page.locator(`[data-chart="${name}"] canvas`);

/** Colours of a canvas at shares of its size. */
const colours = (canvas, places) => canvas.evaluate((c, at) => at.map(([x, y]) => [...c.getContext("2d").getImageData(Math.floor(x * c.width), Math.floor(y * c.height), 1, 1).data]), places);

test("64 CPUs and 8 GPUs: all are there, nothing jumps", async () => {
	const page = await open(`${large}/#/run/${largeIds.large}/system`, { width: 1440, height: 900, expect: ["willReadFrequently"] });

	await heat(page, "Busy, by GPU").waitFor();
	await walk(page);
	const gpus = page.getByRole("table", { name: /^GPUs of node0/ });

	await same(() => gpus.locator(".tbody [role=row]").count(), 8);
	await like(() => gpus.locator(".tbody [role=row]").first().innerText(), /GiB\s+\/ 80.0 GiB/);
	for (const title of ["GPU busy", "GPU memory", "Power", "Temperature", "All CPUs", "Machine", "Run", "Some task waits", "Read and written", "Received and sent"])
		await page.locator(`[data-chart="${title}"] canvas`).waitFor({ state: "attached" });
	await page.locator('[data-chart="Machine"]').filter({ hasText: /cgroup limit\s*96.0 GiB/ }).waitFor();
	await page.getByRole("table", { name: /^Processes/ }).locator(".tbody [role=row]").nth(10).waitFor();
	await same(() => page.getByRole("table", { name: /^Processes/ }).locator(".tbody [role=row]").count(), 11);
	// A row of the heat map for each CPU, each with a colour.
	const box = await placeOf(heat(page, "Busy, by CPU"));

	assert.equal(Math.round(box.height), 64 * 5);
	for (const [, , , alpha] of await colours(heat(page, "Busy, by CPU"), [[0.5, 0.01], [0.5, 0.5], [0.5, 0.99], [0.02, 0.3]])) assert.equal(alpha, 255);
	// Few rows stay where they are not seen, for the browser's search and the picture.
	await page.evaluate(async () => {
		scrollTo(0, document.documentElement.scrollHeight);
		for (let i = 0; i < 5; i++) await new Promise((r) => requestAnimationFrame(r));
	});
	assert.equal(await gpus.locator(".tbody [role=row]").count(), 8);
	await page.picture("system", true);
	assert.ok((await page.evaluate(() => window.shift)) < 0.05);
	await page.done();
});

test("the heat map tells values by pointer and by keys, and moves the charts' cursor", async () => {
	const page = await open(`${large}/#/run/${largeIds.large}/system`, { width: 1440, height: 900 });
	const cpus = heat(page, "Busy, by CPU");

	await walk(page);
	await cpus.scrollIntoViewIfNeeded();
	const box = await placeOf(cpus);

	await page.mouse.move(box.x + box.width / 2, box.y + 2.5 * 5);
	const said = page.locator('[data-chart="Busy, by CPU"] output');

	await said.filter({ hasText: /^CPU 2 · .* · \d/ }).waitFor();
	const cursor = page.locator('[data-chart="All CPUs"] .u-cursor-x');

	await until(() => cursor.evaluate((e) => !e.classList.contains("u-off") && /translate\((\d+)/.exec(e.style.transform)?.[1] > 20), "so: the cursor of the charts goes along");
	await cpus.focus();
	await page.keyboard.press("ArrowDown");
	await said.filter({ hasText: /^CPU 3 ·/ }).waitFor();
	await page.picture("system-hover");
	// A chart's cursor shows in the heat map.
	const chart = await placeOf(page.locator('[data-chart="All CPUs"] .u-over'));

	await cpus.evaluate((e) => e.blur());
	await page.mouse.move(chart.x + chart.width / 3, chart.y + 40);
	await said.filter({ hasText: /^mean · / }).waitFor();
	await page.done();
});

test("dragging zooms everything, double click shows all, the address holds it", async () => {
	const page = await open(`${large}/#/run/${largeIds.large}/system`, { width: 1440, height: 900 });
	const gpus = heat(page, "Busy, by GPU");

	await gpus.waitFor();
	await page.waitForFunction(() => document.querySelector('[data-chart="Temperature"] canvas'));
	await drag(gpus, 0.25, 0.5);
	await page.waitForFunction(() => /zoom=\d{13}/.test(location.hash));
	await page.waitForFunction(() => !document.querySelector(".spinner"));
	const [from, to] = decodeURIComponent(/zoom=([^&]*)/.exec(await page.evaluate(() => location.hash))[1]).split(",").map(Number);
	const start = Date.parse("2026-11-01T10:00:00Z");

	// 3,000 steps at 10 a second, and what comes between them.
	assert.ok(from > start + 60_000 && to < start + 240_000, `${from - start} ${to - start}`);
	await page.reload();
	await gpus.waitFor();
	await page.getByRole("button", { name: "Show all" }).waitFor();
	await gpus.dblclick();
	await page.waitForFunction(() => !location.hash.includes("zoom="));
	await page.done();
});

test("of two hosts one is shown at a time", async () => {
	const page = await open(`${kinds}/#/run/${ids.finished}/system`);
	const choice = page.getByLabel("Host");

	await choice.waitFor();
	await same(() => choice.locator("option").allInnerTexts(), ["node0", "node1"]);
	await choice.selectOption("node1");
	await page.getByRole("table", { name: /^GPUs of node1/ }).waitFor();
	await like(() => page.evaluate(() => location.href), /host=node1/);
	await page.done();
});

test("what is not there says why", async () => {
	const page = await open(`${kinds}/#/run/${ids.crashed}/system`);

	await page.getByText("No figures of GPUs in this run").waitFor();
	await page.picture("system-without-gpu");
	await page.done();
});

test("live: the newest reading comes by itself", async () => {
	const run = await liveRun("live", "100");
	const page = await open(`${await serve(run.runs)}/#/run/last/system`);

	await page.locator('[data-chart="All CPUs"] canvas').waitFor();
	await page.getByRole("table", { name: /^Processes/ }).getByText("command").first().waitFor();
	const last = () => page.locator('[data-chart="Load"] .legend').innerText();
	const points = () => page.locator('[data-chart="All CPUs"] .plot').getAttribute("aria-label");
	const before = await points();

	await page.waitForFunction((b) => document.querySelector('[data-chart="All CPUs"] .plot').getAttribute("aria-label") !== b, before);
	await like(() => last(), /1 min/);
	await walk(page);
	await page.picture("system-live", true);
	await page.done();
});

test("in the dark, and on a phone", async () => {
	const dark = await open(`${large}/#/run/${largeIds.large}/system`, { dark: true, width: 1100 });

	await heat(dark, "Busy, by GPU").waitFor();
	await walk(dark);
	await dark.picture("system-dark", true);
	const [idle] = await colours(heat(dark, "Busy, by GPU"), [[0.5, 0.5]]);

	assert.ok(idle[0] + idle[1] + idle[2] > 380, "busy is bright in the dark");
	await dark.done();
	const phone = await open(`${large}/#/run/${largeIds.large}/system`, { width: 360, height: 740, touch: true });

	await heat(phone, "Busy, by GPU").waitFor();
	await walk(phone);
	await phone.picture("system-phone", true);
	await fitsWidth(phone);
	await phone.done();
});
