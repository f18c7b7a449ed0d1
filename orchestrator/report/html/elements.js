// What all parts of the page use: its data, elements, and one run's data once it is asked for.

const byId = (id) => document.getElementById(id);
const page = JSON.parse(byId("page-data").textContent);

/** Make an element. Children that are strings become text, whatever is in them. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** The words of how a run ended, in the colour of that. */
function endedBadge(ended) {
  return element("span", { class: `ended ${endedKind(ended)}` }, ended);
}

/** A word in capitals is an end that is none of success. */
function endedKind(ended) {
  if (ended === "completed") return "good";
  return /\p{Lu}/u.test(ended) && ended === ended.toUpperCase() ? "bad" : "";
}

/** A text for plotly, which would take some of HTML's tags for what they are. */
function plotText(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function shortened(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

/** Names that begin alike differ at their ends. */
function shortenedWithin(text, length) {
  const kept = Math.floor((length - 1) / 2);
  return text.length > length ? `${text.slice(0, kept)}…${text.slice(-kept)}` : text;
}

const number = new Intl.NumberFormat("en-US");
const count = (many, what) => `${number.format(many)} ${what}${many === 1 ? "" : "s"}`;

/** So many of what the table has a row of each. */
const countRows = (many) => count(many, page.noun);

/** Where a run or a row has its view, within this page. */
const address = (place) => `#${page.identity}-${page.runs[place].run_id}`;

/** Numbers by size and before texts, such as nan; texts by the numbers in them. */
const collator = new Intl.Collator("en", { numeric: true });
function compared(one, other) {
  const numbers = [typeof one === "number", typeof other === "number"];
  if (numbers[0] && numbers[1]) return one - other;
  if (numbers[0] !== numbers[1]) return numbers[0] ? -1 : 1;
  return collator.compare(one, other);
}

/** Each value once, with how often it is there. */
function counted(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

/** What the page has of one run: packed, for most are never opened. */
async function readDetail(run) {
  const text = atob(byId(`detail-${run.run_id}`).textContent);
  const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(unpacked).json();
}
