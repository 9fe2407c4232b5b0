// SPDX-License-Identifier: Apache-2.0
//
// The server's API as functions with types (docs/http.md). Every failure is one ApiError
// whose message can be shown as it is.
import { useCallback, useLayoutEffect, useRef, useState } from "preact/hooks";
import { decodeColumns, type QueryAnswer } from "./columns";
import { preloaded } from "./preload";

export class ApiError extends Error {
	/** status 0: no answer came; code: docs/http.md, "Error codes", or "offline", "bad-answer". */
	constructor(readonly status: number, readonly code: string, message: string) {
		super(message);
		this.name = "ApiError";
	}
}

type Value = string | number | boolean | null | undefined;
export type Params = Record<string, Value | readonly (string | number)[]>;

export function url(path: string, params: Params = {}): string {
	const q = new URLSearchParams();

	for (const [key, v] of Object.entries(params)) {
		if (v == null || v === "" || v === false) continue;
		for (const one of Array.isArray(v) ? v : [v]) q.append(key, one === true ? "1" : String(one));
	}
	const text = q.toString();

	return text ? `${path}?${text}` : path;
}

/** The address of a route of a run: runUrl(id, "export", { format: "csv" }). */
export function runUrl(run: string, rest: string, params: Params = {}): string {
	return url(`api/v1/runs/${encodeURIComponent(run)}${rest ? "/" + rest : ""}`, params);
}

async function failed(answer: Response): Promise<ApiError> {
	let code = `status-${answer.status}`;
	let message = `The server answered ${answer.status} ${answer.statusText}.`;

	try {
		const body = (await answer.json()) as { error?: { code?: string; message?: string } };

		code = body.error?.code ?? code;
		message = body.error?.message ?? message;
	} catch {
		/* no JSON: the status has to do */
	}
	if (answer.status === 401)
		message = "This page needs a token: open the link that lapse printed (it ends in ?token=…).";
	return new ApiError(answer.status, code, message);
}

async function ask(address: string, init: RequestInit): Promise<Response> {
	let answer: Response;

	try {
		answer = await ((init.method ? undefined : preloaded(address)) ?? fetch(address, { credentials: "same-origin", ...init }));
	} catch (e) {
		if ((e as Error).name === "AbortError") throw e;
		throw new ApiError(0, "offline", "lapse does not answer. Is lapse serve, or the run that shows this page, still there?");
	}
	if (!answer.ok) throw await failed(answer);
	return answer;
}

/** Is it what becomes of a question that is not wanted any more? */
export function isAbort(e: unknown): boolean {
	return (e as Error | undefined)?.name === "AbortError";
}

export async function get<T>(path: string, params?: Params, signal?: AbortSignal): Promise<T> {
	const answer = await ask(url(path, params), { signal, headers: { Accept: "application/json" } });

	try {
		return (await answer.json()) as T;
	} catch (e) {
		if (isAbort(e)) throw e;
		throw new ApiError(answer.status, "bad-answer", `The answer of ${path} is cut off or no JSON.`);
	}
}

export async function getBytes(path: string, signal?: AbortSignal): Promise<ArrayBuffer> {
	return (await ask(path, { signal })).arrayBuffer();
}

export async function post<T>(path: string, body: unknown): Promise<T> {
	const token = (await info()).act_token ?? "";
	const answer = await ask(path, {
		method: "POST",
		headers: { "Content-Type": "application/json", "X-Lapse-Token": token },
		body: JSON.stringify(body),
	});
	const text = await answer.text();

	return (text ? JSON.parse(text) : {}) as T;
}

// ---- what the routes answer -----------------------------------------------------------

export interface Info {
	version: string;
	title: string;
	host: string;
	user: string;
	folders: string[];
	needs_token: boolean;
	act_token: string;
	time_ms: number;
	refresh_ms: number;
	newest: string | null;
	limits: Record<string, number>;
}

export interface RunHead {
	id: string;
	name: string;
	project: string;
	command: string;
	cwd: string;
	user: string;
	hosts: string;
	tags: string;
	notes: string;
	dir: string;
	outcome: string;
	exit_code: number | null;
	signal: string | null;
	evidence: string;
	start_ns: number | string | null;
	start: string | null;
	end_ns: number | string | null;
	end: string | null;
	duration_s: number | null;
	user_s: number | null;
	system_s: number | null;
	max_rss: number | null;
	warning: string;
}

export interface MetricValue {
	kind: string;
	unit: string;
	count: number;
	last: Num;
	best: Num;
	min: Num;
	max: Num;
	sum: Num;
	step: number | null;
}

/** A number in JSON: "NaN", "Infinity" and "-Infinity" are text there. */
export type Num = number | "NaN" | "Infinity" | "-Infinity" | null;

export function num(v: Num | undefined): number | null {
	return v == null ? null : typeof v === "number" ? v : Number(v);
}

export interface RunRow extends RunHead {
	status: RunStatus;
	folder: number;
	last_step: number | null;
	loss_name: string | null;
	loss: Num;
	metrics?: Record<string, MetricValue | null>;
	bytes: number;
	/** Why it cannot be read; then only id, status and bytes are there. */
	error: string | null;
	spark?: Num[] | null;
}

