// Sort tables by a click on the head of a column: once from the largest, twice from the smallest, thrice as written. Copy
// tables as Markdown or LaTeX.

const SIZES = { x: 1, K: 1e3, M: 1e6, G: 1e9, B: 1e9, T: 1e12, s: 1, min: 60, h: 3600, days: 86400 };

// The number that a cell shows, without the note below; a text without a number stays a text.
function valueOf(cell) {
  const text = [...cell.childNodes].filter((node) => !node.classList?.contains("note")).map((node) => node.textContent).join("").trim();
  const number = /^(?:[≥≤]|at least|at most)?\s*([−-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*([A-Za-z]*)/.exec(text);
  if (number && (number[2] in SIZES || !number[2])) return Number(number[1].replaceAll(",", "").replace("−", "-")) * (SIZES[number[2]] ?? 1);
  return text === "–" ? "" : text;
}

function compare(one, other) {
  return typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
}

function sortBy(table, head, place) {
  const order = { none: "descending", descending: "ascending", ascending: "none" }[head.getAttribute("aria-sort") ?? "none"];
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  if (order !== "none") head.setAttribute("aria-sort", order);
  const rows = [...table.tBodies[0].rows];
  rows.forEach((row, number) => (row.dataset.place ??= number));
  const written = (one, other) => one.dataset.place - other.dataset.place;
  const direction = order === "ascending" ? 1 : -1;
  rows.sort((one, other) => {
    if (order === "none") return written(one, other);
    const [first, second] = [one, other].map((row) => valueOf(row.cells[place]));
    return (first === "") - (second === "") || direction * compare(first, second) || written(one, other);
  });
  table.classList.toggle("sorted", order !== "none");
  table.tBodies[0].append(...rows);
}

// Tables with one row of heads, in which every row stands by itself.
function makeSortable(table) {
  const plain = table.tHead.rows.length === 1 && table.tBodies[0].rows.length > 1 && !table.querySelector(".inset, [rowspan], [colspan]");
  if (!plain) return;
  [...table.tHead.rows[0].cells].forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sortBy(table, head, place));
    head.append(button);
  });
}

// What a part of a cell says: of a name that is cut in the middle the whole.
const wordsOf = (node) => (node.title || node.querySelector?.("[title]")?.title || node.textContent).trim();

// The texts of rows as a grid: what a cell of several columns or rows says stands in each of them.
function gridOf(rows) {
  const grid = [...rows].map(() => []);
  [...rows].forEach((row, top) => {
    for (const cell of row.cells) {
      const words = [...cell.childNodes].map(wordsOf).filter(Boolean).join(" ");
      const left = [...grid[top], undefined].findIndex((text) => text === undefined);
      for (let down = 0; down < cell.rowSpan; down += 1)
        for (let right = 0; right < cell.colSpan; right += 1) grid[top + down][left + right] = words;
    }
  });
  return grid;
}

const COMMANDS = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "≤": "$\\le$", "≥": "$\\ge$",
  "−": "$-$", "×": "$\\times$", "±": "$\\pm$", "↑": "$\\uparrow$", "↓": "$\\downarrow$", "∞": "$\\infty$", "†": "$\\dagger$", "\u202f": "\\," };
const ESCAPES = {
  markdown: (text) => text.replace(/[\\`*_[\]<>|#]/g, "\\$&"),
  latex: (text) => text.replace(/[\\~^≤≥−×±↑↓∞†\u202f&%$#_{}]/g, (mark) => COMMANDS[mark] ?? `\\${mark}`),
};

function written(table, kind) {
  const heads = gridOf(table.tHead.rows);
  const head = heads[0].map((_, place) => [...new Set(heads.map((row) => row[place]))].join(" "));
  const [first, ...rows] = [head, ...gridOf(table.tBodies[0].rows)].map((row) => row.map(ESCAPES[kind]));
  if (kind === "markdown") return [first, first.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |\n`).join("");
  const lines = [first, ...rows].map((row) => `${row.join(" & ")} \\\\\n`);
  return `\\begin{tabular}{l${"r".repeat(head.length - 1)}}\n\\hline\n${lines[0]}\\hline\n${lines.slice(1).join("")}\\hline\n\\end{tabular}\n`;
}

function makeCopied(button) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(written(button.closest("figure").querySelector("table"), button.dataset.copy));
    button.setAttribute("aria-pressed", "true");
  });
}
