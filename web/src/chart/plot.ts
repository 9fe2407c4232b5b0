// SPDX-License-Identifier: Apache-2.0
//
// From lines to what uPlot draws: its options and data. No state, no document but colours.
import uPlot from "uplot";
import type { Axis } from "../api";
import * as fmt from "../fmt";
import { fade, pen } from "../palette";
import { align, type Cell, innerRange, type Line, smooth } from "./math";

/** Something that happened, as a line across the chart. */
export interface Mark {
	x: number;
	kind: "event" | "alert" | "checkpoint" | "attempt";
	severity?: "debug" | "info" | "warning" | "error";
	text: string;
	/** An alert that ended here: told, but nothing is wrong any more. */
	over?: boolean;
	/** Where a click on it leads. */
	href?: string;
}

/** A part of the x axis with a ground of its own: an epoch, a time in which an alert fired. */
export interface Span {
	from: number;
	to: number;
	label: string;
	kind: "epoch" | "alert";
}

export interface PlotAsk {
	lines: readonly Line[];
	axis: Axis;
	log: boolean;
	clip: boolean;
	band: boolean;
	smooth: number;
	range: [number, number] | null;
	/** All of the x axis, if it is more than what the lines cover. */
	domain?: [number, number] | null;
	/** Kept within y, if all lines are shares: 0 to 1. */
	marks: readonly Mark[];
	spans: readonly Span[];
	hidden: ReadonlySet<string>;
	group: string;
	dark: boolean;
	colors: { text: string; grid: string; band: string; warning: string; error: string; info: string };
	onZoom: (range: [number, number] | null) => void;
}

export interface Plot {
	options: Omit<uPlot.Options, "width" | "height">;
	data: uPlot.AlignedData;
	/** Index of each line's own series in data. */
	at: number[];
	/** Values that a log scale cannot show. */
	below: number;
	/** Another signature: another plot has to be made; the same: setData does. */
	signature: string;
}

type Cells = Cell[];

function logCells(cells: Cells): number {
	let below = 0;

	cells.forEach((v, i) => {
		if (v != null && v <= 0) {
			cells[i] = null;
			below++;
		}
	});
	return below;
}

/** How ticks on an x axis that is no time of day read. */
export function relative(ms: number): string {
	const s = Math.round(ms) / 1000;

	if (Math.abs(s) < 1 && s !== 0) return `${Math.round(ms)} ms`;
	const h = Math.floor(Math.abs(s) / 3600);
	const m = Math.floor(Math.abs(s) / 60) % 60;
	const rest = Math.abs(s) % 60;
	const two = (n: number) => String(n).padStart(2, "0");
	const sec = Number.isInteger(rest) ? two(rest) : rest.toFixed(1).padStart(4, "0");

	return (s < 0 ? "-" : "") + (h ? `${h}:${two(m)}:${sec}` : `${m}:${sec}`);
}

/** An x as text: a time, a step, a time since the start. */
export function xText(x: number, axis: Axis): string {
	if (axis === "step") return `step ${fmt.group(Math.round(x))}`;
	return axis === "relative" ? `+${relative(x)}` : fmt.local(x, true);
}

const RELATIVE_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 144e5, 216e5, 432e5, 864e5, 1728e5, 4320e5, 8640e5];
const FONT = "11px system-ui, sans-serif";

function xAxis(a: PlotAsk): uPlot.Axis {
	const base: uPlot.Axis = {
		stroke: a.colors.text, font: FONT, size: 26, gap: 4,
		grid: { stroke: a.colors.grid, width: 1 }, ticks: { stroke: a.colors.grid, width: 1, size: 4 },
		// From minutes on the labels are shorter.
		space: (_u, _i, lo, hi, width) => (a.axis === "time" && ((hi - lo) / width) * 46 > 3e4 ? 46 : 60),
	};

	if (a.axis === "time") {
		const at = (d: Date, day: boolean, sec: boolean) => {
			const t = fmt.local(d.getTime());

			return (day ? t.slice(5, 10) + "\n" : "") + (sec ? t.slice(11) : t.slice(11, 16));
		};

		base.values = (_u, splits, _i, _s, incr) => {
			let day = "";

			return splits.map((v) => {
				const d = new Date(v);
				const today = d.toDateString();
				const turned = today !== day && day !== "";

				day = today;
				if (incr >= 864e5) return fmt.local(v).slice(5, 10);
				if (incr < 1000) return fmt.local(v, true).slice(17);
				return at(d, turned, incr < 6e4).replace("\n", " ");
			});
		};
	} else if (a.axis === "relative") {
		base.incrs = RELATIVE_STEPS;
		base.values = (_u, splits) => splits.map(relative);
	} else {
		base.values = (_u, splits) => splits.map((v) => (Number.isInteger(v) ? (Math.abs(v) >= 1e5 ? fmt.count(v).replace(/\.00? /, " ") : String(v)) : ""));
	}
	return base;
}

