// SPDX-License-Identifier: Apache-2.0
//
// What was recorded, saved: all of it, chosen series, the part that is zoomed to.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, hold, idsOf, lapse, open, runsOf, serve, test, useBrowser } from "./harness.mjs";

let url, ids;

useBrowser();
before(async () => {
	url = await serve(runsOf("kinds"));
	ids = idsOf(runsOf("kinds"));
});

async function save(page) {
	const [file] = await Promise.all([page.waitForEvent("download"), page.locator("[data-download]").click()]);

	return [file.suggestedFilename(), readFileSync(await file.path(), "utf8")];
}

test("CSV is what lapse export prints", async () => {
	const page = await open(`${url}/#/run/${ids.resumed}/export?what=samples&m=val/loss`);

	await page.locator("[data-download]").waitFor();
	await page.picture("export");
	const [name, text] = await save(page);

	assert.equal(name, `${ids.resumed}.csv`);
	assert.equal(text, lapse(runsOf("kinds"), "export", "--to", "csv", "--series", "val/loss", ids.resumed));
	assert.ok(text.split("\n").length > 10);
	await page.done();
});

test("JSON Lines of the steps that charts are zoomed to", async () => {
	const page = await open(`${url}/#/run/${ids.finished}/export?axis=step&zoom=100,109.5&m=loss&format=json`);

	await page.getByText("steps 100 to 109").waitFor();
	const [, text] = await save(page);
	const steps = new Set(text.trim().split("\n").map((l) => JSON.parse(l).step).filter((s) => s !== undefined && s !== null));

	assert.deepEqual([...steps].sort((a, b) => a - b), [100, 101, 102, 103, 104, 105, 106, 107, 108, 109]);
	await page.done();
});

test("the command makes the same file, wherever it is run", async () => {
	const page = await open(`${url}/#/run/${ids.resumed}/export?what=samples&m=val/loss&attempts=all&axis=step&zoom=20,200`);
	const [, text] = await save(page);
	const command = await page.locator("code.command", { hasText: "--to csv" }).innerText();

	assert.match(command, /^lapse export .*--steps 20:200 --all-attempts /);
	assert.equal(lapse("/", ...command.split(" ").slice(1)), text);
	assert.ok(text.split("\n").length > 10);
	// An address that somebody else made: what is copied runs nothing else.
	await page.goto(`${url}/#/run/${ids.resumed}/export?what=${encodeURIComponent("x;id")}`);
	await page.locator("code.command", { hasText: "--what 'x;id' " }).waitFor();
	// By time, and a metric each.
	await page.goto(`${url}/#/run/${ids.resumed}/export?m=loss&m=val/loss&zoom=1793527200000.5,1793527210000`);
	await page.locator("code.command", { hasText: /--series loss --from @1793527200\.0005 --until @1793527210 \S+\nlapse export .*--series val\/loss/ }).waitFor();
	await page.done();
});

test("what is saved, and the command, are not shown before the run is known", async () => {
	const page = await open(`${url}/#/runs`);
	const answer = await hold(page, new RegExp(`/runs/${ids.resumed}$`));
	const series = page.waitForResponse(new RegExp(`/runs/${ids.resumed}/series`));

	await page.goto(`${url}/#/run/${ids.resumed}/export?m=val/loss&axis=relative&zoom=0,1000`);
	await (await series).finished();
	await page.locator("main .skeleton").first().waitFor();
	assert.equal(await page.locator("code.command, [data-download]").count(), 0);
	answer();
	await page.locator("code.command", { hasText: /--from @1793527200 --until @1793527201 \// }).waitFor();
	assert.match(await page.locator("[data-download]").getAttribute("href"), /from=1793527200000&to=1793527201000/);
	await page.done();
});

test("all: what that is depends on the format", async () => {
	const page = await open(`${url}/#/run/${ids.resumed}/export`);

	await page.getByRole("radio", { name: "All but events" }).waitFor();
	await page.getByRole("radio", { name: "JSON Lines" }).click();
	await page.getByRole("radio", { name: "All", exact: true }).waitFor();
	await page.done();
});

test("series and format are chosen on the page", async () => {
	const page = await open(`${url}/#/run/${ids.finished}/export`);

	await page.getByRole("radio", { name: "JSON Lines" }).click();
	await page.getByRole("radio", { name: "Events" }).click();
	await page.waitForFunction(() => /format=json/.test(document.querySelector("[data-download]").href) && /what=events/.test(document.querySelector("[data-download]").href));
	const [, text] = await save(page);

	assert.match(text, /checkpoint/);
	await page.done();
});
