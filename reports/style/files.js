// Save a figure as the toolbar shows it: as PNG or SVG in the colours of paper, its data as CSV, or as a page of its own.

function save(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// The chosen panels of a figure, each with its title and data.
const chosenPanels = (figure, texts) => {
  const name = figure.dataset.figure;
  return [...figure.querySelectorAll(".panel")].flatMap((element, number) => {
    if (element.hidden) return [];
    const drawn = chosenPanel(panelsOf(name)[number], specifications.figures[name].datasets, costsOf(element));
    if (drawn && texts && drawn.title) drawn.title = texts.panels[number].title;
    return drawn ? [drawn] : [];
  });
};

function composed(figure) {
  const { datasets: _, ...whole } = structuredClone(specifications.figures[figure.dataset.figure]);
  const texts = textsOf(figure);
  const panels = chosenPanels(figure, texts);
  whole.title.text = texts.title;
  whole.title.subtitle = wrapped(`${texts.finding} ${texts.caption}`, specifications.texts[figure.dataset.figure].characters);
  whole.description = texts.caption;
  whole.params = whole.params.map((one) => ({ ...one, value: valueNow(figure, one) }));
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

const textOf = (rows) => {
  const columns = fields(rows);
  return [columns, ...rows.map((row) => columns.map((column) => row[column]))]
    .map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
};

// What the rows with these columns are, for the name of their file; empty for what the figure is about.
const kindOf = (columns) =>
  columns.includes("run_id") ? "seeds" : columns.includes("baseline_tokens") ? "arrows" : columns.includes("least") ? "ratios" : "";

// The rows of a figure with their panel, one file for each kind of row: [the end of its name, its text]. Texts in a drawing
// (`words`) are no data.
function csv(figure) {
  const byColumns = new Map();
  const panels = chosenPanels(figure);
  panels.forEach((panel, number) => {
    for (const part of Object.values(panel.datasets)) {
      const columns = Object.keys(part[0] ?? {});
      if (columns.length < 2 || columns.includes("words")) continue; // a line at one number is no data either
      const title = panel.title || panels[number - 1]?.title || number + 1;
      byColumns.set(columns.join(), [...(byColumns.get(columns.join()) ?? []), ...part.map((row) => ({ panel: title, ...row }))]);
    }
  });
  const files = [...byColumns.values()].map((rows) => [kindOf(Object.keys(rows[0])), rows]);
  files.sort(([one, rows], [other, others]) => Boolean(one) - Boolean(other) || others.length - rows.length);
  const ends = new Set();
  return files.map(([kind, rows], number) => {
    const usual = number && !kind ? `${number + 1}` : kind;
    const end = number === 0 ? "" : `-${ends.has(usual) ? `${usual}-${number + 1}` : usual}`;
    ends.add(usual);
    return [end, textOf(rows)];
  });
}

// A page that draws the figure alone, to be embedded in another.
function pageOf(figure) {
  const script = (text) => `<script>${text.replaceAll("<\/script", "<\\/script")}<\/script>`;
  const drawn = JSON.stringify(composed(figure)).replaceAll("<", "\\u003c"); // which ends no script, in whatever case
  return `<!doctype html><meta charset="utf-8"><title>${figure.dataset.figure}</title>
<style>body { margin: 0 } #figure { display: block } #figure svg { width: auto; max-width: 100%; height: auto; max-height: 100vh }</style><div id="figure"></div>
${script(library)}${script(`vegaEmbed("#figure", ${drawn}, { mode: "vega-lite", renderer: "svg", actions: false })`)}`;
}

async function saveFigure(button) {
  const figure = figureOf(button);
  const kind = button.dataset.file;
  const name = `${figure.dataset.figure}.${kind}`;
  if (kind === "csv") {
    for (const [end, text] of csv(figure)) save(`${figure.dataset.figure}${end}.csv`, "text/csv", text);
    return;
  }
  if (kind === "html") return save(name, "text/html", pageOf(figure));
  const { view } = await vegaEmbed(document.createElement("div"), composed(figure), { mode: "vega-lite", actions: false, logLevel: 0 });
  if (kind === "svg") return save(name, "image/svg+xml", await view.toSVG());
  const canvas = await view.toCanvas(2);
  return save(name, "image/png", await new Promise((resolve) => canvas.toBlob(resolve, "image/png")));
}
