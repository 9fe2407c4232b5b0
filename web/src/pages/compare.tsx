// SPDX-License-Identifier: Apache-2.0
//
// compare.tsx - the page Compare: 2 to 20 runs. What differs, and whether that is more than
// noise; curves over each other; settings that are not the same.
import { Fragment } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, get, type RunDetail, type RunRow, useFetch } from "../api";
import { Chart, type Line } from "../chart/chart";
import { linesOf } from "../chart/math";
import { pointsFor } from "../chart/series";
import { useView, type View } from "../chart/view";
import * as fmt from "../fmt";
import { useTick } from "../live";
import { pen } from "../palette";
import { href, setQuery, useFlag, useList } from "../router";
import { useTheme } from "../ui/theme";
import { Badge, Choice, Name, Outcome, Switch, type Tone, Time, useSeen } from "../ui/bits";
import { Combobox } from "../ui/combobox";
import { Empty, ErrorState, Skeleton } from "../ui/states";
import { diffParts, type ForestScale, forestScale, place } from "./forest";
import "./pages.css";

const MOST_RUNS = 20;
const CHARTS = 6;
const SHOWN = 200; // characters of a setting; the rest is in its title
const OWN = /^alert\.watch$/; // what lapse keeps for itself

interface Run {
	id: string;
	name: string;
	project: string;
	outcome: string;
	start: string | null;
	duration_s: number | null;
	steady: { step_first: number | null; step_last: number | null } | null;
}

interface Value {
	series: string;
	rank: number | null;
	/** Series that it is the sum or mean of. */
	ranks: number;
	n: number;
	median: number;
	p5: number;
	p95: number;
}

interface Difference {
	absolute: number | null;
	low: number | null;
	high: number | null;
	relative: number | null;
	relative_low: number | null;
	relative_high: number | null;
	verdict: "better" | "worse" | "differs" | "same" | "not-enough";
	why: string;
	reason: "few-points" | "level-changes" | "wide" | "apart" | null;
	/** Of the base, of the run: the reason holds for it. */
	in: [boolean, boolean];
}

interface Metric {
	name: string;
	labels: string;
	unit: string;
	kind: string;
	direction: number;
	ranks: "sum" | "mean";
	values: (Value | null)[];
	differences: (Difference | null)[];
}

interface Comparison {
	runs: Run[];
	confidence: number;
	tolerance: number;
	metrics: Metric[];
	attributes: Setting[];
	same: number;
	about: { key: string; values: (string | null)[] }[];
}

interface Setting {
	key: string;
	group: string;
	values: (string | null)[];
}

const idOf = (m: Metric) => m.name + (m.labels ? `{${m.labels}}` : "");

export default function Compare() {
	const [runs] = useList("run");
	const chosen = useMemo(() => [...new Set(runs)].slice(0, MOST_RUNS), [runs]);

	return (
		<div class="compare">
			<Chosen runs={chosen} />
			{chosen.length < 2 ? (
				<Empty title={chosen.length ? "Choose one more run" : "Choose runs to compare"}>
					<p>Two to twenty, with “Add runs” above, or by the boxes in the <a href="#/runs">table of runs</a>. The first is what the others are compared with.</p>
				</Empty>
			) : <Compared key={chosen.join()} runs={chosen} />}
		</div>
	);
}

/** Which runs: names in the colour of their lines; the first is the base. */
function Chosen({ runs }: { runs: readonly string[] }) {
	const { dark } = useTheme();
	const table = useFetch("runs", (signal) => api.runs({ limit: 500, sort: "-start" }, signal));
	const all = table.data?.runs ?? [];
	const options = useMemo(() => all.map((r) => ({ value: r.id, label: `${r.name} · ${r.id}`, hint: fmt.ago(r.start ? Date.parse(r.start) : null) })), [table.data]);
	const set = (list: readonly string[]) => setQuery({ run: [...list].slice(0, MOST_RUNS) }, false);
	const of = (id: string): RunRow | undefined => all.find((r) => r.id === id);

	return (
		<header class="chosen">
			<h1>Compare</h1>
			<ul>
				{runs.map((id, i) => (
					<li key={id}>
						<i class="swatch" style={{ "--c": pen(i, dark).color }} />
						<a href={href(["run", id, "overview"])} title={id}><Name text={of(id)?.name ?? id} most={40} /></a>
						{i === 0 ? <span class="muted">base</span> : <button type="button" class="link" title="compare the others with this one" onClick={() => set([id, ...runs.filter((r) => r !== id)])}>make base</button>}
						<button type="button" class="icon" aria-label={`Take ${fmt.shorten(of(id)?.name ?? id, 40)} out`} onClick={() => set(runs.filter((r) => r !== id))}>✕</button>
					</li>
				))}
			</ul>
			<Combobox label="Add runs" options={options} value={runs} set={set} many placeholder="name or id" />
		</header>
	);
}

