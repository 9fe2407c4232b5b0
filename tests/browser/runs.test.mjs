// SPDX-License-Identifier: Apache-2.0
//
// The page of all runs: find, sort, filter, tag, choose and compare; none, some, thousands.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { before, fitsWidth, idsOf, later, like, open, runsOf, same, serve, test, until, useBrowser } from "./harness.mjs";

let kinds, many, none;

useBrowser();
before(async () => {
	// Tags are written here: a copy.
	const copy = mkdtempSync(path.join(tmpdir(), "lapse-browser-"));

	cpSync(runsOf("kinds"), path.join(copy, "runs"), { recursive: true });
	later(() => rmSync(copy, { recursive: true, force: true }));
	kinds = await serve(path.join(copy, "runs"));
	many = await serve(runsOf("many"));
	none = await serve(runsOf("none"));
});

const names = (page) => page.locator(".tbody [role=row] a").allInnerTexts();
const settled = (page) => page.waitForFunction(() => document.querySelector("[role=table]") && !document.querySelector(".toolbar .spinner"));

test("runs are listed, found, filtered and sorted; the address holds it", async () => {
	const page = await open(kinds);

	await page.locator(".tbody [role=row]").nth(7).waitFor();
	await page.picture("runs");
	await page.keyboard.press("/");
	await page.keyboard.type("vision simul");
	await page.waitForFunction(() => document.querySelectorAll(".tbody [role=row]").length === 2);
	await same(async () => (await names(page)).sort(), ["finished", "other"]);
	await like(() => page.evaluate(() => location.href), /q=vision\+simul/);
	await like(() => page.locator(".toolbar").innerText(), /2 of 8 runs/);
	await page.getByRole("button", { name: "Clear" }).click();
	await page.waitForFunction(() => document.querySelectorAll(".tbody [role=row]").length === 8);
	await page.getByRole("checkbox", { name: /^failed/ }).click();
	await page.waitForFunction(() => document.querySelectorAll(".tbody [role=row]").length === 1);
	await same(() => names(page), ["crashed"]);
	await page.getByRole("checkbox", { name: /^failed/ }).click();
	await page.getByRole("button", { name: /^Name/ }).click();
	await page.waitForFunction(() => location.hash.includes("sort=name") && document.querySelector("[aria-sort=ascending]"));
	await settled(page);
	const sorted = await names(page);

	await page.reload();
	await page.locator(".tbody [role=row]").nth(7).waitFor();
	await same(() => names(page), sorted, "the address reproduces the view");
	await page.done();
});

test("the title is the server's", async () => {
	const url = await serve(runsOf("kinds"), "--title", "NeMo RL Training Monitor");
	const page = await open(`${url}/#/runs`);

	await page.locator(".brand").getByText("NeMo RL Training Monitor").waitFor();
	await page.waitForFunction(() => document.title === "Runs – NeMo RL Training Monitor");
	await page.goto(`${url}/#/run/${idsOf(runsOf("kinds")).finished}/overview`);
	await page.waitForFunction(() => document.title === "finished – NeMo RL Training Monitor");
	await page.done();
});

test("a metric as a column, and sorted by it", async () => {
	const page = await open(`${kinds}/#/runs?metric=grad_norm&metric=val/loss&sort=-metric:grad_norm`);

	await page.getByRole("columnheader", { name: "val/loss" }).waitFor();
	await page.locator(".tbody [role=row]").nth(7).waitFor();
	await like(() => page.locator(".tbody [role=row]").first().innerText(), /\S/);
	await page.done();
});

test("tags are edited, kept and found", async () => {
	const page = await open(kinds);
	const row = page.getByRole("row", { name: /resumed/ });

	await row.getByRole("button", { name: "Edit resumed" }).click({ force: true });
	await page.getByLabel("Tags, separated by commas").fill("good, <b>bold</b>");
	await page.getByRole("button", { name: "Save" }).click();
	await row.getByText("<b>bold</b>").waitFor();
	await row.getByText("good", { exact: true }).click();
	await page.waitForFunction(() => document.querySelectorAll(".tbody [role=row]").length === 1);
	await like(() => page.evaluate(() => location.href), /tag=good/);
	await page.done();
});

