// SPDX-License-Identifier: Apache-2.0
//
// phases.tsx - the page Phases: what a step is made of, as the verdict has it (docs/http.md):
// over steps, in percentiles, by rank, and the slowest steps.
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, type Verdict, useFetch } from "../api";
import { Chart, type Line } from "../chart/chart";
import * as fmt from "../fmt";
import { useTick } from "../live";
import { partPens, pen } from "../palette";
import { href, useFlag, useParam } from "../router";
import { useRun } from "../run";
import { useTheme } from "../ui/theme";
import { useOwnView } from "../chart/view";
import { Name, Shares, Switch, Time } from "../ui/bits";
import { Command, Empty, ErrorState, Skeleton } from "../ui/states";
import { type Column, Table } from "../ui/table";
import { along, stack } from "./stack";
import "./pages.css";

type Times = NonNullable<Verdict["step"]>;
type Part = Verdict["parts"][number];
type SlowStep = Verdict["slowest"][number];

export default function Phases() {
	const { id, live } = useRun();
	const view = useOwnView("step");
	const [rank, setRank] = useParam("rank");
	const [warm, setWarm] = useFlag("warmup");
	const tick = useTick(live ? id : null, ["points", "end"], 5000);
	const [from, to] = view.range ? [Math.max(0, Math.floor(view.range[0])), Math.ceil(view.range[1])] : [warm ? 0 : null, null];
	const answer = useFetch(`${id} ${rank} ${from} ${to} ${tick}`, (signal) =>
		api.verdict(id, { rank, from, to, steps: live ? null : "all", bins: 240 }, signal));
	// All ranks stay in the list when one is chosen.
	const [ranks, setRanks] = useState<(number | null)[]>([]);

	useEffect(() => {
		if (answer.data && rank === "") setRanks(answer.data.ranks.map((r) => r.rank));
	}, [answer.data, rank]);
	const v = answer.data;

	if (answer.error && !v) return <ErrorState error={answer.error} retry={answer.reload} />;
	if (!v) return <Skeleton height={240} rows={3} />;
	const choices = ranks.filter((r): r is number => r !== null);

	return (
		<div class="phases">
			<div class="toolbar">
				{(choices.length > 1 || rank) && (
					<label>Rank <select value={rank} onChange={(e) => setRank(e.currentTarget.value || null)}>
						<option value="">all together</option>
						{(choices.length ? choices : [Number(rank)]).map((r) => <option value={String(r)}>{r}</option>)}
					</select></label>
				)}
				<Switch on={warm} set={setWarm} title="the first steps of each attempt, which are slower, count too">with warm-up</Switch>
				{view.range && <button type="button" class="button" onClick={() => view.setRange(null)}>Show all steps</button>}
				<span class="spring" />
				{v.steps && <span class="muted">steps {fmt.group(v.steps.first)} to {fmt.group(v.steps.last)}{v.steps.ranks > 1 ? ` of ${v.steps.ranks} ranks` : ""}
					{v.steps.warmup > 0 && `, ${fmt.group(v.steps.warmup)} of warm-up left out`}{v.steps.is_cut && `, the last ${fmt.group(v.steps.count)}`}</span>}
			</div>
			{v.step && v.parts.length ? <Found v={v} run={id} view={view} loading={answer.loading} /> : (
				<Empty title={view.range ? "No steps in this range" : "No steps were recorded"}>
					<p>{v.why_not ?? "Where a step's time goes is known once the program says where its steps and their phases begin and end:"}</p>
					<Command>{"with lapse.step():\n    with lapse.span(\"data\"): …\n    with lapse.span(\"forward\"): …"}</Command>
				</Empty>
			)}
		</div>
	);
}

