// How a plot looks, is drawn when it comes into view, and is saved.

const COLOURS = ["#3b7dd8", "#e08a1e", "#2a9d74", "#c8549b", "#7a5cc7", "#d2492a", "#3fa7c9", "#8f8a1e", "#8c6d5a", "#7d8590"];
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "pentagon", "star", "cross", "hexagon", "triangle-down"];
const OTHER = COLOURS[9];
const CLEAR = "rgba(0,0,0,0)";
const HEIGHT = 360;
const PRINTED = { width: 480, height: 300 };
const LEGEND = { orientation: "h", yanchor: "bottom", y: 1.01, x: 0 };
// These buttons and no other: plotly's own choice has one that sends the plot away.
const BUTTONS = ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"];
const CONFIG = { responsive: true, displaylogo: false, modeBarButtons: [BUTTONS], plotlyServerURL: "" };
const SAVED = { width: 900, height: 560 };

/** Colours are those of a plot that is saved; page.css has those of the page. */
function axis(title, more = {}) {
  return {
    title: { text: plotText(title), font: { size: 13 } }, automargin: true, gridcolor: "#e1e5ea", zerolinecolor: "#9aa3ad",
    linecolor: "#9aa3ad", ...more,
  };
}

function layout(xaxis, yaxis, more = {}) {
  return {
    autosize: true, height: HEIGHT, margin: { l: 60, r: 16, t: 16, b: 48 },
    font: { family: "system-ui,Segoe UI,Helvetica,Arial,sans-serif", size: 13, color: "#1d2329" },
    paper_bgcolor: CLEAR, plot_bgcolor: CLEAR, hovermode: "closest",
    hoverlabel: { bgcolor: "#24292f", bordercolor: "#24292f", font: { color: "#fff" }, align: "left" },
    legend: LEGEND, xaxis, yaxis, ...more,
  };
}

/** An axis of sizes: where they differ much, by factors, with the sizes themselves as marks. */
function sizeAxis(title, values) {
  const sizes = [...new Set(values)].sort((one, other) => one - other);
  const wide = sizes[0] > 0 && sizes.at(-1) / sizes[0] >= 4;
  const marks = haveRoom(wide ? sizes.map(Math.log2) : sizes) ? sizes : wide ? powersOfTwo(sizes[0], sizes.at(-1)) : [];
  const marked = marks.length ? { tickvals: marks, ticktext: marks.map((size) => number.format(size)) } : {};
  return axis(title, { ...marked, ...(wide ? { type: "log" } : {}) });
}

/** Whether marks at these places can be distinguished on the axis of a plot. */
function haveRoom(places) {
  const gaps = places.slice(1).map((place, at) => place - places[at]);
  return places.length <= 12 && Math.min(...gaps) >= (places.at(-1) - places[0]) / 16;
}

/** Every power of two between these, or every second, third; eight marks at most. */
function powersOfTwo(least, most) {
  const [first, last] = [Math.ceil(Math.log2(least)), Math.floor(Math.log2(most))];
  const every = Math.ceil((last - first + 1) / 8);
  return Array.from({ length: Math.floor((last - first) / every) + 1 }, (_, at) => 2 ** (first + every * at));
}

/** The warm-up of runs: their last iterations, each once, as shades behind the curves. */
function warmupShades(lastIterations) {
  return [...new Set(lastIterations)].filter(Boolean).map((last) => ({
    type: "rect", layer: "below", xref: "x", yref: "paper", x0: 0.5, x1: last + 0.5, y0: 0, y1: 1,
    fillcolor: "#8b949e", opacity: 0.2, line: { width: 0 },
  }));
}

/** What a caption says of what a curve leaves out; empty where it is all there. */
function leftOut(series) {
  const thinned = series.filter((one) => one.every > 1);
  const broken = series.reduce((sum, one) => sum + one.not_finite, 0);
  const parts = [];
  if (thinned.length) {
    const every = [...new Set(thinned.map((one) => number.format(one.every)))].join(", ");
    const reports = thinned.reduce((sum, one) => sum + one.reports, 0);
    parts.push(`Of every ${every} consecutive reports, only the lowest and the highest are drawn; there are ${number.format(reports)} reports.`);
  }
  if (broken) parts.push(`${count(broken, "report")} with nan or inf cannot be drawn.`);
  return parts.join(" ");
}

