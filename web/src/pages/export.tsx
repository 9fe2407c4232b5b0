// SPDX-License-Identifier: Apache-2.0
//
// What was recorded, as files: all of it, or chosen series and a range.
import { useMemo } from "preact/hooks";
import { api, type Axis, runUrl, useFetch } from "../api";
import * as fmt from "../fmt";
import { parseRange } from "../chart/view";
import { useList, useParam } from "../router";
import { useRun } from "../run";
import { Choice } from "../ui/bits";
import { Combobox } from "../ui/combobox";
import { Command, Skeleton } from "../ui/states";
import { toast } from "../ui/toast";

const WHAT = [["samples", "Values"], ["spans", "Spans"], ["histograms", "Histograms"], ["events", "Events"]] as const;

function quote(text: string): string {
	return /^[\w./:=-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}

export default function ExportPage() {
	const { id, data } = useRun();
	const [format, setFormat] = useParam("format", "csv");
	const [what, setWhat] = useParam("what");
	const [names, setNames] = useList("m");
	const [axisText] = useParam("axis", "time");
	const [zoom, setZoom] = useParam("zoom");
	const [attempts, setAttempts] = useParam("attempts");
	const axis: Axis = axisText === "step" || axisText === "relative" ? axisText : "time";
	const range = parseRange(zoom);
	const series = useFetch(`series ${id}`, (signal) => api.series(id, [], signal));
	const options = useMemo(() => {
		const by = new Map<string, number>();

		for (const s of series.data?.series ?? []) by.set(s.name, (by.get(s.name) ?? 0) + 1);
		return [...by].map(([name, n]) => ({ value: name, label: name, hint: n > 1 ? `${n} series` : "" }));
	}, [series.data]);
	const ids = names.filter(fmt.isPattern).flatMap((n) => (series.data?.series ?? []).filter((s) => s.name === n).map((s) => s.id));

	if (!data) return <Skeleton height={120} rows={3} />; // where it is stored, and when it began, are in what is shown
	const start = data.run.start ? Date.parse(data.run.start) : 0;
	const from = range ? (axis === "relative" ? start + range[0] : range[0]) : undefined;
	const to = range ? (axis === "relative" ? start + range[1] : range[1]) : undefined;
	const params = {
		format, what: what ? [what] : [], series: names.filter((n) => !fmt.isPattern(n)), id: ids, attempts: attempts || undefined,
		axis: range ? (axis === "step" ? "step" : "time") : undefined,
		from: axis === "step" && from !== undefined ? Math.ceil(from) : from, to: axis === "step" && to !== undefined ? Math.floor(to) : to,
	};
	const address = runUrl(id, "export", params);
	const dir = quote(data.run.dir);
	// --series takes one pattern: a command a metric.
	const command = (names.length ? names : [""]).map((n) => [
		"lapse export --to", quote(format), what && `--what ${quote(what)}`, n && `--series ${quote(n.replace(/[*?[\]{}"\\()]/g, "?"))}`,
		params.from === undefined ? "" : axis === "step" ? `--steps ${params.from}:${params.to}` : `--from @${params.from / 1e3} --until @${params.to! / 1e3}`,
		attempts && "--all-attempts", dir,
	].filter(Boolean).join(" ")).join("\n");

	return (
		<div class="grid two">
			<section class="panel">
				<h2>Save what was recorded</h2>
				<div class="form">
					<div class="toolbar">
						<Choice label="Format" value={format} set={setFormat} options={[["csv", "CSV"], ["json", "JSON Lines"]]} />
						<Choice label="What" value={what} set={setWhat} options={[["", format === "json" ? "All" : "All but events"], ...WHAT]} />
					</div>
					<div class="toolbar">
						<Combobox label="Series" many options={options} value={names} set={setNames}>{names.length ? `${names.length} metric${names.length > 1 ? "s" : ""}` : "All metrics"}</Combobox>
						<Choice label="Attempts" value={attempts as "" | "all"} set={setAttempts} options={[["", "Newest attempt"], ["all", "All attempts"]]} />
					</div>
					{range ? (
						<p>Only {axis === "step" ? `steps ${fmt.group(Math.ceil(range[0]))} to ${fmt.group(Math.floor(range[1]))}` : <>from {fmt.local(from)} to {fmt.local(to)}</>}, as the charts are zoomed. <button type="button" class="button" onClick={() => setZoom("")}>All of it</button></p>
					) : <p class="muted">All of the run. Zoom a chart before you come here to save a part.</p>}
					<div class="toolbar">
						<a class="button primary" href={address} download data-download>Save {format === "json" ? "JSON Lines" : "CSV"}</a>
						<button type="button" class="button" onClick={() => void navigator.clipboard.writeText(new URL(address, document.baseURI).href).then(() => toast("Link copied."), () => toast("Copy the link with the right mouse button.", "error"))}>Copy link</button>
					</div>
				</div>
			</section>
			<section class="panel">
				<h2>Elsewhere</h2>
				<dl class="facts">
					<dt>A chart</dt><dd>Its menu (⋯) saves a PNG, copies it, or saves the points that it shows.</dd>
					<dt>Terminal</dt><dd><Command>{command}</Command></dd>
					<dt>TensorBoard</dt><dd><Command>{`lapse export --to tensorboard ${dir}`}</Command></dd>
					<dt>Prometheus</dt><dd><a href="metrics">/metrics</a> has the last values of runs that are running.</dd>
				</dl>
			</section>
		</div>
	);
}