function Compared({ runs }: { runs: readonly string[] }) {
	const [metrics, setMetrics] = useList("metric");
	const [live, setLive] = useState(false);
	const answer = useFetch(runs.join(), (signal) => get<Comparison>("api/v1/compare", { run: runs }, signal), live ? 20_000 : 0);
	const c = answer.data;

	useEffect(() => setLive(!!c?.runs.some((r) => r.outcome === "running")), [c]);

	if (answer.error && !c) return <ErrorState error={answer.error} retry={answer.reload} />;
	if (!c) return <Skeleton height={220} rows={3} />;
	const shown = metrics.length ? metrics : c.metrics.slice(0, CHARTS).map(idOf);
	const toggle = (m: string) => setMetrics(shown.includes(m) ? shown.filter((x) => x !== m) : [...shown, m]);

	return (
		<>
			<section aria-labelledby="t-diff">
				<Differences c={c} shown={shown} toggle={toggle} />
			</section>
			<Overlay c={c} shown={shown} set={setMetrics} />
			<section aria-labelledby="t-settings">
				<Settings c={c} />
			</section>
		</>
	);
}

const WORD: Record<Difference["verdict"], [string, Tone]> = {
	better: ["better", "good"], worse: ["worse", "bad"], differs: ["differs", "live"], same: ["same", "plain"], "not-enough": ["unclear", "plain"],
};

function signed(v: number | null): string {
	if (v === null) return fmt.UNKNOWN;
	return Math.abs(v) < 0.0005 ? "±0 %" : (v > 0 ? "+" : "−") + fmt.percent(Math.abs(v));
}

/** Why a difference has no clear verdict, or what else to know of it, in a few words. */
function because(d: Difference, base: Run, run: Run): string {
	const names = [base, run].filter((_, i) => d.in[i]).map((r) => fmt.shorten(r.name, 20)).join(" and ");

	switch (d.reason) {
		case "few-points": return `fewer than 20 points in ${names}`;
		case "level-changes": return `level changes within ${names}`;
		case "apart": return `level changes within ${names}, but they do not overlap`;
		case "wide": return "interval has 0 in it and is wide";
		default: return "";
	}
}

/** What a row is of where runs have several ranks: "mean of 8 ranks". */
function ofRanks(m: Metric): string {
	const had = m.values.filter((v): v is Value => !!v);
	const counts = [...new Set(had.map((v) => v.ranks))];

	if (counts.every((n) => n < 2)) return "";
	return `${m.ranks} of ${counts.join(" and ")} ${had.some((v) => v.rank !== null) ? "ranks" : "hosts"}`;
}

const ORDER: readonly Difference["verdict"][] = ["worse", "better", "differs", "not-enough", "same"];

/** By verdict, then the largest difference first; of several runs what stands first counts. */
function inOrder(metrics: readonly Metric[]): Metric[] {
	const key = (m: Metric): [number, number] => {
		const all = m.differences.filter((d): d is Difference => !!d);
		const first = Math.min(ORDER.length, ...all.map((d) => ORDER.indexOf(d.verdict)));

		return [first, Math.max(-1, ...all.filter((d) => d.verdict === ORDER[first]).map((d) => Math.abs(d.relative ?? 0)))];
	};

	return metrics.map((m) => ({ m, k: key(m) })).sort((p, q) => p.k[0] - q.k[0] || q.k[1] - p.k[1]).map((r) => r.m);
}

/** "steps 10 to 1,999" if that is so of all, else of each by name. */
function stepsOf(runs: readonly Run[]): string {
	const one = (r: Run) => (r.steady?.step_first != null ? `steps ${fmt.group(r.steady.step_first)} to ${fmt.group(r.steady.step_last)}` : "all but its first tenth");
	const first = one(runs[0]!);

	return runs.every((r) => one(r) === first) ? first : runs.map((r) => `${fmt.shorten(r.name, 24)}: ${one(r)}`).join(" · ");
}

