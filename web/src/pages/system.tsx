// SPDX-License-Identifier: Apache-2.0
//
// system.tsx - the page System: what the machines did while the run ran. What is shown is a
// table in panels.ts; sections ask for their data when they come into view.
import { useMemo, useState } from "preact/hooks";
import { type RunDetail, type SeriesInfo, api, useFetch } from "../api";
import { Chart, type Line } from "../chart/chart";
import { useOwnView, type View } from "../chart/view";
import * as fmt from "../fmt";
import { useLive, useTick } from "../live";
import { pen } from "../palette";
import { useParam } from "../router";
import { useRun } from "../run";
import { useTheme } from "../ui/theme";
import { Choice, Name, useSeen, Words } from "../ui/bits";
import { Empty, ErrorState, Skeleton } from "../ui/states";
import { type Column, Table } from "../ui/table";
import { useCursor } from "./cursor";
import { type HeatRow, byNumber } from "./heat";
import { Heatmap } from "./heatmap";
import { last, type Lines, useLines } from "./lines";
import { type Drawn, type Panel, SECTIONS, type Section, drawn, processes } from "./panels";
import "./pages.css";

const MATCH = [...new Set(SECTIONS.flatMap((s) => s.panels.flatMap((p) => p.lines.map((l) => l.name.split("/")[0]))))]
	.concat("filesystem", "process").map((n) => `${n}/*`);
const GROUP = "page";
const HEIGHT = 150;
const POINTS = 160; // of a small chart; zooming asks again
const TABLE = /^gpu\/(busy|memory\/used|memory\/total|power|power\/limit|temperature|clock\/sm|throttled)$/;
const LIMIT_PEN = 15; // grey, dashed

interface Around {
	run: string;
	series: readonly SeriesInfo[];
	host: string;
	view: View;
	axis: "time" | "relative";
	domain: [number, number];
	live: boolean;
}

export default function System() {
	const { id, data, live, startMs: start } = useRun();

	return data ? <Machines key={id} run={id} detail={data} live={live} start={start} /> : <Skeleton height={180} rows={4} />;
}

function Machines({ run, detail, live, start }: { run: string; detail: RunDetail; live: boolean; start: number }) {
	const tick = useTick(run, ["series", "end"], 4000);
	const found = useFetch(`${run} ${tick}`, (s) => api.series(run, MATCH, s));
	const view = useOwnView("time");
	const [host, setHost] = useParam("host");
	const end = fmt.toMs(detail.run.end);
	const [newest, setNewest] = useState(0);

	useLive(live ? run : null, (m) => {
		if (m.type !== "points") return;
		let t = newest;

		for (const of of Object.values((m.data as { series?: Record<string, [number][]> }).series ?? {})) t = Math.max(t, of[of.length - 1]?.[0] ?? 0);
		if (t > newest) setNewest(t);
	});
	if (found.error && !found.data) return <ErrorState error={found.error} retry={found.reload} />;
	if (!found.data) return <Skeleton height={180} rows={4} />;
	const series = found.data.series;
	const hosts = [...new Set(series.map((s) => s.host))].sort(byNumber);

	if (!hosts.length)
		return (
			<Empty title="Nothing of the machine was recorded">
				<p>The agent reads CPUs, memory, disks, network and GPUs of every run that it serves. This run had none (<code>--no-agent</code>), or its groups are off (<code>probe.groups</code>).</p>
			</Empty>
		);
	const relative = view.axis === "relative";
	const until = Math.max(start, end ?? Math.max(newest, live ? Date.now() - 2000 : 0));
	const around: Around = {
		run, series, view, live,
		host: hosts.includes(host) ? host : hosts[0]!,
		axis: relative ? "relative" : "time",
		domain: relative ? [0, until - start] : [start, until],
	};

	return (
		<div class="system">
			<div class="toolbar">
				{hosts.length > 1 && (
					<label>Host <select value={around.host} onChange={(e) => setHost(e.currentTarget.value)}>{hosts.map((h) => <option>{h}</option>)}</select></label>
				)}
				<Choice label="Time axis" value={around.axis} options={[["time", "time"], ["relative", "since start"]]} set={view.setAxis} />
				{view.range && <button type="button" class="button" onClick={() => view.setRange(null)}>Show all</button>}
				<span class="spring" />
				<nav class="jump" aria-label="Sections">
					{SECTIONS.map((s) => <button type="button" class="link" onClick={() => document.getElementById(`at-${s.id}`)?.scrollIntoView()}>{s.title}</button>)}
					<button type="button" class="link" onClick={() => document.getElementById("at-processes")?.scrollIntoView()}>Processes</button>
				</nav>
			</div>
			{SECTIONS.map((s) => <SectionView key={s.id + around.host} section={s} a={around} detail={detail} />)}
			<Processes a={around} detail={detail} />
		</div>
	);
}

