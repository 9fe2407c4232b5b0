// SPDX-License-Identifier: Apache-2.0
//
// The first file: asks for data while the program itself is on its way, and shows what it can.
import "./style.css";
import { firstPaint } from "./firstpaint";
import { DARK, LIGHT } from "./palette";
import { chartWidth, preloadPage } from "./preload";
import { isDark, themeInit } from "./theme";

const page = document.documentElement.clientWidth;
const answers = preloadPage(location.hash, page);

themeInit();
const drawn = answers
	? firstPaint(answers.run, answers.loss, Math.floor(chartWidth(page)), [...(isDark() ? DARK : LIGHT)]).then(
		() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))), () => undefined)
	: Promise.resolve();

// The program runs when that is on the screen, or does not come soon.
void Promise.race([drawn, new Promise((done) => setTimeout(done, 250))]).then(() => import("./start")).then((m) => m.start());
