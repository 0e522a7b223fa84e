// What models answer: search the questions, put them in order, and open one with all that is known of it.

const rowsOfAnswers = () => [...document.querySelectorAll("#examples tr[data-item]")];

// The share of seeds that are right, by model, from the notes "3 of 4" below the answers of a row.
const sharesIn = (row) => [...row.querySelectorAll("td:has(.note)")].map((cell) => {
  const [right, seeds] = cell.querySelector(".note").textContent.split(" of ");
  return [wordsOf(cell.closest("table").tHead.rows[0].cells[cell.cellIndex]), right / seeds];
});

const meanOf = (shares) => shares.reduce((sum, [, share]) => sum + share, 0) / (shares.length || 1);
const ORDERS = {
  fewest: (row) => meanOf(sharesIn(row)),
  most: (row) => -meanOf(sharesIn(row)),
  shortest: (row) => row.cells[0].textContent.length,
};

// Whether one model answers a question right more often than another; an empty name is any model.
const isBetter = (shares, better, worse) => shares.some(([one, share]) => (!better || one === better)
  && shares.some(([other, less]) => (!worse || other === worse) && share > less));

function orderAnswers(order) {
  for (const body of document.querySelectorAll("#examples figure tbody")) {
    const rows = [...body.rows];
    rows.forEach((row, number) => (row.dataset.place ??= number));
    const key = ORDERS[order] ?? (() => 0);
    const keys = new Map(rows.map((row) => [row, key(row)]));
    rows.sort((one, other) => keys.get(one) - keys.get(other) || one.dataset.place - other.dataset.place);
    body.append(...rows);
  }
}

function browseAnswers(form) {
  const { better, worse, search, order } = form.elements;
  const controls = [better, worse, search, order];
  const show = () => {
    const words = search.value.trim().toLowerCase();
    const isChoosing = Boolean(better.value || worse.value || words);
    if (isChoosing) for (const part of document.querySelectorAll("#examples details:has(table)")) part.open = true;
    const rows = rowsOfAnswers();
    for (const row of rows) {
      const isFound = !words || row.textContent.toLowerCase().includes(words) || row.dataset.item.toLowerCase().includes(words);
      const isCompared = !(better.value || worse.value) || isBetter(sharesIn(row), better.value, worse.value);
      row.hidden = !isFound || !isCompared;
    }
    orderAnswers(order.value);
    for (const control of controls) remember(control.name, control.value || null);
    form.querySelector("output").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} shown`;
  };
  form.hidden = false;
  for (const control of controls) {
    const before = kept(control.name) ?? "";
    if (!control.options || [...control.options].some((one) => one.value === before)) control.value = before;
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  form.addEventListener("reset", () => setTimeout(show));
  show();
  openItems().catch(console.error);
}

const MOST_CHECKPOINTS = 12; // columns of the way to an answer

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

const shortCount = (count) => {
  const [size, unit] = [[1e9, "B"], [1e6, "M"], [1e3, "K"], [1, ""]].find(([size]) => count >= size) ?? [1, ""];
  return `${Number((count / size).toPrecision(3))}${unit}`;
};

// Some of the checkpoints, the last one among them.
const someOf = (way) => {
  const every = Math.ceil(way.length / MOST_CHECKPOINTS);
  return way.filter((_, place) => (way.length - 1 - place) % every === 0);
};

// A table with a row for each model: its answer, how many seeds are right at the end, and at checkpoints before.
function answersTable(item) {
  const longest = item.answers.map(({ way }) => someOf(way)).sort((one, other) => other.length - one.length)[0] ?? [];
  const head = element("tr");
  for (const text of ["Model", "Answer of most seeds", "Right"]) head.append(element("th", text, { scope: "col", class: "left" }));
  for (const [tokens] of longest) head.append(element("th", shortCount(tokens), { scope: "col" }));
  const body = element("tbody");
  for (const { variant, text, right, seeds, way } of item.answers) {
    const row = element("tr");
    const answer = element("td", text, { class: right > seeds / 2 ? "long strong" : "long" });
    row.append(element("th", variant, { scope: "row", class: "left" }), answer);
    row.append(element("td", `${Number(right.toPrecision(3))} of ${seeds}`, { class: "left" }));
    const shown = someOf(way);
    for (let place = 0; place < longest.length; place += 1) {
      const [, count, of] = shown[place] ?? [];
      const cell = element("td", of ? String(Number(count.toPrecision(3))) : "–");
      if (of) cell.style.background = `color-mix(in srgb, var(--v1) ${Math.round((30 * count) / of)}%, transparent)`;
      row.append(cell);
    }
    body.append(row);
  }
  const table = element("table");
  const top = element("thead");
  top.append(head);
  table.append(top, body);
  return [table, longest.length];
}

function fillItem(dialog, key, item) {
  dialog.querySelector("h3").textContent = `${item.task}, question ${key.split("/").at(-1)}, depth ${key.split(":")[0]}`;
  const content = dialog.querySelector(".item-content");
  const [table, checkpoints] = answersTable(item);
  const place = element("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": "Answers" });
  place.append(table);
  content.replaceChildren(
    element("p", "Question", { class: "label" }), element("pre", item.question),
    element("p", "Right answer", { class: "label" }), element("pre", item.gold), place);
  if (checkpoints)
    content.append(element("p", "Right: seeds at the last checkpoint. Columns of tokens: seeds that were right after that many tokens.",
      { class: "remark" }));
  content.scrollTop = 0;
}

// Questions become buttons that open them; the address keeps which one is open.
async function openItems() {
  if (!document.getElementById("answers") || !("DecompressionStream" in window)) return;
  const dialog = document.querySelector("dialog.item");
  const items = JSON.parse(await unpack("answers"));
  let current;
  const open = (row) => {
    current = row;
    fillItem(dialog, row.dataset.item, items[row.dataset.item]);
    remember("item", row.dataset.item);
    if (!dialog.open) dialog.showModal();
    dialog.querySelector(".item-content").focus();
  };
  const step = (by) => {
    const rows = rowsOfAnswers().filter((row) => !row.hidden);
    const next = rows[rows.indexOf(current) + by];
    if (next) open(next);
  };
  for (const row of rowsOfAnswers()) {
    const button = element("button", undefined, { type: "button", class: "question", "aria-haspopup": "dialog" });
    button.append(...row.cells[0].childNodes);
    row.cells[0].append(button);
    button.addEventListener("click", () => open(row));
  }
  for (const button of dialog.querySelectorAll("[data-step]")) button.addEventListener("click", () => step(Number(button.dataset.step)));
  dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
  dialog.addEventListener("keydown", ({ key }) => {
    if (key === "ArrowRight") step(1);
    if (key === "ArrowLeft") step(-1);
  });
  dialog.addEventListener("close", () => {
    remember("item", null);
    for (let part = current.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    current.querySelector("button.question").focus();
  });
  const before = rowsOfAnswers().find((row) => row.dataset.item === kept("item"));
  if (before) open(before);
}
