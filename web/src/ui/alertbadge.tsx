// SPDX-License-Identifier: Apache-2.0
//
// How many alerts of a run want to be looked at, beside the name of their page.
import { useEffect, useState } from "preact/hooks";
import { get, runUrl, useFetch } from "../api";
import { useTick } from "../live";
import { useRun } from "../run";

export function AlertBadge() {
	const { id, live, data } = useRun();
	const tick = useTick(live ? id : null, ["alert", "end", "gap"], 1000);
	const [acted, again] = useState(0);
	const [settled, setSettled] = useState(false); // the page itself comes first
	const counts = useFetch(data && settled ? `${id} ${tick} ${acted}` : null, (signal) =>
		get<{ counts: { active: number; unacknowledged: number } }>(runUrl(id, "alerts"), { state: "active", limit: 1 }, signal));
	const n = counts.data?.counts.unacknowledged ?? 0;

	useEffect(() => {
		const t = setTimeout(() => setSettled(true), 600);

		return () => clearTimeout(t);
	}, []);
	useEffect(() => {
		const f = () => again((k) => k + 1);

		window.addEventListener("lapse-alerts", f);
		return () => window.removeEventListener("lapse-alerts", f);
	}, []);
	return n > 0 ? <span class="count" title={`${n} active and not acknowledged`}>{n}</span> : null;
}
