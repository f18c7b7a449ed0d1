// The plots of configurations: runs that differ in nothing but repeat and seed.

const MOST_CONFIGURATIONS = 30;
const BAR_HEIGHT = 30;
const { facts } = page;

/** The runs shown, by configuration: the first ones in the table's order, and how many there are. */
function shownConfigurations(holds) {
  const all = [...Map.groupBy(shown.filter(holds), (place) => facts.configuration[place])];
  const left = all.length - MOST_CONFIGURATIONS;
  const note = left > 0 ? `Shown: the first ${MOST_CONFIGURATIONS} of ${number.format(all.length)} configurations, in the order of the table.` : "";
  return { some: all.slice(0, MOST_CONFIGURATIONS), note };
}

/** An axis with a row for each configuration, the first at the top. */
function configurationAxis(some) {
  const length = narrow() ? 18 : 44;
  return axis("", {
    type: "category", autorange: "reversed", categoryorder: "array", categoryarray: some.map(([at]) => String(at)),
    tickvals: some.map(([at]) => String(at)), ticktext: some.map(([at]) => plotText(shortenedWithin(facts.labels[at], length))),
  });
}

const rowsHeight = (some) => ({ height: Math.max(HEIGHT - 120, 120 + BAR_HEIGHT * some.length) });
const short = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });

/** The colour of a configuration: that of its first run, by the colour that is chosen. */
function colourOf(place) {
  return coloured([place])[0].colour;
}

/** TFLOPs: each run a dot, the median a diamond with its value, the range a line. */
function strips() {
  const { title } = page.columns[TFLOPS];
  const { some, note } = shownConfigurations((place) => numeric(facts.tflops[place]));
  if (!some.length) return null;
  const dots = { type: "scatter", mode: "markers", x: [], y: [], text: [], customdata: [], showlegend: false, marker: { color: [], size: 7, opacity: 0.55 }, hovertemplate: `<b>%{text}</b><br>%{x:.4~g} ${plotText(title)}<extra></extra>` };
  const values = { type: "scatter", mode: "text", x: [], y: [], text: [], showlegend: false, textposition: "middle right", cliponaxis: false, hoverinfo: "skip" };
  const middles = {
    type: "scatter", mode: "markers", x: [], y: [], customdata: [], showlegend: false,
    marker: { color: [], size: 11, symbol: "diamond" }, error_x: { type: "data", symmetric: false, array: [], arrayminus: [], thickness: 2, width: 5, color: "#8b949e" }, hoverinfo: "skip",
  };
  for (const [at, places] of some) {
    const counting = places.some((place) => facts.completed[place]) ? places.filter((place) => facts.completed[place]) : places;
    const reached = counting.map((place) => facts.tflops[place]);
    const [low, middle, high] = [Math.min(...reached), median(reached), Math.max(...reached)];
    const colour = colourOf(places[0]);
    if (reached.length > 1) {
      for (const place of counting) {
        dots.x.push(facts.tflops[place]);
        dots.y.push(String(at));
        dots.text.push(plotText(page.runs[place].label));
        dots.customdata.push(place);
        dots.marker.color.push(colour);
      }
    }
    middles.x.push(middle);
    middles.y.push(String(at));
    middles.customdata.push(counting[0]);
    middles.marker.color.push(colour);
    middles.error_x.array.push(high - middle);
    middles.error_x.arrayminus.push(middle - low);
    const range = reached.length > 1 ? ` (${short.format(low)} to ${short.format(high)})` : "";
    values.x.push(high);
    values.y.push(String(at));
    values.text.push(`  ${short.format(middle)}${range}`);
  }
  const most = Math.max(...values.x);
  const xaxis = axis(title, { range: [0, most * (narrow() ? 2.4 : 1.75)] });
  const repeated = dots.x.length ? "Diamonds: medians; dots: runs; lines: from the lowest to the highest run." : "";
  return { data: [dots, middles, values], layout: layout(xaxis, configurationAxis(some), rowsHeight(some)), note: [repeated, note].filter(Boolean).join(" ") };
}

