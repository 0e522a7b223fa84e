// Tell where a number comes from: a click or Enter on a number of a table, or on the button below a sentence, opens a panel
// with the query, the runs with their checkpoints, and the versions. Arrows move between the numbers of a table.

const quotedSql = (text) => `'${String(text).replaceAll("'", "''")}'`;

function queryOf({ view, depthColumn }, origins, keys) {
  const conditions = [`study_id = ${quotedSql(origins.study)}`];
  if (keys.variant) conditions.push(`variant = ${quotedSql(keys.variant)}`);
  if (keys.depth) conditions.push(`${depthColumn} = ${Number(keys.depth)}`);
  return `FROM ${view} WHERE ${conditions.join(" AND ")}`;
}

function part(tag, text, className = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

function tell(title, source, origins, keys) {
  const panel = document.getElementById("origin");
  const runs = origins.runs.filter((run) =>
    (!keys.variant || run.variant === keys.variant) && (!keys.depth || String(run.depth) === keys.depth));
  const list = document.createElement("ul");
  for (const run of runs) {
    const checkpoints = run.checkpoints ? `, ${run.checkpoints} checkpoints up to ${run.tokens.toLocaleString("en")} tokens` : "";
    list.append(part("li", `${run.run}: ${run.variant}, depth ${run.depth}, seed ${run.seed ?? "unknown"}, ${run.status ?? "unknown"}${checkpoints}`));
  }
  const packages = Object.entries(origins.packages).map((pair) => pair.join(" ")).join(", ");
  const link = part("a", "Configuration, and how to run it again");
  link.href = "#reproduce";
  link.addEventListener("click", () => panel.close());
  const pre = document.createElement("pre");
  pre.append(part("code", queryOf(source, origins, keys)));
  panel.querySelector(".content").replaceChildren(
    part("h3", title), part("p", "Query, for dreamer sql", "label"), pre,
    part("p", `Runs (${runs.length})`, "label"), list,
    part("p", "Versions", "label"), part("p", [origins.code, packages].filter(Boolean).join("; ") || "unknown"), link);
  panel.showModal();
}

const shownText = (cell) => [...(cell?.querySelector("button") ?? cell)?.childNodes ?? []]
  .filter((node) => !node.classList?.contains("note")).map((node) => node.textContent).join("").trim();

function makeTraceable(table, origins) {
  const source = { view: table.dataset.view, depthColumn: table.dataset.depthColumn };
  const heads = [...table.tHead.rows].at(-1).cells;
  for (const row of table.tBodies[0].rows) {
    for (const cell of row.cells) {
      if (cell.tagName !== "TD" || !/\d/.test(shownText(cell))) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "number";
      button.append(...cell.childNodes);
      const head = heads.length === row.cells.length ? shownText(heads[cell.cellIndex]) : "";
      button.addEventListener("click", () =>
        tell([shownText(row.cells[0]), head, shownText(cell)].filter(Boolean).join(" · "), source, origins, row.dataset));
      cell.append(button);
    }
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
  if (!document.getElementById("origins")) return;
  const origins = JSON.parse(await unpack("origins"));
  document.querySelectorAll("table[data-view]").forEach((table) => makeTraceable(table, origins));
  for (const button of document.querySelectorAll("button[data-view]")) {
    button.hidden = false;
    button.addEventListener("click", () =>
      tell("The answer", { view: button.dataset.view, depthColumn: button.dataset.depthColumn }, origins, {}));
  }
}