function SectionView({ section, a, detail }: { section: Section; a: Around; detail: RunDetail }) {
	const [ref, seen] = useSeen();
	const panels = useMemo(
		() => section.panels.map((p) => ({ p, d: drawn(p, a.series, a.host) })).filter((x) => x.d.length),
		[section, a.series, a.host],
	);
	const mounts = section.id === "disk" ? a.series.filter((s) => s.name === "filesystem/used" && s.host === a.host) : [];
	const heat = section.id === "cpu" ? "cpu/core/busy" : section.id === "gpu" ? "gpu/busy" : "";
	const rows = heat ? a.series.filter((s) => s.name === heat && s.host === a.host) : [];
	// What the tables show besides.
	const extra = (s: SeriesInfo) => s.host === a.host && (section.id === "disk" ? s.name.startsWith("filesystem/") : section.id === "gpu" && TABLE.test(s.name));
	const ids = useMemo(() => [...new Set([...a.series.filter(extra).map((s) => s.id), ...panels.flatMap((x) => x.d.map((d) => d.id))])], [panels]);
	const lines = useLines(a.run, seen && ids.length ? ids : null, a.axis, a.view.range, a.live, POINTS);
	const none = !panels.length && !mounts.length;

	return (
		<section id={`at-${section.id}`} ref={ref} aria-labelledby={`title-${section.id}`}>
			<h2 id={`title-${section.id}`}>{section.title}</h2>
			{none && <p class="absent"><Words text={section.absent} /></p>}
			{lines.error && <ErrorState error={lines.error} retry={lines.retry} />}
			{section.id === "gpu" && !none && <Gpus a={a} detail={detail} lines={lines} />}
			{rows.length > (section.id === "gpu" ? 1 : 0) && (
				<Heat a={a} rows={rows} noun={section.id === "gpu" ? "GPU" : "CPU"} label={section.id === "gpu" ? "Busy, by GPU" : "Busy, by CPU"} seen={seen} />
			)}
			<div class="panels">
				{panels.map(({ p, d }) => <PanelView key={p.title} panel={p} d={d} a={a} lines={lines} />)}
				{mounts.length > 0 && <Mounts a={a} lines={lines} />}
			</div>
		</section>
	);
}

/** A limit holds before its first reading (they come each 10 s) and after its last. */
function throughout(l: Line, [from, to]: readonly [number, number]): Partial<Line> {
	const n = l.x.length;

	if (!n) return {};
	return {
		x: [Math.min(from, l.x[0]!), ...Array.from(l.x), Math.max(to, l.x[n - 1]!)],
		y: [l.y[0]!, ...Array.from(l.y), l.y[n - 1]!], lo: undefined, hi: undefined, nan: undefined,
	};
}

/** Lines of a panel; limits that say the same come once. */
function panelLines(panel: Panel, d: readonly Drawn[], lines: Lines, domain: readonly [number, number]): Line[] {
	const limits = new Set<string>();
	const out: Line[] = [];
	let n = 0;

	for (const one of d) {
		const l = lines.of.get(one.id);
		const gpu = /^GPU (\d+)/.exec(one.text);

		if (!one.limit) n++;
		if (!l) continue;
		if (one.limit) {
			const same = `${one.label} ${last(l)}`;

			if (limits.has(same)) continue;
			limits.add(same);
		}
		out.push({
			...l, label: one.text, share: !!panel.share, faded: one.limit,
			pen: one.limit ? LIMIT_PEN : gpu ? Number(gpu[1]) : n - 1,
			...(one.limit ? throughout(l, domain) : {}),
		});
	}
	return out;
}

