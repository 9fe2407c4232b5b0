// SPDX-License-Identifier: Apache-2.0
//
// panels.ts - what the System page shows: a table of sections and charts, each a list of series
// patterns; which of them a run has, and what to say where it has none.

/** A line of a chart, or several if the pattern has labels that differ. */
export interface Line {
	name: string;
	/** A rate per second of a counter. */
	rate?: boolean;
	/** In the legend; the label's value is put after it where there are several. */
	label: string;
	/** Drawn as a thin dashed line: the most that there can be. */
	limit?: boolean;
}

export interface Panel {
	title: string;
	unit: string;
	lines: Line[];
	/** Shares: the axis is 0 to 100 %. */
	share?: boolean;
}

export interface Section {
	id: string;
	title: string;
	panels: Panel[];
	/** Why there may be nothing, and what to do. */
	absent: string;
}

const line = (name: string, label: string, more: Partial<Line> = {}): Line =>
	({ name, label, ...more });
const limit = { limit: true };
const rate = { rate: true };

const GPU_CHARTS: readonly (readonly [string, string, Line[]])[] = [
	["GPU busy", "1", [line("gpu/busy", "GPU")]],
	["Multiprocessors active", "1", [line("gpu/sm/active", "GPU")]],
	["GPU memory", "By", [line("gpu/memory/used", "GPU"), line("gpu/memory/total", "total", limit)]],
	["Power", "W", [line("gpu/power", "GPU"), line("gpu/power/limit", "limit", limit)]],
	["Temperature", "Cel", [line("gpu/temperature", "GPU")]],
	["Clock", "Hz", [line("gpu/clock/sm", "GPU"), line("gpu/clock/sm/max", "highest", limit)]],
	["Clock held down", "1", [line("gpu/throttled", "GPU")]],
	["NVLink and PCIe", "By/s", [
		line("gpu/nvlink/received", "NVLink in", rate),
		line("gpu/nvlink/sent", "NVLink out", rate),
		line("gpu/pcie/received", "PCIe in", rate),
		line("gpu/pcie/sent", "PCIe out", rate),
	]],
];

