// SPDX-License-Identifier: Apache-2.0
//
// One stream of server-sent events for all runs that somebody wants, used by the shared
// worker or by a tab itself. When what is wanted changes it is opened anew and goes on after
// the last event.

export const ROUTE = "api/v1/live";
/** Stands for the list of all runs, where a run's id is asked for. */
export const ALL_RUNS = "";
const TYPES = ["hello", "series", "points", "event", "alert", "run", "gap", "end", "runs"] as const;
const POLL_MS = 5000;
/** The server says something each 15 s at least (`beat`): a stream that says nothing is one
 * whose other end went without a word, as when this machine slept. */
const SILENT_MS = 40_000;
const LOOK_MS = 5000;
/** Looked at again by a person: no need to wait as long. */
export const LATE_MS = 20_000;
const RUNS_MAX = 8;

export interface LiveMessage {
	/** As in docs/http.md; "poll": there is no stream, ask again; "up", "down": the stream. */
	type: (typeof TYPES)[number] | "poll" | "up" | "down";
	data: unknown;
}

type Deliver = (run: string, m: LiveMessage) => void;

export class LiveStreams {
	private runs: string[] = [];
	private ended = new Set<string>();
	private source: EventSource | null = null;
	/** Those for which the stream has no room. */
	private beyond: string[] = [];
	private cursor = "";
	private failures = 0;
	private pollTimer: ReturnType<typeof setInterval> | undefined;
	private openTimer: ReturnType<typeof setTimeout> | undefined;
	private watchTimer: ReturnType<typeof setInterval> | undefined;
	private heard = 0;

	constructor(private address: string, private deliver: Deliver) {}

	want(run: string): void {
		if (this.runs.includes(run)) return;
		this.runs.push(run);
		this.ended.delete(run);
		this.changed();
	}

	drop(run: string): void {
		this.runs = this.runs.filter((r) => r !== run);
		this.ended.delete(run);
		this.changed();
	}

	/** Soon, not at once: a page that goes from one run to another drops one and wants one. */
	private changed(): void {
		clearTimeout(this.openTimer);
		this.openTimer = setTimeout(() => this.connect(), 30);
	}

	/** Connect anew if nothing came for so long. */
	look(most: number): void {
		if (!this.source || Date.now() - this.heard < most) return;
		this.all({ type: "down", data: null });
		this.connect();
	}

	private wanted(): string[] {
		return this.runs.filter((r) => !this.ended.has(r));
	}

	private connect(): void {
		const wanted = this.wanted();

		this.source?.close();
		this.source = null;
		clearInterval(this.watchTimer);
		const q = new URLSearchParams();
		const runs = wanted.filter((r) => r !== ALL_RUNS);
		const none = typeof EventSource === "undefined";

		this.beyond = none ? wanted : runs.slice(0, -RUNS_MAX);
		this.poll();
		if (none || wanted.length === 0) return;
		for (const run of runs.slice(-RUNS_MAX)) q.append("run", run);
		if (wanted.includes(ALL_RUNS)) q.set("runs", "1");
		if (this.cursor) q.set("after", this.cursor);
		const source = new EventSource(`${this.address}?${q}`);

		this.source = source;
		this.heard = Date.now();
		this.watchTimer = setInterval(() => this.look(SILENT_MS), LOOK_MS);
		source.onopen = () => {
			this.heard = Date.now();
			this.failures = 0;
			this.poll();
			this.all({ type: "up", data: null });
		};
		source.onerror = () => this.broke(source);
		source.addEventListener("beat", () => (this.heard = Date.now()));
		for (const type of TYPES)
			source.addEventListener(type, (e) => {
				if (this.source === source) this.message(type, e as MessageEvent<string>);
			});
	}

	private message(type: (typeof TYPES)[number], e: MessageEvent<string>): void {
		let data: { run?: string } | null = null;

		this.heard = Date.now();
		if (e.lastEventId) this.cursor = e.lastEventId;
		try {
			data = JSON.parse(e.data) as { run?: string };
		} catch {
			return;
		}
		if (type === "end" && data?.run !== undefined) {
			this.ended.add(data.run);
			if (this.beyond.length) this.changed();
			else if (this.wanted().length === 0) {
				this.source?.close();
				this.source = null;
			}
		}
		if (type === "gap" && data?.run === undefined) this.all({ type, data });
		else this.deliver(type === "runs" ? ALL_RUNS : (data?.run ?? ALL_RUNS), { type, data });
	}

	private all(m: LiveMessage, runs = this.runs): void {
		for (const run of runs) this.deliver(run, m);
	}

	/** The browser itself goes on, unless the server refused; then it is asked again, slower
	 * each time, and meanwhile those who listen are told to poll. */
	private broke(source: EventSource): void {
		if (this.source !== source) return;
		this.all({ type: "down", data: null });
		if (source.readyState !== EventSource.CLOSED) return;
		this.source = null;
		this.failures++;
		this.poll();
		clearTimeout(this.openTimer);
		this.openTimer = setTimeout(() => this.connect(), Math.min(60_000, 1000 * 2 ** this.failures));
	}

	/** Those whom no stream serves, if there are any. */
	private poll(): void {
		const which = () => (this.failures >= 2 ? this.wanted() : this.beyond);

		if (which().length) this.pollTimer ??= setInterval(() => this.all({ type: "poll", data: null }, which()), POLL_MS);
		else {
			clearInterval(this.pollTimer);
			this.pollTimer = undefined;
		}
	}
}
