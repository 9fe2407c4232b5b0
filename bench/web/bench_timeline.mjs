#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// bench_timeline - does the timeline of a trace of a million events move as smoothly as the
// browser can show anything? It is zoomed and moved in each frame for some seconds; beside it a
// page of the same browser with nothing but an empty requestAnimationFrame loop.
//
//     bench_timeline.mjs
//
// Headless Chromium without a GPU; the two in turn, ROUNDS times, all frames together.
import { spawn, spawnSync } from "node:child_process";
import { createWriteStream, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const BUILD = process.env.LAPSE_BUILD || path.join(ROOT, "build");
const LAPSE = path.join(BUILD, "lapse");
const TESTS = path.join(ROOT, "tests/browser");
const EVENTS = 1_000_000;
const ROUNDS = 3;
const SECONDS = 4; // of each motion
const FRAME = 1000 / 60;
const ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const folder = mkdtempSync(path.join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "lapse-bench-timeline-"));
const children = [];

function need(command, ...args) {
	const done = spawnSync(command, args, { cwd: ROOT, encoding: "utf8" });

	if (done.status !== 0) throw new Error(`${command} ${args.join(" ")}: ${done.stderr || done.stdout || done.error}`);
}

function figure(name, value, unit, more) {
	console.log(JSON.stringify({ name, value: Number(value.toPrecision(4)), unit, ...more }));
}

const quantile = (v, q) => [...v].sort((a, b) => a - b)[Math.min(v.length - 1, Math.floor(v.length * q))];

async function serve(runs) {
	const server = spawn(LAPSE, ["serve", "--port", "0", runs], { stdio: ["ignore", "pipe", "inherit"] });

	children.push(server);
	return await new Promise((done, failed) => {
		server.stdout.on("data", (d) => {
			const found = /http:\/\/\S+\//.exec(String(d));

			if (found) done(found[0]);
		});
		server.on("exit", () => failed(new Error("lapse serve ended")));
	});
}

/** What a step of a large model looks like: modules within modules, operators, launches, kernels
 * on three streams, and a thread of gradients; lengths vary as a fixed generator says. */
async function writeTrace(file) {
	const out = createWriteStream(file);
	let seed = 1;
	let n = 0;
	let text = '{"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1}, "traceEvents": [\n';
	const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
	const row = (cat, name, ts, dur, pid, tid, args) => {
		text += `${n++ ? ",\n" : ""}{"ph": "X", "cat": "${cat}", "name": "${name}", "ts": ${ts.toFixed(3)}, "dur": ${dur.toFixed(3)}, "pid": ${pid}, "tid": ${tid}, "args": {${args}}}`;
	};
	const launch = (at, dur, tid, stream) => {
		const args = `"correlation": ${n + 1}, "External id": ${n}`;

		row("cuda_runtime", "cudaLaunchKernel", at, dur, 100, tid, args);
		row("kernel", `sm90_gemm_${n % 17}`, at + dur * 3, dur * (1 + random()), 0, stream, `${args}, "stream": ${stream}, "grid": [128, 1, 1], "block": [256, 1, 1]`);
	};

	for (let step = 0, t = 1000; n < EVENTS; step++) {
		const begin = t;

		for (let i = 0; i < 900 && n < EVENTS - 14; i++) {
			const w = 40 + 60 * random();

			for (let d = 0; d < 5; d++) row("python_function", `nn.Module: Block_${(i + d) % 40}`, t + d, w - 2 * d, 100, 100, "");
			row("cpu_op", i % 3 ? "aten::linear" : "aten::layer_norm", t + 6, w - 12, 100, 100, `"Sequence number": ${n}, "Fwd thread id": 0`);
			launch(t + 8, (w - 16) * random() * 0.2, 100, 7 + (i % 3));
			row("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", t + 1, w - 2, 100, 101, "");
			row("cpu_op", "AddmmBackward0", t + 3, w - 6, 100, 101, "");
			row("cpu_op", "aten::mm", t + 5, w - 10, 100, 101, "");
			launch(t + 10, (w - 20) * random() * 0.2, 101, 7 + ((i + 1) % 3));
			t += w + 5 * random();
		}
		row("user_annotation", `ProfilerStep#${step}`, begin - 1, t - begin + 2, 100, 100, "");
		t += 200;
		if (!out.write(text)) await new Promise((r) => out.once("drain", r));
		text = "";
	}
	out.end(text + "\n]}\n");
	await new Promise((r) => out.on("close", r));
}

