// The page as a whole: its summary, its theme, and which view an address asks for.

function tile(text, caption, kind = "") {
  return element("div", { class: `tile ${kind}` }, element("b", {}, text), element("span", {}, caption));
}

function bestTile() {
  const run = page.runs[page.best];
  const named = element("a", { href: address(page.best) }, shortened(run.label, 60));
  return element("div", { class: "tile" }, element("b", {}, run.shown[TFLOPS]), element("span", {}, `${page.columns[TFLOPS].title}, best: `, named));
}

function showSummary() {
  byId("about").textContent = `${countRows(page.runs.length)} ${page.about}`;
  byId("tiles").append(...page.ended.map(([ended, many]) => tile(number.format(many), ended, endedKind(ended))));
  if (page.best !== null) byId("tiles").append(bestTile());
  byId("provenance").textContent = page.provenance;
  if (page.gone.length) {
    byId("gone").hidden = false;
    byId("gone").textContent = `Measured runs that are no longer in the campaign file: ${page.gone.join(", ")}.`;
  }
}

const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme:dark)").matches;
};

/** The reader's choice is kept where the browser lets a page keep something. */
function startTheme() {
  const kept = (change) => {
    try {
      return change(localStorage);
    } catch {
      return null;
    }
  };
  const show = () => (byId("theme").textContent = dark() ? "Light theme" : "Dark theme");
  const before = kept((storage) => storage.getItem("teralog-theme"));
  if (before === "dark" || before === "light") document.documentElement.dataset.theme = before;
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    kept((storage) => storage.setItem("teralog-theme", document.documentElement.dataset.theme));
    show();
  });
  matchMedia("(prefers-color-scheme:dark)").addEventListener("change", show);
  show();
}

let scrolled = 0;
let opened = null;

/** Show what the address asks for: one run, or all. */
async function follow() {
  const place = page.runs.findIndex((_, at) => address(at) === location.hash);
  if (place >= 0) {
    if (opened === null) scrolled = scrollY;
    await showRun(place);
  }
  byId("overview").hidden = place >= 0;
  byId("run").hidden = place < 0;
  document.title = place >= 0 ? `${page.runs[place].label} - ${page.title}` : page.title;
  if (place >= 0) {
    scrollTo(0, 0);
    // Its end is what a log is looked at for.
    byId("log")?.scrollTo(0, byId("log").scrollHeight);
    byId("run").querySelector("h1").focus();
  } else if (opened !== null) {
    leaveRun();
    fitColumns(changed);
    scrollTo(0, scrolled);
    document.querySelector(`#table a[href="${opened}"]`)?.focus({ preventScroll: true });
  }
  opened = place >= 0 ? address(place) : null;
}

function show() {
  const places = shownRuns();
  showCount(places.length);
  showTable(places);
  showCampaignPlots(places);
}

// Typing is not to wait for a thousand rows.
let waiting = 0;
function changed() {
  clearTimeout(waiting);
  waiting = setTimeout(show, page.runs.length > 500 ? 120 : 0);
}

showSummary();
startTheme();
startFilters(changed);
startTable(changed);
startCampaignPlots();
byId("overview").hidden = location.hash.startsWith(`#${page.identity}-`);
show();
fitColumns(changed);
// The runs' data stand behind this script.
addEventListener("DOMContentLoaded", follow);
addEventListener("hashchange", follow);
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && opened !== null) location.hash = "";
});
