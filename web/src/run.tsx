// SPDX-License-Identifier: Apache-2.0
//
// The run that a page shows: its state, kept up to date, for all parts of the page.
import { createContext, type ComponentChildren } from "preact";
import { useContext } from "preact/hooks";
import { api, type Axis, type Fetched, type RunDetail, useFetch } from "./api";
import { useTick } from "./live";

export interface RunState extends Fetched<RunDetail> {
	/** The run's id; of "last" the id that it stands for, once known. */
	id: string;
	/** It runs, and somebody writes it. */
	live: boolean;
	/** Start in ms since 1970; 0 while unknown. */
	startMs: number;
}

const Context = createContext<RunState | null>(null);

export function RunProvider({ id, children }: { id: string; children: ComponentChildren }) {
	const first = useFetch<RunDetail>(`run ${id}`, (signal) => api.run(id, signal));
	const live = !!first.data?.live;
	// While it runs: when something came, at most every two seconds.
	const tick = useTick(live ? (first.data as RunDetail).run.id : null, ["points", "run", "end", "gap", "event"], 2000);
	const now = useFetch<RunDetail>(tick > 0 ? `run ${id} ${tick}` : null, (signal) => api.run(id, signal));
	// What is there may still be of the run that was shown before.
	const fits = (d: RunDetail | null) => d !== null && (d.run.id === id || id === "last");
	const data = fits(now.data) && now.data?.run.id === first.data?.run.id ? now.data : fits(first.data) ? first.data : null;
	const state: RunState = {
		...first, data, error: data ? null : first.error,
		id: data?.run.id ?? id,
		live: !!data?.live,
		startMs: data?.run.start ? Date.parse(data.run.start) : 0,
	};

	return <Context.Provider value={state}>{children}</Context.Provider>;
}

/** In a page of a run. */
export function useRun(): RunState {
	const state = useContext(Context);

	if (!state) throw new Error("useRun() outside of a page of a run");
	return state;
}

/** All of a run on an axis of charts: from its start to its end (of one that runs only the
 * start is known). null: what was recorded says it. */
export function domainOf(d: RunDetail | null, axis: Axis): [number, number] | null {
	if (!d?.run.start || axis === "step") return null;
	const start = Date.parse(d.run.start);
	const end = d.run.end ? Date.parse(d.run.end) : start;

	return axis === "relative" ? [0, end - start] : [start, end];
}