function Found({ v, run, view, loading }: { v: Verdict; run: string; view: ReturnType<typeof useOwnView>; loading: boolean }) {
	const { dark } = useTheme();
	const pens = useMemo(() => partPens(v.parts), [v.parts]);
	const colors = pens.map((n) => pen(n, dark).color);
	const lines = useMemo(() => layers(v, pens), [v, pens]);
	const domain = useMemo<[number, number] | null>(() => (v.steps ? [v.steps.first, v.steps.last] : null), [v.steps?.first, v.steps?.last]);

	return (
		<>
			<section class="panel">
				<Shares label="A step's time" parts={v.parts.map((p, i) => ({ name: p.name, share: p.permille / 1000, color: colors[i]! })).filter((p) => p.share > 0)} />
				{v.bound && <p class="bound"><b>{v.bound.sentence}</b> <span class="muted">{v.bound.why}</span> {v.bound.advice}</p>}
			</section>
			<Chart
				name="composition" title="Time of a step, by phase" lines={lines} axis="step" range={view.range} domain={domain} onZoom={view.setRange}
				height={240} loading={loading} note={v.bins ? undefined : "too few steps to draw"}
			/>
			<div class="grid two">
				<section>
					<h2>Percentiles</h2>
					<Percentiles v={v} colors={colors} />
				</section>
				<section>
					<h2>Step time, how often</h2>
					{v.histogram && v.step && <Histogram h={v.histogram} step={v.step} />}
					<Beside v={v} />
				</section>
			</div>
			<section>
				<h2>Slowest steps</h2>
				<Slowest v={v} run={run} colors={colors} />
			</section>
			{v.ranks.length > 1 && (
				<section>
					<h2>Ranks</h2>
					<Ranks v={v} colors={colors} />
				</section>
			)}
		</>
	);
}

function layers(v: Verdict, pens: readonly number[]): Line[] {
	if (!v.bins) return [];
	const s = stack(v.bins);

	return v.parts.map((p, i): Line => {
		const top = s.tops[i]!.map((t) => t ?? NaN);
		const below = i ? s.tops[i - 1]!.map((t) => t ?? NaN) : top.map((t) => (Number.isNaN(t) ? NaN : 0));

		return {
			key: p.name, label: p.name, unit: "s", share: false, side: "left", x: s.x, y: top, lo: below, hi: top,
			own: top.map((t, k) => t - below[k]!), pen: pens[i],
		};
	}).filter((_, i) => v.parts[i]!.permille > 0);
}

function Percentiles({ v, colors }: { v: Verdict; colors: readonly string[] }) {
	type Row = Times & { name: string; share: number | null; color: string | null; role: string };
	const rows: Row[] = [
		{ name: "step", role: "", share: 1, color: null, ...v.step! },
		...v.parts.map((p, i) => ({ ...p, color: colors[i]! })),
	];
	const time = (id: keyof Times, title: string, optional?: 1 | 2): Column<Row> => ({
		id, title, num: true, optional, width: "minmax(4.8rem, 1fr)", cell: (r) => fmt.seconds(r[id]),
	});
	const columns: Column<Row>[] = [
		{ id: "name", title: "phase", width: "minmax(5.4rem, 1.6fr)", cell: (r) => (
			<span title={r.role && r.role !== r.name ? `counts as ${r.role}` : undefined}>{r.color ? <i class="swatch" style={{ "--c": r.color }} /> : <i class="swatch none" />} {r.color ? <Name text={r.name} most={40} /> : <b>step</b>}</span>
		) },
		{ id: "share", title: "share", num: true, width: "5.2rem", cell: (r) => fmt.percent(r.share) },
		time("mean_s", "mean", 2), time("p50_s", "median"), time("p95_s", "95 %", 1), time("p99_s", "99 %"), time("max_s", "max", 1),
	];

	return <Table label="Seconds of a step by phase" columns={columns} rows={rows} id={(r) => (r.color ? "p " : "") + r.name} rowHeight={26} />;
}

