// SPDX-License-Identifier: Apache-2.0
//
// Bars in rows on a canvas, for timelines and flame graphs: pan, zoom, search, and what is under
// the pointer. What is drawn costs by the pixels, not by the bars.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as fmt from "../fmt";
import { DARK, LIGHT } from "../palette";
import { cssColor } from "../theme";
import { useTheme } from "../ui/theme";
import { barAt, type Timeline, visit } from "./timeline";

const ROW = 17;
const TITLE = 20;
const AXIS = 22;

interface Props {
	t: Timeline;
	/** A finer one of a part. */
	detail?: Timeline | null;
	label: string;
	/** At most. */
	height: number;
	/** Bars whose name has it stand out. */
	search: string;
	range: [number, number];
	onRange: (range: [number, number]) => void;
}

/** Where each lane begins, px from the top. */
function layout(t: Timeline): { top: number[]; height: number } {
	let y = 0;
	const top = t.head.lanes.map((l) => {
		const here = y;

		y += (l.kind === "flame" ? 0 : TITLE) + l.depths * ROW + 4;
		return here;
	});

	return { top, height: y };
}

const laneKey = (t: Timeline, i: number) => {
	const l = t.head.lanes[i];

	return `${l?.kind} ${l?.process} ${l?.thread}`;
};

function ticks(from: number, to: number, width: number): number[] {
	const raw = ((to - from) / width) * 110;
	const base = 10 ** Math.floor(Math.log10(raw));
	const step = ([1, 2, 5, 10].find((k) => k * base >= raw) ?? 10) * base;
	const out: number[] = [];

	for (let v = Math.ceil(from / step) * step; v <= to && out.length < 100; v += step) out.push(v);
	return out;
}

