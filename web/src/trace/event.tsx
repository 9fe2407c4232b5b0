// SPDX-License-Identifier: Apache-2.0
//
// All about one event of a trace: its times, its arguments as the trace has them, and the other
// ends of its arrows. Everything in it is foreign text.
import type { Fetched } from "../api";
import * as fmt from "../fmt";
import { Name } from "../ui/bits";
import { ErrorState } from "../ui/states";
import type { Picked, Spot } from "./timeline";

const ROLES = { launch: "← launched by", work: "→ launched", forward: "← gradient of", backward: "→ its gradient" };
const TEXT = 4000;

export function Event({ e, asked, answer, jump }: { e: Picked | null; asked: boolean; answer: Fetched<Picked>; jump: (to: Spot) => void }) {
	// While it is asked for, an error is still that of another event.
	const error = !answer.loading && answer.error;

	if (!e) return <section class="event panel muted" aria-label="Event">{error ? <ErrorState error={error} retry={answer.reload} /> : asked ? "…" : "No event is chosen."}</section>;
	const facts: [string, string][] = [
		["Start", `${e.start_ms.toFixed(6)} ms`], ["Duration", `${fmt.seconds(e.dur_ns / 1e9)} (${fmt.group(e.dur_ns)} ns)`], ["Own time", `${fmt.seconds(e.self_ns / 1e9)} (${fmt.percent(e.dur_ns ? e.self_ns / e.dur_ns : 0)})`],
		["Category", e.cat && e.cat !== e.category ? `${e.category} (${e.cat})` : e.category], ["Where", `${e.process} · ${e.thread}`], ["Place", fmt.group(e.event)],
	];

	return (
		<section class="event panel" aria-label="Event" tabIndex={0}>
			<h3><bdi>{fmt.shorten(e.name, 600)}</bdi></h3>
			{e.links.map((l, i) => <button key={i} type="button" class="button" onClick={() => jump(l)}>{ROLES[l.role]} <Name text={l.name} most={60} /> <span class="muted">{fmt.seconds(l.dur_ns / 1e9)}</span></button>)}
			{e.links_left_out > 0 && <span class="muted">and {fmt.group(e.links_left_out)} more</span>}
			<dl class="facts">
				{[...facts, ...e.args.map((a) => [a.key, a.value] as const)].map(([k, v]) => <><dt><bdi>{k}</bdi></dt><dd><bdi>{fmt.shorten(v, TEXT)}</bdi></dd></>)}
			</dl>
			{e.args_left_out > 0 && <p class="muted">and {fmt.group(e.args_left_out)} more arguments</p>}
		</section>
	);
}
