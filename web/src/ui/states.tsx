// SPDX-License-Identifier: Apache-2.0
//
// What stands where there is nothing to show: not yet, not at all, not because of an error.
import type { ComponentChildren } from "preact";
import type { ApiError } from "../api";

/** Nothing here, and what to do about it. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
	return (
		<div class="state">
			<h2>{title}</h2>
			<div>{children}</div>
		</div>
	);
}

export function ErrorState({ error, retry }: { error: ApiError | Error; retry?: () => void }) {
	return (
		<div class="state bad" role="alert">
			<h2>This could not be shown</h2>
			<p><bdi>{error.message}</bdi></p>
			{retry && <button type="button" class="button" onClick={retry}>Try again</button>}
		</div>
	);
}

/** Grey bars of the height that the content will have. */
export function Skeleton({ height, rows = 1 }: { height: number; rows?: number }) {
	return (
		<div aria-busy="true" aria-label="loading">
			{Array.from({ length: rows }, (_, i) => <div key={i} class="skeleton" style={{ height: `${height}px` }} />)}
		</div>
	);
}

/** A command to copy. */
export function Command({ children }: { children: string }) {
	return <code class="command" title="click selects it" tabIndex={0}>{children}</code>;
}
