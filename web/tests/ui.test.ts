// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { SeriesInfo } from "../src/api";
import { cell, csvOf, fileName } from "../src/chart/export";
import { epochsOf, marksOf } from "../src/chart/marks";
import { groupMetrics } from "../src/pages/training";
import { findOptions } from "../src/ui/combobox";
import { sortRows } from "../src/ui/table";

test("cells of CSV", () => {
	expect(cell("a")).toBe("a");
	expect(cell('say "x", y')).toBe('"say ""x"", y"');
	expect(cell("=1+1")).toBe("'=1+1");
	expect(cell("-5")).toBe("-5");
	expect(cell("a\nb")).toBe('"a\nb"');
});

test("a chart as CSV: what is shown", () => {
	const l = { key: "k", label: "loss, all", unit: "nat", share: false, side: "left" as const, x: [1, 2, 3], y: [0.5, NaN, 2], lo: [0, NaN, 1], hi: [1, NaN, 3], nan: [0, 4, 0] };

	expect(csvOf([l], "step", [2, 3])).toBe('series,unit,step,value,min,max,nan\n"loss, all",nat,2,NaN,NaN,NaN,4\n"loss, all",nat,3,2,1,3,0\n');
	expect(fileName("../../etc/passwd", "<b>")).toBe("etc_passwd-_b");
});

test("options by words", () => {
	const o = ["train/loss", "val/loss", "lr"].map((v) => ({ value: v, label: v }));

	expect(findOptions(o, "LOSS val").map((x) => x.value)).toEqual(["val/loss"]);
	expect(findOptions(o, "l").map((x) => x.value)).toEqual(["lr", "train/loss", "val/loss"]);
	expect(findOptions(o, "").length).toBe(3);
});

test("unknown values are sorted last, both ways", () => {
	const rows = [{ v: null }, { v: 2 }, { v: NaN }, { v: 1 }] as { v: number | null }[];
	const by = (r: { v: number | null }) => r.v;

	expect(sortRows(rows, by, false).map((r) => r.v)).toEqual([1, 2, null, NaN]);
	expect(sortRows(rows, by, true).map((r) => r.v)).toEqual([2, 1, null, NaN]);
});

const info = (name: string, more: Partial<SeriesInfo> = {}): SeriesInfo => ({ id: `h/${name}`, name, labels: "", label: {}, unit: "", kind: "gauge", help: "", source: "record", host: "h", process: 1, pid: 1, role: "trainer", rank: 0, count: 1, lost: 0, ...more });

test("the metrics that people look at first come first", () => {
	const g = groupMetrics([info("zeta"), info("cpu/busy", { source: "probe" }), info("learning_rate"), info("val/loss"), info("loss"), info("loss", { rank: 1 })]);

	expect(g.map((x) => x.name)).toEqual(["loss", "val/loss", "learning_rate", "zeta", "cpu/busy"]);
	expect(g[0]?.ranks).toBe(2);
});

test("events become marks on each axis", () => {
	const e = { id: "h/1", time_ns: "0", time: "2026-11-28T00:00:10Z", step: 7, host: "h", process: 1, severity: "info" as const, kind: "checkpoint", text: "saved", attrs: null };
	const t = Date.parse(e.time);

	expect(marksOf([e], "step", 0, "r")).toMatchObject([{ x: 7, kind: "checkpoint" }]);
	expect(marksOf([e], "relative", t - 10_000, "r")[0]?.x).toBe(10_000);
	expect(marksOf([{ ...e, step: null }], "step", 0, "r")).toEqual([]);
	expect(marksOf([{ ...e, kind: "x", severity: "debug" }], "time", 0, "r")).toEqual([]);
	expect(epochsOf({ head: {} as never, groups: [], members: [], series: [{ col: { x: Float64Array.of(0, 5, 10, 15), y: Float64Array.of(0, 0, 1, 1) } } as never] })).toEqual([
		{ from: 0, to: 10, label: "epoch 0", kind: "epoch" }, { from: 10, to: 15, label: "epoch 1", kind: "epoch" },
	]);
});
