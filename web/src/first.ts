// SPDX-License-Identifier: Apache-2.0
//
// The script in the page itself (vite.config.ts puts it there): asks for data as soon as the
// page has come, draws what it can, then loads the program.
import { endFirstPaint, firstPaint, node } from "./firstpaint";
import { DARK, LIGHT } from "./palette";
import { preloadPage, type Answers } from "./preload";
import { isDark, themeShow } from "./theme";

const program = (document.currentScript as HTMLScriptElement).dataset.program as string;
const answers: Answers = new Map();
/** With the program running, the first picture goes at the latest after so long. */
const LATEST_MS = 4000;

const after = (ms: number) => new Promise((done) => setTimeout(done, ms));

/** A picture that was drawn is on the screen. */
const shown = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))));

/** The page has its elements: from the browser's cache the program comes before them. */
const parsed = () => new Promise((done) => (document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", done) : done(null)));

/** The program neither competes with the first picture nor waits long for it. */
async function load(drawn: Promise<unknown>): Promise<void> {
	const link = document.createElement("link");

	await Promise.race([drawn, after(50)]);
	link.rel = "modulepreload";
	link.href = program;
	document.head.append(link);
	await Promise.race([drawn, after(250)]);
	await parsed();
	await import(/* @vite-ignore */ new URL(program, document.baseURI).href);
}

/** A script that failed to load does so until the page is loaded anew. */
function failed(e: unknown): void {
	const again = node("button", "button", "Reload");

	console.error(e);
	endFirstPaint();
	again.onclick = () => location.reload();
	document.getElementById("app")?.replaceChildren(node("p", "state", "The page could not be loaded: lapse has been stopped or updated. ", again));
}

function first(): void {
	const asked = preloadPage(answers, location.hash, innerWidth);

	window.lapseFirst = { answers, end: endFirstPaint };
	// The picture is of the page that was asked for.
	addEventListener("hashchange", endFirstPaint, { once: true });
	load(!asked ? Promise.resolve() : parsed()
		.then(() => firstPaint(asked.run, asked.loss, [...(isDark() ? DARK : LIGHT)]))
		.then(shown, () => undefined)).then(() => setTimeout(endFirstPaint, LATEST_MS), failed);
	// After all else: the program comes, whatever the browser says to a question for what it keeps.
	themeShow();
}

first();
