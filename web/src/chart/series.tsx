// SPDX-License-Identifier: Apache-2.0
//
// A chart that asks for its series itself: at its width and zoom, again when those change,
// and goes on with what comes live.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, type Axis, type Fetched, type QueryAsk, useFetch } from "../api";
import type { QueryAnswer, QuerySeries } from "../columns";
import { type LivePoints, useLive } from "../live";
import { pointsFor } from "../preload";
import { Chart, type ChartProps } from "./chart";
import { extend, type Line, linesOf } from "./math";
import type { View } from "./view";

interface Tail {
	t: number[];
	step: number[];
	y: number[];
}

export interface Queried extends Fetched<QueryAnswer> {
	/** Points that came since, by id of series. */
	tail: ReadonlyMap<string, Tail>;
	/** Grows with tail. */
	turn: number;
}

/** How old an answer may grow while points are added to it, while they cannot be, and while
 * some of its series are not there yet. */
const FRESH_MS = 20_000;
const RATE_MS = 900;
const UNMATCHED_MS = 5000;
const TAIL_MAX = 400;

function number(v: number | string | null): number {
	return v === null ? NaN : Number(v);
}

interface Source {
	id: string;
	kind: string;
	rate: boolean;
	/** It is one of several of a group: its points alone say nothing of the group. */
	shared: boolean;
	x: Float64Array | undefined;
}

/** The series that an answer is made of. */
function sources(answer: QueryAnswer): Source[] {
	const size = new Map<number, number>();

	for (const m of answer.members) size.set(m.in, (size.get(m.in) ?? 0) + 1);
	return [
		...answer.series.map((s) => ({ id: s.id, kind: s.kind, rate: s.rate, shared: false, x: s.col.x })),
		...answer.members.map((m) => ({ id: m.id, kind: m.kind, rate: m.rate, shared: (size.get(m.in) ?? 0) > 1, x: answer.groups[m.in]?.col.x })),
	];
}

/** Ask for series and keep the answer up to date; null: do not ask. `live`: the run runs. */
export function useQuery(run: string, ask: QueryAsk | null, live: boolean): Queried {
	const [again, setAgain] = useState(0);
	const [turn, setTurn] = useState(0);
	const tail = useRef(new Map<string, Tail>());
	const asked = useRef(0);
	const key = ask ? JSON.stringify([run, ask]) : null;
	const fetched = useFetch<QueryAnswer>(key === null ? null : `${key} ${again}`, async (signal) => {
		asked.current = Date.now();
		const answer = await api.query(run, ask as QueryAsk, signal);

		// What came while it was asked for stays; what is older than the answer goes.
		for (const s of sources(answer)) {
			const of = tail.current.get(s.id);
			const x = s.x;
			const n = x?.length ?? 0;

			if (!of || !x || n === 0) continue;
			const last = x[n - 1] as number;
			const at = answer.head.axis === "step" ? of.step : answer.head.axis === "relative" ? of.t.map((t) => t - answer.head.start) : of.t;
			const from = at.findIndex((x) => x > last);

			if (from < 0) tail.current.delete(s.id);
			else tail.current.set(s.id, { t: of.t.slice(from), step: of.step.slice(from), y: of.y.slice(from) });
		}
		return answer;
	});
	const shown = useRef<QueryAnswer | null>(null);
	const later = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);

	shown.current = fetched.data;
	useLive(live && key !== null ? run : null, (m) => {
		const answer = shown.current;
		const age = Date.now() - asked.current;

		if (!answer) return;
		if (m.type === "gap" || m.type === "end" || m.type === "series" || m.type === "poll" || (m.type === "hello" && age > 200)) {
			// What was asked a moment ago may lack what came now: then once more, a little later.
			clearTimeout(later.current);
			later.current = setTimeout(() => setAgain((n) => n + 1), m.type === "end" ? 0 : Math.max(0, 500 - age));
			return;
		}
		if (m.type !== "points") return;
		if (age > (answer.head.unmatched.length > 0 ? UNMATCHED_MS : FRESH_MS)) {
			setAgain((n) => n + 1);
			return;
		}
		const data = m.data as LivePoints;
		let added = false;
		let rates = false;

		for (const s of sources(answer)) {
			const direct = s.kind !== "histogram" && !s.rate && !s.shared;
			const points = data.series[s.id];
			const buckets = data.buckets?.[s.id];

			if (!points && !buckets) continue;
			if (!direct) {
				rates = true;
				continue;
			}
			const of = tail.current.get(s.id) ?? { t: [], step: [], y: [] };

			for (const p of points ?? []) {
				of.t.push(p[0]);
				of.step.push(p[1] ?? NaN);
				of.y.push(number(p[2]));
			}
			for (const b of buckets ?? []) {
				of.t.push(number(b[1] ?? null));
				of.step.push(number(b[2] ?? null));
				of.y.push(number(b[6] ?? null));
			}
			tail.current.set(s.id, of);
			added = true;
			if (of.t.length > TAIL_MAX) rates = true;
		}
		if (added) setTurn((n) => n + 1);
		if (rates && age > RATE_MS) setAgain((n) => n + 1);
	});
	// Another question: what was added to the old answer does not belong to the new one.
	useEffect(() => () => tail.current.clear(), [run, ask?.axis]);
	useEffect(() => () => clearTimeout(later.current), []);
	return { ...fetched, tail: tail.current, turn };
}

