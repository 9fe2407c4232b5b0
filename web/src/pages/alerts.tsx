// SPDX-License-Identifier: Apache-2.0
//
// alerts.tsx - the page Alerts: what is wrong now, what was, and which checks look. What a rule
// saw is drawn with the time in which it fired.
import { useMemo, useState } from "preact/hooks";
import { type Alert, type AlertRule as Rule, type ApiError, api, num, post, runUrl, useFetch } from "../api";
import { Chart, type Line, type Span } from "../chart/chart";
import { linesOf } from "../chart/math";
import * as fmt from "../fmt";
import { useTick } from "../live";
import { href, useParam } from "../router";
import { useRun } from "../run";
import { Badge, Choice, Name, type Tone, Time, Words } from "../ui/bits";
import { Menu } from "../ui/menu";
import { Empty, ErrorState, Skeleton } from "../ui/states";
import { toast } from "../ui/toast";
import "./pages.css";

const TONE: Record<Alert["severity"], Tone> = { info: "plain", warning: "warn", error: "bad" };
const SILENCES = [["an hour", 3600], ["8 hours", 28_800], ["a day", 86_400], ["30 days", 2_592_000]] as const;
const ORDER = { error: 0, warning: 1, info: 2 };

type Act = (what: "ack" | "silence", body: Record<string, unknown>, done: string) => Promise<boolean>;

export default function Alerts() {
	const { id, live } = useRun();
	const [asked, setPart] = useParam("show");
	const tick = useTick(live ? id : null, ["alert", "end", "gap"], 1000);
	const answer = useFetch(`${id} ${tick}`, (signal) => api.alerts(id, { limit: 2000 }, signal), live ? 15_000 : 0);
	const a = answer.data;
	const act: Act = async (what, body, done) => {
		try {
			await post(runUrl(id, `alerts/${what}`), body);
			toast(done);
			answer.reload();
			window.dispatchEvent(new Event("lapse-alerts"));
			return true;
		} catch (e) {
			toast((e as ApiError).message, "error");
			return false;
		}
	};

	if (answer.error && !a) return <ErrorState error={answer.error} retry={answer.reload} />;
	if (!a) return <Skeleton height={120} rows={3} />;
	const active = a.alerts.filter((x) => x.state === "active").sort((p, q) =>
		Number(!!p.acknowledged || !!p.silenced_until_ns) - Number(!!q.acknowledged || !!q.silenced_until_ns) ||
		ORDER[p.severity] - ORDER[q.severity] || q.since.localeCompare(p.since));
	const past = a.alerts.filter((x) => x.state !== "active");
	// Of a run that has ended, what it left is what there is to see.
	const part = asked || (!live && past.length && !active.length ? "history" : "active");

	return (
		<div class="alerts">
			<div class="toolbar">
				<Choice label="Show" value={part as "active" | "history" | "checks"} set={setPart} options={[
					["active", `Active ${active.length}`], ["history", `History ${past.length}`], ["checks", `Checks ${a.rules.length}`],
				]} />
				<span class="spring" />
				{a.counts.unacknowledged > 1 && (
					<button type="button" class="button" onClick={() => void all(active, act)}>Acknowledge all {a.counts.unacknowledged}</button>
				)}
			</div>
			{!a.watched && <p class="notice warn">Nobody watched this run. <bdi>{a.why}</bdi></p>}
			{part === "checks" ? <Rules rules={a.rules} act={act} live={live} />
				: part === "history" ? (past.length ? past.map((x) => <One key={x.id} a={x} run={id} act={act} />) : <Empty title="Nothing fired so far"><Checks rules={a.rules} /></Empty>)
					: active.length ? active.map((x, i) => <One key={x.id} a={x} run={id} act={act} open={i < 3} />)
						: a.watched && (
							<Empty title="Nothing is wrong, as far as the checks tell">
								{past.length > 0 && <p><button type="button" class="link" onClick={() => setPart("history")}>{past.length} in the history</button></p>}
								<Checks rules={a.rules} />
							</Empty>
						)}
		</div>
	);
}

async function all(active: readonly Alert[], act: Act): Promise<void> {
	const left = active.filter((x) => !x.acknowledged);
	const rules = [...new Set(left.map((x) => x.rule))];

	for (const rule of rules) if (!(await act("ack", { rule }, "Acknowledged."))) return;
}