function yAxis(a: PlotAsk, side: "left" | "right", lines: readonly Line[]): uPlot.Axis {
	const first = lines[0];
	const share = !!first?.share;
	const unit = first?.unit ?? "";
	let by = 1;

	return {
		scale: side === "left" ? "y" : "y2", side: side === "left" ? 3 : 1,
		stroke: a.colors.text, font: FONT, size: 60, gap: 4, space: 32,
		grid: { stroke: a.colors.grid, width: 1, show: side === "left" }, ticks: { show: false },
		splits: (u, _i, lo, hi, incr, space) => {
			const scale = u.scales[side === "left" ? "y" : "y2"];

			if (scale?.distr === 3) return logSplits(lo, hi);
			const s = fmt.axisScale(Math.max(Math.abs(lo), Math.abs(hi)), unit, share);

			by = s.by;
			// Round numbers of the unit shown: 2 GiB is not a round number of bytes.
			const step = roundStep(Math.max(incr, ((hi - lo) / Math.max(1, u.height / space)) * 0.8) / by) * by;
			const out = [];

			for (let v = Math.ceil(lo / step) * step; v <= hi + step * 1e-6; v += step) out.push(Math.abs(v) < step * 1e-6 ? 0 : v);
			return out;
		},
		values: (u, splits) => {
			const scale = u.scales[side === "left" ? "y" : "y2"];

			if (scale?.distr === 3) {
				const few = splits.length <= 8;

				return splits.map((v) => (few || isPower(v) ? fmt.value(v, fmt.isCommonUnit(unit) ? unit : "", share) : ""));
			}
			const s = fmt.axisScale(Math.max(...splits.map(Math.abs), 0), unit, share);
			const step = splits.length > 1 ? Math.abs((splits[1] as number) - (splits[0] as number)) / by : 1;
			const digits = Math.min(6, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));

			if (by !== s.by) return splits.map((v) => fmt.value(v, unit, share));
			return splits.map((v) => tick(v / by, digits, s.label, step));
		},
	};
}

function tick(v: number, digits: number, label: string, step: number): string {
	if (label === "" && v !== 0 && step < 1e-5) return v.toExponential(1);
	return v.toFixed(digits) + (label ? " " + label : "");
}

function isPower(v: number): boolean {
	const e = Math.log10(Math.abs(v));

	return Math.abs(e - Math.round(e)) < 1e-6;
}

function roundStep(raw: number): number {
	const p = 10 ** Math.floor(Math.log10(raw));
	const m = raw / p;

	return (m <= 1.001 ? 1 : m <= 2.001 ? 2 : m <= 5.001 ? 5 : 10) * p;
}

function logSplits(lo: number, hi: number): number[] {
	const out: number[] = [];
	const decades = Math.log10(hi / lo);
	const many = decades > 8 ? [1] : decades > 2 ? [1, 3] : [1, 2, 5];

	for (let e = Math.floor(Math.log10(lo)); e <= Math.ceil(Math.log10(hi)); e++)
		for (const m of many) {
			const v = m * 10 ** e;

			if (v >= lo * 0.999999 && v <= hi * 1.000001) out.push(v);
		}
	return out.length > 0 ? out : [lo, hi];
}

function yScale(a: PlotAsk, side: "left" | "right", lines: readonly Line[]): uPlot.Scale {
	const shown = lines.filter((l) => !a.hidden.has(l.key));

	return {
		distr: a.log ? 3 : 1,
		log: 10,
		range: (_u, lo, hi) => {
			const inner = a.clip ? innerRange(shown.map((l) => inView(l, a.range)), a.log) : null;

			if (inner) return inner;
			if (lo == null || hi == null || !Number.isFinite(lo) || !Number.isFinite(hi)) return a.log ? [0.1, 1] : [0, 1];
			if (a.log) return lo === hi ? [lo / 2, hi * 2] : [lo / 1.1, hi * 1.1];
			if (shown.length > 0 && shown.every((l) => l.share) && lo >= 0 && hi <= 1) return [0, hi > 0.5 ? 1 : Math.max(hi * 1.25, 0.05)];
			if (lo === hi) return lo === 0 ? [0, 1] : [lo - Math.abs(lo) * 0.1, hi + Math.abs(hi) * 0.1];
			const pad = (hi - lo) * 0.08;

			// From zero where zero is near, or means something (bytes).
			if (lo >= 0 && (lo < hi * 0.3 || (side === "right" && shown[0]?.unit === "By"))) return [0, hi + pad];
			return [lo - pad, hi + pad];
		},
	};
}

