// SPDX-License-Identifier: Apache-2.0
//
// The run that a page shows: its state, kept up to date, for all parts of the page.
import { createContext, type ComponentChildren } from "preact";
import { useContext } from "preact/hooks";
import { api, type Fetched, type RunDetail, useFetch } from "./api";
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
	const tick = useTick(live ? (first.data as RunDetail).run.id : null, ["points", "run", "end", "gap", "poll", "event"], 2000);
	const now = useFetch<RunDetail>(tick > 0 ? `run ${id} ${tick}` : null, (signal) => api.run(id, signal));
	const data = now.data && now.data.run.id === first.data?.run.id ? now.data : first.data;
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
