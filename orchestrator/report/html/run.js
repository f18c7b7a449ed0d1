// The view of one run, or one row.

let runFigures = [];

const link = (place, text) => element("a", { href: address(place) }, text);

function pager(place) {
  const places = shownRuns();
  const at = places.indexOf(place);
  return element(
    "nav",
    { class: "pager", "aria-label": `Other ${page.noun}s` },
    element("a", { href: "#", id: "back" }, `← all ${page.noun}s`),
    at > 0 ? link(places[at - 1], "‹ previous") : null,
    at >= 0 && at < places.length - 1 ? link(places[at + 1], "next ›") : null,
  );
}

function end(run, detail) {
  const logLine = detail.log_line ? element("span", { class: "log-line" }, ` ${detail.log_line}`) : null;
  const same = detail.state.toLowerCase().replaceAll("_", " ") === run.ended.toLowerCase();
  return element("p", { class: "end" }, endedBadge(run.ended), logLine, same ? null : ` · state ${detail.state}`);
}

const pair = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));

/** The cells of a run but for how it ended, which stands above them. */
const cellList = (run, columns) =>
  element("dl", { class: "cells" }, ...columns.filter((column) => column.name !== "outcome").map((column) => pair(column.title, run.shown[page.columns.indexOf(column)])));

function sizeText(value) {
  if (value === null) return "—";
  if (numeric(value) && !Number.isInteger(value)) return String(Number(value.toPrecision(6)));
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const sizeList = (sizes) =>
  element("dl", { class: "sizes" }, ...Object.entries(sizes).map(([name, value]) => pair(name, sizeText(value))));

/** A curve of reports, and crosses for those `skipped`, which are none of the numbers. */
function curve(detail, series, skipped, title, more) {
  return () => {
    if (!series.x.length && !skipped?.x.length) return null;
    const data = [{
      type: "scatter", mode: series.x.length > 60 ? "lines" : "lines+markers", x: series.x, y: series.y, showlegend: false,
      line: { color: COLOURS[0], width: 1.5 }, marker: { size: 5 }, hovertemplate: "iteration %{x}<br>%{y:.5~g}<extra></extra>",
    }];
    const shapes = warmupShades([detail.warmup]);
    const note = [detail.warmup ? `Shaded: warm-up, up to iteration ${number.format(detail.warmup)}.` : "", leftOut([series])];
    if (skipped?.x.length) {
      data.push({
        type: "scatter", mode: "markers", x: skipped.x, y: skipped.y, showlegend: false,
        marker: { symbol: "x-thin-open", size: 7, color: "#8b949e" }, hovertemplate: "iteration %{x}<br>%{y:.5~g}<br>a skipped update<extra></extra>",
      });
      note.push("Crosses: reports with a skipped update. The results leave them out.", leftOut([skipped]));
    }
    return { data, layout: layout(axis("iteration", { zeroline: false }), axis(title, more), { shapes }), note: note.filter(Boolean).join(" ") };
  };
}

function attempts(list) {
  const names = ["attempt", "job", "nodes", "state", "started (UTC)", "seconds"];
  const row = (one) => [one.number, one.job_id ?? "—", one.nodes.join(", ") || "—", one.state, one.started_at ?? "—", one.seconds === null ? "—" : one.seconds.toFixed(1)];
  return element(
    "div",
    { class: "wide" },
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...list.map((one) => element("tr", {}, ...row(one).map((cell) => element("td", {}, String(cell)))))),
    ),
  );
}

const file = (name, text, open) =>
  element("details", { class: "file", open }, element("summary", {}, name), element("pre", { tabindex: "0", "aria-label": name }, text));

function log(tail, ended) {
  if (tail === null) return [element("p", {}, ended ? "There is no log file." : "The log is empty.")];
  const lines = count(tail.lines.length, "line");
  const size = count(tail.bytes, "byte");
  const shown = tail.whole ? `This is the log ${tail.path} with all its ${lines} (${size}).` : `These are the last ${lines} of the log ${tail.path} (${size}).`;
  return [
    element("p", { class: "small" }, shown),
    element("pre", { id: "log", tabindex: "0", "aria-label": "Log" }, tail.lines.join("\n")),
  ];
}

function runSections(run, detail) {
  runFigures = [
    figure("Step time", curve(detail, detail.step_seconds, detail.skipped_seconds, "step time (s)", { rangemode: "tozero" })),
    figure("Loss", curve(detail, detail.loss, null, "loss", {})),
  ];
  const files = Object.entries(detail.texts ?? {});
  const noFiles = detail.texts === null ? `This campaign has too many runs to show the files of each run here; the files of this run are in the folder ${run.run_id} next to this page.` : "This run has no files.";
  return [
    element("p", { class: "small" }, "run ", element("span", { class: "id" }, run.run_id), ` of ${page.title} ${page.about}`),
    end(run, detail),
    cellList(run, page.columns),
    element("h2", {}, "Curves"),
    element("div", { class: "figures" }, ...runFigures.map((one) => one.node)),
    ...(detail.attempts.length ? [element("h2", {}, "Attempts"), attempts(detail.attempts)] : []),
    element("h2", {}, "Log"),
    ...log(detail.log, detail.ended),
    element("h2", {}, "Configuration"),
    sizeList(detail.sizes),
    element("h2", {}, "Files"),
    ...(files.length ? files.map(([name, text], at) => file(name, text, at === 0)) : [element("p", {}, noFiles)]),
  ];
}

async function showRun(place) {
  const run = page.runs[place];
  const detail = await readDetail(run);
  leaveRun();
  byId("run").replaceChildren(
    pager(place),
    element("h1", { tabindex: "-1" }, run.label),
    ...("findings" in detail ? rowSections(run, detail) : runSections(run, detail)),
  );
}

function leaveRun() {
  forget(runFigures);
  runFigures = [];
  byId("run").replaceChildren();
}
