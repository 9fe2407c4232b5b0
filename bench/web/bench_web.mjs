#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// bench_web - what a person waits for in the browser: from the request of a run's overview
// to the frame in which its loss is drawn (a run of ten million points, nothing in the
// browser's cache), beside a page that holds an empty uPlot chart; and from a record call to
// the value in the page.
//
//     bench_web.mjs [paint | late]...     (default: both)
//
// Headless Chromium without a GPU. The medians of ROUNDS pages, the two kinds in turn.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const BUILD = process.env.LAPSE_BUILD || path.join(ROOT, "build");
const LAPSE = path.join(BUILD, "lapse");
const TESTS = path.join(ROOT, "tests/browser");
const ROUNDS = 11;
const STEPS = 500_000; // of 20 series
const LATE_SECONDS = 15;
const ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const folder = mkdtempSync(path.join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "lapse-bench-web-"));
const env = { ...process.env, LAPSE_RENDEZVOUS: path.join(folder, "meeting"), XDG_CACHE_HOME: path.join(folder, "cache"), LAPSE_DASHBOARD: "false" };
const children = [];

function need(command, ...args) {
	const done = spawnSync(command, args, { cwd: ROOT, encoding: "utf8" });

	if (done.status !== 0) throw new Error(`${command} ${args.join(" ")}: ${done.stderr || done.stdout || done.error}`);
}

function figure(name, value, unit, more) {
	console.log(JSON.stringify({ name, value: Number(value.toPrecision(4)), unit, ...more }));
}

const median = (v) => [...v].sort((a, b) => a - b)[Math.floor(v.length / 2)];

async function serve(runs) {
	const server = spawn(LAPSE, ["serve", "--port", "0", runs], { env, stdio: ["ignore", "pipe", "inherit"] });

	children.push(server);
	return await new Promise((done, failed) => {
		server.stdout.on("data", (d) => {
			const found = /http:\/\/\S+\//.exec(String(d));

			if (found) done(found[0]);
		});
		server.on("exit", () => failed(new Error("lapse serve ended")));
	});
}

/** The peer: uPlot's own files, one empty chart, served compressed as ours are. */
async function peer() {
	const file = (name) => readFileSync(path.join(ROOT, "web/node_modules/uplot/dist", name), "utf8");
	const files = {
		"/": ["text/html", "<!doctype html><meta charset=utf-8><title>uPlot</title><link rel=icon href='data:,'><link rel=stylesheet href=u.css><div id=c></div><script src=u.js></script><script src=go.js></script>"],
		"/u.css": ["text/css", file("uPlot.min.css")],
		"/u.js": ["text/javascript", file("uPlot.iife.min.js")],
		"/go.js": ["text/javascript", "new uPlot({width: 600, height: 200, series: [{}, {stroke: 'red'}]}, [[], []], document.getElementById('c'))"],
	};
	const server = createServer((q, s) => {
		const [type, text] = files[q.url] ?? ["text/plain", ""];

		s.writeHead(200, { "Content-Type": type, "Content-Encoding": "gzip" });
		s.end(gzipSync(text));
	});

	await new Promise((done) => server.listen(0, "127.0.0.1", done));
	children.push({ kill: () => server.close() });
	return `http://127.0.0.1:${server.address().port}/`;
}

/** In the page: the time of the frame after what is waited for was drawn. */
function watch(isOurs) {
	const isDrawn = () => {
		const chart = document.querySelector("[data-chart=loss]");

		if (document.querySelector(".first canvas[data-drawn]")) return true; // before the program is there
		return isOurs ? chart?.querySelector("canvas") && /last [0-9]/.test(chart.querySelector(".plot").getAttribute("aria-label")) : document.querySelector("canvas");
	};
	const frame = () => {
		if (isDrawn()) requestAnimationFrame(() => (window.paintedAt = performance.now()));
		else requestAnimationFrame(frame);
	};

	requestAnimationFrame(frame);
}

async function paint(browser, address, isOurs) {
	const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
	const page = await context.newPage();

	await page.addInitScript(watch, isOurs);
	// A new window loads pages of the browser's own; they are to be there before ours is asked.
	await page.waitForTimeout(1200);
	await page.goto(address);
	await page.waitForFunction(() => window.paintedAt, undefined, { polling: 50, timeout: 30_000 });
	const at = await page.evaluate(() => window.paintedAt);

	// What else the page asks for is not to be there when the next one is measured.
	await page.waitForLoadState("networkidle");
	await context.close();
	return at;
}