function PanelView({ panel, d, a, lines }: { panel: Panel; d: readonly Drawn[]; a: Around; lines: Lines }) {
	const shown = useMemo(() => panelLines(panel, d, lines, a.domain), [panel, d, lines.of, a.domain[0], a.domain[1]]);
	const name = panel.title;

	return (
		<Chart
			name={name} title={name} lines={shown} axis={a.axis} range={a.view.range} domain={a.domain} group={GROUP} height={HEIGHT}
			onZoom={a.view.setRange} log={a.view.log(name)} onLog={(on) => a.view.setLog(name, on)} band={a.view.band}
			loading={lines.loading && !shown.length} bare={d.every((x) => x.limit || x.text.startsWith("GPU "))}
		/>
	);
}

function Heat({ a, rows, noun, label, seen }: { a: Around; rows: readonly SeriesInfo[]; noun: string; label: string; seen: boolean }) {
	const { dark } = useTheme();
	const [cursor, move] = useCursor(GROUP);
	const sorted = useMemo(() => [...rows].sort((p, q) => byNumber(Object.values(p.label).join(), Object.values(q.label).join())), [rows]);
	const turn = useTick(a.live && !a.view.range ? a.run : null, ["points"], 3000);
	const key = `${a.run} ${a.axis} ${a.view.range} ${sorted.map((s) => s.id).join(" ")} ${turn}`;
	const answer = useFetch(seen ? key : null, (signal) => api.query(a.run, {
		id: sorted.map((s) => s.id), axis: a.axis, grid: true, points: 800,
		from: a.view.range?.[0] ?? a.domain[0], to: a.view.range?.[1] ?? a.domain[1],
	}, signal));
	const data = useMemo(() => {
		const all = answer.data?.series ?? [];
		const width = answer.data?.head.grid?.width ?? 0;
		const x = all[0]?.col.x ?? new Float64Array(0);
		const known: number[] = [];

		// Buckets are narrower than readings are apart: those without one are left out.
		for (let i = 0; i < x.length; i++) if (all.some((s) => s.col.mean && s.col.mean.length === x.length && !Number.isNaN(s.col.mean[i]!))) known.push(i);
		const by = new Map(all.map((s) => [s.id, s.col.mean]));
		const out: HeatRow[] = sorted.map((s) => ({ label: Object.values(s.label).join(" "), v: known.map((i) => by.get(s.id)?.[i] ?? null) }));

		return { x: known.map((i) => x[i]! - width / 2), rows: out };
	}, [answer.data, sorted]);

	return (
		<figure class="chart" data-chart={label}>
			<figcaption><span class="chart-title">{label}</span><span class="spring" />{answer.loading && !answer.data && <span class="spinner" role="status" aria-label="loading" />}</figcaption>
			<Heatmap
				label={label} noun={noun} x={data.x} rows={data.rows} range={a.view.range ?? a.domain} dark={dark} axis={a.axis}
				cursor={cursor} onCursor={move} onZoom={a.view.setRange}
			/>
			{answer.error && <p class="absent">{answer.error.message}</p>}
		</figure>
	);
}

function Meter({ share, children, label, warn }: { share: number | null; children: preact.ComponentChildren; label: string; warn?: boolean }) {
	const full = share === null ? 0 : Math.min(1, Math.max(0, share));

	return (
		<span class={"meter" + (warn && full > 0.95 ? " full" : "")} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(full * 100)}>
			<i style={{ width: `${full * 100}%` }} /><span>{children}</span>
		</span>
	);
}

const ratio = (a: number | null, b: number | null) => (a === null || !b ? null : a / b);

interface Gpu {
	gpu: string;
	name: string;
	v: (name: string) => number | null;
}