export function Bars({ t, detail, label, height: highest, search, range, onRange }: Props) {
	const { dark } = useTheme();
	const canvas = useRef<HTMLCanvasElement>(null);
	const [width, setWidth] = useState(0);
	const [over, setOver] = useState<{ x: number; y: number; bar: number; t: Timeline; lane: number } | null>(null);
	const scroll = useRef(0);
	const [turn, redraw] = useState(0);
	const place = useMemo(() => layout(t), [t]);
	const height = Math.max(120, Math.min(highest, place.height + AXIS));
	const lanes = useMemo(() => new Map(t.head.lanes.map((_, i) => [laneKey(t, i), i])), [t]);
	const needle = search.toLowerCase();
	const hits = useMemo(() => {
		const known = new Map<number, boolean>();

		return (of: Timeline, bar: number) => {
			const n = of.name[bar] as number;

			if (of !== t) return of.nameOf(n).toLowerCase().includes(needle);
			let hit = known.get(n);

			if (hit === undefined) known.set(n, (hit = t.nameOf(n).toLowerCase().includes(needle)));
			return hit;
		};
	}, [t, needle]);
	// What is shown: the finer one where it covers all of it.
	const shown = detail && detail.head.from_ms <= range[0] && detail.head.to_ms >= range[1] ? detail : t;
	const most = Math.max(0, place.height + AXIS - height);

	scroll.current = Math.min(scroll.current, most);
	const rowTop = (of: Timeline, row: number) => {
		const lane = lanes.get(laneKey(of, of.rows[4 * row] as number)) ?? -1;

		if (lane < 0) return NaN;
		return AXIS + (place.top[lane] as number) + (t.head.lanes[lane]?.kind === "flame" ? 0 : TITLE) + (of.rows[4 * row + 1] as number) * ROW - scroll.current;
	};

	useEffect(() => {
		const el = canvas.current as HTMLCanvasElement;
		const watch = new ResizeObserver(() => setWidth(el.clientWidth));

		watch.observe(el);
		return () => watch.disconnect();
	}, []);
	useEffect(() => {
		if (width === 0) return;
		const frame = requestAnimationFrame(() => {
			const el = canvas.current as HTMLCanvasElement;
			const scale = devicePixelRatio || 1;
			const c = el.getContext("2d") as CanvasRenderingContext2D;
			const set = dark ? DARK : LIGHT;
			const [ground, line, muted, text] = ["--panel", "--line", "--muted", "--text"].map(cssColor) as [string, string, string, string];
			const x = (ms: number) => ((ms - range[0]) / (range[1] - range[0])) * width;

			if (el.width !== Math.round(width * scale) || el.height !== Math.round(height * scale)) {
				el.width = Math.round(width * scale);
				el.height = Math.round(height * scale);
			}
			c.setTransform(scale, 0, 0, scale, 0, 0);
			c.fillStyle = ground;
			c.fillRect(0, 0, width, height);
			c.font = "11px system-ui, sans-serif";
			c.textBaseline = "middle";
			for (const [, a, b] of t.head.steps) {
				c.fillStyle = line;
				c.fillRect(x(a), AXIS, 1, height);
				c.fillRect(x(b), AXIS, 1, height);
			}
			const found: number[] = [];

			for (let r = 0; r < shown.rows.length / 4; r++) {
				const y = rowTop(shown, r);

				if (!(y > AXIS - ROW && y < height)) continue;
				visit(shown, r, range[0], range[1], width, (bx, w, bar, many) => {
					const hit = needle !== "" && hits(shown, bar);

					c.globalAlpha = needle === "" ? 0.85 : hit ? 1 : 0.18;
					c.fillStyle = set[(shown.category[bar] as number) % 8] as string;
					c.fillRect(bx, y, w > 2 ? w - 0.5 : w, ROW - 1);
					if (hit) found.push(bx, y, w);
					if (w > 34 && !many) {
						const name = shown.nameOf(shown.name[bar] as number);
						const n = Math.floor((w - 6) / 6.2);

						c.globalAlpha = needle === "" || hit ? 1 : 0.4;
						c.fillStyle = dark ? "#000000" : "#ffffff";
						c.fillText(name.length > n ? name.slice(0, n - 1) + "…" : name, bx + 4, y + ROW / 2);
					}
				});
			}
			c.globalAlpha = 1;
			c.strokeStyle = text;
			for (let i = 0; i < found.length; i += 3) if ((found[i + 2] as number) > 3) c.strokeRect((found[i] as number) + 0.5, (found[i + 1] as number) + 0.5, (found[i + 2] as number) - 1.5, ROW - 2);
			if (over && over.t === shown) {
				for (let r = 0; r < shown.rows.length / 4; r++) {
					const first = shown.rows[4 * r + 2] as number;

					if (over.bar < first || over.bar >= first + (shown.rows[4 * r + 3] as number)) continue;
					const a = x(shown.start[over.bar] as number);

					c.strokeRect(a + 0.5, rowTop(shown, r) + 0.5, Math.max((shown.dur[over.bar] as number) * (width / (range[1] - range[0])) - 1, 1), ROW - 2);
				}
			}
			t.head.lanes.forEach((l, i) => {
				const y = AXIS + (place.top[i] as number) - scroll.current;

				if (l.kind === "flame" || y < AXIS - TITLE || y > height) return;
				c.fillStyle = line;
				c.fillRect(0, y, width, 1);
				c.fillStyle = muted;
				c.fillText(fmt.shorten(`${l.process} · ${l.thread.trim()}${l.kind === "mark" ? " · annotations" : ""}`, 90), 6, y + TITLE / 2 + 1);
			});
			c.fillStyle = ground;
			c.fillRect(0, 0, width, AXIS);
			c.fillStyle = muted;
			const digits = Math.max(0, Math.ceil(-Math.log10((range[1] - range[0]) / width / 1.1)) - 2);

			for (const v of ticks(range[0], range[1], width)) {
				c.fillRect(x(v), AXIS - 5, 1, 5);
				c.fillText(`${v.toFixed(Math.min(digits, 6))} ms`, x(v) + 4, AXIS / 2);
			}
		});

		return () => cancelAnimationFrame(frame);
	}, [width, height, range[0], range[1], shown, dark, needle, over, turn]);

	const [lo, hi] = [t.head.first_ms, t.head.last_ms];
	const to = (a: number, b: number) => {
		const w = Math.min(Math.max(b - a, 1e-5), hi - lo);
		const from = Math.min(Math.max(a, lo), hi - w);

		onRange([from, from + w]);
	};
	const span = range[1] - range[0];
	const zoom = (by: number, at = 0.5) => {
		const w = span * by;
		const mid = range[0] + span * at;

		to(mid - w * at, mid + w * (1 - at));
	};
	const pan = (by: number) => to(range[0] + span * by, range[1] + span * by);
	const down = (by: number) => {
		scroll.current = Math.min(Math.max(scroll.current + by, 0), most);
		redraw((n) => n + 1);
	};
	const find = (e: MouseEvent) => {
		const ms = range[0] + (e.offsetX / width) * span;

		for (let r = 0; r < shown.rows.length / 4; r++) {
			const y = rowTop(shown, r);

			if (!(e.offsetY >= Math.max(y, AXIS) && e.offsetY < y + ROW)) continue;
			const bar = barAt(shown, r, ms, (span / width) * 1.5);

			return bar < 0 ? null : { x: e.offsetX, y: e.offsetY, bar, t: shown, lane: shown.rows[4 * r] as number };
		}
		return null;
	};
	const drag = useRef<{ x: number; y: number; moved: boolean } | null>(null);
	const keys = (e: KeyboardEvent) => {
		const act: Record<string, () => void> = {
			ArrowLeft: () => pan(-0.15), a: () => pan(-0.15), ArrowRight: () => pan(0.15), d: () => pan(0.15), ArrowUp: () => down(-60), ArrowDown: () => down(60),
			"+": () => zoom(0.6), "=": () => zoom(0.6), w: () => zoom(0.6), "-": () => zoom(1.6), s: () => zoom(1.6), "0": () => to(lo, hi),
		};

		if (e.ctrlKey || e.metaKey || e.altKey || !act[e.key]) return;
		act[e.key]?.();
		e.preventDefault();
		e.stopPropagation();
	};
	// A listener of one's own: only such a one may keep the page from scrolling.
	const wheel = useRef<(e: WheelEvent) => void>(() => undefined);

	wheel.current = (e) => {
		if (e.ctrlKey || e.metaKey) zoom(Math.exp(Math.max(-50, Math.min(50, e.deltaY)) * 0.012), e.offsetX / width);
		else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan((e.deltaX || e.deltaY) / width);
		else if (most > 0 && !(e.deltaY < 0 ? scroll.current === 0 : scroll.current === most)) down(e.deltaY);
		else return;
		e.preventDefault();
	};
	useEffect(() => {
		const el = canvas.current as HTMLCanvasElement;
		const f = (e: WheelEvent) => wheel.current(e);

		el.addEventListener("wheel", f, { passive: false });
		return () => el.removeEventListener("wheel", f);
	}, []);
	const name = over ? over.t.nameOf(over.t.name[over.bar] as number) : "";
	const many = over ? (over.t.count[over.bar] as number) : 0;
	const dur = over ? (over.t.dur[over.bar] as number) / 1e3 : 0;
	const flame = t.head.lanes[0]?.kind === "flame";

	return (
		<div class="bars">
			<canvas
				ref={canvas} style={{ height: `${height}px` }} tabIndex={0} role="img" aria-label={`${label}. Arrows move, plus and minus zoom, 0 shows all.`} onKeyDown={keys}
				onPointerDown={(e) => {
					drag.current = { x: e.clientX, y: e.clientY, moved: false };
					e.currentTarget.setPointerCapture(e.pointerId);
				}}
				onPointerMove={(e) => {
					const d = drag.current;

					if (!d) return setOver(find(e));
					if (!d.moved && Math.abs(e.clientX - d.x) + Math.abs(e.clientY - d.y) < 4) return;
					pan((d.x - e.clientX) / width);
					down(d.y - e.clientY);
					drag.current = { x: e.clientX, y: e.clientY, moved: true };
				}}
				onPointerUp={() => (drag.current = null)} onPointerCancel={() => (drag.current = null)} onPointerLeave={() => setOver(null)}
				onDblClick={(e) => {
					const at = find(e);
					const a = at ? (at.t.start[at.bar] as number) : lo;
					const w = at ? (at.t.dur[at.bar] as number) : hi - lo;

					to(flame ? a : a - w * 0.1, flame ? a + w : a + w * 1.1);
				}}
			/>
			<output aria-live="polite">
				{over ? (
					<>
						<i class="swatch" style={{ "--c": (dark ? DARK : LIGHT)[(over.t.category[over.bar] as number) % 8] }} /> <bdi>{fmt.shorten(name, 160)}</bdi>{" "}
						<b class="num">{fmt.seconds(dur)}</b>{" "}
						<span class="muted">{flame ? fmt.percent((dur * 1e3) / (hi - lo)) + " of all" : `at ${(over.t.start[over.bar] as number).toFixed(4)} ms · ${over.t.head.categories[over.t.category[over.bar] as number]}${many > 1 ? ` and ${fmt.group(many - 1)} more, too short to be told apart here` : ""}`}</span>
					</>
				) : <span class="muted">Ctrl wheel or + and − zoom, drag moves, double click shows one bar whole, 0 all.</span>}
			</output>
		</div>
	);
}