async function benchPaint(browser) {
	const runs = path.join(folder, "big");

	mkdirSync(runs);
	need(LAPSE, "simulate", "--quiet", "--dir", runs, "--steps", String(STEPS));
	const [run] = readdirSync(runs);
	const ours = `${await serve(runs)}#/run/${run}/overview`;
	const theirs = await peer();
	const a = [];
	const b = [];

	await paint(browser, theirs, false); // the browser's own start
	const cold = await paint(browser, ours, true);

	for (let i = 0; i < ROUNDS; i++) {
		b.push(await paint(browser, theirs, false));
		a.push(await paint(browser, ours, true));
	}
	const value = median(a);
	const peerValue = median(b);

	figure("web: a run of 10 M points is drawn", value, "ms", {
		peer: "empty uPlot page", peer_value: Number(peerValue.toPrecision(4)), ratio: Number((value / peerValue).toFixed(3)), goal: "<= 300 ms", met: value <= 300,
	});
	figure("web: the same, beside an empty uPlot page", value / peerValue, "x", { goal: "<= 1.5", met: value / peerValue <= 1.5 });
	figure("web: the same, the first time the server is asked", cold, "ms");
}

/** The trainer records the time; the page shows it: how old is it when it is drawn? */
async function benchLate(browser) {
	const runs = path.join(folder, "live");

	mkdirSync(runs);
	const run = spawn(LAPSE, ["run", "--quiet", "--name", "live", "--", path.join(BUILD, "tests/browser/browser-trainer"), "clock", "20"], { env: { ...env, LAPSE_DIR: runs }, stdio: "ignore" });

	children.push({ kill: () => run.kill("SIGINT") });
	for (let i = 0; i < 200 && !readdirSync(runs).some((r) => /^\d{8}-/.test(r)); i++) await new Promise((r) => setTimeout(r, 50));
	const page = await (await browser.newContext({ viewport: { width: 1280, height: 860 } })).newPage();

	await page.goto(`${await serve(runs)}#/run/last/training?m=clock&axis=time`);
	await page.locator("[data-chart=clock] canvas").waitFor({ timeout: 30_000 });
	await page.waitForTimeout(3000); // the first answer was asked before the stream was open
	const ages = await page.evaluate(
		(ms) =>
			new Promise((done) => {
				const found = [];
				let old = "";
				const until = performance.now() + ms;
				const frame = () => {
					const text = document.querySelector("[data-chart=clock] .key b").textContent;

					if (text !== old && old !== "") found.push((Date.now() % 90_000) - Number(text.replaceAll(",", "")));
					old = text;
					if (performance.now() < until) requestAnimationFrame(frame);
					else done(found.filter((a) => a > -1000));
				};

				frame();
			}),
		LATE_SECONDS * 1000,
	);
	// Each update has the records of about a second: the newest of them was on its way so long,
	// the oldest came a commit before.
	const gap = (LATE_SECONDS * 1000) / Math.max(1, ages.length);
	const worst = Math.max(...ages) + gap;

	figure("web: a record is seen after, at most", worst / 1000, "s", { goal: "<= 1.5 s", met: ages.length > 5 && worst <= 1500 });
	figure("web: the newest record of an update is seen after, median", median(ages) / 1000, "s", {});
}

async function main(names) {
	need("tools/setup", "browser");
	if (!existsSync(path.join(TESTS, "node_modules"))) need("npm", "ci", "--prefix", TESTS, "--ignore-scripts", "--no-audit", "--no-fund");
	const { chromium } = createRequire(path.join(TESTS, "package.json"))("playwright-core");
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ARGS });

	try {
		if (!names.length || names.includes("paint")) await benchPaint(browser);
		if (!names.length || names.includes("late")) await benchLate(browser);
	} finally {
		await browser.close();
		for (const c of children) c.kill("SIGTERM");
		await new Promise((r) => setTimeout(r, 1500)); // the run ends, and its agent
		const lock = path.join(folder, "meeting/agent.lock");
		const pid = existsSync(lock) ? Number(readFileSync(lock, "utf8").split(/\s/)[0]) : 0;

		try {
			if (pid > 1) process.kill(pid, "SIGTERM");
		} catch {
			/* it has ended */
		}
		rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
	}
}

await main(process.argv.slice(2));
