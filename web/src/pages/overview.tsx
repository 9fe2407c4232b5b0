// SPDX-License-Identifier: Apache-2.0
//
// A run at a glance: how far, how fast, what it costs, where the time goes, what is wrong.
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { type Alert, type AlertPage, api, type EventPage, num, type RunDetail, useFetch, type Verdict } from "../api";
import { liveLines, SeriesChart, useQuery } from "../chart/series";
import type { Line } from "../chart/math";
import { useMarks } from "../chart/marks";
import { useView } from "../chart/view";
import * as fmt from "../fmt";
import { useTick } from "../live";
import { partPens, pen } from "../palette";
import { LOSSES } from "../preload";
import { href } from "../router";
import { domainOf, useRun } from "../run";
import { useTheme } from "../ui/theme";
import { Badge, Figure, Name, ProgressBar, Shares, Time } from "../ui/bits";
import { ErrorState, Skeleton } from "../ui/states";
import { last } from "./lines";

/** The first step warms up: its time says nothing of the others. */
const CLIPPED = ["step"];
const MACHINE = ["gpu/busy", "gpu/memory/used", "gpu/memory/total", "gpu/temperature", "cpu/busy", "memory/used", "memory/total", "tree/rss", "memory/limit"];

/** Of the last minute or two: the last bucket of all of a run would be the mean of hours. */
function machineAsk(d: RunDetail) {
	const end = Date.parse(d.run.start ?? "") + (d.run.duration_s ?? 0) * 1e3;

	return { series: MACHINE, points: 20, axis: "time" as const, group: "none", from: Math.floor(end / 6e4 - 1) * 6e4 || null };
}

/** "12.3 k/s". */
function perSecond(v: number, what = ""): string {
	return `${v < 1 ? fmt.number(v, 3) : fmt.count(v)}${what}/s`;
}

function ranksOf(d: RunDetail): number {
	return d.processes.filter((p) => p.rank != null).length;
}

function Progress({ d }: { d: RunDetail }) {
	const p = d.progress;
	const over = !d.live && d.run.outcome !== "running";
	// Steps count from 0: the last of 2,000 is 1,999, and all are done.
	const step = p.of != null && p.share === 1 ? p.of : p.step;

	return (
		<Figure
			label="Progress" title={p.epoch != null ? `epoch ${fmt.group(p.epoch)}${p.epochs ? ` of ${fmt.group(p.epochs)}` : ""}` : undefined}
			sub={<ProgressBar share={p.share ?? (over && d.status === "finished" ? 1 : null)} label="share of the steps" />}
		>
			{fmt.group(step)}
			{p.of != null && <small class="muted"> of {fmt.group(p.of)}</small>}
		</Figure>
	);
}