/** Nothing shrinks by more than all of it: unless a base is negative, the scale ends there. */
function cutScale(s: ForestScale, known: readonly Difference[]): ForestScale {
	if (s.lo >= -1 || known.some((d) => Math.min(d.relative ?? 0, d.relative_low ?? 0) < -1)) return s;
	return { ...s, lo: -1, ticks: [-1, ...s.ticks.filter((t) => t > -1)] };
}

/** Indices of the other runs that have the metric. */
const having = (m: Metric) => m.values.map((v, i) => (i > 0 && v ? i : 0)).filter(Boolean);

function Differences({ c, shown, toggle }: { c: Comparison; shown: readonly string[]; toggle: (m: string) => void }) {
	const { dark } = useTheme();
	const [only, setOnly] = useFlag("differing");
	const others = c.runs.slice(1);
	const known = c.metrics.flatMap((m) => m.differences.filter((d): d is Difference => !!d));
	const scale = cutScale(forestScale(known.filter((d) => d.relative !== null).map((d) => ({ at: d.relative!, lo: d.relative_low ?? d.relative!, hi: d.relative_high ?? d.relative! }))), known);
	const rows = inOrder(c.metrics).filter((m) => !only || m.differences.some((d) => d && d.verdict !== "same" && d.verdict !== "not-enough"));
	const count = (v: Difference["verdict"]) => known.filter((d) => d.verdict === v).length;

	return (
		<>
			<div class="toolbar">
				<h2 id="t-diff">Differences in the steady part</h2>
				{(["worse", "better", "differs", "not-enough"] as const).map((v) => count(v) > 0 && <Badge tone={WORD[v][1]}>{count(v)} {WORD[v][0]}</Badge>)}
				<span class="spring" />
				<span class="muted">medians of {stepsOf(c.runs)}; {fmt.percent(c.confidence)} intervals</span>
				<Switch on={only} set={setOnly}>only what differs</Switch>
			</div>
			<div class="scroll" tabIndex={0} role="region" aria-label="Table of differences">
				<table class="sheet forest">
					<thead>
						<tr>
							<th scope="col">metric</th>
							<th scope="col" class="num value"><i class="swatch" style={{ "--c": pen(0, dark).color }} /> <Name text={c.runs[0]!.name} most={24} /> <span class="muted">base</span></th>
							{others.length > 1 && <th scope="col">run</th>}
							<th scope="col" class="num value">{others.length > 1 ? "median" : <><i class="swatch" style={{ "--c": pen(1, dark).color }} /> <Name text={others[0]!.name} most={24} /></>}</th>
							<th scope="col" class="num">difference</th>
							<th scope="col" class="plotted"><Axis s={scale} /></th>
							<th scope="col" />
						</tr>
					</thead>
					<tbody>
						{rows.map((m) => having(m).map((at, k, all) => {
							const r = c.runs[at]!;
							const base = m.values[0];
							const v = m.values[at];
							const d = m.differences[at];
							const show = (x: number | undefined) => (x === undefined ? fmt.UNKNOWN : fmt.value(x, m.unit, fmt.isShare(m.name, m.unit)));

							return (
								<tr key={idOf(m) + r.id} class={k === 0 ? "begins" : ""}>
									{k === 0 && (
										<>
											<th scope="rowgroup" rowSpan={all.length}>
												<button type="button" class="link" aria-pressed={shown.includes(idOf(m))} title={shown.includes(idOf(m)) ? "take its chart away" : "draw it below"} onClick={() => toggle(idOf(m))}>
													<Name text={idOf(m)} most={48} />
												</button>
												{ofRanks(m) && <div class="muted">{ofRanks(m)}</div>}
											</th>
											<td class="num value" rowSpan={all.length} title={base ? `${show(base.p5)} to ${show(base.p95)} (5th to 95th percentile of ${fmt.group(base.n)})` : undefined}>{show(base?.median)}</td>
										</>
									)}
									{others.length > 1 && <td><i class="swatch" style={{ "--c": pen(at, dark).color }} /> <Name text={r.name} most={24} /></td>}
									<td class="num value" title={v ? `${show(v.p5)} to ${show(v.p95)} (5th to 95th percentile of ${fmt.group(v.n)})` : undefined}>{show(v?.median)}</td>
									<td class="num">{d ? signed(d.relative) : fmt.UNKNOWN}</td>
									<td class="plotted">{d && <Bar d={d} s={scale} m={m} />}</td>
									<td>
										{d && <Badge tone={WORD[d.verdict][1]} title={d.why}>{WORD[d.verdict][0]}</Badge>}
										{d?.reason && <div class="muted">{because(d, c.runs[0]!, r)}</div>}
									</td>
								</tr>
							);
						}))}
					</tbody>
				</table>
			</div>
			{rows.length === 0 && <p class="absent">{c.metrics.length ? "Nothing differs by more than noise." : "These runs have no metric in common."}</p>}
		</>
	);
}

