// SPDX-License-Identifier: Apache-2.0
//
// The views of one trace: what its time went into, its timeline, tables, flame graph.
import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, get, getBytes, type Params, runUrl, useFetch } from "../api";
import * as fmt from "../fmt";
import { DARK, LIGHT } from "../palette";
import { useFlag, useNumber, useParam } from "../router";
import { useTheme } from "../ui/theme";
import { Badge, Shares, Switch } from "../ui/bits";
import { Empty, ErrorState, Skeleton } from "../ui/states";
import { Chart } from "../chart/chart";
import type { Line } from "../chart/math";
import { Bars } from "./bars";
import { busy, held, line, middles, tracks } from "./curves";
import { type Row, Sheets, type TraceAnswer } from "./sheets";
import { Event } from "./event";
import { decodeTimeline, flame, type Picked, type Speedscope, type Timeline } from "./timeline";

/** "profile/a b.json" as part of an address. */
export const pathOf = (name: string) => name.split("/").map(encodeURIComponent).join("/");

interface ViewProps {
	run: string;
	file: string;
	/** Other ranks' traces of the same job. */
	others: string[];
}

/** Of params null nothing is asked. */
function useView<T>(run: string, view: string, file: string, params: Params | null, read: (address: string, signal: AbortSignal) => Promise<T>) {
	const address = params && runUrl(run, `trace/${view}/${pathOf(file)}`, params);

	return useFetch<T>(address, (signal) => read(address as string, signal));
}

const json = <T,>(address: string, signal: AbortSignal) => get<T>(address, {}, signal);

/** Nothing could be read of it: what lapse trace said is the answer, no failure. */
function Wait({ error, retry }: { error: ApiError | null; retry: () => void }) {
	if (error?.code === "no-trace") return <Empty title="This is no trace that lapse reads"><p><bdi>{error.message}</bdi></p></Empty>;
	return error ? <ErrorState error={error} retry={retry} /> : <Skeleton height={200} rows={2} />;
}

/** Tables of some subcommands, one below the other. */
export function Tables({ run, file, others, views, but }: ViewProps & { views: string[]; but?: string[] }) {
	return <>{views.map((v) => <OneTable key={v} view={v} run={run} file={file} others={others} but={but} />)}</>;
}

function OneTable({ run, file, others, view, but }: ViewProps & { view: string; but?: string[] }) {
	const answer = useView<TraceAnswer>(run, view, file, { with: others }, json);

	return answer.data ? <Sheets answer={answer.data} but={but} /> : <Wait error={answer.error} retry={answer.reload} />;
}

const PENS: Record<string, number> = { compute: 0, memory: 2, copy: 5, communication: 3, straggler: 6, data: 1, sync: 4, launch: 6, host: 4 };

export function Summary({ run, file, others }: ViewProps) {
	const { dark } = useTheme();
	const answer = useView<TraceAnswer>(run, "summary", file, { with: others }, json);
	const a = answer.data;

	if (!a) return <Wait error={answer.error} retry={answer.reload} />;
	const color = (kind: string) => (dark ? DARK : LIGHT)[PENS[kind] ?? 7] as string;

	return (
		<>
			{a.sheets.verdict?.map((v) => {
				const own = (name: string) => (a.sheets[name] ?? []).filter((r) => r.file === v.file);
				const findings = own("findings");

				return (
					<section key={String(v.file)} class="verdict">
						{a.files.length > 1 && <h2>Rank {v.rank ?? v.file}</h2>}
						<Shares label="What the time went into" parts={own("shares").filter((s) => Number(s.pct) > 0).map((s) => ({
							name: String(s.title), share: Number(s.pct) / 100, color: color(String(s.kind)), title: `${s.title}: ${fmt.seconds(Number(s.time_ns) / 1e9)}`,
						}))} />
						<ul class="list">
							{findings.map((f, i) => <li key={i}>{i === 0 ? <b><bdi>{f.text}</bdi></b> : <bdi>{f.text}</bdi>} <span class="muted">{f.advice}</span></li>)}
						</ul>
					</section>
				);
			})}
			<Sheets answer={a} only={["steps", "evidence", "devices", "contents", "problems"]} />
		</>
	);
}

function Picture({ t, label, start, onRange, children, ...bars }: Pick<Parameters<typeof Bars>[0], "t" | "detail" | "label" | "height" | "picked" | "onPick" | "below"> & {
	start: [number, number]; onRange?: (r: [number, number]) => void; children?: preact.ComponentChildren;
}) {
	const [search, setSearch] = useParam("find");
	const [range, setRange] = useState(start);

	useEffect(() => onRange?.(range), [range]);
	return (
		<>
			<div class="toolbar">
				<input class="input" type="search" data-search placeholder="Find a name" aria-label="Find a name" value={search} onInput={(e) => setSearch(e.currentTarget.value)} />
				<button type="button" class="button" onClick={() => setRange([t.head.first_ms, t.head.last_ms])}>Show all</button>
				{children}
			</div>
			<Bars t={t} label={label} search={search} range={range} onRange={setRange} {...bars} />
		</>
	);
}

