// SPDX-License-Identifier: Apache-2.0
//
// The script in the page itself (vite.config.ts puts it there): asks for data as soon as the
// page has come, draws what it can, then loads the program.
import { endFirstPaint, firstPaint } from "./firstpaint";
import { DARK, LIGHT } from "./palette";
import { chartWidth, preloadPage, type Answers } from "./preload";
import { isDark, themeShow } from "./theme";

const program = (document.currentScript as HTMLScriptElement).dataset.program as string;
const answers: Answers = new Map();

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

function first(): void {
	const page = innerWidth;
	const asked = preloadPage(answers, location.hash, page);

	window.lapseFirst = { answers, end: endFirstPaint };
	themeShow();
	void load(!asked ? Promise.resolve() : parsed()
		.then(() => firstPaint(asked.run, asked.loss, Math.floor(chartWidth(page)), [...(isDark() ? DARK : LIGHT)]))
		.then(shown, () => undefined));
}

first();
