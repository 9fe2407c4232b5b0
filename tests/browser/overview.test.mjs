// SPDX-License-Identifier: Apache-2.0
//
// The overview of a run: finished, live, with nothing, with NaN only.
import assert from "node:assert/strict";
import { before, fitsWidth, hold, idsOf, like, liveRun, open, runsOf, same, serve, test, until, useBrowser } from "./harness.mjs";

let url, ids;

useBrowser();
before(async () => {
	url = await serve(runsOf("kinds"));
	ids = idsOf(runsOf("kinds"));
});

const at = (name, more = "") => `${url}/#/run/${ids[name]}/overview${more}`;
const figure = (page, label) => page.locator(".figure", { hasText: label }).first();

test("a finished run: figures, where the time goes, charts; nothing jumps", async () => {
	const page = await open(at("finished"));

	await page.charts(2);
	await page.locator(".shares-bar").waitFor();
	await like(() => figure(page, "Progress").innerText(), /2,000\s+of 2,000/);
	await like(() => figure(page, "Took").innerText(), /3 min 31 s/);
	await like(() => figure(page, "Recorded").innerText(), /none lost/);
	const shares = await page.locator(".shares-legend b").allInnerTexts();

	assert.equal(Math.round(shares.reduce((sum, t) => sum + Number.parseFloat(t) * 10, 0)), 1000, `parts of a step add up: ${shares}`);
	await like(() => page.locator("[data-chart=loss] .flag.bad").innerText(), /NaN/);
	// One axis for the steps or the time; percent on the left, bytes on the right.
	await same(() => page.locator("[data-chart=cpu-gpu]").getAttribute("aria-label"), "CPU (left) and GPU memory (right)");
	await same(() => page.locator("[data-chart=cpu-gpu] .u-axis").count(), 3);
	await same(() => page.locator("[data-chart=loss] .u-axis").count(), 2);
	await like(() => page.locator("[data-chart=cpu-gpu] .plot").getAttribute("aria-label"), /cpu\/busy: last .* %.*GiB/s);
	assert.ok((await page.evaluate(() => window.shift)) < 0.1, `layout shift of ${await page.evaluate(() => window.shift)}`);
	await page.picture("overview", true);
	await page.done();
});

test("times are in the viewer's zone, UTC in the title", async () => {
	const page = await open(at("finished"));
	const time = page.locator(".run-when time");

	await time.waitFor();
	// New York, which changed its clocks on 1 November 2026 at 06:00 UTC.
	await same(() => time.innerText(), "2026-11-01 05:00:00");
	await like(() => time.getAttribute("title"), /2026-11-01T10:00:00\.000Z/);
	await page.done();
});

test("a live run: it moves, and its end is seen", async () => {
	const live = await liveRun("live", "50");
	const page = await open(`${await serve(live.runs)}/#/run/last/overview`);
	const step = async () => Number((await figure(page, "Progress").locator(".figure-value").innerText()).split(" ")[0].replaceAll(",", ""));

	await page.getByText("running", { exact: true }).waitFor();
	await page.locator("[data-chart=loss] canvas").waitFor();
	await page.waitForFunction(() => /\d/.test(document.querySelector(".figure-value")?.textContent ?? ""));
	const first = await step();
	const label = await page.locator("[data-chart=loss] .plot").getAttribute("aria-label");

	await page.waitForFunction((n) => Number(document.querySelector(".figure-value").textContent.split(" ")[0].replaceAll(",", "")) > n + 20, first);
	await page.waitForFunction((old) => document.querySelector("[data-chart=loss] .plot").getAttribute("aria-label") !== old, label);
	await page.picture("overview-live");
	await live.stop();
	await page.waitForFunction(() => !/running/.test(document.querySelector(".run-head").textContent));
	await page.done();
});

test("a run that hangs: since when, and no time left is made up", async () => {
	const live = await liveRun("stall", "50");
	const page = await open(`${await serve(live.runs)}/#/run/last/overview`);

	await figure(page, "Left").getByText(/^last step \d.* s ago$/).waitFor();
	await same(() => figure(page, "Left").locator(".figure-value").innerText(), "–");
	await page.done();
	await live.stop();
});

test("slower than a step a second; and why the machine is not shown", async () => {
	const page = await open(`${url}/#/runs`, { expect: ["400"] });

	await page.route(new RegExp(`/runs/${ids.finished}$`), async (route) => {
		const answer = await route.fetch();
		const run = await answer.json();

		await route.fulfill({ response: answer, json: { ...run, progress: { ...run.progress, steps_s: 0.004 } } });
	});
	await page.route(/\/query\?series=gpu/, (route) => route.fulfill({ status: 400, json: { error: { code: "too-many-series", message: "288 series" } } }));
	await page.goto(at("finished"));
	await figure(page, "CPU").getByText("288 series").waitFor();
	await same(() => figure(page, "Steps").locator(".figure-value").innerText(), "0.004/s");
	await page.unrouteAll({ behavior: "wait" });
	await page.done();
});

