// SPDX-License-Identifier: Apache-2.0
//
// All runs: find, sort, tag, choose several to compare.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, num, type RunRow, type RunTable, useFetch } from "../api";
import * as fmt from "../fmt";
import { ALL_RUNS, useTick } from "../live";
import { go, href, setQuery, useList, useParam } from "../router";
import { useTitle } from "../title";
import { Badge, Name, Outcome, Sparkline, Time } from "../ui/bits";
import { Combobox } from "../ui/combobox";
import { Dialog } from "../ui/dialog";
import { useShortcuts } from "../ui/keys";
import { Command, Empty, ErrorState, Skeleton } from "../ui/states";
import { type Column, Table } from "../ui/table";
import { toast } from "../ui/toast";

const CHUNK = 200;
const STATUS = ["running", "finished", "failed", "lost", "unreadable"] as const;

/** The first chunks of the table; those of `have` are not asked again. */
async function load(ask: Record<string, string | string[]>, chunks: number, have: RunTable | null, signal: AbortSignal): Promise<RunTable> {
	const from = have ? Math.floor(have.runs.length / CHUNK) : 0;
	const parts = await Promise.all(Array.from({ length: chunks - from }, (_, i) => api.runs({ ...ask, limit: CHUNK, offset: (from + i) * CHUNK }, signal)));

	return { ...(parts[0] as RunTable), runs: [...(have?.runs.slice(0, from * CHUNK) ?? []), ...parts.flatMap((p) => p.runs)] };
}

function tagsOf(r: RunRow): string[] {
	return (r.tags ?? "").split(",").map((t) => t.trim()).filter(Boolean);
}

type Edited = Pick<RunRow, "name" | "project" | "tags" | "notes">;

function EditRun({ run, close, done }: { run: RunRow; close: () => void; done: (now: Edited) => void }) {
	const [busy, setBusy] = useState(false);
	const form = useRef<HTMLFormElement>(null);
	const save = async (e: Event) => {
		const data = new FormData(form.current as HTMLFormElement);
		const text = (name: string) => String(data.get(name) ?? "");

		e.preventDefault();
		setBusy(true);
		try {
			const now = (await api.edit(run.id, { name: text("name"), project: text("project"), tags: text("tags"), notes: text("notes") })).run;

			toast("Saved.");
			done({ name: now.name, project: now.project, tags: now.tags, notes: now.notes });
			close();
		} catch (error) {
			toast((error as Error).message, "error");
			setBusy(false);
		}
	};

	return (
		<Dialog title="Edit run" close={close}>
			<form class="form" ref={form} onSubmit={(e) => void save(e)}>
				<label>Name<input class="input" name="name" value={run.name} maxLength={255} dir="auto" autoFocus /></label>
				<label>Project<input class="input" name="project" value={run.project} maxLength={255} dir="auto" /></label>
				<label>Tags, separated by commas<input class="input" name="tags" value={run.tags} maxLength={1023} dir="auto" /></label>
				<label>Notes<textarea class="input" name="notes" rows={5} maxLength={4095} dir="auto">{run.notes}</textarea></label>
				<div class="actions">
					<button type="button" class="button" onClick={close}>Cancel</button>
					<button class="button primary" disabled={busy}>Save</button>
				</div>
			</form>
		</Dialog>
	);
}

function TagRuns({ runs, close, done }: { runs: string[]; close: () => void; done: () => void }) {
	const [text, setText] = useState("");
	const save = async (e: Event) => {
		const tags = text.split(",").map((t) => t.trim()).filter(Boolean).map((t) => (/^[+-]/.test(t) ? t : "+" + t)).join(",");
		let failed = 0;

		e.preventDefault();
		for (const id of runs)
			await api.edit(id, { tags }).catch((error: Error) => {
				if (failed++ === 0) toast(error.message, "error");
			});
		if (failed === 0) toast(`${runs.length} runs tagged.`);
		done();
		close();
	};

	return (
		<Dialog title={`Tag ${runs.length} runs`} close={close}>
			<form class="form" onSubmit={(e) => void save(e)}>
				<label>Add these; with “-” in front: take away<input class="input" value={text} onInput={(e) => setText(e.currentTarget.value)} placeholder="good, -wip" autoFocus dir="auto" /></label>
				<div class="actions"><button class="button primary" disabled={!text.trim()}>Tag</button></div>
			</form>
		</Dialog>
	);
}

