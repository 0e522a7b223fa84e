// What the texts of a figure say as the toolbar has chosen: its title, finding and caption, and its panels' titles and
// descriptions.

// Sentences of a caption about a layer that the toolbar can leave out.
const OF_SEEDS = /thin lines/i;
const OF_RAW = /raw weights/i;
const sentencesOf = (text) => text.split(/(?<=[.:]) (?=[A-Z→▸◂])/);

const listedWords = (words) => [words.slice(0, -1).join(", "), words.at(-1)].filter(Boolean).join(" and ");

// The models, benchmarks, metrics and depths that a figure has.
const offered = new Map();
function offeredBy(figure) {
  const name = figure.dataset.figure;
  if (offered.has(name)) return offered.get(name);
  const found = Object.fromEntries(["depth", ...KEYS].map((key) => [key, new Set()]));
  for (const panel of figure.querySelectorAll(".panel"))
    for (const key in found) if (panel.dataset[key] !== undefined) found[key].add(panel.dataset[key]);
  for (const rows of Object.values(specifications.figures[name].datasets))
    for (const row of typeof rows === "string" ? readRows(rows) : rows)
      for (const key of KEYS) if (row[key] !== undefined) found[key].add(row[key]);
  offered.set(name, found);
  return found;
}

// What of a figure the toolbar leaves, in words; nothing where it leaves all.
function leftOf(figure) {
  if (!choice.variants && !choice.depth && !choice.task && !choice.metric) return [];
  const offers = offeredBy(figure);
  const left = [];
  const inOrder = [...document.querySelectorAll(".toolbar [name=variant]")].map((box) => box.value);
  const variants = inOrder.filter((variant) => offers.variant.has(variant));
  const shown = variants.filter((variant) => isChosen({ variant }));
  if (shown.length < variants.length) left.push(listedWords(shown) || "no model");
  for (const key of ["depth", "task", "metric"])
    if (choice[key] && offers[key].size > 1 && offers[key].has(choice[key]))
      left.push(wholeOf(document.querySelector(`.toolbar [name=${key}]`).selectedOptions[0].text));
  return left;
}

// The name of the benchmark that the menu below a panel has chosen.
function benchmarkOf(figure, number) {
  const panel = panelsOf(figure.dataset.figure)[number];
  const menu = specifications.figures[figure.dataset.figure].params.find((one) => one.bind?.options && mentions(panel, one));
  return menu && wholeOf(menu.bind.labels[menu.bind.options.indexOf(valueNow(figure, menu))]);
}

const named = (text, benchmark) =>
  benchmark ? text.replace(/one benchmark/i, () => benchmark).replace(", which a menu chooses", "") : text;

function captionOf(figure, text) {
  let sentences = sentencesOf(text);
  if (!choice.seeds) sentences = sentences.filter((one) => !OF_SEEDS.test(one));
  if (choice.weights === "averaged") sentences = sentences.filter((one) => !OF_RAW.test(one));
  if (choice.weights === "raw") sentences = sentences.map((one) => (OF_RAW.test(one) ? "Lines are the raw weights." : one));
  const left = leftOf(figure);
  if (left.length) sentences.push(`Shown: ${left.join("; ")}.`);
  if (figure.dataset.figure === "answer" && (choice.task || choice.metric || choice.axis))
    sentences.push("This figure stays the study’s answer, in training tokens, whatever is chosen.");
  return sentences.join(" ");
}

// The finding of the first panel that is left, or of every one; what a finding says of all models is marked as such.
function findingOf(figure, texts, panels) {
  if (!texts.panels.some((panel) => panel.finding)) {
    return texts.finding && leftOf(figure).length ? `Of the whole figure: ${texts.finding}` : texts.finding;
  }
  const left = [...new Set(panels.filter((panel) => panel.isLeft).map((panel) => panel.finding))].filter(Boolean);
  const finding = texts.each ? left.join(" ") : panels.find((panel) => panel.isLeft)?.finding ?? "";
  const isOfAll = !choice.variants || [...offeredBy(figure).variant].every((variant) => choice.variants.has(variant));
  return finding && !isOfAll ? `Of all models: ${finding}` : finding;
}

function textsOf(figure) {
  const texts = specifications.texts[figure.dataset.figure];
  const left = leftOf(figure);
  const elements = [...figure.querySelectorAll(".panel")];
  const against = (text, element) =>
    choice.axis && costsOf(element) ? text.replace(/\bagainst (training )?tokens\b/gi, `against ${AXES[choice.axis]}`) : text;
  const panels = texts.panels.map(({ title, description, finding }, number) => {
    const benchmark = benchmarkOf(figure, number);
    const shown = left.length ? `Shown: ${left.join("; ")}. ` : "";
    return {
      title: against(named(title, benchmark), elements[number]),
      description: shown + against(named(description, benchmark), elements[number]),
      finding,
      isLeft: !elements[number].hidden && !elements[number].classList.contains("nothing"),
    };
  });
  return {
    title: against(texts.title, elements[0]),
    finding: against(findingOf(figure, texts, panels), elements[0]),
    caption: against(captionOf(figure, texts.caption), elements[0]),
    panels,
  };
}

// A text as `ShortNames` of the page shortens it: names by the page's own texts, other long words in their middle.
const LONGEST = 34;
const escaped = (name) => name.replace(/[.*+?^${}()|[\]\\\-/]/g, "\\$&");
function cutWord(word) {
  if (word.length <= LONGEST) return word;
  const names = Object.keys(specifications.short).sort((one, other) => other.length - one.length);
  const anyName = new RegExp(names.map(escaped).join("|") || "(?!)", "g");
  const named = word.replace(anyName, (name) => specifications.short[name]);
  return named === word ? `${word.slice(0, LONGEST - LONGEST / 2 - 1)}…${word.slice(-LONGEST / 2)}` : named;
}
const cutWords = (text) => text.split(" ").map(cutWord).join(" ");
const wholeOf = (text) => Object.keys(specifications.short).find((name) => specifications.short[name] === text) ?? text;

function say(element, text) {
  if (!element || wordsOf(element) === text) return;
  element.textContent = cutWords(text);
  if (element.textContent === text) element.removeAttribute("title");
  else element.title = text;
}

function sayTexts(figure) {
  const texts = textsOf(figure);
  say(figure.querySelector(".title"), texts.title);
  say(figure.querySelector("figcaption .finding"), texts.finding);
  say(figure.querySelector("figcaption .caption"), texts.caption);
  figure.querySelectorAll(".panel").forEach((panel, number) => {
    say(panel.querySelector(".panel-title"), texts.panels[number].title);
    panel.querySelector(".plot").setAttribute("aria-label", texts.panels[number].description);
  });
}

// The lines of a text, of at most this many characters where its words allow that.
function wrapped(text, characters) {
  const lines = [];
  for (const word of text.split(" ").filter(Boolean)) {
    const isFull = !lines.length || `${lines.at(-1)} ${word}`.length > characters;
    if (isFull) lines.push(word);
    else lines[lines.length - 1] += ` ${word}`;
  }
  return lines;
}