test("two runs are chosen and compared", async () => {
	const page = await open(`${kinds}/#/runs?q=vision`);
	const ids = Object.values(idsOf(runsOf("kinds")));

	await page.waitForFunction(() => document.querySelectorAll(".tbody [role=row]").length === 2);
	for (const box of await page.locator(".tbody input[type=checkbox]").all()) await box.click();
	await page.waitForFunction(() => location.hash.split("sel=").length === 3);
	await page.keyboard.press("c");
	await page.waitForFunction(() => location.hash.startsWith("#/compare"));
	const chosen = new URLSearchParams((await page.evaluate(() => location.hash)).split("?")[1]).getAll("run");

	assert.equal(chosen.filter((r) => ids.includes(r)).length, 2);
	await page.getByText("Curves", { exact: true }).scrollIntoViewIfNeeded(); // what is not near the screen is not asked for
	await page.locator("main canvas").first().waitFor();
	await page.done();
});

test("2,000 runs: all are reached, few rows are drawn, search answers", async () => {
	const page = await open(many);

	await page.getByText("2,000 runs").waitFor();
	await page.getByText("run 1999 of many", { exact: true }).waitFor();
	await page.picture("runs-many");
	assert.ok((await page.locator(".tbody [role=row]").count()) < 80);
	await until(async () => {
		await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
		return page.getByText("run 0 of many", { exact: true }).isVisible();
	}, "there: run 0 of many");
	assert.ok((await page.locator(".tbody [role=row]").count()) < 80);
	await page.evaluate(() => scrollTo(0, 0));
	await page.getByRole("searchbox").fill("1234");
	// Ids hold times: some of them have these digits too.
	await page.waitForFunction(() => document.querySelectorAll(".tbody [role=row]").length < 20);
	await page.getByText("run 1234 of many", { exact: true }).waitFor();
	await page.done();
});

test("while a run runs all that was loaded is asked again; the keyboard goes through all rows", async () => {
	const page = await open(`${many}/#/compare`);

	await page.route(/\/api\/v1\/runs\?/, async (route) => {
		const answer = await route.fetch();
		const table = await answer.json();

		if (table.offset === 0) table.runs[0].outcome = "running";
		await route.fulfill({ response: answer, json: table });
	});
	await page.goto(`${many}/#/runs`);
	await page.locator("[data-row='0']").waitFor();
	await page.getByRole("table", { name: "Runs" }).focus();
	for (const row of [19, 39, 59, 79, 99, 119, 139, 159]) {
		await page.keyboard.press("PageDown");
		await page.locator(`.tr.at[data-row='${row}']`).waitFor();
		assert.ok(await page.locator(".tr.at").evaluate((e) => e.getBoundingClientRect().bottom <= innerHeight + 1), `row ${row} is seen`);
	}
	await page.waitForFunction(() => document.querySelector("[role=table]").ariaRowCount === "401");
	const asked = (offset) => page.waitForRequest((r) => r.url().includes(`offset=${offset}`) && r.url().includes("/runs?"));

	await Promise.all([asked(0), asked(200)]);
	await page.unrouteAll({ behavior: "wait" });
	await page.done();
});

test("no run: it says what to do", async () => {
	const page = await open(none);

	await page.getByText("lapse run -- python3 train.py").waitFor();
	await page.picture("runs-none");
	await page.done();
});

test("on a phone, and in the dark", async () => {
	const page = await open(kinds, { width: 360, height: 740, dark: true, touch: true });

	await page.locator(".tbody [role=row]").nth(7).waitFor();
	await page.picture("runs-phone-dark");
	await fitsWidth(page);
	await page.done();
});

test("what is wrong is said: a page and a run that are not there", async () => {
	const page = await open(`${kinds}/#/run/20200101-000000-aaaa/overview`, { expect: ["404"] });

	await page.getByText("There is no such run here").waitFor();
	await page.goto(`${kinds}/#/nothing`);
	await page.getByText("There is no such page").waitFor();
	await page.done();
});

test("the keyboard: help, another page", async () => {
	const page = await open(kinds);

	await page.locator(".tbody [role=row]").first().waitFor();
	await page.keyboard.press("?");
	await page.getByRole("dialog").waitFor();
	await page.picture("help");
	await page.keyboard.press("Escape");
	await page.getByRole("dialog").waitFor({ state: "hidden" });
	await page.getByRole("table").focus();
	await page.keyboard.press("ArrowDown");
	await page.keyboard.press("Enter");
	await page.waitForFunction(() => location.hash.startsWith("#/run/"));
	await page.keyboard.press("g");
	await page.keyboard.press("r");
	await page.waitForFunction(() => location.hash.startsWith("#/runs"));
	await page.done();
});