/** Which checks look, in words. */
function Checks({ rules }: { rules: readonly Rule[] }) {
	const running = rules.filter((r) => r.state === "ok" || r.state === "firing");
	const not = rules.filter((r) => r.state === "cannot-look" || r.state === "off");

	return (
		<>
			<p class="muted">{running.length} of {rules.length} checks look for:</p>
			<ul class="checks">
				{running.map((r) => <li title={r.test}><i class="dot still good" /> <Name text={r.title} most={60} /></li>)}
				{not.map((r) => <li class="muted" title={r.why ?? undefined}><i class="dot still" /> <Name text={r.title} most={60} /></li>)}
			</ul>
		</>
	);
}

function One({ a, run, act, open = false }: { a: Alert; run: string; act: Act; open?: boolean }) {
	const [shown, show] = useState(open);
	const [asking, ask] = useState(false);
	const [note, setNote] = useState("");
	const since = Date.parse(a.since);
	const until = a.until ? Date.parse(a.until) : null;
	const quiet = fmt.toMs(a.silenced_until_ns);
	const is = a.state === "active";
	const done = async (e: Event) => {
		e.preventDefault();
		if (await act("ack", { alert: a.id, note }, "Acknowledged.")) ask(false);
	};

	return (
		<article class={`alert ${a.severity} ${a.state}` + (a.acknowledged || quiet ? " quiet" : "")} aria-label={`${a.title}, ${a.severity}`} data-alert={a.id}>
			<header>
				<Badge tone={TONE[a.severity]}>{a.severity}</Badge>
				<h2><Name text={a.title} most={80} /></h2>
				<span class="muted">{is ? <>since <Time ms={since} how="ago" /></> : <><Time ms={since} /> {!!a.duration_s && <> · lasted {fmt.seconds(a.duration_s)}</>}{a.state === "ended" && !!a.duration_s && ", until the run ended"}</>}</span>
				<span class="spring" />
				{!a.acknowledged && !asking && <button type="button" class="button" onClick={() => ask(true)}>Acknowledge</button>}
				{is && !quiet && (
					<Menu label="Silence" items={SILENCES.map(([text, s]) => ({ label: `this series for ${text}`, run: () => void act("silence", { alert: a.id, for_s: s }, `Silent for ${text}.`) }))}>Silence</Menu>
				)}
				{quiet !== null && <button type="button" class="button" onClick={() => void act("silence", { alert: a.id, for_s: 0 }, "Not silent any more.")}>End the silence</button>}
			</header>
			{asking && (
				<form class="ack" onSubmit={(e) => void done(e)}>
					<input type="text" maxLength={300} placeholder="a note, if you like" aria-label="Note" value={note} onInput={(e) => setNote(e.currentTarget.value)} ref={(el) => el?.focus()} onKeyDown={(e) => e.key === "Escape" && ask(false)} />
					<button type="submit" class="button primary">Acknowledge</button>
					<button type="button" class="button" onClick={() => ask(false)}>Cancel</button>
				</form>
			)}
			<p><Words text={a.text.startsWith(`${a.title}: `) ? a.text.slice(a.title.length + 2) : a.text} /></p>
			{a.do && <p class="do"><span aria-hidden="true">→</span> <Words text={a.do} /></p>}
			<p class="meta muted">
				rule <code>{a.rule}</code>{a.host && <> · <Name text={a.host} most={40} /></>}{a.process && a.process !== "host" && <> · <Name text={a.process} most={40} /></>}
				{a.acknowledged && <> · acknowledged by <Name text={a.acknowledged.by} most={40} /> <Time ms={Date.parse(a.acknowledged.at)} how="ago" />{a.acknowledged.note && <>: <bdi>{fmt.shorten(a.acknowledged.note, 300)}</bdi></>}</>}
				{quiet !== null && <> · silent until <Time ms={quiet} /></>}
				{a.series.length > 0 && <> · <button type="button" class="link" aria-expanded={shown} onClick={() => show(!shown)}>{shown ? "hide" : "show"} what it saw</button></>}
			</p>
			{shown && a.series.length > 0 && <Seen a={a} run={run} since={since} until={until} />}
		</article>
	);
}

