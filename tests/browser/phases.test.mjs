// SPDX-License-Identifier: Apache-2.0
//
// The page Phases: what a step is made of, how long steps take, which were slowest.
import assert from "node:assert/strict";
import { before, drag, fitsWidth, idsOf, liveRun, open, runsOf, same, serve, test, useBrowser } from "./harness.mjs";

let large, largeIds, kinds, ids;

useBrowser();
before(async () => {
	large = await serve(runsOf("large"));
	largeIds = idsOf(runsOf("large"));
	kinds = await serve(runsOf("kinds"));
	ids = idsOf(runsOf("kinds"));
});

const rows = (page, name) => page.getByRole("table", { name }).locator(".tbody [role=row]");

test("parts add to the whole; a slow rank is seen", async () => {
	const page = await open(`${large}/#/run/${largeIds.large}/phases`, { width: 1440, height: 900 });

	await page.charts();
	await rows(page, "Ranks").nth(7).waitFor();
	await rows(page, "Seconds of a step by phase").nth(6).waitFor();
	await page.locator(".shares-legend b").nth(4).waitFor();
	const shares = await page.locator(".shares-legend b").allInnerTexts();

	assert.ok(Math.abs(shares.reduce((s, t) => s + parseFloat(t), 0) - 100) < 0.05, shares.join());
	// What is "other" is next to nothing here: only the table tells it.
	await same(async () => (await page.locator(".shares-legend bdi").allInnerTexts()).sort(), ["backward", "data", "forward", "optimizer", "sync"]);
	await same(() => rows(page, "Seconds of a step by phase").count(), 7);
	await same(() => rows(page, "Ranks").count(), 8);
	// The last rank has 1.5 times the work.
	await same(() => rows(page, "Ranks").nth(7).locator(".bad").count(), 1);
	await same(() => page.getByRole("table", { name: "Ranks" }).locator(".bad").count(), 1);
	await page.getByText("Bound by a slow rank").waitFor();
	await page.picture("phases", true);
	assert.ok((await page.evaluate(() => window.shift)) < 0.05);
	await page.done();
});

test("one rank, with warm-up, a range: the address holds it", async () => {
	const page = await open(`${large}/#/run/${largeIds.large}/phases`);

	await page.charts();
	await page.getByRole("combobox", { name: /^Rank/ }).selectOption("7");
	await page.waitForFunction(() => location.hash.includes("rank=7") && document.querySelectorAll('[aria-label="Ranks"]').length === 0);
	await page.getByText("steps 10 to 2,999").waitFor();
	await page.getByRole("switch", { name: "with warm-up" }).click();
	await page.getByText("steps 0 to 2,999").waitFor();
	await page.charts();
	await drag(page.locator('[data-chart="composition"] .u-over'), 0.5, 0.75);
	await page.getByText(/steps 1,\d\d\d to 2,2\d\d/).waitFor();
	await page.reload();
	await page.getByText(/steps 1,\d\d\d to 2,2\d\d/).waitFor();
	await same(() => page.getByRole("combobox", { name: /^Rank/ }).inputValue(), "7");
	await page.getByRole("button", { name: "Show all steps" }).click();
	await page.getByText("steps 0 to 2,999").waitFor();
	await page.done();
});

test("the slowest steps lead to Training; a step is there once", async () => {
	const page = await open(`${large}/#/run/${largeIds.large}/phases?warmup=1`);

	await page.charts();
	await rows(page, "Slowest steps").locator("a").nth(1).waitFor();
	const steps = await rows(page, "Slowest steps").locator("a").allInnerTexts();

	assert.equal(new Set(steps).size, steps.length);
	assert.equal(await page.getByRole("table", { name: "Slowest steps" }).getAttribute("aria-rowcount"), "21");
	// The first step of a run is the slowest: it is longer by five periods.
	assert.equal(steps[0], "0");
	await rows(page, "Slowest steps").locator("a").nth(1).click();
	await page.waitForFunction(() => /training\?.*zoom=/.test(location.hash));
	await page.charts();
	await page.done();
});

test("the histogram tells its bars by pointer and keys", async () => {
	const page = await open(`${large}/#/run/${largeIds.large}/phases`);
	const bars = page.locator(".histogram svg");

	await bars.waitFor();
	await bars.focus();
	await page.keyboard.press("ArrowRight");
	await page.locator(".histogram output").filter({ hasText: /of [\d,]+ steps/ }).waitFor();
	await page.done();
});

test("no steps: it says what to record; hostile names stay names", async () => {
	const page = await open(`${kinds}/#/run/${ids.empty}/phases`);

	await page.getByText("No steps were recorded").waitFor();
	await page.picture("phases-empty");
	await page.done();
	const hostile = Object.entries(ids).find(([name]) => name.startsWith("<script>"))[1];
	const other = await open(`${kinds}/#/run/${hostile}/phases?warmup=1`);

	await other.charts();
	await other.getByText("<script>document.title='owned'</script>").first().waitFor();
	await other.picture("phases-hostile", true);
	await fitsWidth(other);
	await other.done();
});

test("live: steps come by themselves", async () => {
	const run = await liveRun("live", "20");
	const page = await open(`${await serve(run.runs)}/#/run/last/phases?warmup=1`);
	const steps = () => page.locator(".toolbar .muted").innerText();

	await page.getByText(/^steps 0 to/).waitFor();
	const before = await steps();

	await page.waitForFunction((b) => document.querySelector(".toolbar .muted").textContent !== b, before);
	await page.done();
});

test("in the dark, and on a phone", async () => {
	const dark = await open(`${large}/#/run/${largeIds.large}/phases`, { dark: true });

	await dark.charts();
	await dark.picture("phases-dark", true);
	await dark.done();
	const phone = await open(`${large}/#/run/${largeIds.large}/phases`, { width: 360, height: 740, touch: true });

	await phone.charts();
	await phone.picture("phases-phone", true);
	await fitsWidth(phone);
	await phone.done();
});
