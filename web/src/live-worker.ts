// SPDX-License-Identifier: Apache-2.0
//
// The shared worker: the streams of all tabs. A tab says which runs it wants, and when it goes.
import { type LiveMessage, LiveStreams } from "./live-stream";

interface Tab {
	port: MessagePort;
	runs: Set<string>;
}

const tabs = new Set<Tab>();
/** What a tab that joins later has to know. */
const hellos = new Map<string, LiveMessage>();
let streams: LiveStreams | null = null;

function deliver(run: string, message: LiveMessage): void {
	if (message.type === "hello" || message.type === "up") hellos.set(run, message);
	for (const tab of tabs) if (tab.runs.has(run)) tab.port.postMessage({ run, message });
}

function drop(tab: Tab, run: string): void {
	tab.runs.delete(run);
	for (const other of tabs) if (other.runs.has(run)) return;
	streams?.drop(run);
	hellos.delete(run);
}

(self as unknown as { onconnect: (e: MessageEvent) => void }).onconnect = (e) => {
	const tab: Tab = { port: e.ports[0] as MessagePort, runs: new Set() };

	tabs.add(tab);
	tab.port.onmessage = (m: MessageEvent<{ address?: string; want?: string; drop?: string; bye?: boolean; look?: number }>) => {
		const { address, want, drop: away, bye, look } = m.data;

		if (address) streams ??= new LiveStreams(address, deliver);
		if (want !== undefined && streams) {
			tabs.add(tab);
			tab.runs.add(want);
			streams.want(want);
			const hello = hellos.get(want);

			if (hello) tab.port.postMessage({ run: want, message: hello });
		}
		if (away !== undefined) drop(tab, away);
		if (look !== undefined) streams?.look(look);
		if (bye) {
			for (const run of [...tab.runs]) drop(tab, run);
			tabs.delete(tab);
		}
	};
	tab.port.start();
};