function Figures({ d, machine, why, alerts }: { d: RunDetail; machine: readonly Line[]; why: string; alerts: AlertPage | null }) {
	const p = d.progress;
	const go = (page: string) => href(["run", d.run.id, page]);
	const over = !d.live;
	const end = over ? ", end" : "";
	const now = (name: string, which?: "hi") => last(machine.find((l) => l.key === name || l.key.startsWith(name + "{")), which);
	const busy = now("gpu/busy");
	const gpuUsed = now("gpu/memory/used", "hi");
	const gpuTotal = now("gpu/memory/total", "hi");
	const heat = now("gpu/temperature", "hi");
	const cpu = now("cpu/busy");
	const rss = now("tree/rss");
	const limit = now("memory/limit") ?? now("memory/total");
	const lost = d.drops.dropped + d.drops.overwritten + d.drops.broken + d.drops.refused;
	const fired = alerts ? alerts.counts.active + (over ? alerts.counts.silenced + alerts.counts.history : 0) : 0;
	const rate = p.samples_s != null ? perSecond(p.samples_s, " samples") : p.tokens_s != null ? perSecond(p.tokens_s, " tokens") : "";
	const loss = num(d.loss?.last);
	const many = ranksOf(d) > 1;
	// As in src/cli/topmodel_run.c.
	const quiet = d.live && (p.quiet_s ?? 0) > Math.max(5, 3 / (p.steps_s ?? 0));

	return (
		<div class="figures">
			<Progress d={d} />
			{over ? <Figure label="Took" sub={d.run.evidence ? <Name text={d.run.evidence} /> : <Time ms={Date.parse(d.run.end ?? "")} how="ago" />}>{fmt.seconds(d.run.duration_s)}</Figure>
				: <Figure label="Left" tone={quiet ? "warn" : undefined} sub={quiet ? `last step ${fmt.seconds(p.quiet_s)} ago` : `${fmt.seconds(p.elapsed_s ?? d.run.duration_s)} so far`}>{fmt.seconds(quiet ? null : p.eta_s)}</Figure>}
			<Figure label={"Steps" + end} sub={rate} href={go("phases")} title="where a step's time goes">{p.steps_s != null ? perSecond(p.steps_s) : fmt.UNKNOWN}</Figure>
			<Figure label={(d.loss?.name ?? "Loss") + (many ? " of one rank" : "")} tone={loss != null && !Number.isFinite(loss) ? "bad" : undefined} sub={d.loss?.best != null ? `best ${fmt.number(num(d.loss.best), 4)}` : ""} title={many ? "of the lowest rank; the chart has the mean of all" : undefined} href={go("training")}>{fmt.number(loss, 4)}</Figure>
			{busy != null || gpuUsed != null ? <Figure label={"GPU" + end} sub={[heat != null ? `${Math.round(heat)} °C` : "", gpuUsed != null ? fmt.bytesOf(gpuUsed, gpuTotal) : ""].filter(Boolean).join(" · ")} href={go("system")} title="mean of all; memory of the fullest">{fmt.percent(busy)}</Figure>
				: <Figure label={"CPU" + end} sub={why || "no GPU was read"} href={go("system")}>{fmt.percent(cpu)}</Figure>}
			<Figure label={"Memory" + end} sub={rss != null ? (limit ? `of ${fmt.bytes(limit)}` : "of the run's processes") : ""} href={go("system")} title="resident memory of the run's processes">{fmt.bytes(rss ?? now("memory/used"))}</Figure>
			<Figure label="Alerts" tone={fired ? "bad" : undefined} sub={!alerts ? "" : !alerts.watched ? "not watched" : over ? "" : `${alerts.counts.history} before`} href={go("alerts")}>{alerts ? `${fired ? fmt.group(fired) : "none"} ${over ? "fired" : "active"}` : fmt.UNKNOWN}</Figure>
			{lost > 0 ? <Figure label="Records lost" tone="warn" sub={`of ${fmt.count(lost + d.drops.stored)}`} title={`dropped ${d.drops.dropped}, overwritten ${d.drops.overwritten}, broken ${d.drops.broken}, refused ${d.drops.refused}`}>{fmt.count(lost)}</Figure>
				: <Figure label="Recorded" sub={`${fmt.count(d.counts.series)} series, none lost`}>{fmt.count(d.counts.points)}</Figure>}
		</div>
	);
}

function VerdictPanel({ verdict, id }: { verdict: ReturnType<typeof useFetch<Verdict>>; id: string }) {
	const { dark } = useTheme();
	const v = verdict.data;
	const pens = partPens(v?.parts ?? []);

	return (
		<section class="panel verdict">
			<h2>Where a step's time goes {v?.step && <span class="muted num">median {fmt.seconds(v.step.p50_s)}</span>}<span class="spring" /><a href={href(["run", id, "phases"])}>Phases</a></h2>
			{!v ? (verdict.error ? <p class="muted">{verdict.error.message}</p> : <Skeleton height={22} rows={2} />) : v.parts.length === 0 ? <p class="muted">{v.why_not ?? "No steps were recorded."}</p> : (
				<>
					<Shares label="a step" parts={v.parts.map((p, i) => ({ name: p.name, share: p.permille / 1000, color: pen(pens[i] ?? 7, dark).color, title: `${p.name}: median ${fmt.seconds(p.p50_s)}, 95 % within ${fmt.seconds(p.p95_s)}` })).filter((p) => p.share > 0)} />
					<p class="verdict-text"><bdi>{v.bound.sentence}</bdi>{v.bound.advice && <span class="muted"> <bdi>{v.bound.advice}</bdi></span>}</p>
				</>
			)}
		</section>
	);
}