/** A value once it has stayed for so long, the first one at once; else null. */
function useSettled(value: string, ms: number): string | null {
	const [settled, settle] = useState<string | null>(value);

	useEffect(() => {
		const timer = setTimeout(() => settle(value), ms);

		return () => {
			clearTimeout(timer);
			settle(null);
		};
	}, [value]);
	return settled === value ? value : null;
}

/** Each question starts a process of the server: not one for each of some quick clicks. */
const CLICKS_MS = 150;
const EVENTS = [300_000, 1000, 1_000_000] as const;
const read = async (address: string, signal: AbortSignal) => decodeTimeline(await getBytes(address, signal));

/** A chart over the time of a trace, ms; zoomed into, its bins are made anew. */
function Curve({ name, title, domain, make, ...more }: {
	name: string; title: string; domain: [number, number]; make: (from: number, to: number) => Line[]; note?: string; loading?: boolean; spans?: { from: number; to: number; label: string; kind: "epoch" }[];
}) {
	const [range, setRange] = useState<[number, number] | null>(null);
	const [lo, hi] = domain;
	const lines = useMemo(() => make(...(range ?? domain)), [make, range, lo, hi]);
	const zoom = (r: [number, number] | null) => setRange(r && (r[0] > lo || r[1] < hi) && r[0] < hi && r[1] > lo ? [Math.max(r[0], lo), Math.min(r[1], hi)] : null);

	return <section><Chart name={name} title={title} lines={lines} axis="relative" group="trace" range={range} domain={domain} onZoom={zoom} {...more} /></section>;
}

/** How busy devices were, and what waited for them. Of so many events that the timeline merges some, the command's own
 * coarser series. */
export function BusyCurve({ run, file }: ViewProps) {
	const [events] = useNumber("events", ...EVENTS);
	const answer = useView<Timeline>(run, "timeline", file, { events }, read);
	const t = answer.data;
	const merged = useMemo(() => !!t && busy(t, 0, 1, 1).merged, [t]);
	const coarse = useView<TraceAnswer>(run, "gpu", file, merged ? { points: 1, sheet: "timeline" } : null, json);
	const make = useMemo(() => (from: number, to: number) => {
		if (merged) {
			const rows = (coarse.data?.sheets.timeline ?? []).map((r) => ({ ...r, ts_ns: Number(r.ts_us) * 1e3 }));

			return tracks(rows, (r) => `GPU ${(r as Row).device}`, { utilisation_pct: "" }, "").map((k) => line(k.label, "", k.x, k.y.map((v) => v / 100), { share: true }));
		}
		return t ? [...busy(t, from, to).of].map(([device, y]) => line(/^\d+$/.test(device) ? `GPU ${device}` : device, "", middles(from, to), y, { share: true })) : [];
	}, [t, merged, coarse.data]);
	const { first_ms, last_ms, steps } = t?.head ?? { first_ms: 0, last_ms: 1, steps: [] };
	const domain: [number, number] = [first_ms, Math.max(last_ms, first_ms + 1e-3)];
	const error = answer.error ?? coarse.error;
	const loading = answer.loading || coarse.loading;
	const none = !loading && make(first_ms, last_ms).length === 0;

	return (
		<>
			<Curve
				name="busy" title="Share of the time in kernels" domain={domain} make={make} loading={loading} note={error?.message ?? (none ? "No kernels in this trace." : undefined)}
				spans={steps.map(([n, from, to]) => ({ from, to, label: `step ${n}`, kind: "epoch" }))}
			/>
			<HeldCurve run={run} file={file} view="queue" domain={t ? domain : undefined} />
		</>
	);
}

const HELD = {
	memory: { sheet: "timeline", title: "Memory of the allocator", label: (r: Row) => String(r.device), columns: { allocated_bytes: "allocated", reserved_bytes: "reserved" }, unit: "By", none: "No records of the allocator: profile with profile_memory=True." },
	queue: { sheet: "points", title: "Work waiting on streams", label: (r: Row) => `stream ${r.stream}`, columns: { length: "" }, unit: "", none: "Nothing was launched onto a stream in this trace." },
};

/** Values that hold until the next: of memory, of queues. */
export function HeldCurve({ run, file, view, domain }: Omit<ViewProps, "others"> & { view: keyof typeof HELD; domain?: [number, number] }) {
	const { sheet, title, label, columns, unit, none } = HELD[view];
	const answer = useView<TraceAnswer>(run, view, file, { points: 1, sheet }, json);
	// Where rows are chosen by steps, times are the trace's own; else since it began.
	const all = useMemo(() => tracks(answer.data?.sheets[sheet] ?? [], label, columns, unit, answer.data?.inputs.views?.[0]?.first_ns), [answer.data]);
	const make = useMemo(() => (from: number, to: number) => all.map((t) => {
		const { hi, lo } = held(t.x, t.y, from, to);

		return line(t.label, unit, Float64Array.of(...middles(from, to), to), hi, { lo, hi });
	}), [all]);
	const first = Math.min(...all.map((t) => t.x[0] as number));
	const own: [number, number] = all.length ? [first, Math.max(first + 1e-3, ...all.map((t) => t.x.at(-1) as number))] : [0, 1];

	return <Curve name={view} title={title} domain={domain ?? own} make={make} loading={answer.loading} note={answer.error?.message ?? (answer.data && all.length === 0 ? none : undefined)} />;
}

