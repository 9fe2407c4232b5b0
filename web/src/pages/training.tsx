// SPDX-License-Identifier: Apache-2.0
//
// Any metric of a run, a chart each; all charts share axis, zoom, cursor and smoothing.
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, type SeriesInfo, useFetch } from "../api";
import { useMarks } from "../chart/marks";
import { SeriesChart } from "../chart/series";
import { useView, type View } from "../chart/view";
import * as fmt from "../fmt";
import { useTick } from "../live";
import { href, setQuery, useFlag, useList, useParam } from "../router";
import { domainOf, useRun } from "../run";
import { Choice, Switch } from "../ui/bits";
import { Combobox } from "../ui/combobox";
import { useShortcuts } from "../ui/keys";
import { Menu } from "../ui/menu";
import { Empty, ErrorState, Skeleton } from "../ui/states";

const PAGE = 12;
const LINES_MAX = 100;
/** Names that are shown first, in this order. */
const FIRST = [/^(train[/_])?loss$/, /loss/, /acc|f1|auc|bleu|score|reward|perplexity/, /^(val|eval|test)\//, /learning_rate|^lr/, /grad_?norm/, /throughput|tokens|samples/, /^step$/];

type Ranks = "band" | "all";

export interface MetricGroup {
	name: string;
	kind: SeriesInfo["kind"];
	unit: string;
	help: string;
	source: string;
	series: SeriesInfo[];
	ranks: number;
	/** Labels of its own: what stays apart when ranks are folded. */
	labels: string[];
}

/** Series by name; the names a person looks at first come first. */
export function groupMetrics(series: readonly SeriesInfo[]): MetricGroup[] {
	const by = new Map<string, MetricGroup>();

	for (const s of series) {
		const key = `${s.kind} ${s.name}`;
		let g = by.get(key);

		if (!g) {
			g = { name: s.name, kind: s.kind, unit: s.unit, help: s.help, source: s.source, series: [], ranks: 0, labels: [] };
			by.set(key, g);
		}
		g.series.push(s);
	}
	for (const g of by.values()) {
		g.ranks = new Set(g.series.map((s) => s.rank).filter((r) => r !== null)).size;
		g.labels = [...new Set(g.series.flatMap((s) => Object.keys(s.label)))].filter((l) => l !== "rank" && l !== "host");
	}
	const place = (g: MetricGroup) => {
		const i = FIRST.findIndex((r) => r.test(g.name));
		const own = g.source === "record" || g.source === "" || g.source === undefined;

		return (own ? 0 : 100) + (g.kind === "span" && g.name !== "step" ? 20 : 0) + (i < 0 ? FIRST.length : i);
	};

	return [...by.values()].map((g) => ({ g, at: place(g) })).sort((a, b) => a.at - b.at || a.g.name.localeCompare(b.g.name, undefined, { numeric: true })).map((o) => o.g);
}

/** A tenth of them spread evenly, if there are too many to draw. */
function some<T>(all: readonly T[], most: number): readonly T[] {
	if (all.length <= most) return all;
	return Array.from({ length: most }, (_, i) => all[Math.floor((i * all.length) / most)] as T);
}

function MetricChart({ g, run, live, view, ranks, attempts, marks, domain, focus, height }: {
	g: MetricGroup; run: string; live: boolean; view: View; ranks: Ranks; attempts: boolean;
	marks: ReturnType<typeof useMarks>; domain: [number, number] | null; focus: boolean; height: number;
}) {
	const fold = ranks === "band" && g.ranks > 1 && g.kind !== "histogram";
	// Of very many the server itself finds them; without ranks to fold as many are drawn as can be told apart.
	const whole = fold && g.series.length > LINES_MAX && !fmt.isPattern(g.name);
	const picked = useMemo(() => (whole ? [] : some(g.series, LINES_MAX)), [g, whole]);
	const ids = useMemo(() => picked.map((s) => (g.kind === "counter" ? `rate(${s.id})` : s.id)), [picked]);
	const title = g.kind === "counter" ? `${g.name} per ${view.axis === "step" ? "step" : "second"}` : g.name;
	const hint = [g.help, g.unit && `unit ${g.unit}`, g.kind, `${g.series.length} series`].filter(Boolean).join(" · ");
	const pages = focus ? { chart: null } : { chart: g.name };

	return (
		<SeriesChart
			run={run} live={live} view={view} name={g.name} heading={fmt.shorten(title, 100)} ids={ids} series={whole ? [g.kind === "counter" ? `rate(${g.name})` : g.name] : undefined} height={height}
			title={<a href={href(["run", run, "training"], mergeQuery(pages))} title={`${fmt.shorten(hint, 400)}\n${focus ? "click: all charts" : "click: this chart alone"}`}>{fmt.shorten(title, 70)}</a>}
			group={fold ? (g.labels.length ? g.labels.join(",") : "none") : undefined} attempts={attempts ? "all" : undefined} marks={marks.marks} spans={marks.spans} domain={domain}
			aside={<>
				{fold && <span class="flag" title="the line is the mean, the band reaches from the smallest to the greatest value of all">{g.ranks} ranks</span>}
				{!whole && picked.length < g.series.length && <span class="flag" title="evenly spread; fold the ranks to see all">{picked.length} of {g.series.length}</span>}
			</>}
			more={[{ label: focus ? "Show all charts" : "Show this chart alone", run: () => setQuery(pages, false) }]}
		/>
	);
}

function mergeQuery(change: Record<string, string | null>): URLSearchParams {
	const q = new URLSearchParams(location.hash.split("?")[1] ?? "");

	for (const [k, v] of Object.entries(change)) {
		if (v === null) q.delete(k);
		else q.set(k, v);
	}
	return q;
}

function Toolbar({ view, groups, chosen, setChosen, ranks, setRanks, hasRanks, flags }: {
	view: View; groups: readonly MetricGroup[]; chosen: string[]; setChosen: (v: string[]) => void; ranks: Ranks; setRanks: (r: Ranks) => void; hasRanks: boolean;
	flags: { label: string; on: boolean; run: () => void }[];
}) {
	const options = useMemo(() => groups.map((g) => ({ value: g.name, label: g.name, hint: [g.kind === "gauge" ? "" : g.kind, g.unit === "1" ? "" : g.unit].filter(Boolean).join(" ") })), [groups]);
	const [typed, setTyped] = useParam("q");

	return (
		<div class="toolbar" role="toolbar" aria-label="How charts are shown">
			<input class="input" type="search" data-search placeholder="Find metrics" aria-label="Find metrics" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} spellcheck={false} />
			<Combobox label="Metrics" many options={options} value={chosen} set={setChosen}>{chosen.length ? `${chosen.length} metric${chosen.length > 1 ? "s" : ""}` : "All metrics"}</Combobox>
			<Choice label="Horizontal axis" value={view.axis} set={view.setAxis} options={[["step", "Step"], ["time", "Time"], ["relative", "Relative"]]} />
			<label title="moving average over what is drawn; what was recorded stays behind it">
				Smooth<input type="range" min="0" max="0.99" step="0.01" value={view.smooth} onInput={(e) => view.setSmooth(Number(e.currentTarget.value))} aria-label="Smoothing" />
				<span class="num smooth">{view.smooth ? view.smooth.toFixed(2) : "off"}</span>
			</label>
			<Switch on={view.log("*")} set={(on) => view.setLog("*", on)} title="logarithmic scale of all charts (the menu of a chart has its own)">Log</Switch>
			<Switch on={view.clip("*")} set={(on) => view.setClip("*", on)} title="axes cover the 5th to 95th percentile: outliers are cut off">Outliers out</Switch>
			{hasRanks && <Choice label="Ranks" value={ranks} set={setRanks} options={[["band", "Ranks as band"], ["all", "Each rank"]]} />}
			<Menu label="What charts show" items={flags}>Show<span class="arrow">▾</span></Menu>
			{view.range && <button type="button" class="button" onClick={() => view.setRange(null)} title="double click on a chart does the same">Zoom out</button>}
		</div>
	);
}

