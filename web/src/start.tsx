// SPDX-License-Identifier: Apache-2.0
import { render } from "preact";
import { App } from "./app";

export function start(): void {
	render(<App />, document.getElementById("app") as HTMLElement);
}
