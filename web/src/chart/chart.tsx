// SPDX-License-Identifier: Apache-2.0
//
// A chart of lines: uPlot with what a person needs around it: legend, values under the
// cursor, zoom, marks, menu (scale, export), keyboard, words for screen readers.
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Axis } from "../api";
import * as fmt from "../fmt";
import { pen } from "../palette";
import { cssColor } from "../theme";
import { useTheme } from "../ui/theme";
import { Menu } from "../ui/menu";
import { toast } from "../ui/toast";
import { copyPng, csvOf, download, fileName, pngOf } from "./export";
import { finiteLast, type Line, summarize } from "./math";
import { drawMarks, drawNan, drawSpans, type Mark, type Plot, type PlotAsk, plotOf, type Span, xText } from "./plot";

export type { Line, Mark, Span };

export interface ChartProps {
	/** Names it in the address (log, clip) and in files. */
	name: string;
	title: ComponentChildren;
	/** Title in words, where `title` is not text. */
	heading?: string;
	lines: readonly Line[];
	axis: Axis;
	range?: [number, number] | null;
	onZoom?: (range: [number, number] | null) => void;
	domain?: [number, number] | null;
	log?: boolean;
	clip?: boolean;
	onLog?: (on: boolean) => void;
	onClip?: (on: boolean) => void;
	band?: boolean;
	smooth?: number;
	marks?: readonly Mark[];
	spans?: readonly Span[];
	/** Charts of a group share the cursor. */
	group?: string;
	/** Of the plot, in px; always taken, so that nothing jumps. */
	height?: number;
	/** Instead of a plot: loading, an error, why there is nothing. */
	note?: ComponentChildren;
	loading?: boolean;
	/** More entries of the menu. */
	more?: { label: string; run: () => void }[];
	/** Shown at the right of the title. */
	aside?: ComponentChildren;
	/** Without a legend: something beside the chart is one. */
	bare?: boolean;
	onWidth?: (px: number) => void;
	/** A click on the plot at this x. */
	onPick?: (x: number) => void;
}

const NONE: readonly never[] = [];
const LEGEND_MAX = 12;

function plotColors(): PlotAsk["colors"] {
	return {
		text: cssColor("--muted"), grid: cssColor("--grid"), band: cssColor("--epoch"),
		warning: cssColor("--warning"), error: cssColor("--error"), info: cssColor("--info"),
	};
}

function lastValue(l: Line): number {
	return l.last ?? finiteLast(l.own ?? l.y);
}

/** The index in x (ascending) that is nearest to at; -1: none. */
export function nearest(x: ArrayLike<number>, at: number): number {
	let lo = 0;
	let hi = x.length - 1;

	if (hi < 0) return -1;
	while (hi - lo > 1) {
		const mid = (lo + hi) >> 1;

		if ((x[mid] as number) <= at) lo = mid;
		else hi = mid;
	}
	return Math.abs((x[lo] as number) - at) <= Math.abs((x[hi] as number) - at) ? lo : hi;
}

interface Tip {
	left: number;
	flip: boolean;
	x: number;
	rows: { color: string; label: string; value: string; range: string }[];
	more: number;
	marks: Mark[];
}

