// SPDX-License-Identifier: Apache-2.0
//
// Small things: badges, times, tabs, switches, bars, keys.
import type { ComponentChildren } from "preact";
import { useEffect, useState, useRef } from "preact/hooks";
import * as fmt from "../fmt";

export type Tone = "good" | "bad" | "warn" | "live" | "plain";

export function Badge({ tone = "plain", title, children }: { tone?: Tone; title?: string; children: ComponentChildren }) {
	return <span class={`badge ${tone}`} title={title}>{children}</span>;
}

/** How a run ended, in the words of the commands. */
export function outcomeText(r: { outcome: string; exit_code: number | null; signal: string | null }): { text: string; tone: Tone } {
	switch (r.outcome) {
		case "running": return { text: "running", tone: "live" };
		case "exited": return r.exit_code === 0 || r.exit_code == null ? { text: "finished", tone: "good" } : { text: `exit ${r.exit_code}`, tone: "bad" };
		case "signaled": return { text: r.signal ? `killed ${r.signal}` : "killed", tone: "bad" };
		case "oom": return { text: "out of memory", tone: "bad" };
		case "hung": return { text: "hung", tone: "bad" };
		case "lost": return { text: "lost", tone: "warn" };
		default: return { text: r.outcome || "unreadable", tone: "warn" };
	}
}

export function Outcome({ run }: { run: { outcome: string; exit_code: number | null; signal: string | null; evidence?: string } }) {
	const { text, tone } = outcomeText(run);

	return <Badge tone={tone} title={run.evidence || undefined}>{tone === "live" && <i class="dot" />}{text}</Badge>;
}

/** A time in the viewer's zone, UTC in its title. ms since 1970. */
export function Time({ ms, how = "local" }: { ms: number | null | undefined; how?: "local" | "ago" | "clock" }) {
	const [, again] = useState(0);

	useEffect(() => {
		if (how !== "ago") return;
		const t = setInterval(() => again((n) => n + 1), 15_000);

		return () => clearInterval(t);
	}, [how]);
	if (ms == null || !Number.isFinite(ms)) return <span class="muted">{fmt.UNKNOWN}</span>;
	const text = how === "ago" ? fmt.ago(ms) : how === "clock" ? fmt.clock(ms) : fmt.local(ms);

	return <time dateTime={fmt.utc(ms)} title={`${fmt.local(ms, true)} here\n${fmt.utc(ms)}`}>{text}</time>;
}

/** Foreign text: isolated from the direction of what stands around it, shortened. */
export function Name({ text, most = 80 }: { text: string; most?: number }) {
	return <bdi title={text.length > most ? fmt.shorten(text, 600) : undefined}>{fmt.shorten(text, most)}</bdi>;
}

/** A sentence of the program's; what stands between backticks is a command. */
export function Words({ text }: { text: string }) {
	return <bdi>{fmt.shorten(text, 600).split("`").map((part, i) => (i % 2 ? <code>{part}</code> : part))}</bdi>;
}

export interface Tab {
	id: string;
	title: ComponentChildren;
	href: string;
}

export function Tabs({ tabs, active, label }: { tabs: readonly Tab[]; active: string; label: string }) {
	const nav = useRef<HTMLElement>(null);

	// On a narrow screen the row scrolls: where we are is to be seen.
	useEffect(() => {
		const row = nav.current;
		const at = row?.querySelector<HTMLElement>("[aria-current]");

		if (row && at) row.scrollLeft += at.getBoundingClientRect().left - row.getBoundingClientRect().left - (row.clientWidth - at.offsetWidth) / 2;
	}, [active]);
	return (
		<nav ref={nav} class="tabs" aria-label={label}>
			{tabs.map((t) => <a key={t.id} href={t.href} aria-current={t.id === active ? "page" : undefined}>{t.title}</a>)}
		</nav>
	);
}

export function Switch({ on, set, children, title }: { on: boolean; set: (on: boolean) => void; children: ComponentChildren; title?: string }) {
	return (
		<button type="button" class="switch" role="switch" aria-checked={on} title={title} onClick={() => set(!on)}>{children}</button>
	);
}