/** The series that the rule looked at, around the time in which it fired. */
function Seen({ a, run, since, until }: { a: Alert; run: string; since: number; until: number | null }) {
	const { live, data } = useRun();
	const end = until ?? fmt.toMs(a.to_ns) ?? (data?.run.end ? Date.parse(data.run.end) : null);
	const tick = useTick(live && end === null ? run : null, ["points"], 2000);
	const begin = fmt.toMs(a.from_ns) ?? since;
	const now = end ?? Date.now();
	const around = Math.max(30_000, (now - begin) * 0.5);
	const from = Math.max(data?.run.start ? Date.parse(data.run.start) : 0, begin - around);
	const to = end === null ? null : now + around;
	const patterns = a.series.slice(0, 8).map((s) => s.pattern).filter(Boolean);
	const answer = useFetch(patterns.length ? `${a.id} ${end} ${tick}` : null, (signal) =>
		api.query(run, { series: patterns, axis: "time", points: 500, from, to }, signal));
	const limit = num(a.limit);
	const lines = useMemo(() => {
		const of: Line[] = linesOf(answer.data?.series ?? []);
		const first = of[0];

		// A limit in another unit than the series is one of a quotient: a line would be a lie.
		if (first && limit !== null && (first.unit === a.unit || (first.unit === "" && a.unit === "1"))) {
			const x = [first.x[0] ?? from, first.x[first.x.length - 1] ?? now];

			of.push({ key: "limit", label: "limit", unit: first.unit, share: first.share, side: "left", x, y: [limit, limit], pen: 15 });
		}
		return of;
	}, [answer.data, limit]);
	const spans = useMemo<Span[]>(() => [{ from: since, to: end ?? Math.max(now, since), label: a.title, kind: "alert" }], [since, end, tick]);
	const title = a.series.map((s) => s.name).filter((n, i, all) => all.indexOf(n) === i).join(", ");

	if (answer.error) return <p class="absent">{answer.error.message}</p>;
	return (
		<Chart
			name={`evidence-${a.id}`} heading={title} title={<Name text={title} most={60} />} lines={lines} axis="time" spans={spans} height={130} group={a.id}
			loading={answer.loading && !answer.data}
			aside={<a href={href(["run", run, "training"], { m: a.series.map((s) => s.name), axis: "time", zoom: `${Math.round(from)},${Math.round(to ?? now)}` })} title="the same range on Training">open</a>}
		/>
	);
}

const STATE: Record<Rule["state"], { text: string; tone: Tone }> = {
	ok: { text: "looks", tone: "good" }, firing: { text: "fires", tone: "bad" },
	"cannot-look": { text: "cannot look", tone: "plain" }, off: { text: "off", tone: "plain" },
};

function Rules({ rules, act, live }: { rules: readonly Rule[]; act: Act; live: boolean }) {
	return (
		<ul class="rules" aria-label="Checks">
			{rules.map((r) => {
				const quiet = fmt.toMs(r.silenced_until_ns);

				return (
					<li class={r.state}>
						<div>
							<b><Name text={r.title} most={80} /></b> <Badge tone={STATE[r.state].tone}>{!live && r.state === "ok" ? "looked" : STATE[r.state].text}</Badge> <span class="muted">{r.severity}</span>
							<div><bdi>{fmt.shorten(r.test, 400)}</bdi></div>
							<div class="muted">looks at <code>{fmt.shorten(r.looks_at, 200)}</code>{r.why && <> · <bdi>{fmt.shorten(r.why, 300)}</bdi></>}</div>
						</div>
						<div class="fired num">{r.fired ? <>fired {fmt.group(r.fired)}×<br /><Time ms={fmt.toMs(r.last_ns)} how="ago" /></> : <span class="muted">never fired</span>}</div>
						{quiet === null ? live && (
							<Menu label={`Silence ${r.title}`} items={SILENCES.map(([text, s]) => ({ label: `for ${text}`, run: () => void act("silence", { rule: r.rule, for_s: s }, `Silent for ${text}.`) }))}>Silence</Menu>
						) : <button type="button" class="button" title={`silent until ${fmt.local(quiet)}`} onClick={() => void act("silence", { rule: r.rule, for_s: 0 }, "Not silent any more.")}>End the silence</button>}
					</li>
				);
			})}
		</ul>
	);
}
