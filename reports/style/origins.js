// Tell where a number comes from: a click or Enter on a number of a table, on a large number, or on the button below a
// sentence, opens a panel with the query, the runs with their checkpoints, and the versions. Arrows move between the numbers of a table.

function part(tag, text, className = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

// The checkpoint that a number is of, or all of the run. Seeds may have theirs up to 5 % apart, as in curves.
function checkpointsOf({ checkpoints }, tokens) {
  if (!checkpoints.length) return "";
  const count = (number) => number.toLocaleString("en");
  if (tokens === undefined) return `, ${checkpoints.length} checkpoints up to ${count(checkpoints.at(-1))} tokens`;
  const nearest = checkpoints.reduce((one, other) => (Math.abs(other - tokens) < Math.abs(one - tokens) ? other : one));
  const near = Math.abs(nearest - tokens) <= 0.05 * Math.max(nearest, tokens);
  return near ? `, checkpoint at ${count(nearest)} tokens` : "";
}

function told(origin, origins) {
  const study = origins.studies[origin.study];
  const on = origins.studies.length > 1 ? ` of ${study.name}` : "";
  const list = document.createElement("ul");
  for (const run of origin.runs.map((place) => study.runs[place])) {
    const model = run.depth === null ? run.variant : `${run.variant}, depth ${run.depth}`;
    list.append(part("li", `${run.run}: ${model}, seed ${run.seed ?? "unknown"}, ${run.status ?? "unknown"}${checkpointsOf(run, origin.tokens)}`));
  }
  const packages = Object.entries(study.packages).map((pair) => pair.join(" ")).join(", ");
  const pre = document.createElement("pre");
  pre.append(part("code", origin.query));
  const runs = origin.runs.length ? [part("p", `Runs${on} (${origin.runs.length})`, "label"), list] : [];
  return [
    ...(origin.note ? [part("p", origin.note)] : []),
    part("p", `Query, for dreamer sql on the results${on}`, "label"), pre,
    ...runs,
    part("p", `Versions${on}`, "label"), part("p", [study.code, packages].filter(Boolean).join("; ") || "unknown")];
}

function tell(title, number, origins) {
  const panel = document.getElementById("origin");
  const link = part("a", "Configuration, and how to run it again");
  link.href = "#reproduce";
  link.addEventListener("click", () => panel.close());
  const parts = origins.numbers[number].flatMap((origin) => told(origin, origins));
  panel.querySelector(".content").replaceChildren(part("h3", title), ...parts, link);
  panel.showModal();
}

const shownText = (cell) => [...(cell?.querySelector("button") ?? cell)?.childNodes ?? []]
  .filter((node) => !node.classList?.contains("note")).map((node) => node.textContent).join("").trim();

// Put what an element shows into a button that tells the number's origin.
function makeButton(element, title, origins) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "number";
  button.append(...element.childNodes);
  button.addEventListener("click", () => tell(title(), element.dataset.origin, origins));
  element.append(button);
}

function makeTraceable(table, origins) {
  const heads = [...table.tHead.rows].at(-1).cells;
  for (const cell of table.tBodies[0].querySelectorAll("[data-origin]")) {
    const row = cell.parentElement;
    const head = heads.length === row.cells.length ? shownText(heads[cell.cellIndex]) : "";
    makeButton(cell, () => [shownText(row.cells[0]), head, shownText(cell)].filter(Boolean).join(" · "), origins);
  }
  const numbers = () => [...table.querySelectorAll("button.number")];
  numbers().forEach((button, place) => (button.tabIndex = place ? -1 : 0)); // one stop for the tabulator key
  table.addEventListener("keydown", (event) => {
    const now = event.target.closest("button.number");
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!now || !step) return;
    const across = event.key === "ArrowLeft" || event.key === "ArrowRight";
    const place = now.parentElement.cellIndex;
    const line = across ? numbers() : numbers().filter((button) => button.parentElement.cellIndex === place);
    const next = line[line.indexOf(now) + step];
    if (!next) return;
    event.preventDefault();
    [now.tabIndex, next.tabIndex] = [-1, 0];
    next.focus();
  });
}

async function tellOrigins() {
  const origins = JSON.parse(await unpack("origins"));
  document.querySelectorAll("figure.table table").forEach((table) => makeTraceable(table, origins));
  for (const size of document.querySelectorAll(".findings [data-origin]"))
    makeButton(size, () => `${shownText(size.parentElement.querySelector(".who"))} · ${shownText(size)}`, origins);
  for (const button of document.querySelectorAll("button.origin")) {
    button.hidden = false;
    button.addEventListener("click", () => tell("The answer", button.dataset.origin, origins));
  }
}