export const SECTIONS: readonly Section[] = [
	{
		id: "gpu",
		title: "GPUs",
		absent: "No figures of GPUs in this run: no driver of NVIDIA, AMD or Intel answered on its " +
			"hosts. `lapse doctor --metrics` there says why.",
		panels: GPU_CHARTS.map(([title, unit, lines]) =>
			({ title, unit, lines, share: unit === "1" })),
	},
	{
		id: "cpu",
		title: "CPU",
		absent: "No figures of CPUs in this run: the machine was not read (`probe.groups`), or the " +
			"run is shorter than two readings.",
		panels: [
			{ title: "All CPUs", unit: "1", share: true, lines: [
				line("cpu/busy", "busy"), line("cpu/user", "programs"), line("cpu/system", "kernel"),
				line("cpu/iowait", "waits for disk"), line("cpu/steal", "stolen"),
			] },
			{ title: "CPUs that the run uses", unit: "1", lines: [
				line("tree/cpu", "run"), line("cgroup/cpu/used", "cgroup"),
				line("cpu/count", "CPUs", limit), line("cpu/quota", "quota", limit),
			] },
			{ title: "Load", unit: "1", lines: [
				line("load/1m", "1 min"), line("load/5m", "5 min"), line("tasks/running", "running"),
				line("tasks/blocked", "blocked"), line("cpu/count", "CPUs", limit),
			] },
			{ title: "Held back by the quota", unit: "1", share: true, lines: [
				line("cgroup/cpu/throttled/periods", "periods"),
			] },
		],
	},
	{
		id: "memory",
		title: "Memory",
		absent: "No figures of memory in this run: the machine was not read (`probe.groups`).",
		panels: [
			{ title: "Machine", unit: "By", lines: [
				line("memory/used", "used"), line("memory/cached", "page cache"),
				line("swap/used", "swap"), line("memory/total", "machine", limit),
				line("memory/limit", "cgroup limit", limit),
			] },
			{ title: "Run", unit: "By", lines: [
				line("tree/rss", "processes"), line("cgroup/memory/working_set", "cgroup, in use"),
				line("cgroup/memory/used", "cgroup, with cache"),
				line("cgroup/memory/limit", "cgroup limit", limit),
			] },
			{ title: "/dev/shm", unit: "By", lines: [
				line("shm/used", "used"), line("shm/total", "size", limit),
			] },
			{ title: "Risk of running out", unit: "1", share: true, lines: [line("oom/risk", "risk")] },
		],
	},
	{
		id: "pressure",
		title: "Pressure",
		absent: "The kernel tells no pressure (PSI): it is off, or older than 4.20. " +
			"Boot with `psi=1` to have it.",
		panels: [
			{ title: "Some task waits", unit: "1", share: true, lines: [
				line("pressure/cpu", "CPU"), line("pressure/memory", "memory"), line("pressure/io", "disk"),
			] },
			{ title: "All tasks wait", unit: "1", share: true, lines: [
				line("pressure/memory/full", "memory"), line("pressure/io/full", "disk"),
			] },
			{ title: "In the run's cgroup", unit: "1", share: true, lines: [
				line("cgroup/pressure/cpu", "CPU"), line("cgroup/pressure/memory", "memory"),
				line("cgroup/pressure/io", "disk"),
			] },
		],
	},
	{
		id: "disk",
		title: "Disks",
		absent: "No disk did anything, or disks are not visible here (containers often hide them).",
		panels: [
			{ title: "Read and written", unit: "By/s", lines: [
				line("disk/read", "read", rate), line("disk/written", "written", rate),
			] },
			{ title: "Disk busy", unit: "1", share: true, lines: [line("disk/busy", "busy")] },
			{ title: "Time of a request", unit: "s", lines: [
				line("disk/latency/read", "read"), line("disk/latency/write", "write"),
			] },
		],
	},
	{
		id: "network",
		title: "Network",
		absent: "No interface but loopback carried a packet in the run's network namespace.",
		panels: [
			{ title: "Received and sent", unit: "By/s", lines: [
				line("network/received", "in", rate), line("network/sent", "out", rate),
			] },
			{ title: "InfiniBand", unit: "By/s", lines: [
				line("infiniband/received", "in", rate),
				line("infiniband/sent", "out", rate),
			] },
			{ title: "Trouble", unit: "1/s", lines: [
				line("network/errors", "broken", rate), line("network/drops", "dropped", rate),
				line("network/tcp/retransmits", "TCP again", rate),
			] },
		],
	},
];

/** What of a series the page needs to know. */
export interface Known {
	id: string;
	name: string;
	label: Record<string, string>;
	host: string;
}

export interface Drawn extends Line {
	id: string;
	text: string;
}

/** Labels' values of a series that tell it from others of its name: "nvme0n1", "0 mlx5_0". */
export function instance(label: Record<string, string>): string {
	return Object.values(label).join(" ");
}

/** The series of a panel on a host, at most `most`; limits that are all alike come once. */
export function drawn(panel: Panel, series: readonly Known[], host: string, most = 24): Drawn[] {
	const out: Drawn[] = [];
	for (const l of panel.lines) {
		const of = series.filter((s) => s.name === l.name && s.host === host);
		const shown = l.limit ? of.slice(0, 1) : of;
		for (const s of shown) {
			const which = instance(s.label);
			const text = l.limit || !which ? l.label : l.label === "GPU" ? `GPU ${which}`
				: `${which} ${l.label}`;
			out.push({ ...l, id: l.rate ? `rate(${s.id})` : s.id, text });
		}
	}
	return out.some((d) => !d.limit) ? out.slice(0, most) : [];
}

export interface Process {
	key: string;
	role: string;
	slot: string;
	host: string;
	ids: Record<string, string>;
}

/** Processes that have figures of their own, by host, role and slot. */
export function processes(series: readonly Known[]): Process[] {
	const found = new Map<string, Process>();
	for (const s of series) {
		const { role, slot } = s.label;
		if (!s.name.startsWith("process/") || role === undefined || slot === undefined) continue;
		const key = `${s.host}/${role}/${slot}`;
		let p = found.get(key);
		if (!p) found.set(key, (p = { key, role, slot, host: s.host, ids: {} }));
		p.ids[s.name] = s.id;
	}
	return [...found.values()];
}