function tipOf(u: uPlot, a: PlotAsk, at: number): Tip | null {
	const x = u.posToVal(at, "x");
	const tolerance = Math.abs(u.posToVal(at + 24, "x") - x);
	const rows: (Tip["rows"][number] & { away: number })[] = [];
	const top = u.cursor.top ?? 0;
	let exact = NaN;

	a.lines.forEach((l, i) => {
		if (a.hidden.has(l.key)) return;
		const k = nearest(l.x, x);

		if (k < 0 || Math.abs((l.x[k] as number) - x) > tolerance) return;
		const v = (l.own ?? l.y)[k] as number;
		const nan = l.nan ? (l.nan[k] as number) : 0;
		const lo = l.lo?.[k];
		const hi = l.hi?.[k];
		const show = (n: number) => fmt.value(n, l.unit, l.share);
		const text = Number.isFinite(v) ? show(v) + (nan > 0 ? " + NaN" : "") : "NaN";

		if (!Number.isFinite(v) && !(nan > 0)) return;
		if (Number.isNaN(exact) || Math.abs((l.x[k] as number) - x) < Math.abs(exact - x)) exact = l.x[k] as number;
		rows.push({
			color: pen(l.pen ?? i, a.dark).color, label: l.label, value: text,
			range: !l.own && lo !== undefined && hi !== undefined && Number.isFinite(lo) && lo !== hi ? `${show(lo)} … ${show(hi as number)}` : "",
			away: Number.isFinite(v) ? Math.abs(u.valToPos(l.y[k] as number, l.side === "left" ? "y" : "y2") - top) : 1e9,
		});
	});
	const near = Math.abs(u.posToVal(at + 5, "x") - x);
	const marks = a.marks.filter((m) => Math.abs(m.x - x) <= near).slice(0, 4);

	if (rows.length === 0 && marks.length === 0) return null;
	const shown = rows.length > LEGEND_MAX ? [...rows].sort((p, q) => p.away - q.away).slice(0, LEGEND_MAX) : rows;

	return {
		left: at, flip: at > u.over.clientWidth / 2, x: Number.isNaN(exact) ? x : exact,
		rows: shown, more: rows.length - shown.length, marks,
	};
}

function Tooltip({ tip, axis }: { tip: Tip; axis: Axis }) {
	return (
		<div class={"tip" + (tip.flip ? " flip" : "")} style={{ "--at": `${tip.left}px` }}>
			<div class="tip-x">{xText(tip.x, axis)}</div>
			<table>
				<tbody>
					{tip.rows.map((r) => (
						<tr>
							<td><i class="swatch" style={{ background: r.color }} /></td>
							<td class="tip-label"><bdi>{fmt.shorten(r.label, 40)}</bdi></td>
							<td class="num">{r.value}</td>
							<td class="num muted">{r.range}</td>
						</tr>
					))}
				</tbody>
			</table>
			{tip.more > 0 && <div class="muted">and {tip.more} more</div>}
			{tip.marks.map((m) => (
				<div class={`tip-mark ${m.kind} ${m.severity ?? ""}`}><bdi>{fmt.shorten(m.text, 120)}</bdi></div>
			))}
		</div>
	);
}

interface LegendProps {
	lines: readonly Line[];
	hidden: ReadonlySet<string>;
	dark: boolean;
	onHide: (key: string, only: boolean) => void;
}

function Legend({ lines, hidden, dark, onHide }: LegendProps) {
	const [all, setAll] = useState(false);
	const shown = all ? lines : lines.slice(0, LEGEND_MAX);

	return (
		<div class={"legend" + (all ? " all" : "")} role="group" aria-label="Lines: click hides one, with Shift all others">
			{shown.map((l, i) => {
				const p = pen(l.pen ?? i, dark);
				const last = lastValue(l);

				return (
					<button
						type="button" class={"key" + (hidden.has(l.key) ? " off" : "")} aria-pressed={!hidden.has(l.key)}
						onClick={(e) => onHide(l.key, e.shiftKey || e.altKey)} onDblClick={() => onHide(l.key, true)} title={fmt.shorten(l.label, 300)}
					>
						<i class={"swatch" + (p.dash.length ? " dashed" : "")} style={{ "--c": p.color }} />
						<bdi>{fmt.shorten(l.label, 48)}</bdi>
						{l.meanOf && <span class="muted" title="the mean of their last values; the band reaches from the smallest to the greatest value">mean of {l.meanOf}</span>}
						<b class="num">{Number.isFinite(last) ? fmt.value(last, l.unit, l.share) : l.x.length ? "NaN" : ""}</b>
					</button>
				);
			})}
			{lines.length > LEGEND_MAX && (
				<button type="button" class="key more" onClick={() => setAll(!all)}>{all ? "fewer" : `+${lines.length - LEGEND_MAX}`}</button>
			)}
		</div>
	);
}

