// The table of runs, and the order that its headings give.

const FIRST_ROWS = 1000;
// A text with more letters may have several lines.
const LONG = 20;

// column: its place, -1 for the rows' identity, null for their own order.
const order = { column: null, descending: false };
let allRows = false;

// Columns in which all rows are alike stand in a line above the table; how runs ended comes first.
const alike = new Set(page.columns.keys().filter((at) => page.runs.length > 1 && new Set(page.runs.map((run) => run.shown[at])).size === 1));
const columnOrder = [...page.columns.keys()]
  .filter((at) => !alike.has(at))
  .sort((one, other) => (page.columns[other].name === "outcome") - (page.columns[one].name === "outcome"));
// Those that are hidden where there is no room for them, and whether the reader wants them all.
const hiddenColumns = new Set();
let allColumns = false;

/** The places of the runs shown, in the table's order; what is absent comes last either way. */
function shownRuns() {
  const places = filteredRuns();
  if (order.column === null) return places;
  const value = (place) => (order.column < 0 ? page.runs[place].run_id : page.runs[place].values[order.column]);
  const known = places.filter((place) => value(place) !== null);
  const sign = order.descending ? -1 : 1;
  known.sort((one, other) => sign * compared(value(one), value(other)));
  return [...known, ...places.filter((place) => value(place) === null)];
}

function heading(title, place, numeric, changed) {
  const click = () => {
    // Up, down, and as they came.
    const turned = order.column === place && order.descending;
    order.descending = order.column === place && !order.descending;
    order.column = turned ? null : place;
    changed();
  };
  return element(
    "th",
    { scope: "col", class: numeric ? "number" : "text", "data-column": place },
    // A unit stands below its name, or the numbers would stand far apart.
    element("button", { type: "button", onclick: click }, title.replace(" (", "\n(")),
  );
}

function row(place) {
  const run = page.runs[place];
  const cells = columnOrder.filter((at) => !hiddenColumns.has(at)).map((at) => {
    const column = page.columns[at];
    const text = run.shown[at];
    if (column.name === "outcome") return element("td", {}, endedBadge(text));
    if (column.numeric || text.length <= LONG) return element("td", { class: column.numeric ? "number" : "text" }, text);
    return element("td", { class: "long", title: text }, element("div", {}, text));
  });
  const link = element("a", { href: address(place), title: run.label, class: "id" }, run.run_id);
  const best = place === page.best ? element("span", { title: "most TFLOPs per GPU" }, " ★") : null;
  return element("tr", {}, element("th", { scope: "row" }, link, best), ...cells);
}

/** The values that all rows have in common, without columns that are empty in all rows. */
function sameText() {
  const shared = [...alike].filter((at) => page.runs[0].shown[at] !== "—").map((at) => `${page.columns[at].title} ${page.runs[0].shown[at]}`);
  return shared.length ? `The same in all ${page.noun}s: ${shared.join(", ")}.` : "";
}

function showHeadings(changed) {
  const headings = columnOrder
    .filter((place) => !hiddenColumns.has(place))
    .map((place) => heading(page.columns[place].title, place, page.columns[place].numeric, changed));
  byId("table").tHead.replaceChildren(element("tr", {}, heading(page.identity, -1, false, changed), ...headings));
}

/** Hide minor columns, from the right, until the table is no wider than its place. */
function fitColumns(changed) {
  const tooWide = () => byId("scroller").scrollWidth > byId("scroller").clientWidth + 1;
  hiddenColumns.clear();
  showHeadings(changed);
  showTable(shownRuns());
  if (!allColumns) {
    for (const at of columnOrder.filter((one) => page.columns[one].minor).reverse()) {
      if (!tooWide()) break;
      hiddenColumns.add(at);
      showHeadings(changed);
      showTable(shownRuns());
    }
  }
  byId("columns").hidden = !hiddenColumns.size && !allColumns;
  byId("columns").textContent = allColumns ? "Fewer columns" : `All columns (${number.format(hiddenColumns.size)} more)`;
}

function startTable(changed) {
  byId("same").textContent = sameText();
  byId("same").hidden = byId("same").textContent === "";
  showHeadings(changed);
  byId("columns").addEventListener("click", () => {
    allColumns = !allColumns;
    fitColumns(changed);
  });
  addEventListener("resize", () => fitColumns(changed));
  byId("more").addEventListener("click", () => {
    allRows = true;
    changed();
  });
}

function showTable(places) {
  for (const th of byId("table").tHead.rows[0].cells) {
    const sorted = Number(th.dataset.column) === order.column;
    if (sorted) th.setAttribute("aria-sort", order.descending ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  }
  const rows = allRows ? places : places.slice(0, FIRST_ROWS);
  byId("table").tBodies[0].replaceChildren(...rows.map(row));
  byId("more").hidden = rows.length === places.length;
  byId("more").textContent = `Show all ${countRows(places.length)}; these are the first ${number.format(rows.length)}`;
}
