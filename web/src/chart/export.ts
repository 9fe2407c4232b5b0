// SPDX-License-Identifier: Apache-2.0
//
// What is shown, as a file or in the clipboard: PNG of a chart, CSV of its points.
import type { Axis } from "../api";
import { cssColor } from "../theme";
import { type Line } from "./math";

export function download(name: string, content: Blob): void {
	const address = URL.createObjectURL(content);
	const a = document.createElement("a");

	a.href = address;
	a.download = name;
	document.body.append(a);
	a.click();
	a.remove();
	setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A name for a file from any text. */
export function fileName(...parts: string[]): string {
	return parts.join("-").replace(/[^\w.-]+/g, "_").replace(/^[_.]+|_+$/g, "").slice(0, 100) || "chart";
}

/** A cell of CSV; text that a spreadsheet would take for a formula is led by an apostrophe. */
export function cell(text: string): string {
	const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? "'" + text : text;

	return /[",\n\r]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
}

function figure(v: number | undefined): string {
	return v === undefined ? "" : Number.isNaN(v) ? "NaN" : String(v);
}

/** Rows: series, unit, x, mean (or value), min, max, nan; what is out of range is left out. */
export function csvOf(lines: readonly Line[], axis: Axis, range: [number, number] | null): string {
	const x = axis === "step" ? "step" : axis === "relative" ? "since_start_ms" : "time_ms";
	const rows = [`series,unit,${x},value,min,max,nan`];

	for (const l of lines)
		for (let i = 0; i < l.x.length; i++) {
			const at = l.x[i] as number;

			if (range && (at < range[0] || at > range[1])) continue;
			rows.push([cell(l.label), cell(l.unit), figure(at), figure((l.own ?? l.y)[i]), figure(l.own ? undefined : l.lo?.[i]), figure(l.own ? undefined : l.hi?.[i]), figure(l.nan?.[i])].join(","));
		}
	return rows.join("\n") + "\n";
}

/** The chart with its title and legend on the page's ground. */
export async function pngOf(title: string, plot: HTMLCanvasElement, legend: readonly { color: string; label: string }[]): Promise<Blob> {
	const scale = devicePixelRatio || 1;
	const out = document.createElement("canvas");
	const ctx = out.getContext("2d") as CanvasRenderingContext2D;
	const font = `${12 * scale}px system-ui, sans-serif`;
	const pad = 12 * scale;

	ctx.font = font;
	const rows: { color: string; label: string; width: number }[][] = [[]];
	let width = 0;

	for (const l of legend.slice(0, 40)) {
		const w = ctx.measureText(l.label).width + 28 * scale;

		if (width + w > plot.width && width > 0) {
			rows.push([]);
			width = 0;
		}
		width += w;
		(rows[rows.length - 1] as { color: string; label: string; width: number }[]).push({ ...l, width: w });
	}
	out.width = plot.width + 2 * pad;
	out.height = plot.height + 2 * pad + (24 + rows.length * 18) * scale;
	ctx.fillStyle = cssColor("--panel") || "#ffffff";
	ctx.fillRect(0, 0, out.width, out.height);
	ctx.fillStyle = cssColor("--text") || "#000000";
	ctx.font = `600 ${13 * scale}px system-ui, sans-serif`;
	ctx.textBaseline = "middle";
	ctx.fillText(title, pad, pad + 8 * scale, plot.width);
	ctx.drawImage(plot, pad, pad + 24 * scale);
	ctx.font = font;
	rows.forEach((row, r) => {
		let x = pad;
		const y = pad + plot.height + (32 + r * 18) * scale;

		for (const l of row) {
			ctx.fillStyle = l.color;
			ctx.fillRect(x, y - 2 * scale, 14 * scale, 4 * scale);
			ctx.fillStyle = cssColor("--text") || "#000000";
			ctx.fillText(l.label, x + 18 * scale, y);
			x += l.width;
		}
	});
	return new Promise((done, failed) => out.toBlob((b) => (b ? done(b) : failed(new Error("no picture was made"))), "image/png"));
}

export async function copyPng(blob: Blob): Promise<void> {
	await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
}
