// Change specifications by what the toolbar has chosen: rows, layers, the token axis, zoom. Nothing here touches the page.

const choice = { variants: null, depth: "", task: "", metric: "", axis: "", scale: "", weights: "", seeds: true, zoom: false };
const WHOLE = { ...choice };

// What is chosen stands in the address, so that a link, or the page when it loads again, shows the same.
const kept = (name) => new URLSearchParams(location.search).get(name);

function remember(name, value) {
  const address = new URL(location.href);
  if (value === null) address.searchParams.delete(name);
  else address.searchParams.set(name, value);
  history.replaceState(null, "", address);
}

// Every view of a specification: the layers of a layered one, else the specification itself.
const views = (specification) => (specification.layer || [specification]).flatMap((view) => (view.layer ? views(view) : [view]));

const encodings = (specification) =>
  [specification, ...(specification.layer || [])].map((view) => view.encoding).filter(Boolean);

// Whether something with these keys (of a panel, or columns of a row) is chosen.
const isChosen = (keys) =>
  (!choice.variants || keys.variant === undefined || choice.variants.has(keys.variant)) &&
  ["depth", "task", "metric"].every((name) => !choice[name] || keys[name] === undefined || keys[name] === choice[name]);

const KEYS = ["variant", "task", "metric"]; // of rows; a column `depth` is a depth inside a model

// Rows of a text in CSV as `chart.records` writes them; `format.parse` has the kind of each column.
function readRows(text, format) {
  const lines = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r\n|$)/gy)) {
    lines.at(-1).push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === "\r\n") lines.push([]);
    if (end === "") break;
  }
  const [names, ...rows] = lines;
  const convert = { number: (cell) => (cell === "" ? null : Number(cell)), boolean: (cell) => (cell === "" ? null : cell === "true") };
  return rows.map((row) => Object.fromEntries(names.map((name, place) =>
    [name, (convert[format?.parse?.[name]] ?? String)(row[place] ?? "")])));
}

// The names and formats of the data that a specification and its layers draw.
const dataParts = (node) =>
  [node.data?.name ? node.data : [], ...(node.layer || []).map(dataParts)].flat();

const chosenRows = (rows) => rows.filter((row) => isChosen(Object.fromEntries(KEYS.map((key) => [key, row[key]]))));

function keepLayers(specification) {
  if (!specification.layer) return;
  const isNamed = (layer, name) => layer.name?.replace(/_\d+$/, "") === name; // the number of the panel follows
  const hasRaw = specification.layer.some((layer) => isNamed(layer, "raw"));
  const isSeries = (layer) => !isNamed(layer, "raw") && views(layer).some((view) => view.encoding?.color?.field === "variant");
  specification.layer = specification.layer.filter(
    (layer) =>
      !(isNamed(layer, "seeds") && !choice.seeds) &&
      !(isNamed(layer, "raw") && choice.weights === "averaged") &&
      !(choice.weights === "raw" && hasRaw && isSeries(layer)),
  );
}

const AXES = { flops: "training FLOPs", seconds: "seconds of training" };

// `costs` has what a training token costs each variant, by axis; without them the axis stays that of tokens.
function scaleTokens(specification, datasets, costs) {
  const field = costs && choice.axis ? choice.axis : "tokens";
  const rows = Object.values(datasets).flat().filter((row) => "tokens" in row);
  if (field !== "tokens") for (const row of rows) row[field] = row.tokens * costs[row.variant][field];
  const counts = rows.map((row) => row[field]).filter((count) => count > 0);
  for (const { x } of encodings(specification)) {
    if (!x || (x.field !== "tokens" && x.title !== "training tokens") || !x.scale) continue;
    if (field !== "tokens") {
      const [least, most] = [Math.min(...counts), Math.max(...counts)];
      const domain = least === most ? [least / 2, most * 2] : [x.scale.domain?.[0] > 0 ? least : 0, most];
      Object.assign(x, { field, title: AXES[field], scale: { ...x.scale, domain, ...(x.scale.constant && { constant: least }) } });
      x.axis = { ...x.axis, labelExpr: "format(datum.value, '~s')" };
    }
    const high = x.scale.domain?.[1];
    if (choice.scale === "linear") x.scale = { ...x.scale, type: "linear", domain: [0, high] };
    if (choice.scale === "log" && !["log", "symlog"].includes(x.scale.type))
      x.scale = { ...x.scale, type: "log", domain: [Math.min(...counts), high] };
    if (x.axis) delete x.axis.values;
  }
}

function addZoom(specification) {
  const channels = ["x", "y"].filter((channel) =>
    encodings(specification).some((encoding) => encoding[channel]?.type === "quantitative" && encoding[channel].axis !== null));
  const first = views(specification).find((view) => !["text", "rule"].includes(view.mark?.type ?? view.mark));
  if (!channels.length || !first) return;
  first.params = [...(first.params || []), { name: "zoom", select: { type: "interval", encodings: channels }, bind: "scales" }];
  for (const encoding of encodings(specification))
    for (const channel of channels)
      if (encoding[channel]?.axis) Object.assign(encoding[channel].axis, { values: undefined, labelOverlap: true });
  for (const view of views(specification)) if (view.mark) view.mark = { ...(view.mark.type ? view.mark : { type: view.mark }), clip: true };
}

// Lines alone tell no numbers: points that nobody sees, one for each row, tell the fields that a line is drawn from.
function tellNumbers(specification) {
  const line = views(specification).find((view) => view.mark?.type === "line");
  if (!line || JSON.stringify(specification).includes('"tooltip"')) return;
  const { strokeDash, strokeOpacity, ...places } = line.encoding;
  const tooltip = ["color", "detail", "x", "y"].map((name) => places[name]).filter((part) => part?.field)
    .map(({ field, type, title }) => ({ field, type, title: title ?? field, ...(type === "quantitative" ? { format: ",.4~g" } : {}) }));
  const mark = { type: "point", size: 60, opacity: 0, filled: true };
  specification.layer.push({ ...(line.data && { data: line.data }), mark, encoding: { ...places, tooltip } });
}

// A copy of a panel's specification as the toolbar wants it; undefined where no row of series is left.
function chosenPanel(panel, datasets, costs) {
  const specification = structuredClone(panel);
  keepLayers(specification);
  const used = {};
  let series = 0, left = 0;
  for (const { name, format } of dataParts(specification)) {
    const rows = typeof datasets[name] === "string" ? readRows(datasets[name], format) : datasets[name];
    used[name] = chosenRows(rows);
    if (rows.length && KEYS.some((key) => key in rows[0])) [series, left] = [series + rows.length, left + used[name].length];
  }
  if (series && !left) return undefined;
  (function plain(node) { // the rows are read already
    if (node.data?.format) delete node.data.format;
    (node.layer || []).forEach(plain);
  })(specification);
  specification.datasets = used;
  if (choice.scale || choice.axis) scaleTokens(specification, used, costs);
  return specification;
}
