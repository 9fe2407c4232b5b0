// SPDX-License-Identifier: Apache-2.0
//
// heatmap.tsx - a canvas of rows over time in colours, with hover, keyboard and zoom by dragging.
// What is drawn where is in heat.ts.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Axis } from "../api";
import { xText } from "../chart/plot";
import { percent } from "../fmt";
import { RAMP, type HeatRow, bucketAt, columns, heatPixels, labelEvery, lut, rowHeight, spacing } from "./heat";

export interface HeatmapProps {
	label: string;
	/** What a row is: "CPU", "GPU". */
	noun: string;
	x: ArrayLike<number>;
	rows: HeatRow[];
	range: [number, number];
	axis: Axis;
	dark: boolean;
	/** Where the charts beside it have their cursor. */
	cursor?: number | null;
	onCursor?: (x: number | null) => void;
	onZoom?: (range: [number, number] | null) => void;
	/** Space left of the plot, so that it lies below and above the charts' own. */
	gutter?: number;
}

const COLOURS = { light: lut(RAMP.light), dark: lut(RAMP.dark) };

function useWidth<T extends HTMLElement>(): [preact.RefObject<T>, number] {
	const ref = useRef<T>(null);
	const [width, set] = useState(0);

	useEffect(() => {
		const o = new ResizeObserver((e) => set(Math.floor(e[0]!.contentRect.width)));

		if (ref.current) o.observe(ref.current);
		return () => o.disconnect();
	}, []);
	return [ref, width];
}