function Gpus({ a, detail, lines }: { a: Around; detail: RunDetail; lines: Lines }) {
	const { dark } = useTheme();
	const gpus = useMemo(() => {
		const of = a.series.filter((s) => s.host === a.host && s.name.startsWith("gpu/") && s.label.gpu !== undefined && !s.label.mig && !s.label.reason);
		const ids = [...new Set(of.map((s) => s.label.gpu!))].sort(byNumber);

		return ids.map((gpu): Gpu => ({
			gpu,
			name: detail.attributes.find((t) => t.host === a.host && t.key === `gpu/${gpu}/name`)?.value ?? "",
			v: (name) => last(lines.of.get(of.find((s) => s.name === name && s.label.gpu === gpu)?.id ?? "")),
		}));
	}, [a.series, a.host, lines.of, detail]);
	const columns: Column<Gpu>[] = [
		{ id: "gpu", title: "GPU", width: "minmax(4rem, 1.4fr)", sort: (g) => g.gpu, cell: (g) => (
			<><i class="swatch" style={{ "--c": pen(Number(g.gpu) || 0, dark).color }} /> {g.gpu} {g.name && <span class="muted"><Name text={g.name} most={30} /></span>}</>
		) },
		{ id: "busy", title: "busy", width: "minmax(5rem, 1fr)", sort: (g) => g.v("gpu/busy"), cell: (g) => (
			<Meter share={g.v("gpu/busy")} label={`GPU ${g.gpu} busy`}>{fmt.percent(g.v("gpu/busy"))}</Meter>
		), help: "share of the time in which some kernel ran, however small" },
		{ id: "memory", title: "memory", width: "minmax(7rem, 1.4fr)", sort: (g) => g.v("gpu/memory/used"), cell: (g) => (
			<Meter share={ratio(g.v("gpu/memory/used"), g.v("gpu/memory/total"))} label={`GPU ${g.gpu} memory`} warn>
				{fmt.bytes(g.v("gpu/memory/used"))} <span class="muted">/ {fmt.bytes(g.v("gpu/memory/total"))}</span>
			</Meter>
		) },
		{ id: "power", title: "power", num: true, optional: 1, width: "minmax(6rem, 1fr)", sort: (g) => g.v("gpu/power"), cell: (g) => (
			<>{fmt.value(g.v("gpu/power"), "W")}{g.v("gpu/power/limit") !== null && <span class="muted"> / {fmt.value(g.v("gpu/power/limit"), "W")}</span>}</>
		) },
		{ id: "temperature", title: "temp.", num: true, width: "minmax(4rem, .6fr)", sort: (g) => g.v("gpu/temperature"), cell: (g) => (
			<span class={(g.v("gpu/temperature") ?? 0) >= 85 ? "bad" : ""}>{fmt.value(g.v("gpu/temperature"), "Cel")}</span>
		) },
		{ id: "clock", title: "clock", num: true, optional: 1, width: "minmax(5rem, .8fr)", sort: (g) => g.v("gpu/clock/sm"), cell: (g) => fmt.value(g.v("gpu/clock/sm"), "Hz") },
		{ id: "throttled", title: "throttled", num: true, optional: 2, width: "minmax(4.5rem, .6fr)", sort: (g) => g.v("gpu/throttled"), cell: (g) => (
			<span class={(g.v("gpu/throttled") ?? 0) > 0.01 ? "bad" : ""}>{fmt.percent(g.v("gpu/throttled"))}</span>
		), help: "share of the time in which the clock was held down for heat or by the power brake" },
	];

	return <Table label={`GPUs of ${a.host}, last readings`} columns={columns} rows={gpus} id={(g) => g.gpu} rowHeight={28} />;
}

function Mounts({ a, lines }: { a: Around; lines: Lines }) {
	const of = a.series.filter((s) => s.host === a.host && s.name.startsWith("filesystem/"));
	const v = (mount: string, name: string) => last(lines.of.get(of.find((s) => s.name === name && s.label.mount === mount)?.id ?? ""));
	const mounts = of.filter((s) => s.name === "filesystem/used").map((s) => s.label.mount ?? "");

	return (
		<section class="panel mounts" aria-label="File systems">
			<h3>File systems</h3>
			<ul>
				{mounts.slice(0, 12).map((m) => {
					const used = v(m, "filesystem/used");
					const free = v(m, "filesystem/available");
					const share = used === null || free === null ? ratio(used, v(m, "filesystem/total")) : ratio(used, used + free);

					return (
						<li>
							<Name text={m} most={40} />
							<Meter share={share} label={`${fmt.shorten(m, 40)} used`} warn>{fmt.percent(share)} <span class="muted">{fmt.bytes(free)} free</span></Meter>
						</li>
					);
				})}
			</ul>
		</section>
	);
}

interface Row {
	key: string;
	host: string;
	role: string;
	slot: string;
	rank: number | null;
	pid: number | null;
	program: string;
	ended: boolean;
	ids: Record<string, string>;
}

