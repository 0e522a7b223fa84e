// Bring the page to life: tables at once, figures when their library is unpacked.

const controls = (form) => [...form.elements].filter((control) => control.name);
const keyOf = (control) => (control.name === "variant" ? `variant ${control.value}` : control.name);

function choose(form) {
  const checked = [...form.querySelectorAll("[name=variant]:checked")].map((box) => box.value);
  const all = form.querySelectorAll("[name=variant]").length === checked.length;
  Object.assign(choice, WHOLE, { variants: all ? null : new Set(checked) });
  for (const control of controls(form)) {
    const isBox = control.type === "checkbox";
    if (control.name !== "variant") choice[control.name] = isBox ? control.checked : control.value;
    const usual = isBox ? control.checked === control.defaultChecked : !control.value;
    remember(keyOf(control), usual ? null : isBox ? Number(control.checked) : control.value);
  }
  drawAll();
}

function recall(form) {
  for (const control of controls(form)) {
    const value = kept(keyOf(control));
    if (value === null) continue;
    if (control.type === "checkbox") control.checked = value === "1";
    else if ([...control.options].some((option) => option.value === value)) control.value = value;
  }
}

// A page that loads again, as `dreamer report --watch` makes it, has in view and unfolded what it had before.
function keepPlace() {
  const parts = [...document.querySelectorAll("main details:not(.toolbar)")];
  const marked = [...document.querySelectorAll("main :is(section, figure)[id]")];
  window.addEventListener("pagehide", () => {
    const seen = marked.findLast((one) => one.getBoundingClientRect().top < 200) ?? marked[0];
    const place = { id: seen.id, top: seen.getBoundingClientRect().top, open: parts.map((part) => part.open) };
    sessionStorage.setItem(location.pathname, JSON.stringify(place));
  });
  const before = JSON.parse(sessionStorage.getItem(location.pathname));
  if (!before || performance.getEntriesByType("navigation")[0]?.type !== "reload") return;
  history.scrollRestoration = "manual";
  parts.forEach((part, number) => (part.open ||= before.open[number]));
  const seen = document.getElementById(before.id);
  if (seen) window.scrollBy({ top: seen.getBoundingClientRect().top - before.top, behavior: "instant" });
}

// Keep the page from counting as loaded, as an open document within does: whatever prints a page when it is loaded would
// print before the library is unpacked. Returns what ends this.
function delayLoad() {
  const frame = document.createElement("iframe");
  frame.hidden = true;
  document.body.append(frame);
  frame.contentDocument.open();
  return () => {
    frame.contentDocument.close();
    frame.remove();
  };
}

let library; // Vega's script

async function bringToLife() {
  let content;
  [library, content] = await Promise.all(["library", "specifications"].map(unpack));
  const script = document.createElement("script");
  script.textContent = library;
  document.head.append(script);
  specifications = JSON.parse(content);
  const toolbar = document.querySelector(".toolbar");
  const form = toolbar.querySelector("form");
  toolbar.hidden = false;
  const wide = window.matchMedia("(min-width: 60rem)"); // where there is room, the toolbar is always open
  const unfold = () => (toolbar.open = wide.matches);
  wide.addEventListener("change", unfold);
  unfold();
  form.addEventListener("change", () => choose(form));
  form.addEventListener("reset", () => {
    history.replaceState(null, "", location.pathname + location.hash);
    document.querySelector(".filter")?.reset();
    setTimeout(() => choose(form));
  });
  for (const button of document.querySelectorAll("[data-file]")) {
    button.hidden = false;
    button.addEventListener("click", () => saveFigure(button));
  }
  document.addEventListener("pointerover", ({ target }) => {
    if (!target.closest(".plot")) point(target.closest("[data-variant]")?.dataset.variant);
  });
  recall(form);
  choose(form);
  keepPlace();
}

async function start() {
  document.querySelectorAll("figure.table table").forEach(makeSortable);
  document.querySelectorAll("[data-copy]").forEach(makeCopied);
  document.querySelectorAll(".filter").forEach(browseAnswers);
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("main details:not(.query, #examples *)").forEach((part) => (part.open = true));
    drawForPrint();
  });
  if (!document.getElementById("library") || !("DecompressionStream" in window)) return;
  const loaded = delayLoad();
  await bringToLife().finally(loaded);
}

start().catch(console.error);