const W = 240;
const EDGE = 26; // for half a label, and for arrows

const across = (s: ForestScale, v: number) => EDGE + place(s, v).x * (W - 2 * EDGE);

function Axis({ s }: { s: ForestScale }) {
	return (
		<svg class="forest-axis" width={W} height={16} viewBox={`0 0 ${W} 16`} aria-hidden="true">
			{s.ticks.map((t) => <text x={across(s, t)} y={12} text-anchor="middle">{t === 0 ? "0" : signed(t).replace(".0 ", " ")}</text>)}
		</svg>
	);
}

/** An interval: a line from end to end, a dot at the difference; an arrow where it goes on. */
function Bar({ d, s, m }: { d: Difference; s: ForestScale; m: Metric }) {
	if (d.relative === null) return null;
	const lo = place(s, d.relative_low ?? d.relative);
	const hi = place(s, d.relative_high ?? d.relative);
	const at = place(s, d.relative);
	const text = `${idOf(m)}: ${signed(d.relative)}, interval ${signed(d.relative_low)} to ${signed(d.relative_high)}. ${d.why}`;
	const x = (p: { x: number }) => EDGE + p.x * (W - 2 * EDGE);
	const out = at.beyond !== 0;

	return (
		<svg class={`forest-bar ${d.verdict}`} width={W} height={18} viewBox={`0 0 ${W} 18`} role="img" aria-label={text}>
			<title>{text}</title>
			{s.ticks.map((t) => <line class={t === 0 ? "zero" : "tick"} x1={across(s, t)} x2={across(s, t)} y1={0} y2={18} />)}
			<line class="span" x1={x(lo) - (lo.beyond < 0 ? 12 : 0)} x2={x(hi) + (hi.beyond > 0 ? 12 : 0)} y1={9} y2={9} />
			{lo.beyond < 0 ? <path d={`M${EDGE - 18} 9l8-4v8z`} /> : !out && <line class="span" x1={x(lo)} x2={x(lo)} y1={5} y2={13} />}
			{hi.beyond > 0 ? <path d={`M${W - EDGE + 18} 9l-8-4v8z`} /> : !out && <line class="span" x1={x(hi)} x2={x(hi)} y1={5} y2={13} />}
			{!out && <circle cx={x(at)} cy={9} r={3.5} />}
		</svg>
	);
}

function Overlay({ c, shown, set }: { c: Comparison; shown: readonly string[]; set: (m: string[]) => void }) {
	const view = useView("step");
	const series = useFetch(c.runs.map((r) => r.id).join(), async (signal) => {
		const all = await Promise.all(c.runs.map((r) => api.series(r.id, [], signal)));
		const names = new Map<string, { n: number; unit: string }>();

		for (const one of all)
			for (const name of new Set(one.series.map((s) => s.name + (s.labels ? `{${s.labels}}` : "")))) {
				const had = names.get(name);

				names.set(name, { n: (had?.n ?? 0) + 1, unit: "" });
			}
		return names;
	});
	const options = useMemo(() => [...(series.data ?? [])].sort((p, q) => q[1].n - p[1].n || p[0].localeCompare(q[0], "en", { numeric: true }))
		.map(([name, { n }]) => ({ value: name, label: name, hint: n < c.runs.length ? `${n} of ${c.runs.length} runs` : "" })), [series.data]);

	return (
		<section aria-labelledby="t-charts">
			<div class="toolbar">
				<h2 id="t-charts">Curves</h2>
				<Combobox label="Metrics" options={options} value={shown} set={set} many placeholder="metric" />
				<Choice label="Axis" value={view.axis === "time" ? "relative" : view.axis} options={[["step", "step"], ["relative", "since start"]]} set={view.setAxis} />
				<label title="moving average over what is drawn; what was recorded stays behind it">
					Smooth<input type="range" min="0" max="0.99" step="0.01" value={view.smooth} onInput={(e) => view.setSmooth(Number(e.currentTarget.value))} aria-label="Smoothing" />
					<span class="num smooth">{view.smooth ? view.smooth.toFixed(2) : "off"}</span>
				</label>
				{view.range && <button type="button" class="button" onClick={() => view.setRange(null)}>Show all</button>}
			</div>
			<div class="panels wide">{shown.map((m) => <OverlayChart key={m} c={c} metric={m} view={view} away={() => set(shown.filter((x) => x !== m))} />)}</div>
			{!shown.length && <p class="absent">No metric is chosen.</p>}
		</section>
	);
}

