// Save a figure as the toolbar shows it: as PNG or SVG in the colours of paper, its data as CSV, or as a page of its own.

function save(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// The chosen panels of a figure, each with its title and data.
const chosenPanels = (figure) => {
  const name = figure.dataset.figure;
  return [...figure.querySelectorAll(".panel")].flatMap((element, number) => {
    if (element.hidden) return [];
    const drawn = chosenPanel(panelsOf(name)[number], specifications.figures[name].datasets, costsOf(element));
    return drawn ? [drawn] : [];
  });
};

function composed(figure) {
  const { datasets: _, ...whole } = structuredClone(specifications.figures[figure.dataset.figure]);
  const panels = chosenPanels(figure);
  const datasets = {};
  const add = (panel, number) => {
    const { datasets: own, ...rest } = panel;
    const text = JSON.stringify(rest);
    const named = Object.keys(own).reduce((words, name) => words.replaceAll(`"${name}"`, `"panel-${number}-${name}"`), text);
    for (const [name, rows] of Object.entries(own)) datasets[`panel-${number}-${name}`] = rows;
    return JSON.parse(named);
  };
  (whole.vconcat ? whole.vconcat[1] : whole).concat = panels.map(add);
  if (whole.vconcat) whole.vconcat[0] = add(chosenPanel(whole.vconcat[0], specifications.figures[figure.dataset.figure].datasets), "legend");
  return { ...whole, datasets, config: specifications.config };
}

const fields = (rows) => [...new Set(rows.flatMap(Object.keys))];
// What a spreadsheet would run: text that begins so and is no number. An apostrophe before it keeps it text (sql/export.py).
const RUN = /^(?![-+]?([0-9]+\.?[0-9]*|\.[0-9]+|inf)(e[-+]?[0-9]+)?$)[=+\-@\t\r\n]/i;
const quoted = (value) => {
  const cell = value === null || value === undefined ? "" : String(value);
  const text = RUN.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

// All rows of a figure: the panel, the number of the data within the panel, and their own columns. Levels (`words` at `y`)
// are no data.
function csv(figure) {
  const rows = chosenPanels(figure).flatMap((panel, number) =>
    Object.values(panel.datasets).flatMap((part, place) =>
      part.map((row) => ({ panel: panel.title || number + 1, data: place + 1, ...row }))));
  const kept = rows.filter((row) => !("words" in row));
  const columns = fields(kept);
  return [columns, ...kept.map((row) => columns.map((column) => row[column]))]
    .map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
}

// A page that draws the figure alone, to be embedded in another.
function pageOf(figure) {
  const script = (text) => `<script>${text.replaceAll("<\/script", "<\\/script")}<\/script>`;
  const drawn = JSON.stringify(composed(figure)).replaceAll("<", "\\u003c"); // which ends no script, in whatever case
  return `<!doctype html><meta charset="utf-8"><title>${figure.dataset.figure}</title><div id="figure"></div>
${script(library)}${script(`vegaEmbed("#figure", ${drawn}, { mode: "vega-lite", renderer: "svg", actions: false })`)}`;
}

async function saveFigure(button) {
  const figure = figureOf(button);
  const kind = button.dataset.file;
  const name = `${figure.dataset.figure}.${kind}`;
  if (kind === "csv") return save(name, "text/csv", csv(figure));
  if (kind === "html") return save(name, "text/html", pageOf(figure));
  const { view } = await vegaEmbed(document.createElement("div"), composed(figure), { mode: "vega-lite", actions: false, logLevel: 0 });
  if (kind === "svg") return save(name, "image/svg+xml", await view.toSVG());
  const canvas = await view.toCanvas(2);
  return save(name, "image/png", await new Promise((resolve) => canvas.toBlob(resolve, "image/png")));
}