/** What fingers do on the plot: one moves the cursor, two zoom. */
function touch(u: uPlot, ask: () => PlotAsk): void {
	const down = new Map<number, number>();
	let from: { a: number; b: number } | null = null;
	const at = (e: PointerEvent) => e.clientX - u.over.getBoundingClientRect().left;
	const pair = () => [...down.values()].sort((p, q) => p - q) as [number, number];

	u.over.style.touchAction = "pan-y";
	u.over.addEventListener("pointerdown", (e) => {
		if (e.pointerType !== "touch") return;
		down.set(e.pointerId, at(e));
		if (down.size === 2) {
			const [a, b] = pair();

			from = { a: u.posToVal(a, "x"), b: u.posToVal(b, "x") };
		} else u.setCursor({ left: at(e), top: 0 });
	});
	u.over.addEventListener("pointermove", (e) => {
		if (!down.has(e.pointerId)) return;
		down.set(e.pointerId, at(e));
		if (down.size === 1) u.setCursor({ left: at(e), top: 0 });
	});
	const up = (e: PointerEvent) => {
		if (down.size === 2 && from) {
			const [a, b] = pair();
			const w = u.over.clientWidth;
			const each = (from.b - from.a) / Math.max(20, b - a);
			const lo = from.a - a * each;

			if (Math.abs(each) > 0) ask().onZoom([lo, lo + w * each]);
		}
		from = null;
		down.delete(e.pointerId);
	};

	u.over.addEventListener("pointerup", up);
	u.over.addEventListener("pointercancel", (e) => {
		from = null;
		down.delete(e.pointerId);
	});
}

function wheel(u: uPlot, ask: () => PlotAsk): void {
	u.over.addEventListener("wheel", (e) => {
		if (!e.ctrlKey && !e.metaKey) return;
		e.preventDefault();
		const { min, max } = u.scales.x as { min: number; max: number };
		const x = u.posToVal(e.clientX - u.over.getBoundingClientRect().left, "x");
		const f = e.deltaY < 0 ? 0.8 : 1.25;

		ask().onZoom([x - (x - min) * f, x + (max - x) * f]);
	}, { passive: false });
}