/** Lines of an answer with what came since. */
export function liveLines(q: Queried, options: Parameters<typeof linesOf>[1] & { axis: Axis; pick?: (s: QuerySeries) => boolean }): Line[] {
	if (!q.data) return [];
	const all = q.data.groups.length > 0 ? q.data.groups : q.data.series;
	const series = options.pick ? all.filter(options.pick) : all;
	const start = q.data.head.start;

	const alone = new Map<string, string>(); // of a group with one series

	for (const m of q.data.members) {
		const group = q.data.groups[m.in]?.group;

		if (group !== undefined) alone.set(group, alone.has(group) ? "" : m.id);
	}
	return linesOf(series, options).map((line) => {
		const key = line.key.slice((options.prefix ?? "").length);
		const tail = q.tail.get(alone.get(key) ?? key);

		if (!tail) return line;
		return extend(line, options.axis === "step" ? tail.step : options.axis === "relative" ? tail.t.map((t) => t - start) : tail.t, tail.y);
	});
}

export { pointsFor };

export interface SeriesChartProps {
	run: string;
	live: boolean;
	name: string;
	title: ComponentChildren;
	heading?: string;
	/** Patterns of `lapse query`: those of the left axis, and of the right one. */
	series?: readonly string[];
	right?: readonly string[];
	/** Or HOST/NUMBER, rate(HOST/NUMBER): names that hold anything. */
	ids?: readonly string[];
	/** Mean, smallest and greatest over the series of a group ("none", "host" …). */
	group?: string;
	view: View;
	height?: number;
	/** Said where nothing matches. */
	empty?: ComponentChildren;
	attempts?: "all" | "last";
	marks?: ChartProps["marks"];
	spans?: ChartProps["spans"];
	domain?: ChartProps["domain"];
	aside?: ComponentChildren;
	more?: ChartProps["more"];
	onLines?: (lines: readonly Line[]) => void;
}

const NONE: readonly string[] = [];

export function SeriesChart(props: SeriesChartProps) {
	const { run, view, series = NONE, right, ids = NONE } = props;
	const [width, setWidth] = useState(0);
	const [seen, setSeen] = useState(typeof IntersectionObserver === "undefined");
	const root = useRef<HTMLDivElement>(null);

	useLayoutEffect(() => {
		if (seen) return;
		if ((root.current as HTMLDivElement).getBoundingClientRect().top < innerHeight + 300) {
			setSeen(true);
			return;
		}
		const watch = new IntersectionObserver((all) => all.some((e) => e.isIntersecting) && setSeen(true), { rootMargin: "300px" });

		watch.observe(root.current as HTMLDivElement);
		return () => watch.disconnect();
	}, [seen]);
	const points = pointsFor(width);
	const many = series.length + ids.length + (right?.length ?? 0) > 1 || series.some((s) => /[*?{]/.test(s));
	const range = view.range;
	const wanted = useMemo<QueryAsk | null>(() => {
		if (!seen || width === 0) return null;
		// A little more than is seen, so that lines reach the edges.
		const pad = range ? (range[1] - range[0]) * 0.02 : 0;

		return {
			series: [...series, ...(right ?? [])], id: [...ids], points, axis: view.axis, group: props.group || undefined, attempts: props.attempts,
			grid: many && !props.group ? true : undefined,
			from: range ? bound(range[0] - pad, view.axis, Math.floor) : undefined,
			to: range ? bound(range[1] + pad, view.axis, Math.ceil) : undefined,
		};
	}, [seen, width === 0, series.join("\n"), ids.join("\n"), right?.join("\n"), points, view.axis, props.group, props.attempts, range?.[0], range?.[1]]);
	const q = useQuery(run, wanted, props.live);
	const lines = useMemo(() => {
		const names = new Set((right ?? []).map((p) => p.replace(/^rate\((.*)\)$/, "$1").replace(/\{.*$/, "")));
		const isRight = (s: QuerySeries) => names.has(s.name);

		if (names.size === 0) return liveLines(q, { axis: view.axis });
		return [
			...liveLines(q, { axis: view.axis, side: "left", pick: (s) => !isRight(s) }),
			...liveLines(q, { axis: view.axis, side: "right", pick: isRight }),
		];
	}, [q.data, q.turn, view.axis]);

	useEffect(() => props.onLines?.(lines), [lines]);
	const nothing = !q.loading && !!q.data && lines.every((l) => l.x.length === 0);
	const note = q.error && q.error.code !== "no-such-series" ? q.error.message
		: nothing && wanted ? (props.empty ?? (range ? "Nothing in this range: double click shows all." : "Nothing recorded.")) : undefined;

	return (
		<div ref={root} class="series-chart">
			<Chart
				name={props.name} title={props.title} heading={props.heading} lines={lines} axis={view.axis} range={view.range} onZoom={view.setRange}
				domain={props.domain} log={view.log(props.name)} clip={view.clip(props.name)} onLog={(on) => view.setLog(props.name, on)} onClip={(on) => view.setClip(props.name, on)}
				band={view.band} smooth={view.smooth} marks={props.marks} spans={props.spans} group="page" height={props.height} note={note}
				loading={q.loading && !!wanted && (!q.data || !props.live)} aside={props.aside} more={props.more} onWidth={setWidth}
			/>
		</div>
	);
}

function bound(v: number, axis: Axis, round: (v: number) => number): number {
	return axis === "step" ? round(v) : Math.round(v * 1000) / 1000;
}
