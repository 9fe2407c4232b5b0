// SPDX-License-Identifier: Apache-2.0
//
// Traces & profiles: what of a run was kept as files, and what lapse trace says of them.
import { useMemo } from "preact/hooks";
import { get, runUrl, useFetch } from "../api";
import * as fmt from "../fmt";
import { useTick } from "../live";
import { href, setQuery, useFlag, useParam } from "../router";
import { useRun } from "../run";
import { BusyCurve, FlameView, HeldCurve, pathOf, SpeedscopeView, Summary, Tables, TimelineView } from "../trace/views";
import "../trace/trace.css";
import { Name, Switch, Tabs, Time } from "../ui/bits";
import { Command, Empty, ErrorState, Skeleton } from "../ui/states";
import { type Column, Table } from "../ui/table";

interface Artifact {
	name: string;
	file: string;
	kind: "trace" | "profile" | "flamegraph" | "csv" | "report" | "log" | "other";
	path: string | null;
	bytes: number;
	mtime: string | null;
	rank: number | null;
	step_first: number | null;
	step_last: number | null;
	is_given: boolean;
	why: string | null;
}

const VIEWS = [
	["summary", "Summary"], ["timeline", "Timeline"], ["utilisation", "Utilisation"], ["memory", "Memory"], ["operators", "Operators"], ["ranks", "Ranks"],
	["flame", "Flame graph"], ["speedscope", "speedscope"],
] as const;
const LOOKED_AT = /\.(speedscope\.json|folded|collapsed|pstats|prof|txt)$/;

const folder = (name: string) => name.slice(0, name.lastIndexOf("/") + 1);
const steps = (a: Artifact) => (a.step_first == null ? fmt.UNKNOWN : a.step_last === a.step_first ? fmt.group(a.step_first) : `${fmt.group(a.step_first)}–${fmt.group(a.step_last)}`);

function Shown({ run, one, all }: { run: string; one: Artifact; all: Artifact[] }) {
	const isTrace = one.kind === "trace";
	const [asked] = useParam("view", "summary");
	const [together, setTogether] = useFlag("together");
	const job = useMemo(
		() => all.filter((a) => a !== one && a.kind === "trace" && a.is_given && a.rank !== one.rank && a.rank != null && folder(a.name) === folder(one.name) && a.step_first === one.step_first).slice(0, 63).map((a) => a.name),
		[all, one],
	);
	const view = isTrace ? asked : "speedscope";
	const tabs = VIEWS.filter(([id]) => id !== "ranks" || job.length > 0).map(([id, title]) => ({
		id, title, href: href(["run", run, "traces"], { file: one.name, view: id === "summary" ? null : id }),
	}));
	const props = { run, file: one.name, others: together ? job : [] };

	if (!one.is_given) return <Empty title="This file is not given"><p>{one.why}</p>{one.path && <Command>{one.path}</Command>}</Empty>;
	if (!isTrace && !LOOKED_AT.test(one.name)) return <Empty title={one.file}><p>Nothing here shows files of this kind; download it.</p></Empty>;
	return (
		<>
			{isTrace && <Tabs tabs={tabs} active={view} label="Views of the trace" />}
			{job.length > 0 && ["summary", "operators", "utilisation"].includes(view) && (
				<div class="toolbar"><Switch on={together} set={setTogether}>with the other {job.length === 1 ? "rank" : `${job.length} ranks`}</Switch></div>
			)}
			<div class="trace-view" key={one.name + view}>
				{view === "utilisation" && <BusyCurve {...props} />}
				{view === "memory" && <HeldCurve {...props} view="memory" />}
				{view === "timeline" ? <TimelineView {...props} />
					: view === "operators" ? <Tables {...props} views={["top"]} />
						: view === "utilisation" ? <Tables {...props} views={["gpu", "tables"]} but={["kernels", "annotations", "work"]} />
							: view === "memory" ? <Tables {...props} others={[]} views={["memory", "bandwidth"]} />
								: view === "ranks" ? <Tables {...props} others={job} views={["ranks"]} />
									: view === "flame" ? <FlameView {...props} />
										: view === "speedscope" ? <SpeedscopeView {...props} isTrace={isTrace} />
											: <Summary {...props} />}
			</div>
		</>
	);
}

export default function Traces() {
	const { id, live } = useRun();
	const [file] = useParam("file");
	const tick = useTick(live ? id : null, ["event", "end"], 5000);
	const answer = useFetch(`${id} ${tick}`, (signal) => get<{ artifacts: Artifact[]; is_cut: boolean }>(runUrl(id, "artifacts"), {}, signal));
	const columns = useMemo<Column<Artifact>[]>(() => [
		{ id: "name", title: "File", width: "minmax(9rem, 3fr)", sort: (a) => a.name, cell: (a) => <a href={href(["run", id, "traces"], { file: a.name })} title={a.path ?? a.name}><Name text={a.path ? a.file : a.name} most={90} /></a> },
		{ id: "kind", title: "Kind", width: "6rem", optional: 2, sort: (a) => a.kind, cell: (a) => a.kind },
		{ id: "rank", title: "Rank", num: true, width: "4rem", optional: 2, sort: (a) => a.rank, cell: (a) => a.rank ?? fmt.UNKNOWN },
		{ id: "steps", title: "Steps", num: true, width: "8rem", optional: 1, sort: (a) => a.step_first, cell: steps },
		{ id: "bytes", title: "Size", num: true, width: "6rem", sort: (a) => a.bytes, cell: (a) => fmt.bytes(a.bytes) },
		{ id: "time", title: "Written", width: "12.5rem", optional: 2, sort: (a) => a.mtime, cell: (a) => <Time ms={fmt.toMs(a.mtime)} /> },
		{
			id: "get", title: "", width: "6rem", cell: (a) => (a.is_given ? (
				<a href={runUrl(id, `files/${pathOf(a.name)}`)} download={a.file} title={a.kind === "trace" ? "for Perfetto, chrome://tracing and others" : undefined}>Download</a>
			) : <span class="muted" title={a.why ?? ""}>not given</span>),
		},
	], [id]);
	const all = answer.data?.artifacts ?? [];
	const one = all.find((a) => a.name === file) ?? (file ? undefined : all.find((a) => a.kind === "trace" && a.is_given));

	if (answer.error && !answer.data) return <ErrorState error={answer.error} retry={answer.reload} />;
	if (!answer.data) return <Skeleton height={30} rows={5} />;
	if (all.length === 0)
		return (
			<Empty title="No traces, profiles or other files">
				<p>They come with PyTorch's profiler over some steps, or any file that the program notes:</p>
				<Command>{"lapse.torch.Profile(dir=\"profiles\", active=3)\nlapse.artifact(\"trace.json.gz\", kind=\"trace\")"}</Command>
			</Empty>
		);
	return (
		<div class="traces">
			<Table label="Files of the run" columns={columns} rows={all} id={(a) => a.name} rowHeight={28} height={all.length > 1 ? 200 : 90} rowClass={(a) => (a === one ? "selected" : "")} onOpen={(a) => setQuery({ file: a.name, step: null, event: null })} />
			{answer.data.is_cut && <p class="muted">There are more than 2,000 files; the others are not listed.</p>}
			{one ? <Shown run={id} one={one} all={all} /> : file && <Empty title="There is no such file (any more)"><p><bdi>{fmt.shorten(file, 200)}</bdi></p></Empty>}
		</div>
	);
}
