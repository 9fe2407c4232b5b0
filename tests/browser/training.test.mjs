// SPDX-License-Identifier: Apache-2.0
//
// Metrics as charts: zoom and cursor over all of them, axes, smoothing, scales, ranks, what
// the address holds, what can be saved, thousands of series.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { before, drag, fitsWidth, idsOf, lapse, later, like, liveRun, open, runsOf, same, serve, test, until, useBrowser } from "./harness.mjs";

let url, ids;

useBrowser();
before(async () => {
	url = await serve(runsOf("kinds"));
	ids = idsOf(runsOf("kinds"));
});

const at = (name, more = "") => `${url}/#/run/${ids[name]}/training${more}`;
const label = (page, chart) => page.locator(`[data-chart="${chart}"] .plot`).getAttribute("aria-label");
const query = async (page) => new URLSearchParams((await page.evaluate(() => location.hash)).split("?")[1] ?? "");

test("charts of what the program recorded, losses first", async () => {
	const page = await open(at("finished"));

	await page.charts(4);
	const names = await page.locator(".chart").evaluateAll((all) => all.map((c) => c.dataset.chart));

	assert.deepEqual(names.slice(0, 2), ["loss", "val/loss"]);
	assert.ok(!names.includes("cpu/busy"));
	await page.picture("training");
	await page.done();
});

test("dragging zooms all charts, the address holds it, double click shows all", async () => {
	const page = await open(at("finished", "?m=loss&m=grad_norm"));

	await page.charts(2);
	const before = await label(page, "grad_norm"), whole = await label(page, "loss");

	await drag(page.locator('[data-chart="loss"] .u-over'), 0.5, 0.75);
	await page.waitForFunction(() => location.hash.includes("zoom="));
	const [from, to] = (await query(page)).get("zoom").split(",").map(Number);

	assert.ok(from > 900 && from < 1100 && to > 1400 && to < 1600, `zoomed to ${from} … ${to}`);
	await page.waitForFunction((old) => document.querySelector('[data-chart="grad_norm"] .plot').getAttribute("aria-label") !== old, before);
	await page.waitForFunction((old) => document.querySelector('[data-chart="loss"] .plot').getAttribute("aria-label") !== old, whole);
	await page.charts(2);
	const zoomed = await label(page, "loss");

	await page.picture("training-zoom");
	await page.reload();
	await page.charts(2);
	await same(() => label(page, "loss"), zoomed, "the address reproduces the view");
	await page.locator('[data-chart="grad_norm"] .u-over').dblclick({ position: { x: 100, y: 60 } });
	await page.waitForFunction(() => !location.hash.includes("zoom="));
	await page.waitForFunction((old) => document.querySelector('[data-chart="grad_norm"] .plot').getAttribute("aria-label") === old, before);
	await page.done();
});

test("a spike is never averaged away, however wide the range", async () => {
	const page = await open(at("finished", "?m=loss&ranks=all"));

	await page.charts(1);
	// The fault makes the loss ten times what it is, for a few of 2,000 steps.
	await until(async () => (await label(page, "loss")).match(/to [\d.]+/g).some((t) => Number(t.slice(3)) > 15), "above 15: the highest loss");
	await page.done();
});

