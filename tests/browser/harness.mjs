// SPDX-License-Identifier: Apache-2.0
//
// What the browser tests share: runs to look at, a server, pages that must not complain.
// The program is $LAPSE_BUILD/lapse, else build/lapse; pictures go to build/browser.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { after, before as nodeBefore, test as nodeTest } from "node:test";
import { chromium } from "playwright-core";

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const BUILD = process.env.LAPSE_BUILD || path.join(ROOT, "build");
const LAPSE = path.join(BUILD, "lapse");
const TRAINER = path.join(BUILD, "tests/browser/browser-trainer");
export const PICTURES = path.join(ROOT, "build/browser");
const DATA = path.join(BUILD, "browser-data");
/** As on two cores that are slow and have other work. */
export const PATIENCE = 45_000;

const MEMORY = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
/** Chaos, to find tests that only a quick machine passes: each answer of the API comes up to so
 * many ms late, and the page computes so many times slower. */
const LATE = Number(process.env.LAPSE_BROWSER_LATE ?? 0);
const SLOWER = Number(process.env.LAPSE_BROWSER_SLOWER ?? 1);

/** Pages that are open. */
const pages = new Set();

/** What the pages of a test that failed show, in words and as a picture. */
async function tell(name) {
	for (const page of pages) {
		const text = await page.evaluate(() => document.body.innerText).catch(String);

		console.error(`${name}: ${page.url()} shows: ${text.replace(/\s+/g, " ").slice(0, 1500)}\ncomplaints: ${page.complaints.join("; ")}`);
		await page.screenshot({ path: path.join(PICTURES, `failed-${name.replace(/\W+/g, "-").slice(0, 80)}.png`), timeout: 5000 }).catch(() => {});
	}
	pages.clear();
}

/** node's, but what hangs fails and is named: its own have no limit. */
export const test = (name, f) => nodeTest(name, { timeout: 4 * PATIENCE }, async () => {
	pages.clear();
	try {
		await f();
	} catch (e) {
		await within(tell(name), "what the pages show").catch(() => {});
		throw e;
	}
});
/** Where there is other work, 2,000 runs take minutes to make. Node begins the next one before the
 * one before it has ended: making runs would leave the browser's start no turn until its time is up. */
export const before = (f) => nodeBefore(async () => {
	await launched;
	await f();
}, { timeout: 12 * PATIENCE });

