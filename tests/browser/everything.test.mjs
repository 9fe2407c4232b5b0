// SPDX-License-Identifier: Apache-2.0
//
// Every page of every kind of run: it is shown, nothing complains, no name is more than
// text, nothing is wider than a phone.
import assert from "node:assert/strict";
import { before, fitsWidth, idsOf, liveRun, open, runsOf, serve, test, useBrowser, workers } from "./harness.mjs";

const TABS = ["overview", "training", "system", "phases", "traces", "alerts", "export"];
const HOSTILE = "<script>document.title='owned'</script>\u202edrowkcab";
let url, ids;

useBrowser();
before(async () => {
	url = await serve(runsOf("kinds"));
	ids = idsOf(runsOf("kinds"));
});

/** The page is there: its content, or words in its place; no error state. */
async function shown(page) {
	await page.locator("main .panel, main .chart, main .state, main .table, main canvas, main .toolbar").first().waitFor();
	await page.waitForFunction(() => !document.querySelector("main .skeleton"));
	await page.waitForLoadState("networkidle");
	assert.equal(await page.locator(".state.bad").count(), 0, "an error is shown");
}

for (const kind of ["finished", "empty", "nan-only", "wide", "resumed", "crashed"])
	test(`all tabs of a run: ${kind}`, async () => {
		const page = await open(`${url}/#/run/${ids[kind]}/overview`);

		for (const tab of TABS) {
			await page.goto(`${url}/#/run/${ids[kind]}/${tab}`);
			await shown(page);
		}
		await page.done();
	});

test("all tabs of a run whose names are hostile", async () => {
	const page = await open(`${url}/#/run/${ids[HOSTILE]}/overview`);

	for (const tab of TABS) {
		await page.goto(`${url}/#/run/${ids[HOSTILE]}/${tab}`);
		await shown(page);
		await page.picture(`hostile-${tab}`);
		assert.equal(await page.locator("main script, main img, main svg[onload], main b b").count(), 0, "markup of a name");
	}
	await page.goto(`${url}/#/run/${ids[HOSTILE]}/training`);
	await page.charts(2);
	for (let i = 0; i < 3; i++) await page.locator(".chart .u-over").nth(i).hover();
	await page.goto(`${url}/#/compare?run=${ids[HOSTILE]}&run=${ids.finished}`);
	await shown(page);
	await page.picture("hostile-compare");
	await page.setViewportSize({ width: 360, height: 740 });
	for (const tab of TABS) {
		await page.goto(`${url}/#/run/${ids[HOSTILE]}/${tab}`);
		await shown(page);
		await fitsWidth(page, tab);
	}
	await page.done();
});

test("addresses that nobody made", async () => {
	const page = await open(`${url}/#/run/${ids.finished}/training?zoom=abc&smooth=9&axis=%3Cb%3E&log=%00&m=nothing`, { expect: ["400", "404"] });

	await page.getByText("No metric fits").waitFor();
	for (const hash of ["#/run/../../etc/overview", "#/runs?sort=nonsense&q=%F0%9F", "#/compare?run=&run=%3Cscript%3E", "#/run//x", "#/%"]) {
		await page.goto(`${url}/${hash}`);
		await page.locator("main .state, main .table, main .panel, main .toolbar").first().waitFor();
	}
	await page.done();
});

test("all tabs of a live run, by their links", async () => {
	const live = await liveRun("live", "50");
	const page = await open(`${await serve(live.runs)}/#/run/last/overview`);

	await page.getByText("running", { exact: true }).waitFor();
	for (const title of ["Training", "System", "Phases", "Traces", "Alerts", "Export", "Overview"]) {
		await page.locator(".tabs").getByText(title, { exact: true }).click();
		await page.waitForFunction((t) => document.querySelector(".tabs [aria-current]")?.textContent.startsWith(t), title);
		await page.locator("main .panel, main .chart, main .state, main .table, main .toolbar").first().waitFor();
		await page.waitForTimeout(1200);
		assert.equal(await page.locator(".state.bad").count(), 0);
	}
	await page.done();
});

function countStreams() {
	const Source = window.EventSource;

	window.streams = 0;
	window.EventSource = class extends Source {
		constructor(...args) {
			window.streams++;
			super(...args);
		}
	};
}

test("two tabs of a browser share one stream", async () => {
	const live = await liveRun("live", "50");
	const address = `${await serve(live.runs)}/#/run/last/overview`;
	const first = await open("about:blank");

	await first.addInitScript(countStreams);
	await first.goto(address);
	await first.locator("[data-chart=loss] canvas").waitFor();
	const second = await first.context().newPage();

	await second.addInitScript(countStreams);
	await second.goto(address);
	await second.locator("[data-chart=loss] canvas").waitFor();
	const old = await second.locator("[data-chart=loss] .plot").getAttribute("aria-label");

	await second.waitForFunction((o) => document.querySelector("[data-chart=loss] .plot").getAttribute("aria-label") !== o, old);
	// The stream is the shared worker's; no page has opened one.
	for (const page of [first, second]) assert.equal(await page.evaluate(() => window.streams), 0);
	assert.equal((await workers()).filter((w) => w.url.startsWith(address.split("#")[0])).length, 1);
	await first.done();
});