export function TimelineView({ run, file }: ViewProps) {
	const [events] = useNumber("events", ...EVENTS);
	const [step] = useParam("step");
	const { dark } = useTheme();
	const answer = useView<Timeline>(run, "timeline", file, { events }, read);
	const [want, setWant] = useState<[number, number] | null>(null);
	const detail = useView<Timeline>(run, "timeline", file, want && { events, from: want[0].toFixed(3), to: want[1].toFixed(3) }, read);
	const [event, setEvent] = useParam("event");
	const settled = useSettled(event, CLICKS_MS);
	const one = useView<Picked>(run, "timeline", file, settled ? { event: settled } : null, json);
	const picked = one.data && String(one.data.event) === event ? one.data : null;
	const t = answer.data;
	const used = useMemo(() => new Set(t?.category), [t]);
	const start = useMemo<[number, number]>(() => {
		const at = t?.head.steps.find((s) => String(s[0]) === step);

		return at ? [at[1], at[2]] : [t?.head.first_ms ?? 0, Math.max(t?.head.last_ms ?? 0, 1e-3)];
	}, [t, step]);

	if (!t) return <Wait error={answer.error} retry={answer.reload} />;
	if (t.head.bars === 0) return <Empty title="No events"><p>This trace has no event with a begin and a length.</p></Empty>;
	const look = (r: [number, number]) => {
		const span = r[1] - r[0];
		const inside = want && want[0] <= r[0] && want[1] >= r[1] && span * 12 > want[1] - want[0];

		// Where a merged bar could be wider than a pixel, a finer answer is worth its time.
		if (t.head.merged_ms * 1200 > span && !inside) setWant([Math.max(0, r[0] - span), r[1] + span]);
	};

	return (
		<Picture
			key={file + start} t={t} detail={detail.data} label={`Timeline of ${file}`} height={540} start={start} onRange={look}
			picked={picked} onPick={(e) => setEvent(e == null ? "" : String(e))} below={(jump) => <Event e={picked} asked={!!event} answer={one} jump={jump} />}
		>
			<span class="shares-legend">{t.head.categories.map((c, i) => used.has(i) && <span key={c}><i class="swatch" style={{ "--c": (dark ? DARK : LIGHT)[i % 8] }} /> {c}</span>)}</span>
			<span class="spring" />
			<span class="muted">{fmt.group(t.head.events)} events{t.head.left_out > 0 && `, ${fmt.group(t.head.left_out)} left out`}</span>
			{t.head.notes.length > 0 && <Badge tone="warn" title={t.head.notes.join("\n")}>notes</Badge>}
		</Picture>
	);
}

export function FlameView({ run, file }: ViewProps) {
	const [device, setDevice] = useFlag("device");
	const [plain, setPlain] = useFlag("plain");
	const answer = useView<Speedscope>(run, "flame", file, { device, python: plain ? 0 : null }, json);
	const t = useMemo(() => (answer.data ? flame(answer.data) : null), [answer.data]);

	if (!t) return <Wait error={answer.error} retry={answer.reload} />;
	return (
		<Picture key={file + device + plain} t={t} label={`Flame graph of ${file}`} height={640} start={[0, Math.max(t.head.last_ms, 1e-6)]}>
			<Switch on={device} set={setDevice} title="time of the devices, below the stack that launched the work">device time</Switch>
			<Switch on={plain} set={setPlain}>without Python</Switch>
			{t.head.bars === 0 && <span class="muted">There are no stacks{device ? " of devices" : ""} in this trace.</span>}
			<span class="spring" />
			<a class="button" href={runUrl(run, `trace/flame/${pathOf(file)}`, { format: "svg", device })} download="flame.svg">SVG</a>
			<a class="button" href={runUrl(run, `trace/flame/${pathOf(file)}`, { format: "folded", device })} download="stacks.folded">Folded</a>
		</Picture>
	);
}

/** speedscope, a page of its own, with the profile of this address. */
export function SpeedscopeView({ run, file, isTrace }: ViewProps & { isTrace: boolean }) {
	const from = new URL(isTrace ? runUrl(run, `trace/flame/${pathOf(file)}`) : runUrl(run, `files/${pathOf(file)}`), location.href).href;

	return <iframe class="speedscope" title={`speedscope: ${file}`} src={`speedscope/index.html#profileURL=${encodeURIComponent(from)}&title=${encodeURIComponent(file)}`} />;
}
