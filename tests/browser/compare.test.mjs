// SPDX-License-Identifier: Apache-2.0
//
// The page Compare: choosing runs, differences with intervals, curves over each other, settings.
import assert from "node:assert/strict";
import { before, fitsWidth, idsOf, like, open, runsOf, same, serve, test, useBrowser } from "./harness.mjs";

let large, ids, kinds, kindIds;

useBrowser();
before(async () => {
	large = await serve(runsOf("large"));
	ids = idsOf(runsOf("large"));
	kinds = await serve(runsOf("kinds"));
	kindIds = idsOf(runsOf("kinds"));
});

const at = (server, ...runs) => `${server}/#/compare?${runs.map((r) => `run=${r}`).join("&")}`;
const row = (page, name) => page.locator(".forest tbody tr").filter({ has: page.getByRole("button", { name, exact: true }) });

test("two runs: what is worse by how much, drawn, and curves", async () => {
	const page = await open(at(large, ids.large, ids["slow data"]), { width: 1440, height: 900 });

	await row(page, "data").waitFor();
	// Loading takes five times as long.
	await like(() => row(page, "data").innerText(), /\+\d{3} %/);
	await like(() => row(page, "data").innerText(), /worse/);
	await like(() => row(page, "data").innerText(), /mean of 8 ranks/);
	await like(() => row(page, "throughput").innerText(), /sum of 8 ranks/);
	await page.locator(".forest-bar").nth(9).waitFor();
	await like(() => page.locator(".forest-bar").first().getAttribute("aria-label"), /interval/);
	await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
	await page.waitForFunction(() => document.querySelectorAll(".chart canvas").length >= 6 && !document.querySelector(".spinner"));
	await same(() => page.locator('[data-chart="loss"] .legend bdi').allInnerTexts(), ["large", "slow data"]);
	await page.evaluate(() => scrollTo(0, 0));
	await page.picture("compare", true);
	assert.ok((await page.evaluate(() => window.shift)) < 0.1);
	await page.done();
});

test("what is unclear is counted and says why; order; whose steps; a scale that ends at -100 %", async () => {
	const page = await open(at(large, ids.large, ids["slow data"], ids.small), { width: 1440, height: 900 });

	await row(page, "sync").first().waitFor();
	await page.locator(".toolbar .badge", { hasText: /^\d+ unclear$/ }).waitFor();
	await like(() => page.locator(".compare .toolbar").first().innerText(), /large: steps 10 to 2,999 · slow data: steps 10 to 2,999 · small: steps 10 to 899/);
	await like(() => page.locator(".forest thead").innerText(), /large\s+base/);
	// One rank is slow from 40 % on: the others wait in sync.
	await like(() => row(page, "sync").first().innerText(), /−\d+.* %[^]*unclear[^]*level changes within large/);
	// No sample of the one load comes near the other's.
	await like(() => row(page, 'gpu/busy{gpu="0"}').first().innerText(), /−\d+.* %[^]*worse[^]*do not overlap/);
	const first = await page.locator(".forest tbody tr.begins").evaluateAll((rows) => rows.map((r) => {
		const all = [];

		for (let at = r; at && (at === r || !at.classList.contains("begins")); at = at.nextElementSibling) all.push(at.querySelector(".badge")?.textContent);
		return Math.min(...all.map((v) => ["worse", "better", "differs", "unclear", "same"].indexOf(v)));
	}));
	assert.ok(first.length > 10);
	assert.deepEqual(first, [...first].sort((a, b) => a - b));
	const ticks = await page.locator(".forest-axis text").allTextContents();
	assert.ok(ticks.every((t) => !t.startsWith("−") || parseFloat(t.slice(1)) <= 100), ticks.join());
	await page.getByRole("slider", { name: "Smoothing" }).fill("0.5");
	await page.getByText("0.50", { exact: true }).waitFor();
	await page.done();
});

