// The plots of all runs that the filter leaves.

const MOST_CURVES = 40;
const MOST_COLOURS = 12;
// Longer names would take the plot's place, and stand below it.
const LEGEND_LETTERS = 60;
const OTHER_ENDS = [5, 1, 4, 3, 7, 9].map((at) => COLOURS[at]);

// What is on an axis already needs no colours; what tells repeats apart, or each run, is to be chosen.
const NOT_AT_FIRST = new Set(["world_size", "nodes", "global_batch_size", "num_microbatches", "micro_batch_size", "outcome", "repeat", "seed", "label"]);

let shown = [];
let colouring = { place: null, values: [] };

const narrow = () => innerWidth < 640;
const numeric = (value) => typeof value === "number";
const labels = (places) => places.map((place) => plotText(page.runs[place].label));
const TFLOPS = page.columns.findIndex((column) => column.name === "tflops_per_gpu");

/** Runs by the value they are coloured by, in the order of the values' colours. */
function coloured(places) {
  if (colouring.place === null) return [{ name: "", colour: COLOURS[0], symbol: SYMBOLS[0], places }];
  const { name, title } = page.columns[colouring.place];
  return colouring.values
    .map((value, at) => ({
      name: plotText(name === "table" ? shortenedWithin(value, narrow() ? 40 : 70) : `${title} ${value}`),
      colour: COLOURS[at % COLOURS.length],
      // The eleventh has the first one's colour, and another's sign.
      symbol: SYMBOLS[(at + Math.floor(at / COLOURS.length)) % SYMBOLS.length],
      places: places.filter((place) => page.runs[place].shown[colouring.place] === value),
    }))
    .filter((part) => part.places.length);
}

function points(part, x, y, format, more = {}) {
  return {
    type: "scatter", mode: "markers", name: part.name, showlegend: part.name !== "",
    x: part.places.map(x), y: part.places.map(y), text: labels(part.places), customdata: part.places,
    marker: { color: part.colour, symbol: part.symbol, size: 9, line: { width: 0.5, color: "#fff" } },
    hovertemplate: `<b>%{text}</b><br>${format}<extra></extra>`, ...more,
  };
}

/** Lines through the medians of a group's runs, a gap between groups. */
function lines(part, plot) {
  const byGroup = Map.groupBy(part.places, (place) => plot.group[place]);
  const [x, y] = [[], []];
  for (const [group, places] of byGroup) {
    const bySize = Map.groupBy(places, (place) => plot.x[place]);
    if (group === null || bySize.size < 2) continue;
    for (const size of [...bySize.keys()].sort((one, other) => one - other)) {
      x.push(size);
      y.push(median(bySize.get(size).map((place) => plot.y[place])));
    }
    x.push(null);
    y.push(null);
  }
  return { type: "scatter", mode: "lines", x, y, hoverinfo: "skip", showlegend: false, opacity: 0.55, line: { color: part.colour, width: 2 } };
}

function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = sorted.length / 2;
  return sorted.length % 2 ? sorted[Math.floor(middle)] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** One of the page's plots: a point a run, over a size. */
function overSize(plot) {
  const places = shown.filter((place) => numeric(plot.x[place]) && numeric(plot.y[place]));
  const failed = plot.failed.length ? shown.filter((place) => plot.failed[place] && numeric(plot.x[place])) : [];
  if (!places.length && !failed.length) return null;
  const format = `${plot.x_title} %{x}<br>%{y:.4~g} ${plot.y_title.replace("%", "&#37;")}`;
  const parts = coloured(places);
  const data = parts.flatMap((part) => [
    lines(part, plot),
    points(part, (place) => plot.x[place], (place) => plot.y[place], format),
  ]);
  if (plot.ideal.length) {
    data.push({ type: "scatter", mode: "lines", x: plot.ideal.map(([x]) => x), y: plot.ideal.map(([, y]) => y), hoverinfo: "skip", showlegend: false, line: { color: OTHER, dash: "dot", width: 2 } });
  }
  if (failed.length) {
    const some = { name: "out of memory", colour: COLOURS[5], symbol: "x-thin-open", places: failed };
    data.push(points(some, (place) => plot.x[place], () => 0, `${plot.x_title} %{x}<br>out of memory`, { marker: { color: COLOURS[5], symbol: "x-thin-open", size: 12, line: { width: 3 } }, showlegend: true }));
  }
  const xaxis = sizeAxis(plot.x_title, [...places, ...failed].map((place) => plot.x[place]));
  return { data, layout: layout(xaxis, axis(plot.y_title, { rangemode: "tozero" }), legendOf(parts.map((part) => part.name))), note: plot.note };
}