export type RunStatus = "running" | "finished" | "failed" | "lost" | "unreadable";

export interface Facet {
	value: string;
	count: number;
}

export interface RunTable {
	total: number;
	matched: number;
	offset: number;
	runs: RunRow[];
	facets: { status: Facet[]; project: Facet[]; tag: Facet[] };
}

export interface Progress {
	step: number | null;
	of: number | null;
	share: number | null;
	steps_s: number | null;
	samples_s: number | null;
	tokens_s: number | null;
	elapsed_s: number | null;
	eta_s: number | null;
	epoch: number | null;
	epochs: number | null;
	quiet_s: number | null;
}

export interface Process {
	host: string;
	process: number;
	role: string;
	program: string;
	pid: number;
	ppid: number;
	rank: number | null;
	local_rank: number | null;
	world_size: number | null;
	start: string | null;
	end: string | null;
	attempts: number;
	stored: number;
	dropped: number;
	overwritten: number;
	broken: number;
	[more: string]: unknown;
}

export interface Attribute {
	host: string;
	process: number;
	group: string;
	key: string;
	value: string;
}

export interface RunDetail {
	run: RunHead;
	status: RunStatus;
	/** It runs, and somebody writes it. */
	live: boolean;
	/** Grows with what is stored. */
	version: string;
	processes: Process[];
	attributes: Attribute[];
	progress: Progress;
	loss: { name: string; last: Num; best: Num; direction: string } | null;
	drops: { stored: number; dropped: number; overwritten: number; broken: number; refused: number };
	counts: { series: number; points: number; events: number; warnings: number; errors: number };
}

export interface SeriesInfo {
	id: string;
	name: string;
	labels: string;
	label: Record<string, string>;
	unit: string;
	kind: "gauge" | "counter" | "histogram" | "span";
	help: string;
	source: string;
	host: string;
	process: number;
	pid: number;
	role: string;
	rank: number | null;
	count: number;
	lost: number;
}

export interface EventRow {
	id: string;
	time_ns: number | string;
	time: string;
	step: number | null;
	host: string;
	process: number;
	severity: "debug" | "info" | "warning" | "error";
	kind: string;
	text: string;
	attrs: Record<string, unknown> | string | null;
}

export interface EventPage {
	total: number;
	by_severity: Record<string, number>;
	kinds: Record<string, number>;
	next: string | null;
	events: EventRow[];
}

export interface Stat {
	id: string;
	name: string;
	labels: string;
	unit: string;
	count: number;
	nan: number;
	mean: Num;
	min: Num;
	max: Num;
	last: Num;
	p50: Num;
	p95: Num;
	p99: Num;
	[more: string]: unknown;
}

export interface Verdict {
	run: string;
	version: number;
	is_live: boolean;
	why_not: string | null;
	steps: { first: number; last: number; count: number; of: number; warmup: number; is_cut: boolean; most: number; ranks: number } | null;
	step: { mean_s: number; p50_s: number; p95_s: number; p99_s: number; max_s: number } | null;
	parts: { name: string; role: string; permille: number; share: number; mean_s: number; p50_s: number; p95_s: number; p99_s: number; max_s: number }[];
	beside: { name: string; role: string; share: number }[];
	between: { share: number; parts: { name: string; role: string; seconds: number; count: number }[] };
	bound: { kind: string; title: string; share: number | null; sentence: string; why: string; advice: string };
	evidence: { id: string; text: string; value: number; unit: string; series: string }[];
	ranks: { rank: number | null; host: string; process: number; steps: number; p50_s: number; own_s: number; permille: number[] }[];
	slowest: {
		rank: number | null; step: number; start_ns: string; start: string; seconds: number; over_s: number; most: string;
		permille: number[]; artifacts: { name: string; kind: string }[];
	}[];
	histogram: { edges_s: number[]; counts: number[] };
	bins: { first: number[]; last: number[]; count: number[]; mean_s: number[]; max_s: number[]; parts: number[][] } | null;
}

export interface Alert {
	id: string;
	rule: string;
	title: string;
	severity: "info" | "warning" | "error";
	state: "active" | "resolved" | "ended";
	since_ns: string;
	since: string;
	until_ns: string | null;
	until: string | null;
	duration_s: number | null;
	text: string;
	do: string;
	host: string;
	process: string;
	value: Num;
	limit: Num;
	unit: string;
	from_ns: string;
	to_ns: string | null;
	series: { id: string; name: string; labels: string; unit: string; pattern: string }[];
	acknowledged: { by: string; at_ns: string; at: string; note: string } | null;
	silenced_until_ns: string | null;
	silenced_until: string | null;
}

export interface AlertRule {
	rule: string;
	title: string;
	severity: "info" | "warning" | "error";
	looks_at: string;
	test: string;
	do: string;
	cooldown_s: number;
	state: "ok" | "firing" | "cannot-look" | "off";
	why: string | null;
	fired: number;
	last_ns: string | null;
	silenced_until_ns: string | null;
	silenced_until: string | null;
}