function useColumns(p: { sel: Set<string>; toggle: (id: string, range: boolean) => void; metrics: string[]; spark: string; edit: (r: RunRow) => void; tag: (t: string) => void }): Column<RunRow>[] {
	return useMemo(() => {
		const known = () => 0;

		return [
			{
				id: "select", title: "", width: "30px",
				cell: (r) => <input type="checkbox" aria-label={`Choose ${fmt.shorten(r.name ?? r.id, 60)}`} checked={p.sel.has(r.id)} onClick={(e) => p.toggle(r.id, e.shiftKey)} />,
			},
			{ id: "status", title: "Status", width: "128px", sort: known, cell: (r) => (r.error ? <Badge tone="warn" title={r.error}>unreadable</Badge> : <Outcome run={r} />) },
			{
				id: "name", title: "Name", width: "minmax(7rem, 2fr)", sort: known,
				cell: (r) => (r.error ? <span class="muted" title={r.error}>{r.id}</span> : <a href={href(["run", r.id, "overview"])} title={`${fmt.shorten(r.name, 300)}\n${r.id}\n${fmt.shorten(r.command, 300)}`}><bdi>{fmt.shorten(r.name, 80) || r.id}</bdi></a>),
			},
			{
				id: "tags", title: "Tags", width: "minmax(5rem, 1fr)", optional: 2,
				cell: (r) => r.error ? null : (
					<span class="tags">
						{tagsOf(r).slice(0, 6).map((t) => <button type="button" key={t} class="tag" title={`only runs tagged ${fmt.shorten(t, 80)}`} onClick={() => p.tag(t)}><bdi>{fmt.shorten(t, 24)}</bdi></button>)}
						<button type="button" class="icon edit" aria-label={`Edit ${fmt.shorten(r.name, 60)}`} title="edit name, project, tags, notes" onClick={() => p.edit(r)}>✎</button>
					</span>
				),
			},
			{ id: "project", title: "Project", width: "minmax(4rem, .6fr)", sort: known, optional: 1, cell: (r) => r.project ? <Name text={r.project} most={30} /> : null },
			{ id: "spark", title: <span title={p.spark}>{fmt.shorten(p.spark, 16)}</span>, width: "112px", optional: 2, cell: (r) => (r.spark ? <Sparkline values={r.spark.map((v) => num(v))} label={p.spark} /> : null) },
			...(p.metrics.length > 0
				? p.metrics.map((m): Column<RunRow> => ({
					id: `metric:${m}`, title: <bdi>{fmt.shorten(m, 22)}</bdi>, width: "92px", num: true, sort: known,
					cell: (r) => {
						const v = r.metrics?.[m];

						return v ? <span title={`best ${fmt.number(num(v.best))}, min ${fmt.number(num(v.min))}, max ${fmt.number(num(v.max))}`}>{fmt.value(num(v.last), v.unit)}</span> : null;
					},
				}))
				: [{ id: `metric:${p.spark}`, title: "Last", width: "66px", num: true, sort: known, cell: (r: RunRow) => (r.loss == null ? null : <span class={Number.isNaN(num(r.loss)) ? "bad" : ""} title={r.loss_name ?? ""}>{fmt.number(num(r.loss), 4)}</span>) }]),
			{ id: "step", title: "Step", width: "82px", num: true, sort: known, optional: 2, cell: (r) => (r.last_step == null ? null : fmt.group(r.last_step)) },
			{ id: "start", title: "Started", width: "156px", num: true, sort: known, optional: 2, cell: (r) => (r.start ? <Time ms={Date.parse(r.start)} /> : null) },
			{ id: "duration", title: "Duration", width: "104px", num: true, sort: known, optional: 2, cell: (r) => (r.duration_s == null ? null : fmt.seconds(r.duration_s)) },
			{ id: "size", title: "Size", width: "78px", num: true, sort: known, optional: 1, cell: (r) => fmt.bytes(r.bytes) },
			{ id: "user", title: "User", width: "76px", sort: known, optional: 1, cell: (r) => (r.user ? <Name text={r.user} most={14} /> : null) },
		];
	}, [p.sel, p.metrics, p.spark, p.toggle]);
}