/** The parts of the memory forecast on top of each other, and the peak that was logged. */
function memoryParts() {
  const { some, note } = shownConfigurations((place) => facts.forecast[place]);
  if (!some.length) return null;
  const names = [...new Set(some.flatMap(([, [place]]) => facts.forecast[place].map(([name]) => name)))];
  const y = some.map(([at]) => String(at));
  const data = names.map((name, at) => ({
    type: "bar", orientation: "h", name: plotText(name), y, marker: { color: COLOURS[at % COLOURS.length] },
    x: some.map(([, [place]]) => facts.forecast[place].find(([one]) => one === name)?.[1] ?? 0),
    hovertemplate: `${plotText(name)}: %{x:.3~g} GiB<extra></extra>`,
  }));
  const peaks = some.map(([at, places]) => [at, places.map((place) => facts.peak_gib[place]).filter(numeric)]).filter(([, peak]) => peak.length);
  if (peaks.length) {
    data.push({
      type: "scatter", mode: "markers", name: "logged peak", y: peaks.map(([at]) => String(at)), x: peaks.map(([, peak]) => Math.max(...peak)),
      marker: { symbol: "line-ns-open", size: 20, color: "#d2492a", line: { width: 3 } }, hovertemplate: "logged peak: %{x:.3~g} GiB<extra></extra>",
    });
  }
  const explanation = `Each part of a bar is the middle of the forecast for this part. The plot shows ${page.memory_of}.`;
  const lines = Math.ceil(data.length / (narrow() ? 2 : 4));
  const { height } = rowsHeight(some);
  return { data, layout: layout(axis("GiB"), configurationAxis(some), { ...legendBelow(lines), height: height + 18 * lines, barmode: "stack", showlegend: true }), note: [explanation, note].filter(Boolean).join(" ") };
}

/** TFLOPs over the logged peak; a line joins the runs that no other one beats in both. */
function pareto() {
  const places = shown.filter((place) => numeric(facts.tflops[place]) && numeric(facts.peak_gib[place]) && facts.completed[place]);
  if (places.length < 2) return null;
  const { title } = page.columns[TFLOPS];
  const best = [];
  const byMemory = [...places].sort((one, other) => facts.peak_gib[one] - facts.peak_gib[other] || facts.tflops[other] - facts.tflops[one]);
  for (const place of byMemory) if (!best.length || facts.tflops[place] > facts.tflops[best.at(-1)]) best.push(place);
  const parts = coloured(places);
  const data = parts.map((part) => points(part, (place) => facts.peak_gib[place], (place) => facts.tflops[place], `peak %{x:.3~g} GiB<br>%{y:.4~g} ${plotText(title)}`));
  data.unshift({ type: "scatter", mode: "lines", x: best.map((place) => facts.peak_gib[place]), y: best.map((place) => facts.tflops[place]), hoverinfo: "skip", showlegend: false, line: { color: OTHER, dash: "dot", width: 1.5 } });
  const note = "Dotted line: runs that no other run beats in both speed and memory.";
  return { data, layout: layout(axis("logged peak (GiB)"), axis(title, { rangemode: "tozero" }), legendOf(parts.map((part) => part.name))), note };
}

/** How the step times of each run are distributed. */
function stepTimes() {
  const places = shown.filter((place) => facts.boxes[place]);
  const some = places.slice(0, MOST_CONFIGURATIONS);
  if (!some.length) return null;
  const name = (place) => plotText(shortenedWithin(page.runs[place].label, narrow() ? 18 : 44));
  const id = (place) => page.runs[place].run_id;
  const data = coloured(some).map((part) => ({
    type: "box", orientation: "h", name: part.name, showlegend: part.name !== "", y: part.places.map(id), marker: { color: part.colour }, line: { width: 1.5 },
    lowerfence: part.places.map((place) => facts.boxes[place][0]), q1: part.places.map((place) => facts.boxes[place][1]),
    median: part.places.map((place) => facts.boxes[place][2]), q3: part.places.map((place) => facts.boxes[place][3]),
    upperfence: part.places.map((place) => facts.boxes[place][4]), hoverinfo: "x",
  }));
  const yaxis = axis("", { type: "category", autorange: "reversed", categoryorder: "array", categoryarray: some.map(id), tickvals: some.map(id), ticktext: some.map(name) });
  const left = places.length > some.length ? `Shown: the first ${MOST_CONFIGURATIONS} of ${countRows(places.length)}, in the order of the table.` : "";
  const note = ["Boxes: from the first to the third quartile, with the median; lines: from the fastest to the slowest step after the warm-up.", left].filter(Boolean).join(" ");
  return { data, layout: layout(axis("step time (s)", { rangemode: "tozero" }), yaxis, { ...rowsHeight(some), boxmode: "overlay", ...(data.length > 1 ? { showlegend: true } : {}) }), note };
}

/** The figures that the campaign has numbers for. */
function configurationFigures() {
  const has = (column) => column.some((value) => value !== null);
  const varied = (column) => new Set(column.filter(numeric)).size > 1;
  return [
    ...(has(facts.tflops) && TFLOPS >= 0 ? [figure(`${page.columns[TFLOPS].title} by ${page.noun === "run" ? "configuration" : page.noun}`, strips)] : []),
    ...(has(facts.boxes) ? [figure("Distribution of step times", stepTimes)] : []),
    ...(has(facts.forecast) ? [figure("Memory forecast by part", memoryParts)] : []),
    ...(varied(facts.peak_gib) && varied(facts.tflops) && TFLOPS >= 0 ? [figure("Throughput against memory", pareto)] : []),
  ];
}