const figures = new Set();
const visible = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      entry.target.figure.inView = entry.isIntersecting;
      if (entry.isIntersecting) draw(entry.target.figure);
    }
  },
  { rootMargin: "300px" },
);

/**
 * A place for a plot. `make` returns {data, layout, note}, or null where there is nothing to draw, or
 * a promise of either; it is called when the plot comes into view, and again after `redraw`. `missing`
 * says why there is nothing, if that is known.
 */
function figure(title, make, missing = "") {
  const plot = element("div", { class: "plot", role: "img", "aria-label": title });
  const note = element("figcaption");
  const save = (format) =>
    element("button", { type: "button", onclick: () => download(made, format), "aria-label": `Save ${title} as ${format.toUpperCase()}` }, format.toUpperCase());
  const node = element("figure", {}, element("header", {}, element("h3", {}, title), save("svg"), save("png")), plot, note);
  const made = { title, make, missing, plot, note, node, drawing: null, turn: 0, inView: false, shown: null };
  plot.figure = made;
  figures.add(made);
  visible.observe(plot);
  return made;
}

/** plotly takes long to start: it is text, and becomes a script when all else can be read. */
const ready = new Promise((resolve) => addEventListener("load", resolve))
  .then(() => new Promise((resolve) => setTimeout(resolve)))
  .then(() => {
    const source = byId("plotly");
    source.replaceWith(element("script", {}, source.textContent));
  });

/** Draw a figure that has not been drawn since it was last to be; done when the promise is. */
function draw(one) {
  one.drawing ??= drawAnew(one);
  return one.drawing;
}

async function drawAnew(one) {
  one.turn += 1;
  const turn = one.turn;
  await ready;
  const made = await one.make();
  // Asked for anew in the meantime, or gone with its run.
  if (turn !== one.turn || !figures.has(one)) return;
  one.shown = made;
  // What is not there cannot be saved.
  one.node.classList.toggle("empty", made === null);
  if (made === null) {
    Plotly.purge(one.plot);
    one.plot.style.height = "0";
    one.note.textContent = one.missing || "There are no numbers for this plot.";
    return;
  }
  one.plot.style.height = `${made.layout.height}px`;
  one.note.textContent = made.note;
  // A layout of its own, for plotly writes into it.
  await Plotly.react(one.plot, made.data, { ...made.layout }, CONFIG);
  if (one.clicks) return;
  one.clicks = true;
  one.plot.on("plotly_click", (event) => {
    const place = event.points[0].customdata;
    if (place !== undefined) location.hash = address(place);
  });
}

/** Draw anew what is in view, and the others when there is time. */
function redraw(some) {
  for (const one of some) {
    one.drawing = null;
    if (one.inView) draw(one);
    else whenIdle(() => draw(one));
  }
}

const whenIdle = (act) => (window.requestIdleCallback ?? setTimeout)(act);

function forget(some) {
  for (const one of some) {
    visible.unobserve(one.plot);
    Plotly.purge(one.plot);
    figures.delete(one);
  }
}

function download(one, format) {
  if (!one.shown) return;
  const { data, layout: drawn } = one.shown;
  const height = Math.max(SAVED.height, drawn.height);
  const paper = { ...drawn, autosize: false, width: SAVED.width, height, paper_bgcolor: "#fff", plot_bgcolor: "#fff" };
  const filename = `${page.title} ${one.title}`.replaceAll(/[^A-Za-z0-9%]+/g, "-").replaceAll("%", "percent");
  Plotly.downloadImage({ data, layout: paper }, { format, filename, width: SAVED.width, height, scale: format === "png" ? 3 : 1 });
}

// Paper is narrower than a window, and all of it is in view.
addEventListener("beforeprint", () => {
  for (const one of figures) if (one.node.offsetParent !== null) fitToPaper(one);
});
async function fitToPaper(one) {
  await draw(one);
  if (!one.shown) return;
  const height = one.shown.layout.height - HEIGHT + PRINTED.height;
  one.plot.style.height = `${height}px`;
  await Plotly.relayout(one.plot, { width: PRINTED.width, height });
}
addEventListener("afterprint", () => {
  for (const one of figures) {
    if (!one.shown) continue;
    const { height } = one.shown.layout;
    one.plot.style.height = `${height}px`;
    Plotly.relayout(one.plot, { width: null, height, autosize: true });
  }
});
