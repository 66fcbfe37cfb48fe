"use strict";
(() => {
  const root = document.querySelector(".shardpack-report");
  const make = (name, properties) => Object.assign(document.createElement(name), properties);

  // Hints: what <title> says, at once and at the pointer. The titles become labels.
  const tip = make("div", { className: "tip", hidden: true });
  tip.setAttribute("aria-hidden", "true");
  root.append(tip);
  for (const title of root.querySelectorAll("svg.plot title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  root.addEventListener("pointermove", (event) => {
    const marked = event.target.closest("[data-tip]");
    tip.hidden = !marked;
    if (!marked) return;
    tip.textContent = marked.dataset.tip;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = (below + tip.offsetHeight < innerHeight ? below : event.clientY - tip.offsetHeight - 10) + "px";
  });

  // Sorting: a button in each head; what has no value stays at the end.
  for (const table of root.querySelectorAll("table.sortable")) {
    const heads = [...table.querySelectorAll("thead tr:last-child th")];
    const body = table.tBodies[0];
    heads.forEach((head, column) => {
      const button = make("button", { type: "button", textContent: head.textContent });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const value = (row) => {
          const text = row.cells[column].dataset.value;
          return text === undefined ? (up ? Infinity : -Infinity) : Number(text);
        };
        const rows = [...body.rows].sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
        body.append(...(up ? rows : rows.reverse()));
      });
    });
  }

  // A slider over each pair of pictures: the stored one is laid over the original.
  for (const pair of root.querySelectorAll("figure.pair")) {
    const [original, stored] = pair.querySelectorAll("img");
    if (!original || !stored || original.width !== stored.width || original.height !== stored.height) continue;
    const over = make("img", { src: stored.src, alt: "", className: "over", width: stored.width, height: stored.height });
    const edge = make("div", { className: "edge" });
    edge.style.height = original.height + "px";
    const slider = make("input", { type: "range", min: 0, max: 100, value: 100 });
    slider.setAttribute("aria-label", "How much of the original is seen over the stored picture");
    const show = () => {
      over.style.clipPath = `inset(0 0 0 ${slider.value}%)`;
      edge.style.left = (original.width * slider.value) / 100 + "px";
      edge.hidden = slider.value === "100";
    };
    slider.addEventListener("input", show);
    const label = original.parentNode.querySelector(".label");
    label.append(make("span", { className: "unprinted", textContent: " | stored: drag" }));
    original.parentNode.append(over, edge, slider);
    show();
  }

  // Buttons: copy the command, save the data.
  for (const command of root.querySelectorAll(".command")) {
    const button = make("button", { type: "button", textContent: "Copy" });
    button.addEventListener("click", async () => {
      const code = command.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
    });
    command.append(button);
  }
  const save = make("button", { type: "button", textContent: "Save it" });
  save.addEventListener("click", () => {
    const data = new Blob([document.getElementById("report-data").textContent], { type: "application/json" });
    const link = make("a", { href: URL.createObjectURL(data), download: "report.json" });
    link.click();
    URL.revokeObjectURL(link.href);
  });
  document.getElementById("save")?.append(save);
})();
