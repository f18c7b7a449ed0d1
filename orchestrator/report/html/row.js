// What the view of a published row has: no logs, no curves.

function rowSections(run, detail) {
  // A column that its table does not have, or where nothing stands, is no cell of it.
  const filled = page.columns.filter((column, at) => !["table", "findings"].includes(column.name) && run.shown[at] !== "—");
  return [
    element("p", { class: "small id" }, detail.place),
    ...(run.ended ? [element("p", { class: "end" }, endedBadge(run.ended))] : []),
    cellList(run, filled),
    ...(Object.keys(detail.outside_sizes).length ? [element("h2", {}, "Values outside the table"), sizeList(detail.outside_sizes)] : []),
    ...(detail.findings.length ? [element("h2", {}, "Findings of check-tables"), findingList(detail.findings)] : []),
  ];
}

const findingList = (findings) => element("ul", { class: "findings" }, ...findings.map((one) => element("li", {}, one)));
