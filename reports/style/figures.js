// Draw the panels of the page live: as wide as their place, with tooltips, as the toolbar has chosen. Without script, or if
// anything fails here, the drawing of the first screen stays.

const unpack = async (id) => {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};

let specifications; // as `page_specifications` returns them
const panelsOf = (name) => {
  const whole = specifications.figures[name];
  return (whole.vconcat ? whole.vconcat[1] : whole).concat;
};

// What a token costs the models of a panel's depth; the answer is of tokens whatever is chosen.
const costsOf = (element) =>
  figureOf(element).dataset.figure === "answer" ? undefined : specifications.costs[element.closest(".panel").dataset.depth];

// Light colours, as on paper, become the page's variables, which are dark in the dark.
const themed = (specification) =>
  JSON.parse(JSON.stringify(specification).replace(/#[0-9a-f]{6}\b/gi, (light) => {
    const name = specifications.colours[light.toLowerCase()];
    return name ? `var(--${name})` : light;
  }));

const embedding = () => ({
  renderer: "svg", actions: false, tooltip: { theme: "report" }, logLevel: 0, config: themed(specifications.config),
});

const figureOf = (element) => element.closest("[data-figure]");
const numberOf = (plot) => [...figureOf(plot).querySelectorAll(".plot")].indexOf(plot);

// The value of a slider or a menu as the page shows it.
function valueNow(figure, parameter) {
  for (const { view } of figure.querySelectorAll(".plot"))
    if (view && parameter.name in view.getState().signals) return view.signal(parameter.name);
  return valueAtFirst(parameter);
}

function tellEmpty(figure) {
  const isEmpty = !figure.querySelector(".panel:not([hidden], .nothing)");
  figure.querySelector(".empty").hidden = !isEmpty;
  figure.querySelector(".files").hidden = isEmpty; // there is nothing to save
}

// Where a slider or a menu below a panel begins: as the toolbar or the address says, else at its own value.
function valueAtFirst({ name, value, bind }) {
  if (bind?.options?.includes(choice.task)) return choice.task;
  const before = kept(name);
  if (typeof value === "number") return Number(before ?? value);
  return bind.options.includes(before) ? before : value;
}

const mentions = (specification, { name }) => new RegExp(`\\b${name}\\b`).test(JSON.stringify(specification));

// A slider or a menu moves all panels of its figure; the address keeps its place, and a screen reader hears the heading.
function follow({ name, value }, view, plot, slider) {
  const input = slider.querySelector("input");
  const tell = (place) => {
    const { datasets } = specifications.figures[figureOf(plot).dataset.figure];
    const heading = Object.values(datasets).flatMap((rows) => (typeof rows === "string" && rows.startsWith("place,words") ? readRows(rows) : []))
      .find((row) => row.place === String(place));
    if (heading) input.setAttribute("aria-valuetext", heading.words);
  };
  if (input) tell(view.signal(name));
  view.addSignalListener(name, (_, place) => {
    remember(name, place === value ? null : place);
    if (input) tell(place);
    if (!input) sayTexts(figureOf(plot));
    for (const other of figureOf(plot).querySelectorAll(".plot"))
      if (other !== plot && other.view && name in other.view.getState().signals && other.view.signal(name) !== place)
        other.view.signal(name, place).runAsync();
  });
}

// A click on a benchmark in a map shows it in all panels of one benchmark.
function chooseBenchmark(task) {
  const menus = Object.values(specifications.figures).flatMap(({ params }) => params)
    .filter(({ bind }) => bind?.options?.includes(task));
  for (const name of new Set(menus.map((menu) => menu.name))) {
    remember(name, task);
    for (const { view } of document.querySelectorAll(".plot"))
      if (view && name in view.getState().signals) view.signal(name, task).runAsync();
  }
}

async function enliven(plot) {
  undrawn.delete(plot);
  const name = figureOf(plot).dataset.figure;
  const { title, ...panel } = panelsOf(name)[numberOf(plot)];
  const { datasets, params } = specifications.figures[name];
  const specification = chosenPanel(panel, datasets, costsOf(plot));
  plot.parentElement.classList.toggle("nothing", !specification);
  tellEmpty(figureOf(plot));
  sayTexts(figureOf(plot));
  if (!specification) return;
  tellNumbers(specification);
  const used = params.filter((one) => mentions(specification, one));
  const isFirst = (one) => panelsOf(name).findIndex((panel) => mentions(panel, one)) === numberOf(plot);
  specification.params = used.map((one) => ({ ...one, value: valueAtFirst(one), ...(isFirst(one) ? {} : { bind: undefined }) }));
  makePointed(specification);
  if (plot.clientWidth < NARROW) breakNames(specification);
  const slider = plot.parentElement.querySelector(".slider");
  slider.replaceChildren();
  if (choice.zoom) addZoom(specification);
  const live = document.createElement("div");
  live.className = "live pending";
  plot.append(live);
  try {
    specification.width = "container";
    const result = await vegaEmbed(live, themed(specification), { ...embedding(), bind: slider });
    for (const one of used) follow(one, result.view, plot, slider);
    result.view.addEventListener("click", (_, item) => chooseBenchmark(item?.datum?.task));
    result.view.addEventListener("pointerover", (_, item) => point(item?.datum?.variant));
    live.querySelector("svg").setAttribute("aria-hidden", "true"); // the plot is read out as one description
    tellWholeNames(live);
    plot.view?.finalize();
    plot.view = result.view;
    for (const old of [...plot.children]) if (old !== live) old.remove();
    live.classList.remove("pending");
    plot.style.minHeight = "";
  } catch (error) {
    live.remove();
    console.error(error);
  }
}