/** What fires now; of a run that is over, what fired. */
function AlertList({ page, id, live }: { page: AlertPage | null; id: string; live: boolean }) {
	const shown = (page?.alerts ?? []).filter((a: Alert) => !live || (a.state === "active" && !a.silenced_until_ns));

	return (
		<section class="panel">
			<h2>{live ? "Active alerts" : "Alerts that fired"}<span class="spring" /><a href={href(["run", id, "alerts"])}>All</a></h2>
			{!page ? <Skeleton height={20} rows={2} /> : shown.length === 0 ? <p class="muted">{page.watched ? "None." : (page.why ?? "Nothing watches this run.")}</p> : (
				<ul class="list">
					{shown.slice(0, 5).map((a) => (
						<li key={a.id}>
							<Badge tone={a.severity === "error" ? "bad" : a.severity === "warning" ? "warn" : "plain"}>{a.severity}</Badge> <b><bdi>{a.title}</bdi></b> <span class="muted"><Time ms={fmt.toMs(a.since)} how="ago" /></span>
							<div><bdi>{fmt.shorten(a.text, 300)}</bdi></div>
						</li>
					))}
				</ul>
			)}
		</section>
	);
}

function Next({ d, verdict }: { d: RunDetail; verdict: Verdict | null }) {
	const go = (page: string) => href(["run", d.run.id, page]);
	const links: [string, string, string][] = [
		["Throughput", go("phases"), d.progress.steps_s != null ? perSecond(d.progress.steps_s, " steps") : "step times"],
		["Resources", go("system"), verdict && verdict.bound.kind !== "unknown" && verdict.parts.length ? `bound by ${verdict.bound.title}` : "CPU, memory, GPUs"],
		["Profile", go("traces"), "traces and stacks"],
		["Compare", href(["compare"], { run: d.run.id }), "with another run"],
	];

	return (
		<nav class="next" aria-label="From throughput to comparison">
			{links.map(([title, to, sub]) => <a key={title} href={to}><b>{title}</b> <span class="muted">{sub}</span></a>)}
		</nav>
	);
}

function Facts({ d }: { d: RunDetail }) {
	const trainers = ranksOf(d);

	return (
		<section class="panel">
			<h2>Run</h2>
			<dl class="facts">
				<dt>Command</dt><dd class="mono"><Name text={d.run.command} most={400} /></dd>
				<dt>Folder</dt><dd class="mono"><Name text={d.run.cwd} most={200} /></dd>
				<dt>Hosts</dt><dd><Name text={d.run.hosts} most={200} />{trainers > 1 && <span class="muted"> · {trainers} ranks</span>}</dd>
				<dt>Started</dt><dd><Time ms={Date.parse(d.run.start ?? "")} /> <span class="muted">by <Name text={d.run.user} most={40} /></span></dd>
				{d.run.tags && <><dt>Tags</dt><dd>{d.run.tags.split(",").map((t) => <span class="tag" key={t}><bdi>{fmt.shorten(t, 40)}</bdi></span>)}</dd></>}
				{d.run.notes && <><dt>Notes</dt><dd><Name text={d.run.notes} most={1000} /></dd></>}
			</dl>
		</section>
	);
}