/** Where these names have room. */
const legendOf = (names) => (names.join("").length > LEGEND_LETTERS ? legendBelow(names.length) : {});

/** A legend of so many lines below a plot, which it would push about otherwise. */
const legendBelow = (lines) => ({
  legend: { orientation: "h", yref: "container", yanchor: "bottom", y: 0, x: 0, font: { size: 11 } },
  height: HEIGHT + 18 * lines,
});

/** A name for each of some runs: the values in which they differ, which may not be in the label. */
function briefly(places, length) {
  const differing = describing.filter(({ column, place: at }) =>
    column.name !== "outcome" && new Set(places.map((place) => page.runs[place].shown[at])).size > 1);
  return new Map(places.map((place) => {
    const run = page.runs[place];
    const values = differing.filter(({ place: at }) => run.shown[at] !== "—");
    const texts = values.map(({ column, place: at }) => (column.numeric ? `${column.title} ${run.shown[at]}` : run.shown[at]));
    return [place, plotText(shortened(texts.join(" · ") || run.label, length))];
  }));
}

/** A curve for each run, in the colour that is chosen; of the first runs in the table. */
async function curves(what, title) {
  const some = shown.slice(0, MOST_CURVES);
  const details = await Promise.all(some.map((place) => readDetail(page.runs[place])));
  const known = new Map(some.map((place, at) => [place, details[at]]).filter(([, detail]) => detail[what].x.length));
  if (!known.size) return null;
  // One colour for all would tell nothing: then each run has its own, as far as there are colours.
  const alone = colouring.place === null && known.size <= COLOURS.length;
  const names = alone ? briefly([...known.keys()], narrow() ? 40 : 70) : null;
  const parts = alone
    ? [...known.keys()].map((place, at) => ({ name: names.get(place), colour: COLOURS[at], places: [place] }))
    : coloured([...known.keys()]);
  const data = parts.flatMap((part) =>
    part.places.map((place, at) => ({
      type: "scatter", mode: "lines", x: known.get(place)[what].x, y: known.get(place)[what].y, customdata: known.get(place)[what].x.map(() => place),
      name: part.name, legendgroup: part.name, text: plotText(page.runs[place].label), showlegend: at === 0 && part.name !== "",
      line: { color: part.colour, width: 1.5 }, hovertemplate: "<b>%{text}</b><br>iteration %{x}<br>%{y:.4~g}<extra></extra>",
    })),
  );
  const silent = some.length - known.size;
  const note = [
    "Shaded: warm-up.",
    silent ? `${number.format(silent)} of ${number.format(some.length)} runs ${silent === 1 ? "has" : "have"} no curve, because ${silent === 1 ? "its log contains" : "their logs contain"} no numbers for this plot.` : "",
    shown.length > MOST_CURVES ? `Shown: the first ${MOST_CURVES} of ${countRows(shown.length)}, in the order of the table.` : "",
    leftOut([...known.values()].map((detail) => detail[what])),
    what === "step_seconds" && [...known.values()].some((detail) => detail.skipped_seconds.x.length) ? "Reports with a skipped update are not drawn." : "",
  ];
  const shapes = warmupShades([...known.values()].map((detail) => detail.warmup));
  const yaxis = axis(title, what === "loss" ? {} : { rangemode: "tozero" });
  return { data, layout: layout(axis("iteration", { zeroline: false }), yaxis, { shapes, ...legendBelow(parts.length) }), note: note.filter(Boolean).join(" ") };
}

