// SPDX-License-Identifier: Apache-2.0
//
// Bars in rows on a canvas, for timelines and flame graphs: pan, zoom, search, what is under
// the pointer, and arrows between an event and those that it is tied to. What is drawn costs by the pixels, not by the bars.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import * as fmt from "../fmt";
import { DARK, LIGHT } from "../palette";
import { cssColor } from "../theme";
import { useTheme } from "../ui/theme";
import { barAt, laneKey, locate, type Picked, type Spot, type Timeline, visit } from "./timeline";

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
	/** The event that is chosen, with what it is tied to. */
	picked?: Picked | null;
	onPick?: (event: number | null) => void;
	/** Below the picture; jump() goes to another event. */
	below?: (jump: (to: Spot) => void) => preact.ComponentChildren;
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

function ticks(from: number, to: number, width: number): number[] {
	const raw = ((to - from) / width) * 110;
	const base = 10 ** Math.floor(Math.log10(raw));
	const step = ([1, 2, 5, 10].find((k) => k * base >= raw) ?? 10) * base;
	const out: number[] = [];

	for (let v = Math.ceil(from / step) * step; v <= to && out.length < 100; v += step) out.push(v);
	return out;
}

export function Bars({ t, detail, label, height: highest, search, range, onRange, picked, onPick, below }: Props) {
	const { dark } = useTheme();
	const canvas = useRef<HTMLCanvasElement>(null);
	const [width, setWidth] = useState(0);
	const [over, setOver] = useState<{ row: number; bar: number; t: Timeline } | null>(null);
	const scroll = useRef(0);
	const [turn, redraw] = useState(0);
	const place = useMemo(() => layout(t), [t]);
	const height = Math.max(120, Math.min(highest, place.height + AXIS));
	const needle = search.toLowerCase();
	// What is shown: the finer one where it covers all of it.
	const shown = detail && detail.head.from_ms <= range[0] && detail.head.to_ms >= range[1] ? detail : t;
	const hits = useMemo(() => {
		const known = new Map<number, boolean>();

		return (bar: number) => {
			const n = shown.name[bar] as number;
			let hit = known.get(n);

			if (hit === undefined) known.set(n, (hit = shown.nameOf(n).toLowerCase().includes(needle)));
			return hit;
		};
	}, [shown, needle]);
	// Of each row, px from the top; NaN: in no lane of the whole.
	const tops = useMemo(() => {
		const of = shown.head.lanes.map((l) => {
			const i = t.laneOf.get(laneKey(l)) ?? -1;

			return AXIS + (place.top[i] ?? NaN) + (l.kind === "flame" ? 0 : TITLE);
		});

		return Float64Array.from({ length: shown.rows.length / 4 }, (_, r) => (of[shown.rows[4 * r] as number] as number) + (shown.rows[4 * r + 1] as number) * ROW);
	}, [t, shown, place]);
	const most = Math.max(0, place.height + AXIS - height);

	scroll.current = Math.min(scroll.current, most);
	const rowTop = (r: number) => (tops[r] as number) - scroll.current;
	const x = (ms: number) => ((ms - range[0]) / (range[1] - range[0])) * width;

	useEffect(() => {
		const el = canvas.current as HTMLCanvasElement;
		const watch = new ResizeObserver(() => setWidth(el.clientWidth));

		watch.observe(el);
		return () => watch.disconnect();
	}, []);
	const draw = () => {
		const el = canvas.current;
		const scale = devicePixelRatio || 1;
		const c = el?.getContext("2d", { alpha: false });
		const set = dark ? DARK : LIGHT;
		const [ground, line, muted, text] = ["--panel", "--line", "--muted", "--text"].map(cssColor) as [string, string, string, string];

		if (!el || !c || width === 0) return;
		if (el.width !== Math.round(width * scale) || el.height !== Math.round(height * scale)) {
			el.width = Math.round(width * scale);
			el.height = Math.round(height * scale);
		}
		c.setTransform(scale, 0, 0, scale, 0, 0);
		c.fillStyle = ground;
		c.fillRect(0, 0, width, height);
		c.font = "11px system-ui, sans-serif";
		c.textBaseline = "middle";
		c.fillStyle = line;
		for (const [, a, b] of t.head.steps) for (const ms of [a, b]) if (ms >= range[0] && ms <= range[1]) c.fillRect(x(ms), AXIS, 1, height);
		const found: number[] = [];
		const names: [string, number, number, boolean][] = [];
		// Changing colours costs more than a bar: each colour is drawn at once.
		const rects: number[][] = Array.from({ length: 16 }, () => []);

		for (let r = 0; r < tops.length; r++) {
			const y = rowTop(r);

			if (!(y > AXIS - ROW && y < height)) continue;
			visit(shown, r, range[0], range[1], width, (bx, w, bar, many) => {
				const hit = needle !== "" && hits(bar);

				rects[((shown.category[bar] as number) % 8) + (needle === "" || hit ? 0 : 8)]?.push(bx, y, w > 2 ? w - 0.5 : w);
				if (hit && w > 3) found.push(bx, y, w);
				if (w > 34 && !many) {
					const name = shown.nameOf(shown.name[bar] as number);
					const n = Math.floor((w - 6) / 6.2);

					names.push([name.length > n ? name.slice(0, n - 1) + "…" : name, bx + 4, y + ROW / 2, needle === "" || hit]);
				}
			});
		}
		rects.forEach((list, i) => {
			c.globalAlpha = i > 7 ? 0.18 : needle ? 1 : 0.85;
			c.fillStyle = set[i % 8] as string;
			for (let k = 0; k < list.length; k += 3) c.fillRect(list[k] as number, list[k + 1] as number, list[k + 2] as number, ROW - 1);
		});
		c.fillStyle = dark ? "#000000" : "#ffffff";
		for (const [name, nx, ny, hit] of names) {
			c.globalAlpha = hit ? 1 : 0.4;
			c.fillText(name, nx, ny);
		}
		c.globalAlpha = 1;
		c.strokeStyle = text;
		for (let i = 0; i < found.length; i += 3) c.strokeRect((found[i] as number) + 0.5, (found[i + 1] as number) + 0.5, (found[i + 2] as number) - 1.5, ROW - 2);
		const outline = ([r, bar]: [number, number]) => c.strokeRect(x(shown.start[bar] as number) + 0.5, rowTop(r) + 0.5, Math.max((shown.dur[bar] as number) * (width / (range[1] - range[0])) - 1, 1), ROW - 2);

		if (over && over.t === shown) outline([over.row, over.bar]);
		t.head.lanes.forEach((l, i) => {
			const y = AXIS + (place.top[i] as number) - scroll.current;

			if (l.kind === "flame" || y < AXIS - TITLE || y > height) return;
			c.fillStyle = line;
			c.fillRect(0, y, width, 1);
			c.fillStyle = muted;
			c.fillText(fmt.shorten(`${l.process} · ${l.thread.trim()}${l.kind === "mark" ? " · annotations" : ""}`, 90), 6, y + TITLE / 2 + 1);
		});
		c.fillStyle = text;
		c.lineWidth = 2;
		const at = picked && locate(shown, picked);

		if (at) outline(at);
		for (const l of picked?.links ?? []) arrow(c, ...((l.role === "launch" || l.role === "forward" ? [l, picked] : [picked, l]) as [Spot, Spot]));
		c.lineWidth = 1;
		c.fillStyle = ground;
		c.fillRect(0, 0, width, AXIS);
		c.fillStyle = muted;
		const digits = Math.max(0, Math.ceil(-Math.log10((range[1] - range[0]) / width / 1.1)) - 2);

		for (const v of ticks(range[0], range[1], width)) {
			c.fillRect(x(v), AXIS - 5, 1, 5);
			c.fillText(`${v.toFixed(Math.min(digits, 6))} ms`, x(v) + 4, AXIS / 2);
		}
	};
	/** The middle of an event's row; what the finer one has not is in the whole. */
	const middle = (e: Spot) => {
		const at = locate(t, e);

		return at ? AXIS + TITLE + (place.top[t.rows[4 * at[0]] as number] as number) + (t.rows[4 * at[0] + 1] as number) * ROW + ROW / 2 - scroll.current : NaN;
	};
	/** From the middle of what began it to its begin. */
	const arrow = (c: CanvasRenderingContext2D, a: Spot, b: Spot) => {
		const near = (ms: number) => Math.min(Math.max(x(ms), -999), width + 999);
		const x1 = near(a.start_ms + a.dur_ns / 2e6);
		const x2 = near(b.start_ms);
		const y1 = middle(a);
		const y2 = middle(b);
		const bend = Math.max(24, Math.abs(x2 - x1) / 2);

		if (Number.isNaN(y1 + y2)) return;
		c.beginPath();
		c.moveTo(x1, y1);
		c.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2 - 6, y2);
		c.stroke();
		c.beginPath();
		c.moveTo(x2, y2);
		c.lineTo(x2 - 8, y2 - 4);
		c.lineTo(x2 - 8, y2 + 4);
		c.fill();
	};
	// Not in an effect or a frame to come: a next change would take its place before it is drawn.
	useLayoutEffect(draw, [width, height, range[0], range[1], shown, dark, needle, over, turn, picked]);

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

		for (let row = 0; row < tops.length; row++) {
			const y = rowTop(row);

			if (!(e.offsetY >= Math.max(y, AXIS) && e.offsetY < y + ROW)) continue;
			const bar = barAt(shown, row, ms, (span / width) * 1.5);

			return bar < 0 ? null : { row, bar, t: shown };
		}
		return null;
	};
	const jump = (e: Spot) => {
		const y = middle(e);
		const ms = e.dur_ns / 1e6;

		if (y < AXIS + ROW || y > height - ROW) down(y - height / 2);
		// So far in that it can be seen.
		const w = (ms / span) * width < 2 ? Math.max(ms, 1e-4) * 30 : span;

		if (w !== span || e.start_ms < range[0] || e.start_ms + ms > range[1]) to(e.start_ms + (ms - w) / 2, e.start_ms + (ms + w) / 2);
		onPick?.(e.event);
	};
	const beside = (by: number) => {
		const [row, bar] = (picked && locate(shown, picked)) ?? [0, NaN];
		const i = bar + by;
		const nth = i - (shown.rows[4 * row + 2] as number);

		if (picked && nth >= 0 && nth < (shown.rows[4 * row + 3] as number)) jump({ ...picked, event: shown.event[i] as number, start_ms: shown.start[i] as number, dur_ns: (shown.dur[i] as number) * 1e6 });
	};
	const drag = useRef<{ x: number; y: number; moved: boolean } | null>(null);
	const keys = (e: KeyboardEvent) => {
		const act: Record<string, () => void> = {
			ArrowLeft: () => pan(-0.15), a: () => pan(-0.15), ArrowRight: () => pan(0.15), d: () => pan(0.15), ArrowUp: () => down(-60), ArrowDown: () => down(60),
			"+": () => zoom(0.6), "=": () => zoom(0.6), w: () => zoom(0.6), "-": () => zoom(1.6), s: () => zoom(1.6), "0": () => to(lo, hi),
			...(onPick && { j: () => picked?.links[0] && jump(picked.links[0]), ",": () => beside(-1), ".": () => beside(1), Escape: () => onPick(null) }),
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
				ref={canvas} style={{ height: `${height}px` }} tabIndex={0} role="img" aria-label={`${label}. Arrows move, plus and minus zoom, 0 shows all${onPick ? ", J follows an event's arrow, comma and full stop go to its neighbours" : ""}.`} onKeyDown={keys}
				onPointerDown={(e) => {
					if (e.button !== 0) return;
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
				onPointerUp={(e) => {
					const at = drag.current?.moved === false && find(e);

					drag.current = null;
					if (at) onPick?.(at.t.event[at.bar] as number);
				}}
				onPointerCancel={() => (drag.current = null)} onPointerLeave={() => setOver(null)}
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
				) : <span class="muted">Ctrl wheel or + and − zoom, drag moves, double click shows one bar whole, 0 all.{onPick && " A click tells all about a bar, J follows its arrow, Esc lets go."}</span>}
			</output>
			{below?.(jump)}
		</div>
	);
}