function OverlayChart({ c, metric, view, away }: { c: Comparison; metric: string; view: View; away: () => void }) {
	const [ref, seen] = useSeen();
	const [width, setWidth] = useState(0);
	const axis = view.axis === "time" ? "relative" : view.axis;
	const of = c.metrics.find((m) => idOf(m) === metric);
	const running = c.runs.find((r) => r.outcome === "running")?.id ?? null;
	const tick = useTick(running, ["points", "end"], 3000);
	const key = seen && width ? `${c.runs.map((r) => r.id)} ${metric} ${axis} ${view.range} ${pointsFor(width)} ${tick}` : null;
	const answer = useFetch(key, (signal) => Promise.all(c.runs.map(async (r, i): Promise<Line | null> => {
		const value = of?.values[i];
		const many = value && value.ranks > 1 ? value.ranks : 0;
		const pattern = many ? metric : value?.series;
		const asked = pattern && of?.kind === "counter" ? `rate(${pattern})` : pattern;

		try {
			const q = await api.query(r.id, {
				...(many ? { series: [asked!], group: "none" } : asked ? { id: [asked] } : { series: [metric] }),
				axis, points: pointsFor(width), from: view.range?.[0], to: view.range?.[1],
			}, signal);
			const s = many ? q.groups[0] : [...q.series].sort((a, b) => (a.rank ?? 0) - (b.rank ?? 0))[0];

			if (!s) return null;
			const line = { ...linesOf([s])[0]!, key: r.id, label: r.name, pen: i };

			// The sum, as in the table; its smallest and greatest values are not known.
			return many && of?.ranks === "sum" ? { ...line, y: Float64Array.from(line.y, (v) => v * many), last: line.last === undefined ? undefined : line.last * many, lo: undefined, hi: undefined, meanOf: undefined } : line;
		} catch (e) {
			if ((e as { code?: string }).code === "no-such-series") return null;
			throw e;
		}
	})));
	const lines = useMemo(() => (answer.data ?? []).filter((l): l is Line => l !== null && l.x.length > 0), [answer.data]);
	const stepless = axis === "step" && !!answer.data?.some((l) => l?.x.length === 0);
	const lack = answer.data ? answer.data.length - lines.length : 0;

	return (
		<div ref={ref as never}>
			<Chart
				name={metric} heading={metric} title={<Name text={metric} most={60} />} lines={lines} axis={axis} range={view.range} onZoom={view.setRange} group="compare" height={190}
				smooth={view.smooth} band={view.band && c.runs.length < 4} log={view.log(metric)} onLog={(on) => view.setLog(metric, on)} clip={view.clip(metric)} onClip={(on) => view.setClip(metric, on)}
				loading={answer.loading && seen} note={answer.error?.message ?? (answer.data && !lines.length ? (stepless ? "It has no steps: choose “since start”." : "None of these runs has it.") : undefined)} onWidth={setWidth}
				aside={lines.length > 0 && (lack > 0 || (of && ofRanks(of))) ? <span class="muted">{[of ? ofRanks(of) : "", lack > 0 ? `${lack} without` : ""].filter(Boolean).join(", ")}</span> : undefined}
				more={[{ label: "Take this chart away", run: away }]}
			/>
		</div>
	);
}