export function Chart(props: ChartProps) {
	const { lines, axis, range = null, height = 200, group = "page", marks = NONE, spans = NONE, log = false, clip = false } = props;
	const { dark } = useTheme();
	const box = useRef<HTMLDivElement>(null);
	const plot = useRef<uPlot | null>(null);
	const made = useRef("");
	const [width, setWidth] = useState(0);
	const [tip, setTip] = useState<Tip | null>(null);
	const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
	const heading = props.heading ?? (typeof props.title === "string" ? props.title : props.name);
	const zoom = useRef(props.onZoom);

	zoom.current = props.onZoom;
	const ask = useMemo<PlotAsk>(() => ({
		lines, axis, range, log, clip, marks, spans, hidden, group, dark,
		band: props.band !== false, smooth: props.smooth ?? 0, domain: props.domain,
		colors: plotColors(),
		onZoom: (r) => zoom.current?.(r),
	}), [lines, axis, range?.[0], range?.[1], log, clip, marks, spans, hidden, group, dark, props.band, props.smooth, props.domain?.[0], props.domain?.[1]]);
	const latest = useRef(ask);
	const p = useMemo<Plot | null>(() => (lines.length > 0 ? plotOf(ask) : null), [ask]);

	latest.current = ask;
	useLayoutEffect(() => {
		const el = box.current as HTMLDivElement;
		const measure = () => {
			const w = Math.floor(el.clientWidth);

			if (w > 0) {
				setWidth(w);
				props.onWidth?.(w);
			}
		};
		const watch = new ResizeObserver(measure);

		measure();
		watch.observe(el);
		return () => watch.disconnect();
	}, []);

	useLayoutEffect(() => {
		const el = box.current as HTMLDivElement;

		if (!p || width === 0) {
			plot.current?.destroy();
			plot.current = null;
			made.current = "";
			return;
		}
		if (plot.current && made.current === p.signature) {
			const u = plot.current;

			// The scales' ranges are functions of what was asked; they are read again by setData.
			Object.assign(u.scales.x as uPlot.Scale, { range: (p.options.scales?.x as uPlot.Scale).range });
			for (const key of ["y", "y2"]) {
				const scale = p.options.scales?.[key];

				if (scale && u.scales[key]) Object.assign(u.scales[key] as uPlot.Scale, { range: scale.range });
			}
			u.setData(p.data, true);
			return;
		}
		plot.current?.destroy();
		const u = new uPlot({
			...p.options, width, height,
			hooks: {
				drawClear: [(me) => drawSpans(me, latest.current.spans, latest.current.colors)],
				draw: [(me) => (drawNan(me, latest.current), drawMarks(me, latest.current))],
				setSelect: [(me) => {
					if (me.select.width < 4) return;
					const lo = me.posToVal(me.select.left, "x");
					const hi = me.posToVal(me.select.left + me.select.width, "x");

					me.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
					latest.current.onZoom([lo, hi]);
				}],
				setCursor: [(me) => {
					const at = me.cursor.left ?? -1;
					// Only the chart under the pointer, or with the keyboard, shows its values.
					const mine = box.current?.parentElement?.matches(":hover, :focus");

					setTip(at >= 0 && mine ? tipOf(me, latest.current, at) : null);
				}],
			},
		}, p.data, el);

		touch(u, () => latest.current);
		wheel(u, () => latest.current);
		u.over.addEventListener("click", () => {
			const at = u.cursor.left ?? -1;
			const mark = at < 0 ? null : tipOf(u, latest.current, at)?.marks.find((m) => m.href);

			if (mark?.href) location.hash = mark.href;
		});
		plot.current = u;
		made.current = p.signature;
	}, [p, width > 0]);

	useLayoutEffect(() => {
		if (plot.current && width > 0) plot.current.setSize({ width, height });
	}, [width, height]);
	useEffect(() => () => {
		plot.current?.destroy();
		plot.current = null;
	}, []);

	const hide = useCallback((key: string, only: boolean) => setHidden((old) => {
		const next = new Set(old);

		if (only) {
			const others = latest.current.lines.map((l) => l.key).filter((k) => k !== key);
			const alreadyOnly = others.every((k) => old.has(k)) && !old.has(key);

			return new Set(alreadyOnly ? [] : others);
		}
		if (!next.delete(key)) next.add(key);
		return next;
	}), []);

	const keys = (e: KeyboardEvent) => {
		const u = plot.current;

		if (!u || e.ctrlKey || e.metaKey || e.altKey || e.target !== e.currentTarget) return;
		const { min, max } = u.scales.x as { min: number; max: number };
		const move = (px: number) => {
			const now = (u.cursor.left ?? -1) < 0 ? u.over.clientWidth / 2 : (u.cursor.left as number);

			u.setCursor({ left: Math.max(0, Math.min(u.over.clientWidth, now + px)), top: u.over.clientHeight / 2 });
		};
		const x = (u.cursor.left ?? -1) >= 0 ? u.posToVal(u.cursor.left as number, "x") : (min + max) / 2;
		const scale = (f: number) => props.onZoom?.([x - (x - min) * f, x + (max - x) * f]);
		const pan = (share: number) => props.onZoom?.([min + (max - min) * share, max + (max - min) * share]);
		const does: Record<string, () => void> = {
			ArrowLeft: () => (e.shiftKey ? pan(-0.25) : move(-8)), ArrowRight: () => (e.shiftKey ? pan(0.25) : move(8)),
			Home: () => move(-1e6), End: () => move(1e6),
			"+": () => scale(0.5), "=": () => scale(0.5), "-": () => scale(2), "0": () => props.onZoom?.(null),
			l: () => props.onLog?.(!log), Escape: () => setTip(null),
		};
		const f = does[e.key];

		if (!f) return;
		f();
		e.preventDefault();
		e.stopPropagation();
	};

	const png = async () => {
		const canvas = box.current?.querySelector("canvas");

		if (!canvas) throw new Error("there is nothing to draw");
		return pngOf(heading, canvas, lines.filter((l) => !hidden.has(l.key)).map((l) => ({ color: pen(l.pen ?? lines.indexOf(l), dark).color, label: fmt.shorten(l.label, 60) })));
	};
	const menu = [
		...(props.onLog ? [{ label: "Logarithmic scale", on: log, run: () => props.onLog?.(!log) }] : []),
		...(props.onClip ? [{ label: "Leave outliers out (5–95 %)", on: clip, run: () => props.onClip?.(!clip) }] : []),
		...(props.onZoom && range ? [{ label: "Show all (double click)", run: () => props.onZoom?.(null) }] : []),
		...(props.more ?? []),
		{ label: "Save as PNG", run: () => void png().then((b) => download(fileName(heading) + ".png", b), (e: Error) => toast(e.message, "error")) },
		{ label: "Copy as picture", run: () => void png().then(copyPng).then(() => toast("Copied."), () => toast("This browser does not let a page copy pictures here; save it as PNG.", "error")) },
		{ label: "Save what is shown as CSV", run: () => download(fileName(heading) + ".csv", new Blob([csvOf(lines.filter((l) => !hidden.has(l.key)), axis, range)], { type: "text/csv" })) },
		{ label: "Copy link to this view", run: () => void navigator.clipboard.writeText(location.href).then(() => toast("Link copied."), () => toast("Copy the address of this page: it holds the view.", "error")) },
	];
	const nan = lines.reduce((n, l) => n + (l.nan ? Array.prototype.reduce.call(l.nan, (a, b) => (a as number) + (b as number), 0) as number : 0), 0);
	const units = new Set(lines.filter((l) => l.side === "left").map((l) => l.unit));
	const unit = units.size === 1 ? [...units].find((one) => !fmt.isCommonUnit(one)) : undefined;
	const words = useMemo(() => summarize(heading, lines, (v, l) => fmt.value(v, l.unit, l.share)), [heading, lines]);

	return (
		<figure class="chart" data-chart={props.name} aria-label={heading}>
			<figcaption>
				<span class="chart-title"><bdi>{props.title}</bdi></span>
				{unit && <span class="muted unit">{unit}</span>}
				{log && <span class="flag" title={p?.below ? `${p.below} values are zero or less: a logarithmic scale cannot show them` : "logarithmic scale"}>log{p?.below ? ` −${p.below}` : ""}</span>}
				{clip && <span class="flag" title="the axis covers the 5th to 95th percentile">clipped</span>}
				{nan > 0 && <span class="flag bad" title="values that are NaN, marked ▲ at the lower edge">{fmt.count(nan)} NaN</span>}
				<span class="spring" />
				{props.loading && <span class="spinner" role="status" aria-label="loading" />}
				{props.aside}
				<Menu label={`Menu of ${heading}`} items={menu} />
			</figcaption>
			<div
				class="plot" style={{ height: `${height}px` }} tabIndex={0} role="img" aria-label={words}
				aria-roledescription="chart" onKeyDown={keys} onBlur={() => setTip(null)}
			>
				<div class="plot-in" ref={box} />
				{props.note != null && <div class="plot-note">{props.note}</div>}
				{tip && <Tooltip tip={tip} axis={axis} />}
			</div>
			{!props.bare && <Legend lines={lines} hidden={hidden} dark={dark} onHide={hide} />}
		</figure>
	);
}