/** One of a few, side by side. */
export function Choice<T extends string>({ label, value, options, set }: { label: string; value: T; options: readonly (readonly [T, string])[]; set: (v: T) => void }) {
	return (
		<div class="choice" role="radiogroup" aria-label={label}>
			{options.map(([v, text]) => (
				<button key={v} type="button" role="radio" aria-checked={v === value} onClick={() => set(v)}>{text}</button>
			))}
		</div>
	);
}

/** A figure with its name: the tiles of an overview. */
export function Figure({ label, children, sub, href, tone, title }: { label: string; children: ComponentChildren; sub?: ComponentChildren; href?: string; tone?: Tone; title?: string }) {
	const inner = (
		<>
			<span class="figure-label">{label}</span>
			<span class={`figure-value num ${tone ?? ""}`}>{children}</span>
			<span class="figure-sub">{sub}</span>
		</>
	);

	return href ? <a class="figure" href={href} title={title}>{inner}</a> : <div class="figure" title={title}>{inner}</div>;
}

/** Shares of a whole as one bar; the parts should add to 1. */
export function Shares({ parts, label }: { parts: readonly { name: string; share: number; color: string; title?: string }[]; label: string }) {
	return (
		<div class="shares">
			<div class="shares-bar" role="img" aria-label={`${label}: ${parts.map((p) => `${p.name} ${fmt.percent(p.share)}`).join(", ")}`}>
				{parts.map((p) => (
					<span key={p.name} style={{ flexGrow: Math.max(p.share, 0), background: p.color }} title={p.title ?? `${p.name}: ${fmt.percent(p.share)}`} />
				))}
			</div>
			<ul class="shares-legend">
				{parts.map((p) => (
					<li key={p.name} title={p.title}><i class="swatch" style={{ "--c": p.color }} /><bdi>{p.name}</bdi> <b class="num">{fmt.percent(p.share)}</b></li>
				))}
			</ul>
		</div>
	);
}

export function ProgressBar({ share, label }: { share: number | null; label: string }) {
	return (
		<div class="progress" role="progressbar" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={share == null ? undefined : Math.round(share * 100)}>
			<span style={{ width: `${Math.max(0, Math.min(1, share ?? 0)) * 100}%` }} />
		</div>
	);
}

/** A tiny chart of a few numbers, in the colour of text. */
export function Sparkline({ values, width = 96, height = 22, label }: { values: readonly (number | null)[]; width?: number; height?: number; label: string }) {
	const finite = values.filter((v): v is number => v !== null && Number.isFinite(v));

	if (finite.length === 0) return <svg class="spark" width={width} height={height} aria-label={`${label}: no values`} role="img" />;
	const lo = Math.min(...finite);
	const hi = Math.max(...finite);
	const y = (v: number) => (hi === lo ? height / 2 : height - 2 - ((v - lo) / (hi - lo)) * (height - 4));
	const x = (i: number) => (values.length === 1 ? width / 2 : 1 + (i / (values.length - 1)) * (width - 2));
	let d = "";
	let pen = false;

	values.forEach((v, i) => {
		if (v === null || !Number.isFinite(v)) {
			pen = false;
			return;
		}
		const alone = !pen && (i + 1 === values.length || values[i + 1] == null || !Number.isFinite(values[i + 1]));

		d += `${pen ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}${alone ? "h.1" : ""}`;
		pen = true;
	});
	return (
		<svg class="spark" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${label}: from ${fmt.number(finite[0])} to ${fmt.number(finite[finite.length - 1])}`}>
			<path d={d} />
		</svg>
	);
}

export function Keys({ keys }: { keys: string }) {
	return <span class="keys">{keys.split(" ").map((k) => <kbd key={k}>{k}</kbd>)}</span>;
}

/** Is the element near what is seen of the page? Once it was, it stays so. */
export function useSeen(): [preact.RefObject<HTMLElement>, boolean] {
	const ref = useRef<HTMLElement>(null);
	const [seen, set] = useState(false);

	useEffect(() => {
		const o = new IntersectionObserver((e) => {
			if (!e.some((x) => x.isIntersecting)) return;
			set(true);
			o.disconnect();
		}, { rootMargin: "400px" });

		if (ref.current) o.observe(ref.current);
		return () => o.disconnect();
	}, []);
	return [ref, seen];
}