export interface AlertPage {
	run: string;
	watched: boolean;
	why: string | null;
	counts: { active: number; unacknowledged: number; silenced: number; history: number };
	alerts: Alert[];
	rules: AlertRule[];
}

export interface QueryAsk {
	series?: string[];
	id?: string[];
	points?: number;
	axis?: Axis;
	from?: number | null;
	to?: number | null;
	grid?: boolean;
	group?: string;
	attempts?: "all" | "last";
	also?: string[];
}

export type Axis = "time" | "step" | "relative";

const MOST = 128; // series in a question (docs/http.md)

// ---- the routes -----------------------------------------------------------------------

let infoOnce: Promise<Info> | null = null;

/** Asked once; again after a failure. */
export function info(): Promise<Info> {
	infoOnce ??= get<Info>("api/v1/info").catch((e: unknown) => {
		infoOnce = null;
		throw e;
	});
	return infoOnce;
}

export const api = {
	info,
	runs: (params: Params, signal?: AbortSignal) => get<RunTable>("api/v1/runs", params, signal),
	run: (id: string, signal?: AbortSignal) => get<RunDetail>(runUrl(id, ""), {}, signal),
	edit: (id: string, change: { name?: string; project?: string; tags?: string; notes?: string }) =>
		post<{ run: RunHead }>(runUrl(id, "edit"), change),
	series: (id: string, match: string[] = [], signal?: AbortSignal) =>
		get<{ total: number; series: SeriesInfo[] }>(runUrl(id, "series"), { match }, signal),
	events: (id: string, params: Params = {}, signal?: AbortSignal) =>
		get<EventPage>(runUrl(id, "events"), params, signal),
	verdict: (id: string, params: Params = {}, signal?: AbortSignal) => get<Verdict>(runUrl(id, "verdict"), params, signal),
	alerts: (id: string, params: Params = {}, signal?: AbortSignal) => get<AlertPage>(runUrl(id, "alerts"), params, signal),
	stats: (id: string, params: Params, signal?: AbortSignal) =>
		get<{ series: Stat[]; unmatched: string[] }>(runUrl(id, "stats"), params, signal),
	/** Of ids there may be any number: so many a question. */
	async query(id: string, q: QueryAsk, signal?: AbortSignal): Promise<QueryAnswer> {
		// In an order of its own: preload.ts asks in the same.
		const params = (id: string[]) => ({
			series: q.series ?? [], id, points: q.points, axis: q.axis, from: q.from, to: q.to, grid: q.grid, group: q.group,
			attempts: q.attempts, also: q.also ?? [], optional: true, format: "binary",
		});
		const parts = [q.id?.slice(0, MOST) ?? []];

		for (let i = MOST; i < (q.id?.length ?? 0); i += MOST) parts.push(q.id!.slice(i, i + MOST));
		const all = await Promise.all(parts.map(async (ids) => decodeColumns(await getBytes(runUrl(id, "query", params(ids)), signal))));

		return { ...all[0]!, series: all.flatMap((a) => a.series) };
	},
};

// ---- in components --------------------------------------------------------------------

export interface Fetched<T> {
	/** The newest answer; what was there before stays while a new one is asked for. */
	data: T | null;
	error: ApiError | null;
	loading: boolean;
	reload: () => void;
}

/** lapse did not answer: asked again so much later, by pages that ask only once, too. */
const OFFLINE_MS = 3000;

/** Ask when `key` changes (null: do not ask); the question before is given up. `every`: ask
 * again so many ms after each answer, while the page is visible. */
export function useFetch<T>(key: string | null, ask: (signal: AbortSignal) => Promise<T>, every = 0): Fetched<T> {
	const [state, set] = useState<{ data: T | null; error: ApiError | null; loading: boolean }>({
		data: null, error: null, loading: key !== null,
	});
	const [turn, again] = useState(0);
	const latest = useRef(ask);

	latest.current = ask;
	// Not an effect, which would wait for a frame to be drawn.
	useLayoutEffect(() => {
		if (key === null) {
			set({ data: null, error: null, loading: false });
			return;
		}
		const stop = new AbortController();
		let timer: ReturnType<typeof setTimeout> | undefined;
		const later = (wait = every) => {
			if (wait > 0 && !stop.signal.aborted) timer = setTimeout(() => (document.hidden ? later(wait) : void once()), wait);
		};
		const once = () =>
			latest.current(stop.signal).then(
				(data) => {
					if (!stop.signal.aborted) set({ data, error: null, loading: false });
					later();
				},
				(e: unknown) => {
					if (stop.signal.aborted || isAbort(e)) return;
					const error = e instanceof ApiError ? e : new ApiError(0, "page", String(e));

					set((s) => ({ ...s, error, loading: false }));
					later(every || (error.code === "offline" ? OFFLINE_MS : 0));
				},
			);

		set((s) => (s.loading ? s : { ...s, loading: true }));
		void once();
		return () => {
			stop.abort();
			clearTimeout(timer);
		};
	}, [key, turn, every]);
	return { ...state, reload: useCallback(() => again((n) => n + 1), []) };
}