/** Peaks over forecasts: a bar that the diagonal crosses is a forecast that held. */
function memory() {
  const places = shown.filter((place) => page.runs[place].memory);
  if (!places.length) return null;
  const held = (place) => {
    const [low, high, peak] = page.runs[place].memory;
    return low <= peak && peak <= high;
  };
  const parts = [
    { name: "peak within its forecast", colour: COLOURS[2], symbol: SYMBOLS[0], places: places.filter(held) },
    { name: "peak outside its forecast", colour: COLOURS[5], symbol: SYMBOLS[4], places: places.filter((place) => !held(place)) },
  ].filter((part) => part.places.length);
  const middle = (place) => (page.runs[place].memory[0] + page.runs[place].memory[1]) / 2;
  const half = (place) => (page.runs[place].memory[1] - page.runs[place].memory[0]) / 2;
  const peak = (place) => page.runs[place].memory[2];
  const data = parts.map((part) =>
    points(part, peak, middle, "peak %{x:.3~g} GiB<br>forecast %{y:.3~g} ± %{error_y.array:.3~g} GiB", {
      error_y: { type: "data", array: part.places.map(half), color: part.colour, thickness: 1.5, width: 4 },
    }),
  );
  const ends = [Math.min(...places.map((place) => Math.min(peak(place), page.runs[place].memory[0]))) * 0.9,
    Math.max(...places.map((place) => Math.max(peak(place), page.runs[place].memory[1]))) * 1.05];
  data.push({ type: "scatter", mode: "lines", x: ends, y: ends, hoverinfo: "skip", showlegend: false, line: { color: OTHER, dash: "dot", width: 1.5 } });
  const note = `Peaks within the forecast: ${number.format(places.filter(held).length)} of ${number.format(places.length)}. ` +
    `Each bar is a forecast. If the bar crosses the dotted line, the peak is within the forecast. Both axes show ${page.memory_of}.`;
  return { data, layout: layout(axis("logged peak (GiB)"), axis("forecast (GiB)")), note };
}

/** How many runs each node had, by how they ended. */
function nodes() {
  const known = shown.filter((place) => page.runs[place].nodes.length);
  if (!known.length) return null;
  const names = [...new Set(known.flatMap((place) => page.runs[place].nodes))].sort(collator.compare);
  const ends = page.ended.map(([ended]) => ended).sort((one, other) => (other === "completed") - (one === "completed"));
  const data = ends.map((ended, at) => {
    const some = known.filter((place) => page.runs[place].ended === ended);
    const counts = counted(some.flatMap((place) => page.runs[place].nodes));
    const colour = ended === "completed" ? COLOURS[2] : OTHER_ENDS[at % OTHER_ENDS.length];
    return { type: "bar", name: plotText(ended), x: names.map(plotText), y: names.map((name) => counts.get(name) ?? 0), marker: { color: colour } };
  });
  const xaxis = axis("", { type: "category", automargin: true });
  return { data, layout: layout(xaxis, axis("runs"), { barmode: "stack", showlegend: true, legend: { ...LEGEND, traceorder: "normal" } }), note: "A run on several nodes is counted on each node. Only the last attempt of a run is counted." };
}

const overviewFigures = [];

function startCampaignPlots() {
  const distinct = new Set(page.runs.flatMap((run) => run.nodes));
  overviewFigures.push(
    ...page.plots.map((plot) => figure(plot.title, () => overSize(plot), plot.missing)),
    ...configurationFigures(),
    ...(page.curves
      ? [figure("Step time per iteration", () => curves("step_seconds", "step time (s)")), figure("Loss per iteration", () => curves("loss", "loss"))]
      : []),
    ...(page.runs.some((run) => run.memory) ? [figure("Memory against its forecast", memory)] : []),
    ...(distinct.size > 1 ? [figure("Runs by node", nodes)] : []),
  );
  byId("figures").append(...overviewFigures.map((one) => one.node));
  byId("plots").hidden = overviewFigures.length === 0;
  startColours();
}

function startColours() {
  const choices = choosable(MOST_COLOURS);
  const choose = (at) => {
    colouring = at < 0 ? { place: null, values: [] } : { place: choices[at].place, values: [...choices[at].values.keys()] };
  };
  const select = byId("colour");
  select.append(element("option", { value: -1 }, "one"), ...choices.map(({ column }, at) => element("option", { value: at }, column.title)));
  const first = choices.findIndex(({ column }) => !NOT_AT_FIRST.has(column.name));
  select.value = first;
  choose(first);
  byId("colour-label").hidden = choices.length === 0;
  select.addEventListener("change", () => {
    choose(Number(select.value));
    redraw(overviewFigures);
  });
}

function showCampaignPlots(places) {
  shown = places;
  redraw(overviewFigures);
}