function Histogram({ h, step }: { h: { edges_s: number[]; counts: number[] }; step: Times }) {
	const [at, setAt] = useState<number | null>(null);
	const most = Math.max(...h.counts, 1);
	const all = h.counts.reduce((a, b) => a + b, 0);
	const n = h.counts.length;
	const W = 600;
	const H = 130;
	const marks = [["median", step.p50_s], ["95 %", step.p95_s], ["99 %", step.p99_s]] as const;
	const where = (e: PointerEvent) => {
		const r = (e.currentTarget as Element).getBoundingClientRect();

		return Math.min(n - 1, Math.max(0, Math.floor(((e.clientX - r.left) / r.width) * n)));
	};
	const key = (e: KeyboardEvent) => {
		const by = e.key === "ArrowLeft" ? -1 : e.key === "ArrowRight" ? 1 : 0;

		if (!by) return;
		e.preventDefault();
		setAt(Math.min(n - 1, Math.max(0, (at ?? (by > 0 ? -1 : n)) + by)));
	};

	return (
		<figure class="panel histogram">
			<svg
				viewBox={`0 0 ${W} ${H}`} preserveAspectRatio="none" role="img" tabIndex={0} onKeyDown={key} onBlur={() => setAt(null)}
				aria-label={`Step times of ${fmt.group(all)} steps: median ${fmt.seconds(step.p50_s)}, 99 % below ${fmt.seconds(step.p99_s)}, longest ${fmt.seconds(step.max_s)}`}
				onPointerMove={(e) => setAt(where(e))} onPointerLeave={() => setAt(null)}
			>
				{h.counts.map((c, i) => (
					<rect class={"column" + (i === at ? " at" : "")} x={(i / n) * W + 0.5} width={Math.max(1, W / n - 1)} y={H - Math.max(c ? 1.5 : 0, (c / most) * (H - 4))} height={Math.max(c ? 1.5 : 0, (c / most) * (H - 4))} />
				))}
				{marks.map(([, s]) => <line class="mark" x1={along(h.edges_s, s) * W} x2={along(h.edges_s, s) * W} y1={0} y2={H} vector-effect="non-scaling-stroke" />)}
			</svg>
			<div class="ends muted num"><span>{fmt.seconds(h.edges_s[0])}</span><output aria-live="polite">{at === null
				? marks.map(([name, s]) => `${name} ${fmt.seconds(s)}`).join(" · ")
				: `${fmt.seconds(h.edges_s[at])} to ${fmt.seconds(h.edges_s[at + 1])}: ${fmt.group(h.counts[at])} of ${fmt.group(all)} steps`}</output><span>{fmt.seconds(h.edges_s[n])}</span></div>
		</figure>
	);
}

function Beside({ v }: { v: Verdict }) {
	const between = v.between?.parts ?? [];

	if (!between.length && !v.beside.length) return null;
	return (
		<dl class="facts">
			{v.between && between.length > 0 && (
				<><dt>Between steps</dt><dd>{fmt.percent(v.between.share)} of the time: {between.slice(0, 4).map((p, i) => <>{i > 0 && ", "}<Name text={p.name} most={30} /> {fmt.seconds(p.seconds)} <span class="muted">({fmt.group(p.count)} times)</span></>)}</dd></>
			)}
			{v.beside.length > 0 && (
				<><dt>In other threads</dt><dd>{v.beside.slice(0, 4).map((p, i) => <>{i > 0 && ", "}<Name text={p.name} most={30} /> {fmt.percent(p.share)}</>)}</dd></>
			)}
		</dl>
	);
}

function Mini({ permille, colors, parts }: { permille: readonly number[]; colors: readonly string[]; parts: readonly Part[] }) {
	const text = parts.map((p, i) => `${p.name} ${fmt.percent((permille[i] ?? 0) / 1000)}`).join(", ");

	return <span class="mini" role="img" aria-label={text} title={text}>{permille.map((p, i) => <i style={{ flexGrow: p, background: colors[i] }} />)}</span>;
}

