// SPDX-License-Identifier: Apache-2.0
//
// What happened in a run, as marks and grounds of charts: events, alerts, checkpoints,
// resumed attempts, epochs.
import { useMemo } from "preact/hooks";
import { api, type Axis, type EventPage, type EventRow, useFetch } from "../api";
import type { QueryAnswer } from "../columns";
import * as fmt from "../fmt";
import { href } from "../router";
import { useTick } from "../live";
import type { Mark, Span } from "./plot";

const MARKS_MAX = 400;

function kindOf(e: EventRow): Mark["kind"] | null {
	if (e.kind === "alert") return "alert";
	if (/checkpoint|save/.test(e.kind)) return "checkpoint";
	if (/attempt|resume|restart/.test(e.kind)) return "attempt";
	return e.severity === "debug" ? null : "event";
}

/** Marks of events on an axis; those without a place on it are left out. */
export function marksOf(events: readonly EventRow[], axis: Axis, startMs: number, run: string): Mark[] {
	const out: Mark[] = [];

	for (const e of events) {
		const kind = kindOf(e);
		const t = fmt.toMs(e.time) ?? 0;
		const x = axis === "step" ? e.step : axis === "relative" ? t - startMs : t;

		if (!kind || x == null) continue;
		out.push({
			x, kind, severity: e.severity, text: e.text ? `${e.kind}: ${e.text}` : e.kind,
			over: kind === "alert" && (typeof e.attrs === "string" ? /"state":\s*"resolved"/.test(e.attrs) : e.attrs?.state === "resolved"),
			href: kind === "alert" ? href(["run", run, "alerts"]) : undefined,
		});
	}
	return out.sort((a, b) => a.x - b.x).slice(-MARKS_MAX);
}

/** Grounds of epochs, of the series that says which epoch it is (one line, ascending x). */
export function epochsOf(answer: QueryAnswer | null): Span[] {
	const s = answer?.series.find((one) => one.col.x && one.col.x.length > 0);
	const x = s?.col.x;
	const y = s?.col.y ?? s?.col.last;
	const out: Span[] = [];

	if (!x || !y) return out;
	for (let i = 0; i < x.length; i++) {
		const epoch = y[i] as number;
		const last = out[out.length - 1];

		if (!Number.isFinite(epoch)) continue;
		if (last && last.label === `epoch ${Math.floor(epoch)}`) last.to = x[i] as number;
		else {
			if (last) last.to = x[i] as number;
			out.push({ from: x[i] as number, to: x[i] as number, label: `epoch ${Math.floor(epoch)}`, kind: "epoch" });
		}
	}
	return out.length <= 200 ? out : [];
}

export interface Marks {
	marks: Mark[];
	spans: Span[];
	events: EventPage | null;
}

/** Of a run, on the axis of its charts. show: which (false: not asked for). */
export function useMarks(run: string, live: boolean, axis: Axis, startMs: number, show: { events: boolean; epochs: boolean }): Marks {
	const tick = useTick(live ? run : null, ["event", "alert", "end", "gap"], 2000);
	const events = useFetch<EventPage>(show.events ? `events ${run} ${tick}` : null, (signal) => api.events(run, { limit: 1000, severity: "debug" }, signal));
	const epochs = useFetch<QueryAnswer>(show.epochs ? `epochs ${run} ${axis} ${live ? tick : 0}` : null, (signal) =>
		api.query(run, { series: ["epoch/number", "epoch"], points: 1000, axis }, signal));

	return {
		marks: useMemo(() => (show.events ? marksOf(events.data?.events ?? [], axis, startMs, run) : []), [events.data, axis, startMs, run, show.events]),
		spans: useMemo(() => (show.epochs ? epochsOf(epochs.data) : []), [epochs.data, show.epochs]),
		events: events.data,
	};
}
