// SPDX-License-Identifier: Apache-2.0
//
// The frame of all pages: the bar on top, a run's head and tabs, and the page that the
// address names.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, type Info, info } from "./api";
import * as fmt from "./fmt";
import { type Page, pages } from "./pages";
import OverviewPage from "./pages/overview";
import { useLost } from "./live";
import { go, href, usePlace } from "./router";
import { RunProvider, useRun } from "./run";
import { isDark, setTheme } from "./theme";
import { useTheme } from "./ui/theme";
import { useTitle } from "./title";
import { AlertBadge } from "./ui/alertbadge";
import { Keys, Name, Outcome, type Tab, Tabs, Time } from "./ui/bits";
import { Dialog } from "./ui/dialog";
import { listen, shortcuts, useShortcuts } from "./ui/keys";
import { Empty, ErrorState, Skeleton } from "./ui/states";
import { Toasts } from "./ui/toast";

const loaded = new Map<Page, ComponentType>();
/** When what is open has been drawn. */
const LATER_MS = 4000;

// The page that people open first is there at once.
for (const page of pages) if (page.id === "overview") loaded.set(page, OverviewPage);

function useLoaded(page: Page | undefined): { View: ComponentType | null; error: Error | null } {
	const [, again] = useState(0);
	const [error, setError] = useState<Error | null>(null);

	useEffect(() => {
		setError(null);
		if (!page || loaded.has(page)) return;
		page.load().then(
			(m) => {
				loaded.set(page, m.default);
				again((n) => n + 1);
			},
			() => setError(new Error("A part of this page could not be loaded: lapse has been stopped or updated.")),
		);
	}, [page]);
	return { View: page ? (loaded.get(page) ?? null) : null, error };
}

/** Pages that are not open yet are there when lapse is not any more. */
function loadAll(): void {
	for (const page of pages)
		if (!loaded.has(page)) page.load().then((m) => loaded.set(page, m.default), () => undefined);
}

function Show({ page }: { page: Page | undefined }) {
	const { View, error } = useLoaded(page);

	if (!page) return <Empty title="There is no such page"><a href="#/runs">Go to the runs</a></Empty>;
	if (error) return <ErrorState error={error} retry={() => location.reload()} />;
	return View ? <View /> : <Skeleton height={120} rows={3} />;
}

function RunFrame({ tab }: { tab: string }) {
	const run = useRun();
	const d = run.data;
	const place = usePlace();
	const { query } = place;
	const page = pages.find((p) => p.scope === "run" && p.id === tab);
	// What is zoomed to, and by which axis, holds on all tabs.
	const keep = { axis: query.get("axis"), zoom: query.get("zoom") };
	const tabs: Tab[] = pages.filter((p) => p.scope === "run").map((p) => ({ id: p.id, title: p.id === "alerts" ? <>{p.title}<AlertBadge /></> : p.title, href: href(["run", run.id, p.id], keep) }));

	useShortcuts(pages.filter((p) => p.scope === "run").map((p) => ({ keys: `g ${p.key}`, text: `to ${p.title}`, run: () => go(["run", run.id, p.id], keep) })));
	useTitle(d ? fmt.shorten(d.run.name, 60) : "");
	// "last" becomes the run that is the last one now: the address is to stay what is shown.
	const wanted = place.path[1];

	useEffect(() => {
		if (d && wanted !== d.run.id) go(["run", d.run.id, tab], place.query, true);
	}, [d?.run.id, wanted]);
	if (!d && run.error)
		return run.error.code === "no-such-run" ? (
			<Empty title="There is no such run here">
				<p><bdi>{run.error.message}</bdi></p>
				<a class="button" href="#/runs">Show all runs</a>
			</Empty>
		) : <ErrorState error={run.error} retry={run.reload} />;
	return (
		<>
			<header class="run-head">
				<h1>{d ? <Name text={d.run.name} most={70} /> : <span class="skeleton-text" />}</h1>
				{d && <Outcome run={d.run} />}
				{d && <span class="muted run-id" title="the run's id">{d.run.id}</span>}
				{d && <span class="muted run-when"><Time ms={Date.parse(d.run.start ?? "")} /> · {fmt.seconds(d.run.duration_s)}</span>}
				{d?.run.project && <span class="muted"><Name text={d.run.project} most={30} /></span>}
			</header>
			<Tabs tabs={tabs} active={tab} label="Pages of this run" />
			{d?.run.warning && <p class="notice warn"><bdi>{fmt.shorten(d.run.warning, 500)}</bdi></p>}
			{wanted !== run.id || wanted === "last" ? <Skeleton height={120} rows={3} /> : <Show key={run.id} page={page} />}
		</>
	);
}