// Pointing at a model, in a figure, a legend or a table, makes all others faint everywhere.
let pointed = "";
const FAINT = { condition: { test: "pointed && datum.variant !== pointed", value: 0.12 } };

function point(variant = "") {
  if (variant === pointed) return;
  pointed = variant;
  for (const one of document.querySelectorAll("main [data-variant]"))
    one.classList.toggle("faint", variant !== "" && one.dataset.variant !== variant);
  for (const { view } of document.querySelectorAll(".plot")) view?.signal("pointed", variant).runAsync();
}

function makePointed(specification) {
  specification.params.push({ name: "pointed", value: pointed });
  for (const { mark, encoding } of views(specification))
    if (encoding?.color?.field === "variant" && mark.opacity !== 0) encoding.opacity ??= FAINT;
}

// Names that an axis shows shortened tell the whole name where the mouse is.
function tellWholeNames(live) {
  for (const text of live.querySelectorAll(".role-axis-label text")) {
    const whole = String(text.__data__?.datum?.value ?? "");
    if (!text.textContent.includes("…") || text.textContent === whole) continue;
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = whole;
    text.append(title);
    text.style.pointerEvents = "auto";
  }
}

const NARROW = 480; // pixels of a plot in which long names beside it leave too little room
const LINE = 18; // characters of a line of such a name

function breakNames(specification) {
  for (const { y } of encodings(specification)) {
    if (y?.type !== "nominal" || !y.axis) continue;
    const name = `(${y.axis.labelExpr ?? "datum.label"})`;
    const blank = `lastindexof(slice(${name}, 0, ${LINE}), ' ')`;
    const half = `(${blank} > 0 ? ${blank} : ceil(length(${name}) / 2))`;
    const test = `length(${name}) > ${LINE}`;
    y.axis = {
      ...y.axis,
      labelExpr: `${test} ? [slice(${name}, 0, ${half}), trim(slice(${name}, ${half}))] : ${name}`,
      labelFontSize: { condition: { test, value: 9 }, value: 11 },
      labelOffset: { condition: { test, value: -5 }, value: 0 }, // the first line above the middle
      labelLineHeight: 10,
    };
  }
}

const AXIS = 44; // pixels of an axis with its title

// Figures near the view are drawn one after another, so that the page answers in between; all others before a print.
const undrawn = new Set();
const waiting = new Set();

async function drawWaiting() {
  document.documentElement.dataset.drawing = "yes";
  for (const plot of waiting) {
    await enliven(plot);
    waiting.delete(plot);
  }
  document.documentElement.dataset.drawing = "no";
}

// No timer, no frame comes between this and the print: what is drawn has to be drawn by promises alone.
function drawForPrint() {
  for (const plot of undrawn) enliven(plot);
}

const near = new IntersectionObserver((entries) => {
  const idle = !waiting.size;
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    near.unobserve(entry.target);
    waiting.delete(entry.target); // chosen anew while it waits: drawn once, at the end
    waiting.add(entry.target);
  }
  if (idle) drawWaiting();
}, { rootMargin: "600px" });

function drawAll() {
  document.documentElement.dataset.drawing = "yes";
  for (const figure of document.querySelectorAll("[data-figure]")) {
    for (const panel of figure.querySelectorAll(".panel")) panel.hidden = !isChosen(panel.dataset);
    for (const mark of figure.querySelectorAll(".legend li")) mark.hidden = !isChosen(mark.dataset);
    tellEmpty(figure);
    sayTexts(figure);
    for (const plot of figure.querySelectorAll(".plot")) {
      const { height } = panelsOf(figure.dataset.figure)[numberOf(plot)];
      // Room for the axis too, so that what is below stays where a reader looks.
      if (!plot.querySelector("svg") && typeof height === "number") plot.style.minHeight = `${height + AXIS}px`;
      undrawn.add(plot);
      near.unobserve(plot);
      near.observe(plot);
    }
  }
}
