// SPDX-License-Identifier: Apache-2.0
//
// A word at the lower edge that goes away by itself.
import { useEffect, useState } from "preact/hooks";

interface Toast {
	id: number;
	text: string;
	kind: "info" | "error";
}

let next = 1;
let all: Toast[] = [];
let tell: (t: Toast[]) => void = () => undefined;

export function toast(text: string, kind: Toast["kind"] = "info"): void {
	const t = { id: next++, text, kind };

	all = [...all.slice(-3), t];
	tell(all);
	setTimeout(() => {
		all = all.filter((o) => o.id !== t.id);
		tell(all);
	}, kind === "error" ? 8000 : 3500);
}

/** Once in the page. */
export function Toasts() {
	const [now, set] = useState(all);

	useEffect(() => {
		tell = set;
		return () => {
			tell = () => undefined;
		};
	}, []);
	return (
		<div class="toasts" role="status" aria-live="polite">
			{now.map((t) => <div key={t.id} class={`toast ${t.kind}`}>{t.text}</div>)}
		</div>
	);
}
