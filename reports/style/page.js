// Bring the page to life: tables at once, figures when their library is unpacked.

function choose(form) {
  const checked = [...form.querySelectorAll("[name=variant]:checked")].map((box) => box.value);
  const all = form.querySelectorAll("[name=variant]").length === checked.length;
  Object.assign(choice, WHOLE, { variants: all ? null : new Set(checked) });
  for (const menu of form.querySelectorAll("select")) choice[menu.name] = menu.value;
  for (const box of form.querySelectorAll("[name=seeds], [name=zoom]")) choice[box.name] = box.checked;
  drawAll();
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

async function bringToLife() {
  const [library, content] = await Promise.all(["library", "specifications"].map(unpack));
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
  form.addEventListener("reset", () => setTimeout(() => choose(form)));
  for (const button of document.querySelectorAll("[data-file]")) {
    button.hidden = false;
    button.addEventListener("click", () => saveFigure(button));
  }
  drawAll();
}

async function start() {
  document.querySelectorAll("figure.table table").forEach(makeSortable);
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("main details:not(.query)").forEach((part) => (part.open = true));
    drawForPrint();
  });
  if (!document.getElementById("library") || !("DecompressionStream" in window)) return;
  const loaded = delayLoad();
  await bringToLife().finally(loaded);
}

start().catch(console.error);