function Help({ close }: { close: () => void }) {
	const seen = new Set<string>();
	const own = shortcuts().filter((s) => !seen.has(s.keys) && seen.add(s.keys));
	const charts: [string, string][] = [
		["drag", "zoom all charts of the page"], ["double click", "show all again"], ["Ctrl wheel", "zoom at the pointer"],
		["← →", "move the cursor (Tab goes to a chart)"], ["+ - 0", "zoom in, out, show all"], ["Shift ← →", "go along the axis"], ["l", "logarithmic scale"],
	];

	return (
		<Dialog title="Keyboard" close={close}>
			<dl class="help">
				{own.map((s) => <div key={s.keys}><dt><Keys keys={s.keys} /></dt><dd>{s.text}</dd></div>)}
			</dl>
			<h3>In a chart</h3>
			<dl class="help">
				{charts.map(([k, text]) => <div key={k}><dt>{k.length < 12 && k !== "drag" ? <Keys keys={k} /> : k}</dt><dd>{text}</dd></div>)}
			</dl>
		</Dialog>
	);
}

function Bar({ about, help }: { about: Info | null; help: () => void }) {
	const { path } = usePlace();
	const { dark } = useTheme();
	const top = pages.filter((p) => p.scope === "top");

	return (
		<header class="bar">
			<a class="brand" href="#/runs" aria-label="lapse: all runs">
				<svg width="18" height="18" viewBox="0 0 16 16" aria-hidden="true"><path d="M2 3.5c2 6 4.500 8.500 12 8.500" /><path d="M2 13V3" class="pale" /></svg>
				{about?.title ?? "lapse"}
			</a>
			<nav aria-label="Main">
				{top.map((p) => <a key={p.id} href={href([p.id])} aria-current={path[0] === p.id ? "page" : undefined}>{p.title}</a>)}
			</nav>
			<span class="spring" />
			{about && <span class="muted host" title={`lapse ${about.version}, ${about.folders.join(", ")}`}>{about.user}@{about.host}</span>}
			<button type="button" class="icon" aria-label={dark ? "Light colours" : "Dark colours"} title="light or dark (d)" onClick={() => setTheme(dark ? "light" : "dark")}>{dark ? "☀" : "☾"}</button>
			<button type="button" class="icon" aria-label="Keyboard shortcuts" title="keyboard shortcuts (?)" onClick={help}>?</button>
		</header>
	);
}

export function App() {
	const place = usePlace();
	const [about, setAbout] = useState<Info | null>(null);
	const [error, setError] = useState<ApiError | null>(null);
	const [help, setHelp] = useState(false);
	const lost = useLost();
	const [first = "runs", id, tab = "overview"] = place.path;

	useEffect(() => {
		listen();
		info().then(setAbout, setError);
		const timer = setTimeout(loadAll, LATER_MS);

		return () => clearTimeout(timer);
	}, []);
	useShortcuts([
		{ keys: "?", text: "this help", run: () => setHelp(true) },
		{ keys: "d", text: "light or dark colours", run: () => setTheme(isDark() ? "light" : "dark") },
		{ keys: "/", text: "search", run: () => document.querySelector<HTMLElement>("[data-search]")?.focus() },
		...pages.filter((p) => p.scope === "top").map((p) => ({ keys: `g ${p.key}`, text: `to ${p.title}`, run: () => go([p.id]) })),
		{ keys: "g l", text: "to the newest run", run: () => go(["run", "last", "overview"]) },
	]);
	return (
		<>
			<a class="skip" href={location.hash || "#/"} onClick={(e) => (e.preventDefault(), document.getElementById("main")?.focus())}>Skip to the content</a>
			<Bar about={about} help={() => setHelp(true)} />
			<main id="main" tabIndex={-1}>
				{lost > 0 && <p class="notice warn" role="status">lapse has not answered since <Time ms={lost} how="clock" />: what you see is from then. It is asked again until it answers.</p>}
				{error && error.status === 401 ? <ErrorState error={error} />
					: first === "run" && id ? <RunProvider id={id}><RunFrame tab={tab} /></RunProvider>
						: <Show page={pages.find((p) => p.scope === "top" && p.id === first)} />}
			</main>
			{help && <Help close={() => setHelp(false)} />}
			<Toasts />
		</>
	);
}