function Slowest({ v, run, colors }: { v: Verdict; run: string; colors: readonly string[] }) {
	const several = v.ranks.length > 1;
	const columns: Column<SlowStep>[] = [
		{ id: "step", title: "step", num: true, width: "minmax(4.5rem, .7fr)", sort: (s) => s.step, cell: (s) => (
			<a href={href(["run", run, "training"], { axis: "step", zoom: `${Math.max(0, s.step - 50)},${s.step + 50}` })} title="Training, zoomed to 50 steps around it">{fmt.group(s.step)}</a>
		) },
		...(several ? [{ id: "rank", title: "rank", help: "the rank that waited least for others in this step", num: true, width: "3.5rem", sort: (s: SlowStep) => s.rank, cell: (s: SlowStep) => s.rank ?? fmt.UNKNOWN }] : []),
		{ id: "seconds", title: "time", num: true, width: "5rem", sort: (s) => s.seconds, cell: (s) => fmt.seconds(s.seconds) },
		{ id: "over", title: "over median", num: true, optional: 1, width: "7.5rem", sort: (s) => s.over_s, cell: (s) => (s.over_s < 0 ? "" : "+") + fmt.seconds(s.over_s) },
		{ id: "most", title: "most of it in", width: "minmax(5rem, 1fr)", sort: (s) => s.most, cell: (s) => <Name text={s.most} most={30} /> },
		{ id: "parts", title: "made of", optional: 1, width: "minmax(7rem, 2fr)", cell: (s) => <Mini permille={s.permille} colors={colors} parts={v.parts} /> },
		{ id: "when", title: "when", optional: 2, width: "minmax(6rem, 1fr)", sort: (s) => s.start, cell: (s) => <Time ms={s.start ? Date.parse(s.start) : null} how="clock" /> },
		{ id: "artifacts", title: "covered by", width: "minmax(6rem, 1.2fr)", cell: (s) => s.artifacts.length === 0 ? <span class="muted" title="no trace and no stacks were taken over this step">{fmt.UNKNOWN}</span> : s.artifacts.slice(0, 2).map((a, i) => (
			<>{i > 0 && ", "}<a href={href(["run", run, "traces"], { file: a.name, step: s.step })} title={a.name}>{a.kind}</a></>
		)) },
	];

	return <Table label="Slowest steps" columns={columns} rows={v.slowest} id={(s) => `${s.rank} ${s.step} ${s.start}`} rowHeight={26} sort="-seconds" height={v.slowest.length > 12 ? 340 : 0} />;
}

function Ranks({ v, colors }: { v: Verdict; colors: readonly string[] }) {
	type Row = Verdict["ranks"][number];
	const own = v.ranks.map((r) => r.own_s).sort((a, b) => a - b);
	const middle = own[own.length >> 1]!;
	const columns: Column<Row>[] = [
		{ id: "rank", title: "rank", num: true, width: "3.5rem", sort: (r) => r.rank, cell: (r) => r.rank ?? fmt.UNKNOWN },
		{ id: "host", title: "host", optional: 2, width: "minmax(4rem, 1fr)", sort: (r) => r.host, cell: (r) => <Name text={r.host} most={30} /> },
		{ id: "p50", title: "median", num: true, width: "5rem", sort: (r) => r.p50_s, cell: (r) => fmt.seconds(r.p50_s) },
		{ id: "own", title: "own work", num: true, width: "6rem", sort: (r) => r.own_s, help: "median of a step without its communication: a straggler has more than the others", cell: (r) => <span class={r.own_s > middle * 1.1 ? "bad" : ""}>{fmt.seconds(r.own_s)}</span> },
		{ id: "parts", title: "made of", width: "minmax(6rem, 3fr)", cell: (r) => <Mini permille={r.permille} colors={colors} parts={v.parts} /> },
		{ id: "steps", title: "steps", num: true, optional: 1, width: "5rem", sort: (r) => r.steps, cell: (r) => fmt.group(r.steps) },
	];

	return <Table label="Ranks" columns={columns} rows={v.ranks} id={(r) => `${r.host}/${r.process}`} rowHeight={26} height={v.ranks.length > 16 ? 440 : 0} />;
}
