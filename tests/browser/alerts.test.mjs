// SPDX-License-Identifier: Apache-2.0
//
// The page Alerts: what fires, what it saw, acknowledging and silencing it, which checks look.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { before, fitsWidth, hold, idsOf, lapse, later, like, liveSimulation, open, runsOf, same, serve, test, until, useBrowser } from "./harness.mjs";

let kinds, ids, firing;

useBrowser();
before(async () => {
	// What is acknowledged is written: a folder of this file's own, with a run that seems to go on.
	const folder = mkdtempSync(path.join(tmpdir(), "lapse-browser-"));

	later(() => rmSync(folder, { recursive: true, force: true }));
	lapse(folder, "simulate", "--quiet", "--name", "firing", "-n", "1500", "--gpus", "2", "--fault", "hot-gpu@50%+50%", "--fault", "nan@90%", "--outcome", "running");
	firing = `${await serve(folder)}/#/run/last/alerts`;
	kinds = await serve(runsOf("kinds"));
	ids = idsOf(runsOf("kinds"));
});

const alert = (page, name) => page.getByRole("article", { name });
const badge = (page) => page.getByRole("navigation", { name: "Pages of this run" }).locator(".count");

test("what fires now, and what the rule saw", async () => {
	const page = await open(firing, { width: 1440, height: 900 });
	const hot = alert(page, /^GPU is hot/);

	await hot.waitFor();
	await like(() => hot.innerText(), /92 °C, not below 90 °C/);
	await hot.locator("canvas").waitFor();
	await page.charts();
	await like(() => hot.locator(".legend").innerText(), /limit\s*90 °C/);
	// Errors come first.
	await like(() => page.getByRole("article").first().getAttribute("aria-label"), /Loss is not finite, error/);
	await badge(page).filter({ hasText: /^3$/ }).waitFor();
	await page.picture("alerts", true);
	assert.ok((await page.evaluate(() => window.shift)) < 0.1);
	// What it saw, on Training: that metric alone.
	await hot.getByRole("link", { name: "open" }).click();
	await page.locator('[data-chart="gpu/temperature"] canvas').waitFor();
	await same(() => page.locator("[data-chart]").evaluateAll((all) => all.map((c) => c.dataset.chart)), ["gpu/temperature"]);
	await page.done();
});

test("acknowledged with a note: kept, counted, seen by others", async () => {
	const page = await open(firing);
	const hot = alert(page, /^GPU is hot/);

	await hot.getByRole("button", { name: "Acknowledge" }).click();
	await page.keyboard.type("<b>the fan</b> is ordered");
	await page.keyboard.press("Enter");
	await hot.getByText("<b>the fan</b> is ordered").waitFor();
	await badge(page).filter({ hasText: "2" }).waitFor();
	const other = await open(firing);

	await alert(other, /^GPU is hot/).getByText("<b>the fan</b> is ordered").waitFor();
	assert.equal(await alert(other, /^GPU is hot/).getByRole("button", { name: "Acknowledge" }).count(), 0);
	// It goes behind those that wait.
	await like(() => other.getByRole("article").last().getAttribute("aria-label"), /GPU is hot/);
	await other.done();
	await page.picture("alerts-acknowledged");
	await page.done();
});

test("what is begun on the page of the last run is not lost when its id comes", async () => {
	const page = await open(firing.replace(/#.*/, "#/compare"));
	const answer = await hold(page, /\/runs\/last$/);
	const asked = page.waitForRequest(/\/runs\/last$/);

	await page.goto(firing);
	await asked;
	await page.waitForTimeout(300);
	assert.equal(await page.getByRole("article").count(), 0);
	answer();
	await alert(page, /^GPU is hot/).getByRole("button", { name: "Silence" }).click();
	await page.getByRole("menuitem", { name: "this series for 8 hours" }).waitFor();
	await page.done();
});

test("silenced, and not any more", async () => {
	const page = await open(firing);
	const loss = alert(page, /^Loss is not finite/).first();

	await loss.getByRole("button", { name: "Silence" }).click();
	await page.getByRole("menuitem", { name: "this series for 8 hours" }).click();
	await page.getByText(/silent until/).first().waitFor();
	await page.picture("alerts-silenced");
	await page.getByRole("button", { name: "End the silence" }).first().click();
	await page.waitForFunction(() => !document.body.innerText.includes("silent until"));
	await page.getByRole("button", { name: /^Acknowledge all/ }).click();
	await badge(page).waitFor({ state: "detached" });
	await page.done();
});

test("the checks: what they look at, and silencing one", async () => {
	const page = await open(`${firing}?show=checks`);
	const checks = page.getByRole("list", { name: "Checks" }).getByRole("listitem");

	await checks.first().waitFor();
	await checks.nth(12).waitFor();
	await checks.filter({ hasText: "Disk is filling" }).getByRole("button").click();
	await page.getByRole("menuitem", { name: "for an hour" }).click();
	await checks.filter({ hasText: "Disk is filling" }).getByRole("button", { name: "End the silence" }).waitFor();
	await page.picture("alerts-checks", true);
	await page.done();
});

test("nothing fires: which checks look; a run that failed: its history", async () => {
	const page = await open(`${kinds}/#/run/${ids.other}/alerts`);

	await page.getByText("Nothing is wrong, as far as the checks tell").waitFor();
	await page.locator(".checks li").nth(12).waitFor();
	await page.picture("alerts-none");
	await page.goto(`${kinds}/#/run/${ids.crashed}/alerts`);
	await alert(page, /^The run failed/).waitFor();
	await page.picture("alerts-history");
	await page.done();
});

test("live: it comes by itself, in the list and beside the tab", async () => {
	// 20 s in which the page is to come.
	const folder = liveSimulation("--rate", "20", "-n", "4000", "--name", "live", "--fault", "nan@400");
	const server = await serve(folder);

	await until(() => Object.keys(idsOf(folder)).length > 0, "begun: lapse simulate");
	const page = await open(`${server}/#/run/last/alerts`);

	await page.getByText("Nothing is wrong, as far as the checks tell").waitFor();
	await alert(page, /^Loss is not finite/).first().waitFor();
	await badge(page).waitFor();
	await page.done();
});

test("in the dark, and on a phone", async () => {
	const dark = await open(firing, { dark: true });

	await dark.getByRole("article").first().waitFor();
	await dark.charts();
	await dark.picture("alerts-dark", true);
	await dark.done();
	const phone = await open(`${firing}?show=checks`, { width: 360, height: 740, touch: true });

	await phone.getByRole("list", { name: "Checks" }).waitFor();
	await fitsWidth(phone);
	await phone.picture("alerts-checks-phone", true);
	await phone.getByRole("radio", { name: /^Active/ }).click();
	await phone.getByRole("article").first().waitFor();
	await phone.charts();
	await phone.picture("alerts-phone", true);
	await fitsWidth(phone);
	await phone.done();
});