/** Settings of all runs, also those that are the same. */
function useAll(runs: readonly Run[], wanted: boolean): Setting[] | null {
	const details = useFetch(wanted ? runs.map((r) => r.id).join() : null, (signal) => Promise.all(runs.map((r) => api.run(r.id, signal))));

	return useMemo(() => {
		if (!details.data) return null;
		const rows = new Map<string, Setting>();
		const put = (i: number, group: string, key: string, value: string) => {
			let row = rows.get(key);

			if (!row) rows.set(key, (row = { key, group, values: runs.map(() => null) }));
			row.values[i] ??= value;
		};

		details.data.forEach((d: RunDetail, i) => {
			for (const key of ["command", "cwd", "user", "hosts", "project"] as const) put(i, "run", key, String(d.run[key] ?? ""));
			for (const a of d.attributes) if (!OWN.test(a.key)) put(i, a.key.includes("/") ? a.key.split("/")[0]! : "attribute", a.key, a.value);
		});
		return [...rows.values()];
	}, [details.data]);
}

/** "exited 0", "killed SIGKILL" as a run's own keys. */
function ended(words: string): { outcome: string; exit_code: number | null; signal: string | null } {
	const [first = "", rest = ""] = words.split(" ");

	return {
		outcome: first === "killed" ? "signaled" : words === "out of memory" ? "oom" : first,
		exit_code: first === "exited" ? Number(rest) : null, signal: first === "killed" ? rest : null,
	};
}

function Settings({ c }: { c: Comparison }) {
	const { dark } = useTheme();
	const [everything, setEverything] = useFlag("all");
	const [find, setFind] = useState("");
	const all = useAll(c.runs, everything);
	const differing: Setting[] = [...c.about.map((a) => ({ ...a, group: "run" })), ...c.attributes].filter((s) => !OWN.test(s.key));
	const rows = (everything && all ? all : differing).filter((r) => r.key.toLowerCase().includes(find.toLowerCase()));
	const groups = [...new Set(rows.map((r) => r.group))];

	useEffect(() => setFind(""), [everything]);
	return (
		<>
			<div class="toolbar">
				<h2 id="t-settings">Settings and environment</h2>
				<span class="muted">{differing.length} differ, {fmt.group(c.same)} are the same</span>
				<span class="spring" />
				{(everything || differing.length > 12) && <input class="input" type="search" placeholder="find a setting" aria-label="Find a setting" value={find} onInput={(e) => setFind(e.currentTarget.value)} />}
				<Switch on={everything} set={setEverything}>also what is the same</Switch>
			</div>
			<div class="scroll" tabIndex={0} role="region" aria-label="Table of settings">
				<table class="sheet settings">
					<thead>
						<tr><th scope="col">setting</th>{c.runs.map((r, i) => <th scope="col"><i class="swatch" style={{ "--c": pen(i, dark).color }} /> <Name text={r.name} most={28} /></th>)}</tr>
					</thead>
					<tbody>
						<tr><th scope="row">outcome</th>{c.runs.map((r) => <td><Outcome run={ended(r.outcome)} /></td>)}</tr>
						<tr><th scope="row">started</th>{c.runs.map((r) => <td><Time ms={r.start ? Date.parse(r.start) : null} /></td>)}</tr>
						<tr><th scope="row">took</th>{c.runs.map((r) => <td>{fmt.seconds(r.duration_s)}</td>)}</tr>
						{groups.map((g) => (
							<Fragment key={g}>
								{groups.length > 1 && <tr class="group"><th scope="rowgroup" colSpan={c.runs.length + 1}>{g || "attribute"}</th></tr>}
								{rows.filter((r) => r.group === g).map((r) => (
									<tr key={r.key}>
										<th scope="row"><Name text={r.key} most={60} /></th>
										{r.values.map((v) => <td>{v === null ? <span class="muted">not set</span> : <Setting value={v} others={r.values} />}</td>)}
									</tr>
								))}
							</Fragment>
						))}
					</tbody>
				</table>
			</div>
			{rows.length === 0 && <p class="absent">{find ? "No setting has such a name." : "All settings are the same."}</p>}
		</>
	);
}

function Setting({ value, others }: { value: string; others: readonly (string | null)[] }) {
	const short = fmt.shorten(value, SHOWN);

	return <bdi title={value.length > SHOWN ? fmt.shorten(value, 4000) : undefined}>{diffParts(short, others.filter((o): o is string => o !== null).map((o) => fmt.shorten(o, SHOWN))).map((p) => (p.differs ? <mark>{p.text}</mark> : p.text))}</bdi>;
}
