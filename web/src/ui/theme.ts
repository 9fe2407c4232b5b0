// SPDX-License-Identifier: Apache-2.0
//
// The theme in components.
import { useEffect, useState } from "preact/hooks";
import { onTheme, themeNow } from "../theme";

export function useTheme(): ReturnType<typeof themeNow> {
	const [now, set] = useState(themeNow);

	useEffect(() => onTheme(() => set(themeNow())), []);
	return now;
}