function rowsOf(detail: RunDetail, series: readonly SeriesInfo[]): Row[] {
	const figured = processes(series);
	const taken = new Set<string>();
	const rows = detail.processes.filter((p) => p.role !== "host").map((p): Row => {
		const slot = p.role === "command" ? "0" : String(p.local_rank ?? p.rank ?? "");
		const f = figured.find((x) => x.host === p.host && x.role === p.role && x.slot === slot && !taken.has(x.key));

		if (f) taken.add(f.key);
		return {
			key: `${p.host}/${p.process}`, host: p.host, role: p.role, slot, rank: p.rank, pid: p.pid || null,
			program: p.program, ended: p.end !== null, ids: f?.ids ?? {},
		};
	});

	for (const f of figured)
		if (!taken.has(f.key)) rows.push({ key: f.key, host: f.host, role: f.role, slot: f.slot, rank: null, pid: null, program: "", ended: false, ids: f.ids });
	return rows;
}

const SHOWN = ["process/cpu", "process/rss", "process/blocked", "process/gpu/memory"];

function Processes({ a, detail }: { a: Around; detail: RunDetail }) {
	const [ref, seen] = useSeen();
	const rows = useMemo(() => rowsOf(detail, a.series), [detail, a.series]);
	const ids = useMemo(() => rows.flatMap((r) => SHOWN.map((n) => r.ids[n]).filter((i): i is string => !!i)), [rows]);
	const lines = useLines(a.run, seen && ids.length ? ids : null, "time", null, a.live, 60);
	const v = (r: Row, name: string) => last(lines.of.get(r.ids[name] ?? ""));
	const several = new Set(rows.map((r) => r.host)).size > 1;
	const state = (r: Row) => (r.ended || !a.live ? "ended" : (v(r, "process/blocked") ?? 0) > 0 ? "blocked" : "runs");
	const columns: Column<Row>[] = [
		{ id: "role", title: "role", width: "minmax(5rem, 1fr)", sort: (r) => `${r.role} ${r.slot}`, cell: (r) => <>{r.role} <span class="muted">{r.rank === null && r.slot !== "0" ? r.slot : ""}</span></> },
		{ id: "rank", title: "rank", num: true, width: "3.5rem", sort: (r) => r.rank, cell: (r) => r.rank ?? fmt.UNKNOWN },
		...(several ? [{ id: "host", title: "host", optional: 2 as const, sort: (r: Row) => r.host, cell: (r: Row) => <Name text={r.host} most={24} /> }] : []),
		{ id: "pid", title: "pid", num: true, optional: 1, width: "5rem", sort: (r) => r.pid, cell: (r) => r.pid ?? fmt.UNKNOWN },
		{ id: "program", title: "program", optional: 2, width: "minmax(5rem, 1.5fr)", sort: (r) => r.program, cell: (r) => <Name text={r.program || fmt.UNKNOWN} most={40} /> },
		{ id: "cpu", title: "CPUs", num: true, width: "4rem", sort: (r) => v(r, "process/cpu"), cell: (r) => fmt.number(v(r, "process/cpu"), 3), help: "CPUs that it used on average since the reading before" },
		{ id: "rss", title: "memory", num: true, width: "5.5rem", sort: (r) => v(r, "process/rss"), cell: (r) => fmt.bytes(v(r, "process/rss")), help: "resident memory; shared pages count in each" },
		...(rows.some((r) => r.ids["process/gpu/memory"]) ? [{ id: "gpu", title: "GPU memory", num: true, optional: 1 as const, width: "6rem", sort: (r: Row) => v(r, "process/gpu/memory"), cell: (r: Row) => fmt.bytes(v(r, "process/gpu/memory")) }] : []),
		{ id: "state", title: "state", width: "5rem", sort: state, cell: (r) => <span class={state(r) === "blocked" ? "bad" : state(r) === "ended" ? "muted" : ""} title={state(r) === "blocked" ? "the main thread waits for storage or a driver (state D)" : undefined}>{state(r)}</span> },
	];

	return (
		<section id="at-processes" ref={ref} aria-labelledby="title-processes">
			<h2 id="title-processes">Processes <span class="muted">{rows.length}</span></h2>
			{lines.error && <ErrorState error={lines.error} retry={lines.retry} />}
			<Table
				label="Processes of the run, last readings" columns={columns} rows={rows} id={(r) => r.key} rowHeight={26} height={rows.length > 16 ? 440 : 0}
				empty={<p class="absent">No process of the run was seen.</p>}
			/>
			{ids.length === 0 && rows.length > 0 && <p class="absent">CPU and memory of processes were not recorded: the run was short, made up, or imported.</p>}
		</section>
	);
}