export default function RunsPage() {
	const [q] = useParam("q");
	const [sort, setSort] = useParam("sort", "-start");
	const [status, setStatus] = useList("status");
	const [tags, setTags] = useList("tag");
	const [project, setProject] = useParam("project");
	const [metrics, setMetrics] = useList("metric");
	const [sel, setSel] = useList("sel");
	const [typed, setTyped] = useState(q);
	const [chunks, setChunks] = useState(1);
	const [loss, setLoss] = useState("loss");
	const [edit, setEdit] = useState<RunRow | null>(null);
	const [tagging, setTagging] = useState(false);
	const anchor = useRef<string | null>(null);
	const tick = useTick(ALL_RUNS, ["runs", "gap"], 1500);
	const spark = metrics[0] ?? loss;
	const ask = { q, sort, status, tag: tags, project, metric: metrics, spark };
	const key = JSON.stringify(ask);
	const more = useRef<{ key: string; chunks: number; table: RunTable | null }>({ key: "", chunks: 0, table: null });
	const whole = `${key} ${tick}`;
	const table = useFetch<RunTable>(`${whole} ${chunks}`, async (signal) => {
		const have = more.current.key === whole && more.current.chunks < chunks ? more.current.table : null;
		const next = await load(ask, chunks, have, signal);

		more.current = { key: whole, chunks, table: next };
		return next;
	});
	// What was just saved here: the server's list may be a second old.
	const [edited, setEdited] = useState<Record<string, Edited>>({});
	const rows = useMemo(() => (table.data?.runs ?? []).map((r) => (edited[r.id] ? { ...r, ...edited[r.id] } : r)), [table.data, edited]);
	const saved = (id: string, now: Edited) => {
		setEdited((all) => ({ ...all, [id]: now }));
		setTimeout(() => table.reload(), 2500);
		setTimeout(() => setEdited(({ [id]: _old, ...rest }) => rest), 5000);
	};
	const some = table.data?.runs.some((r) => r.outcome === "running") ?? false;

	useEffect(() => setChunks(1), [key]);
	useTitle("Runs");
	useEffect(() => {
		const t = setTimeout(() => typed !== q && setQuery({ q: typed || null }), 180);

		return () => clearTimeout(t);
	}, [typed]);
	useEffect(() => setTyped(q), [q]);
	// While something runs its step, loss and duration move.
	useEffect(() => {
		if (!some) return;
		const t = setInterval(() => !document.hidden && table.reload(), 5000);

		return () => clearInterval(t);
	}, [some]);
	// The losses of most of these runs may have another name.
	useEffect(() => {
		const names = new Map<string, number>();

		for (const r of rows) if (r.loss_name) names.set(r.loss_name, (names.get(r.loss_name) ?? 0) + 1);
		const [most] = [...names].sort((a, b) => b[1] - a[1]);

		if (most && !names.has(loss)) setLoss(most[0]);
	}, [table.data]);

	const chosen = useMemo(() => new Set(sel), [sel]);
	const toggle = (id: string, range: boolean) => {
		const next = new Set(chosen);
		const from = rows.findIndex((r) => r.id === anchor.current);
		const to = rows.findIndex((r) => r.id === id);

		if (range && from >= 0) for (let i = Math.min(from, to); i <= Math.max(from, to); i++) next.add((rows[i] as RunRow).id);
		else if (!next.delete(id)) next.add(id);
		anchor.current = id;
		setSel([...next]);
	};
	const columns = useColumns({ sel: chosen, toggle, metrics, spark, edit: setEdit, tag: (t) => setTags([...new Set([...tags, t])]) });
	const compare = () => {
		if (sel.length < 2) toast("Choose two runs or more to compare (the boxes at the left).");
		else go(["compare"], { run: sel.slice(0, 20) });
	};

	useShortcuts([{ keys: "c", text: "compare the chosen runs", run: compare }, { keys: "x", text: "choose none", run: () => setSel([]) }]);
	const facets = table.data?.facets;
	const filtered = !!(q || status.length || tags.length || project);

	if (table.error && !table.data) return <ErrorState error={table.error} retry={table.reload} />;
	return (
		<>
			<div class="toolbar" role="search">
				<input
					class="input search" type="search" data-search placeholder="Search name, id, tags, command, notes" aria-label="Search runs" title="every word must occur (/)"
					value={typed} onInput={(e) => setTyped(e.currentTarget.value)} onKeyDown={(e) => e.key === "Escape" && e.currentTarget.blur()} spellcheck={false}
				/>
				<div class="choice" role="group" aria-label="Status">
					{STATUS.filter((s) => s !== "unreadable" || facets?.status.some((f) => f.value === s)).map((s) => {
						const on = status.includes(s);

						return (
							<button type="button" key={s} role="checkbox" aria-checked={on} onClick={() => setStatus(on ? status.filter((o) => o !== s) : [...status, s])}>
								{s} <span class="muted num">{facets?.status.find((f) => f.value === s)?.count ?? 0}</span>
							</button>
						);
					})}
				</div>
				{!!facets?.project.length && (
					<Combobox label="Project" value={project ? [project] : []} set={([v]) => setProject(v === project ? "" : (v ?? ""))} options={facets.project.map((f) => ({ value: f.value, label: f.value, hint: String(f.count) }))}>
						{project ? <Name text={project} most={20} /> : "Project"}
					</Combobox>
				)}
				{!!facets?.tag.length && (
					<Combobox label="Tags" many value={tags} set={setTags} options={facets.tag.map((f) => ({ value: f.value, label: f.value, hint: String(f.count) }))}>
						{tags.length ? <Name text={tags.join(", ")} most={24} /> : "Tags"}
					</Combobox>
				)}
				<MetricColumns run={rows.find((r) => !r.error)?.id} metrics={metrics} set={setMetrics} />
				{filtered && <button type="button" class="button" onClick={() => (setTyped(""), setQuery({ q: null, status: null, tag: null, project: null }))}>Clear</button>}
				<span class="spring" />
				{table.loading && table.data && <span class="spinner" role="status" aria-label="loading" />}
				<span class="muted num" aria-live="polite">{table.data ? (filtered ? `${fmt.group(table.data.matched)} of ${fmt.group(table.data.total)} runs` : `${fmt.group(table.data.total)} runs`) : ""}</span>
				{sel.length > 0 && <button type="button" class="button" onClick={() => setTagging(true)}>Tag {sel.length}</button>}
				<button type="button" class={"button" + (sel.length >= 2 ? " primary" : "")} onClick={compare} disabled={sel.length < 2} title="choose two or more at the left (c)">Compare{sel.length >= 2 ? ` ${sel.length}` : ""}</button>
			</div>
			{!table.data ? <Skeleton height={32} rows={12} /> : table.data.total === 0 ? (
				<Empty title="No runs yet">
					<p>Put this before the command that trains, and it is recorded:</p>
					<Command>lapse run -- python3 train.py</Command>
					<p>Or make up a run to look around:</p>
					<Command>lapse simulate --ranks 2 --gpus 2 --live</Command>
				</Empty>
			) : (
				<Table
					label="Runs" columns={columns} rows={rows} id={(r) => r.id} sort={sort} onSort={setSort} sorted onOpen={(r) => !r.error && go(["run", r.id, "overview"])}
					rowClass={(r) => (chosen.has(r.id) ? "selected" : "")}
					onSeen={(last) => last >= chunks * CHUNK - 60 && table.data && table.data.matched > chunks * CHUNK && !table.loading && setChunks(chunks + 1)}
					empty={<Empty title="No run fits"><p>Take words or filters away.</p></Empty>}
				/>
			)}
			{edit && <EditRun run={edit} close={() => setEdit(null)} done={(now) => saved(edit.id, now)} />}
			{tagging && <TagRuns runs={sel} close={() => setTagging(false)} done={table.reload} />}
		</>
	);
}

/** Columns for metrics: names are those of the first run shown. */
function MetricColumns({ run, metrics, set }: { run: string | undefined; metrics: string[]; set: (m: string[]) => void }) {
	const [wanted, setWanted] = useState(false);
	const series = useFetch(run && wanted ? `names ${run}` : null, (signal) => api.series(run as string, [], signal));
	const options = useMemo(() => {
		const names = new Map<string, string>();

		for (const m of metrics) names.set(m, "");
		for (const s of series.data?.series ?? []) if (s.kind === "gauge" || s.kind === "counter") names.set(s.name, s.unit === "1" ? "" : s.unit);
		return [...names].map(([value, hint]) => ({ value, label: value, hint }));
	}, [series.data, metrics]);

	return <Combobox label="Metrics as columns" many value={metrics} set={(v) => set(v.slice(-16))} options={options} onOpen={() => setWanted(true)}>{metrics.length ? `Columns ${metrics.length}` : "Columns"}</Combobox>;
}