/** What a promise gives; or it fails: not everything of a browser has a limit of its own. */
async function within(promise, what) {
	let timer;
	const late = new Promise((_, failed) => (timer = setTimeout(() => failed(new Error(`${what}: nothing for ${PATIENCE} ms`)), PATIENCE)));

	return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** The answer, asked for again until it fits or time is up. */
async function answerOf(ask, fits) {
	const end = Date.now() + PATIENCE;

	for (;;) {
		const answer = await ask();

		if (fits(answer) || Date.now() > end) return answer;
		await new Promise((r) => setTimeout(r, 50));
	}
}

/** Ask until the answer is true. */
export async function until(question, what) {
	assert.ok(await answerOf(question, Boolean), `not ${what}`);
}

/** What a page comes to show is this. */
export async function same(ask, expected, what) {
	assert.deepStrictEqual(await answerOf(ask, (got) => isDeepStrictEqual(got, expected)), expected, what);
}

/** What a page comes to say fits. */
export async function like(ask, pattern) {
	assert.match(await answerOf(ask, (got) => pattern.test(got)), pattern);
}

mkdirSync(PICTURES, { recursive: true });
mkdirSync(DATA, { recursive: true });

function environment(runs) {
	const env = Object.fromEntries(Object.entries(process.env).filter(([k]) => !k.startsWith("LAPSE_")));

	return { ...env, LAPSE_DIR: runs, LAPSE_RENDEZVOUS: path.join(runs, "..", "meeting"), XDG_CACHE_HOME: path.join(runs, "..", "cache"), LAPSE_DASHBOARD: "false", TZ: "UTC", LC_ALL: "C.UTF-8" };
}

/** Run lapse to its end in a folder of runs. */
export function lapse(runs, ...args) {
	const done = spawnSync(LAPSE, args, { env: environment(runs), encoding: "utf8", maxBuffer: 1 << 26, timeout: 4 * PATIENCE });

	assert.equal(done.status, 0, `lapse ${args.join(" ")}\n${done.stderr}${done.error ?? ""}`);
	return done.stdout;
}

const simulate = (runs, ...args) => lapse(runs, "simulate", "--quiet", ...(args.includes("--start") ? [] : ["--start", "2026-11-01T10:00:00Z"]), ...args);

/** Folders of runs, made once for a version of the program. */
const MAKERS = {
	/** One of each kind, whose names say which. */
	kinds(runs) {
		simulate(runs, "--name", "finished", "--project", "vision", "-n", "2000", "--ranks", "4", "--hosts", "2", "--gpus", "2", "--fault", "loss-spike@60%", "--fault", "nan@30%+2%");
		simulate(runs, "--name", "other", "--project", "vision", "-n", "2000", "--ranks", "4", "--hosts", "2", "--gpus", "2", "--seed", "2");
		simulate(runs, "--name", "nan-only", "-n", "300", "--fault", "nan@0");
		simulate(runs, "--name", "resumed", "-n", "400", "--resume");
		simulate(runs, "--name", "crashed", "-n", "300", "--outcome", "oom", "--gpus", "0");
		simulate(runs, "--name", "wide", "-n", "60", "--series", "1000");
		lapse(runs, "run", "--quiet", "--name", "empty", "--", "true");
		lapse(runs, "run", "--quiet", "--name", "<script>document.title='owned'</script>\u202edrowkcab", "--tags", "<b>x</b>,\u05e9\u05dc\u05d5\u05dd", "--notes", "<i>" + "long ".repeat(700), "--project", "<svg onload=alert(1)>", "--", TRAINER, "hostile");
	},
	/** One machine with 64 CPUs and 8 GPUs, two runs on it, and a small one. */
	large(runs) {
		const big = ["-n", "3000", "--ranks", "8", "--gpus", "8", "--cpus", "64"];

		simulate(runs, "--name", "large", ...big, "--fault", "slow-rank@40%", "--fault", "hot-gpu@30%", "--fault", "memory-leak@50%:0.5");
		simulate(runs, "--name", "slow data", ...big, "--seed", "2", "--fault", "slow-data@0");
		simulate(runs, "--name", "small", "-n", "900", "--seed", "3");
	},
	/** Very many runs. */
	many(runs) {
		for (let i = 0; i < 2000; i++)
			simulate(runs, "--name", `run ${i} of many`, "--project", i % 3 ? "odd" : "third", "-n", "12", "--rate", String(1 + (i % 7)), "--gpus", "0", "--cpus", "1", "--seed", String(i + 1), "--start", new Date(Date.UTC(2026, 9, 1) + i * 60_000).toISOString());
	},
	/** No run at all. */
	none() {},
};

/** The folder of runs of a maker; only to be read. */
export function runsOf(kind) {
	const version = createHash("sha256").update(`${statSync(LAPSE).size} ${statSync(LAPSE).mtimeMs} ${MAKERS[kind]}`).digest("hex").slice(0, 12);
	const folder = path.join(DATA, `${kind}-${version}`);

	if (existsSync(folder)) return path.join(folder, "runs");
	// Not this version: another file's tests may just have made it.
	for (const old of readdirSync(DATA)) if (old.startsWith(kind + "-") && old !== path.basename(folder)) rmSync(path.join(DATA, old), { recursive: true, force: true });
	// Made in memory: thousands of runs, each safe on disk, take minutes on a slow one.
	const making = mkdtempSync(path.join(MEMORY, "lapse-browser-"));
	const copy = mkdtempSync(path.join(DATA, ".new-"));

	try {
		mkdirSync(path.join(making, "runs"));
		MAKERS[kind](path.join(making, "runs"));
		endAgent(path.join(making, "meeting"));
		cpSync(path.join(making, "runs"), path.join(copy, "runs"), { recursive: true, preserveTimestamps: true });
		if (!existsSync(folder)) renameSync(copy, folder);
	} catch (e) {
		// Another file's tests may have made them meanwhile.
		if (!existsSync(folder)) throw e;
	} finally {
		for (const left of [making, copy]) rmSync(left, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
	}
	return path.join(folder, "runs");
}

function isAlive(pid) {
	try {
		return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
	} catch {
		return false;
	}
}

/** End the agent of a rendezvous folder, if one serves it; its pid is in agent.lock. Until it has
 * ended it writes: files come and go under who copies them. */
function endAgent(meeting) {
	const lock = path.join(meeting, "agent.lock");
	const pid = existsSync(lock) ? Number(readFileSync(lock, "utf8").split(/\s/)[0]) : 0;
	const end = Date.now() + PATIENCE;

	try {
		if (pid > 1) process.kill(pid, "SIGTERM");
	} catch {
		return; // it has ended
	}
	while (pid > 1 && isAlive(pid) && Date.now() < end) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
}

/** The ids of runs by their names, the newest of a name. */
export function idsOf(runs) {
	return Object.fromEntries(JSON.parse(lapse(runs, "ls", "--limit", "0", "--json")).reverse().map((r) => [r.name, r.id]));
}

const ending = [];

/** Do this after the tests of the file. (after() within before() is done at once.) */
export function later(end) {
	ending.push(end);
}

/** A server on a free port; ended after the tests of the file. */
export async function serve(runs, ...args) {
	const server = spawn(LAPSE, ["serve", "--port", "0", ...args, runs], { env: environment(runs), stdio: ["ignore", "pipe", "pipe"] });
	let said = "";

	server.stderr.on("data", (d) => (said += d));
	later(() => server.kill("SIGTERM"));
	return await within(new Promise((done, failed) => {
		let out = "";

		server.stdout.on("data", (d) => {
			out += d;
			const found = /http:\/\/\S+/.exec(out);

			if (found) done(found[0].replace(/\/$/, ""));
		});
		server.on("exit", (status) => failed(new Error(`lapse serve ended with ${status}: ${said}`)));
	}), "lapse serve");
}

/** A program under lapse run in a folder of runs of its own; ended after the tests. */
export async function liveRun(...command) {
	const folder = mkdtempSync(path.join(MEMORY, "lapse-browser-"));
	const runs = path.join(folder, "runs");

	mkdirSync(runs);
	const run = spawn(LAPSE, ["run", "--quiet", "--name", "live", "--", TRAINER, ...command], { env: environment(runs), stdio: "ignore" });
	const stop = async () => {
		if (run.exitCode === null && run.signalCode === null) {
			run.kill("SIGINT");
			await new Promise((r) => run.on("exit", r));
		}
	};

	later(async () => {
		await stop();
		endAgent(path.join(folder, "meeting"));
		rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
	});
	await until(() => readdirSync(runs).some((r) => /^\d{8}-/.test(r)), "begun: lapse run");
	return { runs, stop, pid: run.pid };
}

/** `lapse simulate --live` in a folder of runs of its own; ended after the tests. */
export function liveSimulation(...args) {
	const folder = mkdtempSync(path.join(tmpdir(), "lapse-browser-"));
	const run = spawn(LAPSE, ["simulate", "--quiet", "--live", "--dir", folder, ...args], { env: environment(folder), stdio: "ignore" });

	later(async () => {
		if (run.exitCode === null) {
			run.kill("SIGINT");
			await new Promise((r) => run.on("exit", r));
		}
		rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
	});
	return folder;
}

const ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"];
let browser = null, launched = null;

/** Once in a file: a browser for its tests. */
export function useBrowser() {
	nodeBefore(async () => {
		launched = chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ARGS });
		browser = await launched;
	});
	after(async () => {
		try {
			await within(browser?.close(), "closing the browser");
		} catch (e) {
			setTimeout(() => process.exit(1), PATIENCE).unref(); // it keeps us, and ends with us
			throw e;
		} finally {
			for (const end of ending.reverse()) await end();
		}
	});
}

