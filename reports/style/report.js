// Replaces each drawing by a live one (as wide as its place, with tooltips) when it comes near the view. Without script, or
// if anything fails here, the drawings that are already in the page stay.
(() => {
  "use strict";
  const options = { renderer: "svg", actions: false, tooltip: { theme: "report" }, logLevel: 0 };

  const enliven = async (plot) => {
    const still = plot.querySelector("svg");
    const specification = JSON.parse(plot.querySelector("script").textContent);
    const live = document.createElement("div");
    live.className = "live pending";
    plot.append(live);
    try {
      await vegaEmbed(live, specification, options);
      live.classList.remove("pending");
      still.remove();
    } catch (error) {
      live.remove();
      console.error(error);
    }
  };

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        near.unobserve(entry.target);
        enliven(entry.target);
      }
    }
  }, { rootMargin: "600px" });
  for (const plot of document.querySelectorAll(".plot")) near.observe(plot);
})();