test("a click draws a metric; charts, axis and base are in the address", async () => {
	const page = await open(at(large, ids.large, ids["slow data"]));

	await row(page, "optimizer").getByRole("button").click();
	await page.waitForFunction(() => location.hash.includes("metric=optimizer"));
	await page.getByRole("radio", { name: "since start" }).click();
	await page.locator('[data-chart="optimizer"]').scrollIntoViewIfNeeded();
	await page.locator('[data-chart="optimizer"] canvas').waitFor();
	await page.getByRole("button", { name: "make base" }).click();
	await page.waitForFunction((id) => new URLSearchParams(location.hash.split("?")[1]).get("run") === id, ids["slow data"]);
	await row(page, "data").waitFor();
	await like(() => row(page, "data").innerText(), /−\d\d.* %/);
	await page.reload();
	await row(page, "data").waitFor();
	await page.locator('[data-chart="optimizer"]').scrollIntoViewIfNeeded();
	await page.locator('[data-chart="optimizer"] canvas').waitFor();
	await page.done();
});

test("runs are added and taken out; one alone and none say what to do", async () => {
	const page = await open(at(large));

	await page.getByText("Choose runs to compare").waitFor();
	await page.picture("compare-none");
	await page.getByRole("button", { name: "Add runs" }).click();
	await page.getByRole("combobox", { name: "Add runs" }).fill("small");
	await page.getByRole("option").first().filter({ hasText: "small" }).waitFor();
	await page.keyboard.press("Enter");
	await page.getByText("Choose one more run").waitFor();
	await page.getByRole("combobox", { name: "Add runs" }).fill("large");
	await page.getByRole("option").first().filter({ hasText: "large" }).waitFor();
	await page.keyboard.press("Enter");
	await page.keyboard.press("Escape");
	await row(page, "step").waitFor();
	await page.getByRole("button", { name: "Take small out" }).click();
	await page.getByText("Choose one more run").waitFor();
	await page.done();
});

test("many runs: a line each, one missing what others have; hostile names stay names", async () => {
	const all = Object.values(kindIds);
	const page = await open(at(kinds, ...all), { width: 1440, height: 900 });

	await page.locator(".forest tbody tr").nth(8).waitFor();
	await page.getByText("<script>document.title='owned'</script>", { exact: false }).first().waitFor();
	await same(() => page.locator(".chosen li").count(), all.length);
	await page.picture("compare-many", true);
	await fitsWidth(page);
	await page.done();
});

test("settings: what differs is marked; also what is the same", async () => {
	const page = await open(at(large, ids.large, ids["slow data"]));
	const settings = page.locator(".settings");

	await settings.getByText("simulate.seed").waitFor();
	await same(() => settings.locator("tr", { hasText: "simulate.seed" }).locator("mark").allInnerTexts(), ["1", "2"]);
	assert.equal(await settings.getByText("optimizer", { exact: true }).count(), 0);
	await page.getByRole("switch", { name: "also what is the same" }).click();
	await settings.getByText("optimizer", { exact: true }).waitFor();
	await page.getByRole("searchbox", { name: "Find a setting" }).fill("optim");
	await settings.getByText("simulate.seed").waitFor({ state: "detached" });
	await page.done();
});

test("a run that is not there", async () => {
	const page = await open(at(large, ids.large, "20200101-000000-aaaa"), { expect: ["404"] });

	await page.getByRole("alert").waitFor();
	await page.getByRole("button", { name: /^Take 20200101/ }).click();
	await page.getByText("Choose one more run").waitFor();
	await page.done();
});

test("in the dark, and on a phone", async () => {
	const dark = await open(at(large, ids.large, ids["slow data"], ids.small), { dark: true });

	await row(dark, "data").first().waitFor();
	await dark.picture("compare-dark", true);
	await dark.done();
	const phone = await open(at(large, ids.large, ids["slow data"]), { width: 360, height: 740, touch: true });

	await row(phone, "data").waitFor();
	await phone.picture("compare-phone", true);
	await fitsWidth(phone);
	await phone.done();
});