/** A page at an address. It fails the test by done() if anything complained: the console,
 * the Content-Security-Policy, an exception, an answer of 400 or more that was not expected. */
export async function open(address, { dark = false, width = 1280, height = 860, expect: expected = [], touch = false } = {}) {
	const context = await within(browser.newContext({
		viewport: { width, height }, colorScheme: dark ? "dark" : "light", timezoneId: "America/New_York", locale: "en-US", acceptDownloads: true, hasTouch: touch,
		permissions: ["clipboard-read", "clipboard-write"],
	}), "a window");
	const page = await within(context.newPage(), "a page");
	const complaints = [];
	const fine = (text) => expected.some((e) => text.includes(e));

	page.setDefaultTimeout(PATIENCE);
	page.on("console", (m) => ["error", "warning"].includes(m.type()) && !fine(m.text()) && complaints.push(`console ${m.type()}: ${m.text()}`));
	page.on("pageerror", (e) => complaints.push(`exception: ${e.stack ?? e}`));
	page.on("response", (r) => r.status() >= 400 && !fine(`${r.status()} ${r.url()}`) && complaints.push(`answer ${r.status()}: ${r.url()}`));
	page.on("dialog", (d) => {
		complaints.push(`a dialog of the page: ${d.message()}`);
		void d.dismiss();
	});
	await page.addInitScript(() => {
		window.violations = [];
		document.addEventListener("securitypolicyviolation", (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI}`));
		window.shift = 0;
		new PerformanceObserver((list) => {
			for (const e of list.getEntries()) if (!e.hadRecentInput) window.shift += e.value;
		}).observe({ type: "layout-shift", buffered: true });
	});
	if (LATE > 0)
		await context.route("**/api/**", async (route) => {
			await new Promise((r) => setTimeout(r, Math.random() * LATE));
			await route.continue().catch(() => {}); // the page may have gone
		});
	if (SLOWER > 1) await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: SLOWER });
	pages.add(Object.assign(page, { complaints }));
	await page.goto(address);
	return Object.assign(page, {
		async done() {
			const violations = await page.evaluate(() => window.violations);
			const title = await page.title();

			pages.delete(page);
			await context.close();
			assert.deepEqual([...complaints, ...violations], []);
			assert.notEqual(title, "owned", "a name became a program");
		},
		async picture(name, fullPage = false) {
			await page.screenshot({ path: path.join(PICTURES, `${name}.png`), fullPage, animations: "disabled" });
		},
		/** All charts that are on the page have been drawn. */
		async charts(least = 1) {
			await page.waitForFunction((n) => {
				const all = [...document.querySelectorAll(".chart")].filter((c) => c.getBoundingClientRect().top < innerHeight);

				return all.length >= n && all.every((c) => !c.querySelector(".spinner") && (c.querySelector("canvas") || c.querySelector(".plot-note")));
			}, least);
		},
	});
}

/** Where a part of the page is, once nothing is awaited and it has come to rest. */
export async function placeOf(part) {
	await part.scrollIntoViewIfNeeded();
	return part.evaluate(async (e) => {
		const place = () => {
			const { x, y, width, height } = e.getBoundingClientRect();

			return { x, y, width, height };
		};

		for (let old = place(), rest = 0; rest < 5;) {
			await new Promise((r) => setTimeout(r, 30));
			const now = place();

			rest = document.querySelector(".spinner, .skeleton") || ["x", "y", "width", "height"].some((k) => now[k] !== old[k]) ? 0 : rest + 1;
			old = now;
		}
		return place();
	});
}

/** Drag over shares of the width of a part of the page. */
export async function drag(part, from, to) {
	const { x, y, width } = await placeOf(part);
	const mouse = part.page().mouse;

	await mouse.move(x + width * from, y + 20);
	await mouse.down();
	await mouse.move(x + (width * (from + to)) / 2, y + 25, { steps: 4 });
	await mouse.move(x + width * to, y + 25, { steps: 4 });
	await mouse.up();
}

/** Answers to such addresses come when the returned function is called. */
export async function hold(page, addresses) {
	let release;
	const held = new Promise((done) => (release = done));

	await page.route(addresses, async (route) => {
		await held;
		await route.continue();
	});
	return release;
}

/** Nothing is wider than the window. */
export async function fitsWidth(page, what = "") {
	const over = await page.evaluate(() => {
		const width = document.documentElement.clientWidth;

		if (document.documentElement.scrollWidth <= width) return [];
		return [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > width + 1).slice(0, 5).map((e) => `${e.tagName}.${e.className}`);
	});

	assert.deepEqual(over, [], `${what} is too wide`);
}

/** The browser's shared workers. */
export async function workers() {
	const session = await browser.newBrowserCDPSession();
	const { targetInfos } = await session.send("Target.getTargets", { filter: [{ type: "shared_worker" }] });

	await session.detach();
	return targetInfos;
}

export function write(name, text) {
	writeFileSync(path.join(PICTURES, name), text);
}