function Events({ page, id }: { page: EventPage | null; id: string }) {
	const events = (page?.events ?? []).filter((e) => e.severity !== "debug").slice(0, 6);

	return (
		<section class="panel">
			<h2>Events {page && <span class="muted num">{fmt.group(page.total)}</span>}<span class="spring" /><a href={href(["run", id, "export"], { what: "events" })}>Export</a></h2>
			{!page ? <Skeleton height={20} rows={3} /> : events.length === 0 ? <p class="muted">None yet.</p> : (
				<ul class="list">
					{events.map((e) => (
						<li key={e.id}>
							<Badge tone={e.severity === "error" ? "bad" : e.severity === "warning" ? "warn" : "plain"}><Name text={e.kind} most={24} /></Badge>{" "}
							<span class="muted"><Time ms={fmt.toMs(e.time)} how="clock" />{e.step != null && ` · step ${fmt.group(e.step)}`}</span>
							{e.text && <div><Name text={e.text} most={200} /></div>}
						</li>
					))}
				</ul>
			)}
		</section>
	);
}

export default function OverviewPage() {
	const run = useRun();
	const { id, live, data: d } = run;
	const view = useView("time", CLIPPED);
	const tick = useTick(live ? id : null, ["alert", "end"], 1000);
	const slow = useTick(live ? id : null, ["points"], 10_000);
	const [ready, setReady] = useState(false);
	// After the frame that shows it.
	const isDrawn = useCallback((shown: readonly Line[]) => {
		if (shown.length === 0) return;
		window.lapseFirst?.end();
		requestAnimationFrame(() => setTimeout(() => setReady(true)));
	}, []);
	const verdict = useFetch<Verdict>(ready ? `verdict ${id} ${slow}` : null, (signal) => api.verdict(id, {}, signal));
	const alerts = useFetch<AlertPage>(ready ? `alerts ${id} ${tick}` : null, (signal) => api.alerts(id, { limit: 50 }, signal));
	const machine = useQuery(id, ready && d ? machineAsk(d) : null, live);
	const lines = useMemo(() => liveLines(machine, { axis: "time" }), [machine.data, machine.turn]);
	const marks = useMarks(id, live, view.axis, run.startMs, { events: ready, epochs: false });
	const domain = useMemo(() => domainOf(d, view.axis), [d?.run.start, d?.run.end, view.axis]);
	const many = !!d && ranksOf(d) > 1;
	const hosts = (d?.run.hosts.split(",").length ?? 1) > 1;

	// The loss is what people come for: all else is asked when it is there, or is none.
	useEffect(() => {
		const t = setTimeout(() => {
			window.lapseFirst?.end();
			setReady(true);
		}, 500);

		return () => {
			window.lapseFirst?.end();
			clearTimeout(t);
		};
	}, []);
	if (!d) return run.error ? <ErrorState error={run.error} retry={run.reload} /> : <Skeleton height={82} rows={4} />;
	return (
		<div class="stack">
			<Figures d={d} machine={lines} why={machine.error?.message ?? ""} alerts={alerts.data} />
			<Next d={d} verdict={verdict.data} />
			<div class="grid aside">
				<VerdictPanel verdict={verdict} id={id} />
				<AlertList page={alerts.data} id={id} live={live} />
			</div>
			<div class="grid two">
				<SeriesChart run={id} live={live} view={view} name="loss" title="Loss" series={LOSSES} group="none" marks={marks.marks} domain={domain} onLines={isDrawn} empty="No loss was recorded: record a gauge named loss." />
				{ready && <>
					<SeriesChart run={id} live={live} view={view} name="cpu-gpu" title="CPU and GPU memory" heading="CPU (left) and GPU memory (right)" series={["cpu/busy"]} right={["gpu/memory/used"]} group={hosts ? "none" : undefined} marks={marks.marks} domain={domain} empty="The machine was not read." />
					<SeriesChart run={id} live={live} view={view} name="step" title="Step time" series={["step"]} group={many ? "none" : undefined} marks={marks.marks} domain={domain} empty="No steps: mark them with a span named step." />
					<SeriesChart run={id} live={live} view={view} name="gpu" title="GPU busy" series={["gpu/busy"]} group={hosts ? "none" : undefined} marks={marks.marks} domain={domain} empty="No GPU was read. lapse doctor says why." />
				</>}
			</div>
			{ready && (
				<div class="grid two">
					<Facts d={d} />
					<Events page={marks.events} id={id} />
				</div>
			)}
		</div>
	);
}