export default function TrainingPage() {
	const run = useRun();
	const { id, live } = run;
	const view = useView("step");
	const [chosen, setChosen] = useList("m");
	const [q] = useParam("q");
	const [chart] = useParam("chart");
	const [ranksText, setRanks] = useParam("ranks", "band");
	const ranks: Ranks = ranksText === "all" ? "all" : "band";
	const [attempts, setAttempts] = useFlag("attempts");
	const [events, setEvents] = useFlag("events", true);
	const [epochs, setEpochs] = useFlag("epochs", true);
	const [machine, setMachine] = useFlag("machine");
	const [pages, setPages] = useState(1);
	const tick = useTick(live ? id : null, ["series", "gap"], 2000);
	const series = useFetch(`series ${id} ${tick}`, (signal) => api.series(id, [], signal));
	const domain = useMemo(() => domainOf(run.data, view.axis), [run.data?.run.start, run.data?.run.end, view.axis]);
	const marks = useMarks(id, live, view.axis, run.startMs, { events, epochs });
	const all = useMemo(() => groupMetrics(series.data?.series ?? []), [series.data]);
	const shown = useMemo(() => {
		const words = q.toLowerCase().split(/\s+/).filter(Boolean);

		if (chart) return all.filter((g) => g.name === chart);
		if (chosen.length > 0) return chosen.flatMap((name) => all.filter((g) => g.name === name));
		const own = (g: MetricGroup) => machine || g.source === "record" || !g.source;

		return all.filter((g) => (words.length > 0 || own(g)) && words.every((w) => g.name.toLowerCase().includes(w)));
	}, [all, q, chosen, chart, machine]);
	const hasRanks = useMemo(() => all.some((g) => g.ranks > 1), [all]);

	useEffect(() => setPages(1), [q, chart]);
	useShortcuts([
		{ keys: "0", text: "show all of the axis", run: () => view.setRange(null) },
		{ keys: "s", text: "smooth charts, or not", run: () => view.setSmooth(view.smooth ? 0 : 0.6) },
		{ keys: "l", text: "logarithmic scale of all charts", run: () => view.setLog("*", !view.log("*")) },
		{ keys: "a", text: "next horizontal axis", run: () => view.setAxis(view.axis === "step" ? "time" : view.axis === "time" ? "relative" : "step") },
	]);
	const flags = [
		{ label: "Events, alerts, checkpoints", on: events, run: () => setEvents(!events) },
		{ label: "Epochs", on: epochs, run: () => setEpochs(!epochs) },
		{ label: "Band from smallest to greatest", on: view.band, run: () => view.setBand(!view.band) },
		{ label: "Attempts that were repeated", on: attempts, run: () => setAttempts(!attempts) },
		{ label: "Metrics of the machine", on: machine, run: () => setMachine(!machine) },
	];

	if (series.error && !series.data) return <ErrorState error={series.error} retry={series.reload} />;
	return (
		<>
			<Toolbar view={view} groups={all} chosen={chosen} setChosen={setChosen} ranks={ranks} setRanks={setRanks} hasRanks={hasRanks} flags={flags} />
			{!series.data ? <Skeleton height={260} rows={3} /> : shown.length === 0 ? (
				<Empty title={all.length === 0 ? "Nothing was recorded yet" : "No metric fits"}>
					{all.length === 0 ? <p>Values that the program records appear here: <code>lapse.log(loss=…)</code> in Python, <code>lapse_value()</code> in C.</p>
						: q || chosen.length || chart ? <p><button type="button" class="button" onClick={() => setQuery({ q: null, m: null, chart: null })}>Show all metrics</button></p>
							: <p>The program recorded none. <button type="button" class="button" onClick={() => setMachine(true)}>Show those of the machine</button></p>}
				</Empty>
			) : (
				<>
					<div class={chart || shown.length === 1 ? "grid" : "grid three"}>
						{shown.slice(0, pages * PAGE).map((g) => (
							<MetricChart
								key={`${g.kind} ${g.name}`} g={g} run={id} live={live} view={view} ranks={ranks} attempts={attempts} marks={marks} domain={domain}
								focus={!!chart} height={chart ? Math.max(260, Math.min(560, window.innerHeight - 330)) : 190}
							/>
						))}
					</div>
					{shown.length > pages * PAGE && (
						<p class="more"><button type="button" class="button" onClick={() => setPages(pages + 1)}>Show {Math.min(PAGE, shown.length - pages * PAGE)} more of {fmt.group(shown.length - pages * PAGE)}</button></p>
					)}
				</>
			)}
		</>
	);
}