function inView(l: Line, range: [number, number] | null): ArrayLike<number> {
	if (!range) return l.y;
	const out: number[] = [];

	for (let i = 0; i < l.x.length; i++)
		if ((l.x[i] as number) >= range[0] && (l.x[i] as number) <= range[1]) out.push(l.y[i] as number);
	return out;
}

/** Values without a neighbour to draw a line to. */
export function alone(cells: readonly Cell[]): number[] {
	const out: number[] = [];
	let before: Cell = null;
	let at = -1;

	cells.forEach((v, i) => {
		if (v === undefined) return;
		if (v === null && at >= 0) out.push(at);
		at = v !== null && before === null ? i : -1;
		before = v;
	});
	if (at >= 0) out.push(at);
	return out;
}

export function plotOf(a: PlotAsk): Plot {
	const smoothing = a.smooth > 0;
	const groups = align(a.lines.map((l) => ({
		x: l.x,
		ys: [
			...(a.band && l.lo && l.hi && !l.faded ? [l.hi, l.lo] : []),
			...(smoothing ? [l.y, smooth(l.x, l.y, a.smooth)] : [l.y]),
		],
	})));
	const data: Cells[] = [];
	const series: uPlot.Series[] = [{}];
	const bands: uPlot.Band[] = [];
	const at: number[] = [];
	let below = 0;

	groups.cells.forEach((columns, i) => {
		const l = a.lines[i] as Line;
		const p = pen(l.pen ?? i, a.dark);
		const show = !a.hidden.has(l.key);
		const scale = l.side === "left" ? "y" : "y2";
		const banded = columns.length > (smoothing ? 2 : 1);

		columns.forEach((cells, k) => {
			if (a.log) below += k === columns.length - 1 ? logCells(cells) : (logCells(cells), 0);
			data.push(cells);
			const last = k === columns.length - 1;

			if (banded && k < 2) {
				series.push({ scale, show, stroke: "transparent", width: 0, points: { show: false } });
			} else if (!last) {
				series.push({ scale, show, stroke: fade(p.color, 0.3), width: 1, points: { show: false } });
			} else {
				series.push({
					scale, show, label: l.label,
					stroke: l.faded ? fade(p.color, 0.4) : p.color, width: l.faded ? 1 : 1.5, dash: p.dash,
					points: {
						size: 4, fill: p.color, width: 0,
						show: (u, _si, i0, i1) => i1 - i0 <= u.bbox.width / (18 * devicePixelRatio) && a.lines.length <= 8,
						filter: (u, si, shown) => (shown ? null : alone(u.data[si] as Cells)) as number[] | null,
					},
				});
			}
		});
		if (banded) bands.push({ series: [data.length - columns.length + 1, data.length - columns.length + 2], fill: fade(p.color, l.own ? 0.75 : a.lines.length > 6 ? 0.1 : 0.18) });
		at.push(data.length);
	});

	const left = a.lines.filter((l) => l.side === "left");
	const right = a.lines.filter((l) => l.side === "right");
	const scales: uPlot.Scales = {
		x: {
			time: a.axis === "time",
			range: (u, lo, hi) => {
				if (a.range) return a.range;
				// Around a single point uPlot sets a range of its own choice.
				const [from, to] = u.data[0].length === 1 ? [u.data[0][0], u.data[0][0]] : [lo, hi];
				const d: [number, number] = [Math.min(from ?? Infinity, a.domain?.[0] ?? Infinity), Math.max(to ?? -Infinity, a.domain?.[1] ?? -Infinity)];

				if (!Number.isFinite(d[0]) || !Number.isFinite(d[1])) return [0, 1];
				return d[0] === d[1] ? [d[0] - 0.5, d[1] + 0.5] : d;
			},
		},
		y: yScale(a, "left", left),
	};
	const axes: uPlot.Axis[] = [xAxis(a), yAxis(a, "left", left)];

	if (right.length > 0) {
		scales.y2 = yScale(a, "right", right);
		axes.push(yAxis(a, "right", right));
	}
	return {
		data: [groups.x, ...data] as unknown as uPlot.AlignedData,
		at, below,
		signature: JSON.stringify([
			a.axis, a.log, a.band, smoothing, a.dark, a.group, right.length > 0,
			a.lines.map((l, i) => [l.key, l.side, l.unit, l.label, l.pen ?? i, l.faded, groups.cells[i]?.length]), [...a.hidden],
		]),
		options: {
			ms: 1, scales, axes, series, bands,
			padding: [10, right.length > 0 ? 0 : 28, 0, 0],
			legend: { show: false },
			cursor: {
				x: true, y: false,
				points: { size: 6, width: 1.5 },
				focus: { prox: 24 },
				drag: { x: true, y: false, setScale: false, dist: 6 },
				sync: { key: a.group, setSeries: false, scales: ["x", null], filters: { pub: (type: string) => type === "mousemove" || type === "mouseleave", sub: () => true } },
				bind: { dblclick: () => () => (a.onZoom(null), null) },
			},
			focus: { alpha: 1 },
			hooks: {},
		} as Omit<uPlot.Options, "width" | "height">,
	};
}