export function Heatmap(p: HeatmapProps) {
	const gutter = p.gutter ?? 60;
	const [box, boxWidth] = useWidth<HTMLDivElement>();
	const canvas = useRef<HTMLCanvasElement>(null);
	const [at, setAt] = useState<{ row: number; x: number } | null>(null);
	const [drag, setDrag] = useState<[number, number] | null>(null);
	const width = Math.max(0, boxWidth - gutter);
	const rowH = rowHeight(p.rows.length);
	const height = rowH * p.rows.length;
	const ratio = globalThis.devicePixelRatio || 1;
	const [x0, x1] = p.range;
	const step = useMemo(() => spacing(p.x), [p.x]);

	useEffect(() => {
		const c = canvas.current;

		if (!c || !width || !p.rows.length) return;
		const w = Math.round(width * ratio);
		const pixels = heatPixels(p.rows, columns(p.x, x0, x1, w), COLOURS[p.dark ? "dark" : "light"]);
		const flat = new OffscreenCanvas(w, p.rows.length);

		flat.getContext("2d")!.putImageData(new ImageData(pixels, w, p.rows.length), 0, 0);
		c.width = w;
		c.height = Math.round(height * ratio);
		const to = c.getContext("2d")!;

		to.imageSmoothingEnabled = false;
		to.drawImage(flat, 0, 0, c.width, c.height);
	}, [p.rows, p.x, x0, x1, width, height, ratio, p.dark]);

	const toX = (px: number) => x0 + (px / width) * (x1 - x0);
	const toPx = (x: number) => ((x - x0) / (x1 - x0)) * width;
	const find = (e: PointerEvent) => {
		const r = canvas.current!.getBoundingClientRect();
		const row = Math.floor((e.clientY - r.top) / rowH);

		return { row: Math.min(p.rows.length - 1, Math.max(0, row)), x: toX(e.clientX - r.left) };
	};
	const move = (to: { row: number; x: number } | null) => {
		setAt(to);
		p.onCursor?.(to ? to.x : null);
	};
	const key = (e: KeyboardEvent) => {
		const now = at ?? { row: 0, x: x1 };
		const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];

		if (e.key === "Escape") move(null);
		if (!by) return;
		e.preventDefault();
		move({
			row: Math.min(p.rows.length - 1, Math.max(0, now.row + by[0]!)),
			x: Math.min(x1, Math.max(x0, now.x + by[1]! * (step || (x1 - x0) / 100))),
		});
	};
	const cursor = at ? at.x : p.cursor ?? null;
	const bucket = cursor === null ? -1 : bucketAt(p.x, cursor, step);
	const known = (v: number | null | undefined) => (v == null || Number.isNaN(v) ? null : v);
	const value = at && bucket >= 0 ? known(p.rows[at.row]?.v[bucket]) : null;
	const mean = bucket >= 0 ? average(p.rows, bucket) : null;
	const every = labelEvery(p.rows.length, rowH);
	const text = cursor === null ? "" : at
		? `${p.noun} ${p.rows[at.row]?.label ?? ""} · ${xText(at.x, p.axis)} · ${value === null ? "not known" : percent(value)}`
		: `mean · ${xText(cursor, p.axis)} · ${mean === null ? "not known" : percent(mean)}`;

	return (
		<div class="heat" ref={box}>
			<svg class="heat-labels" width={gutter} height={height} aria-hidden="true">
				{p.rows.map((r, i) => i % every ? null : (
					<text x={gutter - 6} y={Math.max(8, i * rowH + rowH / 2 + 3.5)} text-anchor="end">{r.label}</text>
				))}
			</svg>
			<div class="heat-plot">
				<canvas
					ref={canvas} width={1} height={1} style={{ height: `${height}px` }} tabIndex={0} role="img"
					aria-label={`${p.label}: ${p.rows.length} rows over time, arrow keys read single values`}
					onPointerDown={(e) => {
						const f = find(e);

						(e.currentTarget as Element).setPointerCapture(e.pointerId);
						setDrag([f.x, f.x]);
					}}
					onPointerMove={(e) => {
						const f = find(e);

						if (drag) setDrag([drag[0], Math.min(x1, Math.max(x0, f.x))]);
						move(f);
					}}
					onPointerUp={() => {
						if (drag && Math.abs(toPx(drag[0]) - toPx(drag[1])) > 5)
							p.onZoom?.([Math.min(...drag), Math.max(...drag)]);
						setDrag(null);
					}}
					onPointerLeave={() => drag || move(null)}
					onDblClick={() => p.onZoom?.(null)}
					onKeyDown={key} onBlur={() => move(null)}
				/>
				<svg class="heat-over" width={width} height={height} aria-hidden="true">
					{drag && <rect class="heat-drag" y={0} height={height} x={Math.min(toPx(drag[0]), toPx(drag[1]))}
						width={Math.abs(toPx(drag[0]) - toPx(drag[1]))} />}
					{cursor !== null && cursor >= x0 && cursor <= x1 &&
						<line class="heat-cursor" x1={toPx(cursor)} x2={toPx(cursor)} y1={0} y2={height} />}
					{at && <rect class="heat-row" x={0} width={width} y={at.row * rowH} height={rowH} />}
				</svg>
			</div>
			<div class="heat-foot">
				<Scale dark={p.dark} />
				<output aria-live="polite">{text}</output>
			</div>
		</div>
	);
}

function average(rows: readonly HeatRow[], bucket: number): number | null {
	let sum = 0;
	let n = 0;

	for (const r of rows) {
		const v = r.v[bucket];

		if (v == null || Number.isNaN(v)) continue;
		sum += v;
		n++;
	}
	return n ? sum / n : null;
}

function Scale({ dark }: { dark: boolean }) {
	const c = COLOURS[dark ? "dark" : "light"];
	const n = 24;

	return (
		<svg class="heat-scale" width={170} height={14} role="img" aria-label="colours from 0 to 100 %">
			<text x={22} y={11} text-anchor="end">0 %</text>
			{Array.from({ length: n }, (_, i) => {
				const k = Math.round((i / (n - 1)) * 255) * 3;

				return <rect x={27 + i * 4} y={2} width={4} height={10} fill={`rgb(${c[k]},${c[k + 1]},${c[k + 2]})`} />;
			})}
			<text x={128} y={11}>100 %</text>
		</svg>
	);
}