test("the machine's figures are the last readings", async () => {
	const page = await open(at("resumed"));
	const stats = await (await fetch(`${url}/api/v1/runs/${ids.resumed}/stats?series=tree/rss&series=gpu/busy`)).json();
	const shown = async (label) => Number.parseFloat(await figure(page, label).locator(".figure-value").innerText());
	const last = (name) => stats.series.find((s) => s.name === name).last;

	await figure(page, "GPU").getByText("°C").waitFor();
	// The mean of the last twentieth of this run is 90 %.
	assert.ok(Math.abs(last("gpu/busy") - 0.9) > 0.005);
	assert.ok(Math.abs((await shown("GPU")) - 100 * last("gpu/busy")) < 0.06);
	assert.ok(Math.abs((await shown("Memory")) - last("tree/rss") / 2 ** 30) < 0.06);
	await page.done();
});

test("an empty run says what is missing", async () => {
	const page = await open(at("empty"));

	await page.getByText("No loss was recorded").waitFor();
	await page.charts(2);
	await page.picture("overview-empty");
	await page.done();
});

test("NaN only, and a run that was killed for memory", async () => {
	const page = await open(at("nan-only"));

	await page.charts(2);
	await like(() => page.locator("[data-chart=loss] .plot").getAttribute("aria-label"), /loss: only NaN/);
	await same(() => figure(page, "loss").locator(".figure-value").innerText(), "NaN");
	await page.picture("overview-nan");
	await page.goto(at("crashed"));
	await page.locator(".run-head").getByText("out of memory").waitFor();
	await page.done();
});

const PROGRAM = /\/assets\/app-[^/]*\.js$/;

test("the program cannot be had: a sentence, and no picture over it", async () => {
	const page = await open(`${url}/#/runs`, { expect: ["ERR_FAILED", "dynamically imported"] });

	await page.route(PROGRAM, (route) => route.abort());
	await page.goto(at("finished"));
	await page.reload();
	await page.locator("#app").getByText("The page could not be loaded: lapse has been stopped or updated.").waitFor();
	assert.equal(await page.locator(".first").count(), 0);
	await page.unroute(PROGRAM);
	await page.getByRole("button", { name: "Reload" }).click();
	await page.charts(1);
	await page.done();
});

test("the first picture is there before the program, and only over the page that was asked for", async () => {
	const page = await open(`${url}/#/runs`);
	const again = async (hash) => {
		await page.evaluate((to) => history.replaceState(null, "", to), hash);
		await page.reload({ waitUntil: "commit" });
	};
	const overview = `#/run/${ids.finished}/overview`;
	let start = await hold(page, PROGRAM);

	await again(overview);
	await page.locator(".first canvas[data-drawn]").waitFor();
	start();
	await page.locator("main#main [data-chart=loss] canvas").waitFor();
	await page.waitForFunction(() => !document.querySelector(".first"));
	await page.unroute(PROGRAM);
	start = await hold(page, PROGRAM);
	const answer = await hold(page, new RegExp(`/api/v1/runs/${ids.finished}(/query.*)?$`));
	const came = page.waitForResponse(/\/query\?series=loss&/);

	await again(overview);
	await page.waitForFunction(() => window.lapseFirst && document.readyState !== "loading");
	await page.evaluate(() => (location.hash = "#/compare"));
	answer();
	await (await came).finished();
	await page.waitForTimeout(200);
	assert.equal(await page.locator(".first").count(), 0, "the picture of a run over another page");
	start();
	await page.locator("main#main").waitFor();
	await page.done();
});

test("dark, and on a phone", async () => {
	const dark = await open(at("finished"), { dark: true });

	await dark.charts(2);
	await dark.locator(".shares-bar").waitFor();
	await dark.picture("overview-dark");
	await dark.getByRole("button", { name: "Light colours" }).click();
	await same(() => dark.evaluate(() => document.documentElement.dataset.theme), "light");
	await dark.reload();
	await same(() => dark.evaluate(() => document.documentElement.dataset.theme), "light", "the choice is kept");
	await dark.done();
	const phone = await open(at("finished"), { width: 360, height: 740, touch: true });

	// What is far below is not asked for, nor where it is before all above it has come.
	await until(async () => {
		await phone.locator("[data-chart=loss]").scrollIntoViewIfNeeded();
		return phone.locator("[data-chart=loss] canvas").isVisible();
	}, "drawn: loss");
	await fitsWidth(phone);
	await phone.picture("overview-phone", true);
	await phone.done();
});