// ---- drawn over it ----------------------------------------------------------------------

export function drawSpans(u: uPlot, spans: readonly Span[], colors: PlotAsk["colors"]): void {
	const { ctx } = u;
	const { top, height, left, width } = u.bbox;

	ctx.save();
	ctx.beginPath();
	ctx.rect(left, top, width, height);
	ctx.clip();
	spans.forEach((s, i) => {
		if (s.kind === "epoch" && i % 2 === 0) return;
		const a = u.valToPos(s.from, "x", true);
		const b = u.valToPos(s.to, "x", true);

		ctx.fillStyle = s.kind === "alert" ? fade(toHex(colors.error), 0.12) : colors.band;
		ctx.fillRect(a, top, Math.max(b - a, devicePixelRatio), height);
	});
	ctx.restore();
}

export function drawMarks(u: uPlot, a: PlotAsk): void {
	const { ctx } = u;
	const { top, height, left, width } = u.bbox;
	const dpr = devicePixelRatio;
	let lastX = -Infinity;

	ctx.save();
	ctx.beginPath();
	ctx.rect(left - 1, top - 8 * dpr, width + 2, height + 8 * dpr);
	ctx.clip();
	ctx.lineWidth = dpr;
	for (const m of a.marks) {
		const x = Math.round(u.valToPos(m.x, "x", true));
		const color = m.over ? a.colors.text : m.kind === "alert" || m.severity === "error" ? a.colors.error : m.severity === "warning" ? a.colors.warning : a.colors.info;

		if (x < left || x > left + width || x - lastX < 2 * dpr) continue;
		lastX = x;
		ctx.strokeStyle = ctx.fillStyle = color;
		ctx.globalAlpha = m.kind === "checkpoint" ? 0.28 : 0.6;
		ctx.setLineDash(m.kind === "alert" ? [] : [3 * dpr, 3 * dpr]);
		ctx.beginPath();
		ctx.moveTo(x, top);
		ctx.lineTo(x, top + height);
		ctx.stroke();
		ctx.globalAlpha = m.kind === "checkpoint" ? 0.6 : 1;
		ctx.beginPath();
		if (m.kind === "checkpoint") ctx.rect(x - 2 * dpr, top - 4 * dpr, 4 * dpr, 4 * dpr);
		else {
			ctx.moveTo(x - 4 * dpr, top - 6 * dpr);
			ctx.lineTo(x + 4 * dpr, top - 6 * dpr);
			ctx.lineTo(x, top);
		}
		ctx.fill();
	}
	ctx.restore();
}

/** Values that are NaN: triangles at the lower edge, in the line's colour. */
export function drawNan(u: uPlot, a: PlotAsk): void {
	const { ctx } = u;
	const { top, height, left, width } = u.bbox;
	const dpr = devicePixelRatio;
	const y = top + height - 2 * dpr;

	ctx.save();
	a.lines.forEach((l, i) => {
		let lastX = -Infinity;

		if (!l.nan || a.hidden.has(l.key)) return;
		ctx.fillStyle = pen(l.pen ?? i, a.dark).color;
		for (let k = 0; k < l.x.length; k++) {
			if (!((l.nan[k] as number) > 0)) continue;
			const x = u.valToPos(l.x[k] as number, "x", true);

			if (x < left || x > left + width || x - lastX < 5 * dpr) continue;
			lastX = x;
			ctx.beginPath();
			ctx.moveTo(x - 4 * dpr, y);
			ctx.lineTo(x + 4 * dpr, y);
			ctx.lineTo(x, y - 7 * dpr);
			ctx.fill();
		}
	});
	ctx.restore();
}

function toHex(color: string): string {
	return /^#[0-9a-f]{6}$/i.test(color) ? color : "#d55e00";
}