/** In a page: move() in each frame; the times between frames, and how many of them were drawn. */
function frames([seconds, motion]) {
	const canvas = document.querySelector(".bars canvas");
	const box = canvas?.getBoundingClientRect();
	const wheel = (more) => canvas.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true, clientX: box.left + box.width * 0.4, clientY: box.top + 60, ...more }));
	const motions = {
		none() {},
		zoom: (i) => wheel({ ctrlKey: true, deltaY: Math.floor(i / 60) % 2 ? 12 : -12 }),
		pan: (i) => wheel({ deltaX: Math.floor(i / 60) % 2 ? -25 : 25 }),
	};
	const found = [];
	let last = 0;
	let i = 0;
	let before = motion === "pan" ? 20 : 0;

	return new Promise((done) => {
		const frame = (now) => {
			// The whole cannot be moved.
			if (before) {
				if (--before > 10) wheel({ ctrlKey: true, deltaY: -15 });
				return requestAnimationFrame(frame);
			}
			if (!last) window.drawn = 0;
			if (last) found.push(now - last);
			last = now;
			motions[motion](i++);
			if (found.reduce((a, b) => a + b, 0) < seconds * 1000) requestAnimationFrame(frame);
			else done({ found, drawn: window.drawn });
		};

		requestAnimationFrame(frame);
	});
}

async function look(browser, address) {
	const page = await (await browser.newContext({ viewport: { width: 1280, height: 860 } })).newPage();

	// Each picture begins with this call.
	await page.addInitScript(() => {
		const begin = CanvasRenderingContext2D.prototype.setTransform;

		window.drawn = 0;
		CanvasRenderingContext2D.prototype.setTransform = function (...args) {
			if (this.canvas.closest(".bars")) window.drawn++;
			return begin.apply(this, args);
		};
	});
	await page.goto(address);
	if (address === "about:blank") return page;
	await page.waitForFunction(() => window.drawn > 0, undefined, { timeout: 120_000 });
	await page.waitForTimeout(2000);
	return page;
}

async function main() {
	const runs = path.join(folder, "runs");

	need("tools/setup", "browser");
	if (!existsSync(path.join(TESTS, "node_modules"))) need("npm", "ci", "--prefix", TESTS, "--ignore-scripts", "--no-audit", "--no-fund");
	mkdirSync(runs);
	need(LAPSE, "simulate", "--quiet", "--dir", runs, "--steps", "20");
	const [run] = readdirSync(runs);

	await writeTrace(path.join(runs, run, "rank0.pt.trace.json"));
	const { chromium } = createRequire(path.join(TESTS, "package.json"))("playwright-core");
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ARGS });

	children.push({ kill: () => browser.close() });
	const server = await serve(runs);
	const empty = await look(browser, "about:blank");
	const page = await look(browser, `${server}#/run/${run}/traces?file=rank0.pt.trace.json&view=timeline&events=${EVENTS}`);
	const bare = [];

	for (const motion of ["pan", "zoom"]) {
		const ours = [];
		let drawn = 0;

		for (let round = 0; round < ROUNDS; round++) {
			await empty.bringToFront();
			bare.push(...(await empty.evaluate(frames, [SECONDS, "none"])).found);
			await page.bringToFront();
			const got = await page.evaluate(frames, [SECONDS, motion]);

			ours.push(...got.found);
			drawn += got.drawn;
		}
		const what = `web: timeline of 1 M events, ${motion}: frame`;

		for (const [name, q] of [["median", 0.5], ["p99", 0.99], ["worst", 1]]) {
			const value = quantile(ours, q);
			const peer = quantile(bare, q);

			figure(`${what}, ${name}`, value, "ms", {
				peer: "empty rAF loop", peer_value: Number(peer.toPrecision(4)), ratio: Number((value / peer).toFixed(3)),
				...(q === 0.5 && { goal: "<= 16.7 ms", met: value <= FRAME + 0.05 }),
			});
		}
		figure(`${what}s that show a new picture`, (100 * drawn) / ours.length, "%");
	}
}

try {
	await main();
} finally {
	for (const c of children.reverse()) await c.kill("SIGTERM");
	rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
}