test("the cursor shows values on the chart under it and moves on the others", async () => {
	const page = await open(at("finished", "?m=loss&m=grad_norm"));

	await page.charts(2);
	await page.locator('[data-chart="loss"] .u-over').hover({ position: { x: 200, y: 80 } });
	await page.locator('[data-chart="loss"] .tip').waitFor();
	await like(() => page.locator('[data-chart="loss"] .tip').innerText(), /step [\d,]+\s+loss\s+[\d.]+/);
	await same(() => page.locator(".tip").count(), 1);
	await page.waitForFunction(() => /translate\([1-9]/.test(document.querySelector('[data-chart="grad_norm"] .u-cursor-x').style.transform));
	await page.picture("training-cursor");
	await page.done();
});

test("axis, smoothing, scale, outliers, ranks: in the address and drawn", async () => {
	const page = await open(at("finished", "?m=loss"));

	await page.charts(1);
	await page.getByRole("radio", { name: "Relative" }).click();
	await page.getByRole("slider", { name: "Smoothing" }).fill("0.9");
	await page.getByRole("switch", { name: "Log" }).click();
	await page.getByRole("radio", { name: "Each rank" }).click();
	await page.charts(1);
	await same(async () => {
		const q = await query(page);

		return ["axis", "smooth", "log", "ranks"].map((name) => q.get(name));
	}, ["relative", "0.9", "*", "all"]);
	await page.locator('[data-chart="loss"] .key').nth(3).waitFor();
	await like(() => page.locator('[data-chart="loss"] .legend').innerText(), /rank 0.*rank 3/s);
	await page.picture("training-options");
	await page.locator('[data-chart="loss"] .key').nth(1).click();
	await same(() => page.locator('[data-chart="loss"] .key').nth(1).getAttribute("aria-pressed"), "false");
	await page.getByRole("radio", { name: "Step" }).click();
	await page.getByRole("switch", { name: "Outliers out" }).click();
	await page.charts(1);
	await page.locator('[data-chart="loss"]').getByText("clipped").waitFor();
	await page.done();
});

test("a chart by keyboard alone", async () => {
	const page = await open(at("finished", "?m=loss"));

	await page.charts(1);
	await page.locator('[data-chart="loss"] .plot').focus();
	await page.keyboard.press("ArrowRight");
	await page.locator('[data-chart="loss"] .tip').waitFor();
	await page.keyboard.press("+");
	await page.waitForFunction(() => location.hash.includes("zoom="));
	await page.keyboard.press("0");
	await page.waitForFunction(() => !location.hash.includes("zoom="));
	await page.keyboard.press("l");
	await page.waitForFunction(() => location.hash.includes("log=loss"));
	await page.done();
});

test("PNG and CSV of a chart are saved", async () => {
	const page = await open(at("finished", "?m=loss"));
	const save = async (entry) => {
		await page.getByRole("button", { name: "Menu of loss" }).click();
		const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name: entry }).click()]);

		return [file.suggestedFilename(), readFileSync(await file.path())];
	};

	await page.charts(1);
	const [png, picture] = await save("Save as PNG");

	assert.equal(png, "loss.png");
	assert.deepEqual([...picture.subarray(0, 4)], [0x89, 0x50, 0x4e, 0x47]);
	const [csv, rows] = await save("Save what is shown as CSV");

	assert.equal(csv, "loss.csv");
	assert.match(rows.toString(), /^series,unit,step,value,min,max,nan\nloss,nat,/);
	assert.ok(rows.toString().split("\n").length > 100);
	await page.done();
});

test("1,000 series: found by typing, drawn a dozen at a time", async () => {
	const page = await open(at("wide"));

	await page.charts(3);
	assert.ok((await page.locator(".chart").count()) <= 12);
	await page.getByRole("button", { name: "All metrics" }).click();
	await page.getByRole("combobox", { name: "Metrics" }).fill("gauge 321");
	await page.getByRole("option", { name: /gauge\/\d*321/ }).click();
	await page.keyboard.press("Escape");
	await page.waitForFunction(() => document.querySelectorAll(".chart").length === 1);
	await page.charts(1);
	await page.picture("training-wide");
	await page.goto(at("wide", "?q=gauge"));
	await page.getByText(/^Show 12 more of/).click();
	await page.waitForFunction(() => document.querySelectorAll(".chart").length === 24);
	await page.done();
});

test("NaN only, a resumed run, an empty one", async () => {
	const page = await open(at("nan-only", "?m=loss"));

	await page.charts(1);
	await like(() => label(page, "loss"), /only NaN/);
	await page.picture("training-nan");
	await page.goto(at("resumed", "?m=loss&attempts=1"));
	await page.charts(1);
	await page.goto(at("empty"));
	await page.getByText(/Nothing was recorded yet|recorded none/).waitFor();
	await page.done();
});

test("160 ranks: the band is of all", async () => {
	const folder = mkdtempSync(path.join(tmpdir(), "lapse-browser-"));

	later(() => rmSync(folder, { recursive: true, force: true }));
	lapse(folder, "simulate", "--quiet", "--ranks", "160", "-n", "5", "--cpus", "1", "--gpus", "0");
	const page = await open(`${await serve(folder)}/#/runs`);
	const answer = page.waitForResponse(/\/query\?series=loss&/);

	await page.goto(`${page.url().split("#")[0]}#/run/last/training?m=loss`);
	assert.equal((await answer).status(), 200);
	await page.locator("[data-chart=loss] .flag", { hasText: "160 ranks" }).waitFor();
	await page.locator("[data-chart=loss] canvas").waitFor();
	await page.done();
});

test("points that come are drawn", async () => {
	const live = await liveRun("live", "50");
	const page = await open(`${await serve(live.runs)}/#/run/last/training?m=loss`);

	await page.locator('[data-chart="loss"] canvas').waitFor();
	const old = await label(page, "loss");

	await page.waitForFunction((o) => document.querySelector('[data-chart="loss"] .plot').getAttribute("aria-label") !== o, old);
	await page.picture("training-live");
	await page.done();
});

test("dark, and on a phone", async () => {
	const page = await open(at("finished", "?smooth=0.6"), { dark: true, width: 360, height: 740, touch: true });

	await page.locator('[data-chart="loss"] canvas').waitFor();
	await fitsWidth(page);
	await page.picture("training-phone-dark");
	await page.done();
});
