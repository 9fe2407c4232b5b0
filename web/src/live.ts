// SPDX-License-Identifier: Apache-2.0
//
// What is new of runs, as it comes: server-sent events, one stream for all tabs of the
// browser where there are shared workers, else one a tab, else by polling. Goes on after a
// break where it was.
import { useEffect, useRef, useState } from "preact/hooks";
import { ALL_RUNS, LATE_MS, ROUTE, type LiveMessage, LiveStreams } from "./live-stream";

export { ALL_RUNS, type LiveMessage };

/** Data of `points`, by id of series. series: [t_ms, step, value]; buckets: [t_ms, t_end_ms,
 * step, count, nan, min, mean, max, last]. */
export interface LivePoints {
	run: string;
	series: Record<string, [number, number | null, number | string | null][]>;
	buckets?: Record<string, (number | string | null)[][]>;
}

type Handler = (m: LiveMessage) => void;

const handlers = new Map<string, Set<Handler>>();
let worker: SharedWorker | null = null;
let streams: LiveStreams | null = null;

/** Since when nothing comes though somebody listens, in ms since 1970; 0: it comes. */
let lostSince = 0;
const lostWatchers = new Set<() => void>();
/** A shorter break is nobody's business. */
const LOST_MS = 3000;

function setLost(since: number): void {
	if (since === lostSince) return;
	lostSince = since;
	for (const f of [...lostWatchers]) f();
}

function deliver(run: string, m: LiveMessage): void {
	if (m.type === "down") setLost(lostSince || Date.now());
	else if (m.type !== "poll") setLost(0);
	for (const f of [...(handlers.get(run) ?? [])]) f(m);
}

function open(): void {
	if (worker || streams) return;
	const address = new URL(ROUTE, document.baseURI).href;
	const look = (most: number) => (worker ? worker.port.postMessage({ look: most }) : streams?.look(most));

	window.addEventListener("online", () => look(0));
	document.addEventListener("visibilitychange", () => document.hidden || look(LATE_MS));
	try {
		worker = new SharedWorker(new URL("./live-worker.ts", import.meta.url), { type: "module", name: "lapse-live" });
		worker.port.onmessage = (e: MessageEvent<{ run: string; message: LiveMessage }>) => deliver(e.data.run, e.data.message);
		worker.onerror = () => {
			// Not allowed here after all (a private window, an old browser).
			worker = null;
			streams = new LiveStreams(address, deliver);
			for (const run of handlers.keys()) streams.want(run);
		};
		worker.port.start();
		worker.port.postMessage({ address });
		window.addEventListener("pagehide", () => worker?.port.postMessage({ bye: true }));
		window.addEventListener("pageshow", (e) => {
			if (e.persisted) for (const run of handlers.keys()) worker?.port.postMessage({ want: run });
		});
	} catch {
		worker = null;
		streams = new LiveStreams(address, deliver);
	}
}

/** Hear what is new of a run (ALL_RUNS: of the list of runs) until the returned function is
 * called. */
export function subscribe(run: string, f: Handler): () => void {
	let of = handlers.get(run);

	open();
	if (!of) {
		of = new Set();
		handlers.set(run, of);
		if (worker) worker.port.postMessage({ want: run });
		else streams?.want(run);
	}
	of.add(f);
	return () => {
		of.delete(f);
		if (of.size > 0 || handlers.get(run) !== of) return;
		handlers.delete(run);
		if (handlers.size === 0) setLost(0);
		if (worker) worker.port.postMessage({ drop: run });
		else streams?.drop(run);
	};
}

/** Hear it in a component; null: nothing. */
export function useLive(run: string | null, f: Handler): void {
	const latest = useRef(f);

	latest.current = f;
	useEffect(() => (run === null ? undefined : subscribe(run, (m) => latest.current(m))), [run]);
}

/** A number that grows when something of these types came, or may have come (`poll`), at most once each `least` ms:
 * what is asked again then goes into the key of useFetch. */
export function useTick(run: string | null, types: readonly string[], least = 1000): number {
	const [tick, set] = useState(0);
	const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
	const last = useRef(0);

	useLive(run, (m) => {
		if (!(m.type === "poll" || types.includes(m.type)) || timer.current !== undefined) return;
		const wait = Math.max(0, last.current + least - Date.now());

		timer.current = setTimeout(() => {
			timer.current = undefined;
			last.current = Date.now();
			set((n) => n + 1);
		}, wait);
	});
	useEffect(() => () => clearTimeout(timer.current), []);
	return tick;
}

/** Since when there is no connection to what is shown live, in ms since 1970; 0: there is. */
export function useLost(): number {
	const [since, set] = useState(0);

	useEffect(() => {
		let timer: ReturnType<typeof setTimeout> | undefined;
		const f = () => {
			clearTimeout(timer);
			if (lostSince) timer = setTimeout(() => set(lostSince), LOST_MS);
			else set(0);
		};

		lostWatchers.add(f);
		f();
		return () => {
			clearTimeout(timer);
			lostWatchers.delete(f);
		};
	}, []);
	return since;
}
