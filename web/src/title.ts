// SPDX-License-Identifier: Apache-2.0
//
// The title of the window: what is shown, and what the server is called.
import { useEffect } from "preact/hooks";
import { info } from "./api";

/** "" for what is shown: the server's title alone. */
export function useTitle(shown: string): void {
	useEffect(() => {
		let stays = true;

		info().then(({ title }) => {
			if (stays) document.title = shown ? `${shown} – ${title}` : title;
		}, () => undefined);
		return () => {
			stays = false;
		};
	}, [shown]);
}
