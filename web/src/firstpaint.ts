// SPDX-License-Identifier: Apache-2.0
//
// The first picture of a run's overview: its name, how it stands, and its loss, drawn from
// the two answers that were asked in advance while the program is still being loaded. It lies
// over the page, has its measures, and goes as soon as the page has drawn the same.
import { decodeColumns, type QuerySeries } from "./columns";
import { chartWidth, type Answer } from "./preload";

const TITLES = ["Overview", "Training", "System", "Phases", "Traces", "Alerts", "Export"];
const LEFT = 54;
const RIGHT = 28;
const TOP = 10;
const BOTTOM = 26;
const HEIGHT = 200;

interface Head {
	run: { id: string; name: string; start: string | null };
	status: string;
	progress: { step: number | null; of: number | null };
	loss: { name: string; last: number | string | null } | null;
}

let root: HTMLElement | null = null;
let isOver = false;

export function node(tag: string, className: string, ...children: (Node | string)[]): HTMLElement {
	const e = document.createElement(tag);

	e.className = className;
	e.append(...children);
	return e;
}

function figure(label: string, value: string): HTMLElement {
	return node("div", "figure", node("span", "figure-label", label), node("span", "figure-value num", value), node("span", "figure-sub"));
}

/** The page is there, or is another one. */
export function endFirstPaint(): void {
	isOver = true;
	root?.remove();
	root = null;
}

function draw(canvas: HTMLCanvasElement, series: readonly QuerySeries[], width: number, colors: string[]): void {
	const dpr = devicePixelRatio || 1;
	const ctx = canvas.getContext("2d");
	const lines = series.map((s) => ({ x: s.col.x ?? new Float64Array(0), y: s.col.mean ?? new Float64Array(0) }));
	let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];

	if (!ctx) return;
	canvas.width = width * dpr;
	canvas.height = HEIGHT * dpr;
	for (const { x, y } of lines)
		for (let i = 0; i < x.length; i++) {
			x0 = Math.min(x0, x[i] as number);
			x1 = Math.max(x1, x[i] as number);
			if (!Number.isFinite(y[i])) continue;
			y0 = Math.min(y0, y[i] as number);
			y1 = Math.max(y1, y[i] as number);
		}
	if (!(x1 > x0) || !Number.isFinite(y0)) return;
	const pad = (y1 - y0) * 0.08 || Math.abs(y1) * 0.1 || 1;
	const low = y0 >= 0 && y0 < y1 * 0.3 ? 0 : y0 - pad;
	const px = (v: number) => LEFT + ((v - x0) / (x1 - x0)) * (width - LEFT - RIGHT);
	const py = (v: number) => TOP + (1 - (v - low) / (y1 + pad - low)) * (HEIGHT - TOP - BOTTOM);

	ctx.scale(dpr, dpr);
	ctx.lineWidth = 1.5;
	lines.forEach(({ x, y }, k) => {
		let pen = false;

		ctx.strokeStyle = colors[k % colors.length] as string;
		ctx.beginPath();
		for (let i = 0; i < x.length; i++) {
			const v = y[i] as number;

			if (!Number.isFinite(v)) pen = false;
			else if (pen) ctx.lineTo(px(x[i] as number), py(v));
			else ctx.moveTo(px(x[i] as number), py(v));
			pen = Number.isFinite(v);
		}
		ctx.stroke();
	});
	ctx.fillStyle = ctx.strokeStyle = colors[0] as string;
	ctx.font = "11px system-ui, sans-serif";
	ctx.textAlign = "right";
	for (const v of [y0, y1]) ctx.fillText(String(Number(v.toPrecision(3))), LEFT - 6, py(v) + 4);
	canvas.dataset.drawn = "1";
}

/** From the answers of preloadPage(). */
export async function firstPaint(run: Promise<Answer>, loss: Promise<Answer>, colors: string[]): Promise<void> {
	const [a, b] = await Promise.all([run, loss]);

	if (!a.response.ok || !b.response.ok) return;
	const d = JSON.parse(new TextDecoder().decode(a.body)) as Head;
	const answer = decodeColumns(b.body);

	if (isOver || answer.groups.length === 0) return;
	const canvas = document.createElement("canvas");
	// Of a page that is empty yet: its layout costs nothing.
	const width = Math.floor(chartWidth(innerWidth, document.documentElement.clientWidth));
	const head = node("header", "run-head", node("h1", "", node("bdi", "", d.run.name.slice(0, 70))), node("span", "badge", d.status), node("span", "muted run-id", d.run.id));
	const last = d.loss?.last;
	const figures = node("div", "figures",
		figure("Progress", d.progress.step === null ? "–" : String(d.progress.step).replace(/\B(?=(\d{3})+$)/g, ",")),
		...["", ""].map(() => figure("", "")),
		figure(d.loss?.name ?? "loss", typeof last === "number" ? String(Number(last.toPrecision(4))) : (last ?? "–")),
		...["", "", "", ""].map(() => figure("", "")));

	canvas.style.cssText = `width:${width}px;height:${HEIGHT}px`;
	draw(canvas, answer.groups, width, colors);
	root = node("div", "first",
		node("header", "bar", node("span", "brand", "lapse")),
		node("main", "", head, node("nav", "tabs", ...TITLES.map((t) => node("a", "", t))),
			node("div", "stack", figures, node("nav", "next", node("a", "", "\u00a0")), node("div", "grid aside", node("section", "panel verdict"), node("section", "panel")),
				node("div", "grid two", node("figure", "chart", node("figcaption", "", node("span", "chart-title", "Loss")), node("div", "plot", canvas))))));
	root.setAttribute("aria-hidden", "true");
	document.body.append(root);
}
