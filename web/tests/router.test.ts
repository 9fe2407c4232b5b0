// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { href, parseHash } from "../src/router";

test("a place and its address", () => {
	expect(parseHash("#/run/20261128-1/training?axis=step&m=a&m=b%2Fc")).toEqual({
		path: ["run", "20261128-1", "training"], query: new URLSearchParams("axis=step&m=a&m=b%2Fc"),
	});
	expect(href(["run", "20261128-1", "training"], { axis: "step", m: ["a", "b/c"], none: "", nothing: null })).toBe("#/run/20261128-1/training?axis=step&m=a&m=b/c");
	expect(parseHash("").path).toEqual([]);
	expect(parseHash("#/bad%zz").path).toEqual(["bad%zz"]);
});

test("any text comes back from an address", () => {
	for (const text of ["<script>alert(1)</script>", "a&b=c?d#e", "שלום", "a,b:c/d", "100 %", "x\ny"]) {
		const back = parseHash(href(["compare"], { run: [text, "2"] }));

		expect(back.query.getAll("run")).toEqual([text, "2"]);
		expect(parseHash(href([text])).path).toEqual([text]);
	}
});
