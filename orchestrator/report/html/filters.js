// Which runs are shown: those that have all the words, and in each column one of the values chosen.

const MOST_CHOICES = 40;

const filter = { words: [], chosen: new Map() };
const texts = page.runs.map((run) => [run.run_id, run.label, ...run.shown].join("\n").toLowerCase());

function passes(run, place) {
  return (
    filter.words.every((word) => texts[place].includes(word)) &&
    [...filter.chosen].every(([column, values]) => values.has(run.shown[column]))
  );
}

/** The places in page.runs of the runs that the filter leaves. */
const filteredRuns = () => page.runs.map((_, place) => place).filter((place) => passes(page.runs[place], place));

/** Runs as the values of a column count up, where they are numbers; what is absent comes last. */
function inOrder({ column, place }) {
  if (!column.numeric) return page.runs;
  const value = (run) => run.values[place];
  return page.runs.toSorted((one, other) => (value(one) === null) - (value(other) === null) || compared(value(one) ?? 0, value(other) ?? 0));
}

/** The columns that tell runs apart, each with its values and how often they are there. */
const describing = page.columns
  .map((column, place) => ({ column, place }))
  .filter(({ column }) => column.filter)
  .map((one) => ({ ...one, values: counted(inOrder(one).map((run) => run.shown[one.place])) }))
  .filter(({ values }) => values.size > 1);

/** Those whose values are few enough to choose from. */
const choosable = (most) => describing.filter(({ values }) => values.size <= most);

function choice({ column, place, values }, changed) {
  const boxes = [...values].map(([value, many]) => {
    const box = element("input", { type: "checkbox", value, onchange: update });
    return [box, element("label", {}, box, ` ${value} `, element("span", { class: "small" }, number.format(many)))];
  });
  const made = element(
    "details",
    { class: "choice", onkeydown: (event) => event.key === "Escape" && close(), ontoggle: keepInView },
    element("summary", {}, column.title),
    element("div", { role: "group", "aria-label": column.title }, ...boxes.map(([, label]) => label)),
  );
  function update() {
    const chosen = boxes.map(([box]) => box).filter((box) => box.checked).map((box) => box.value);
    if (chosen.length) filter.chosen.set(place, new Set(chosen));
    else filter.chosen.delete(place);
    made.classList.toggle("chosen", chosen.length > 0);
    changed();
  }
  /** What would stand out on the right ends where its button ends. */
  function keepInView() {
    made.classList.remove("at-end");
    const { right } = made.lastElementChild.getBoundingClientRect();
    made.classList.toggle("at-end", right > document.documentElement.clientWidth);
  }
  function close() {
    made.open = false;
    made.querySelector("summary").focus();
  }
  return made;
}

function startFilters(changed) {
  const words = byId("words");
  words.addEventListener("input", () => {
    filter.words = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    changed();
  });
  byId("choices").append(...choosable(MOST_CHOICES).map((one) => choice(one, changed)));
  byId("clear").addEventListener("click", () => {
    words.value = "";
    filter.words = [];
    filter.chosen.clear();
    for (const box of byId("choices").querySelectorAll("input")) box.checked = false;
    for (const one of document.querySelectorAll(".choice")) one.classList.remove("chosen");
    changed();
    words.focus();
  });
  document.addEventListener("click", (event) => {
    for (const open of document.querySelectorAll(".choice[open]")) {
      if (!open.contains(event.target)) open.open = false;
    }
  });
}

function showCount(shown) {
  byId("count").textContent =
    shown === page.runs.length ? countRows(shown) : `${number.format(shown)} of ${countRows(page.runs.length)}`;
  byId("clear").hidden = filter.words.length === 0 && filter.chosen.size === 0;
}
