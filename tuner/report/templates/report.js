// Draws the plots in the page's colours, and lets tables be sorted and filtered. Asks nothing of anyone.
"use strict";
(() => {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const phone = matchMedia("(max-width: 46rem)");

  const NARROW = 480; // pixels of a plot below which its words must leave it room
  const PAPER = { wide: 690, half: 330 }; // pixels of a plot on A4 or Letter

  function template(narrow) {
    const axis = {
      gridcolor: css("--line"), linecolor: css("--soft"), zerolinecolor: css("--line"), tickcolor: css("--soft"),
      ticks: "outside", ticklen: 4, exponentformat: "none", showline: true, automargin: true, title: { standoff: 8, font: { size: 12 } },
      tickfont: { size: narrow ? 10 : 12 },
    };
    return {
      layout: {
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: narrow ? 40 : 56, r: narrow ? 8 : 16, t: 18, b: 44 },
        font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: css("--ink") },
        colorway: [1, 2, 3, 4, 5, 6, 7, 8].map((n) => css(`--s${n}`)), xaxis: axis, yaxis: axis,
        hoverlabel: { bgcolor: css("--paper"), bordercolor: css("--line"), font: { color: css("--ink") } },
        hovermode: "closest", bargap: 0.35,
        legend: { font: { size: 11 }, orientation: "h", x: 0, y: 1.02, yanchor: "bottom" }, annotationdefaults: { font: { size: 10, color: css("--soft") } },
        shapedefaults: { line: { color: css("--soft") } },
      },
      data: {
        scatter: [{ marker: { size: 6 } }],
        heatmap: [{
          colorscale: [[0, css("--low")], [1, css("--high")]], colorbar: { outlinewidth: 0 },
          showscale: !narrow, textfont: { size: narrow ? 8.5 : 12 },
        }],
      },
    };
  }

  function traces(data) {
    const looks = {
      faint: { marker: { size: 5, opacity: 0.45, color: css("--s1") } },
      failed: { marker: { size: 6, symbol: "x-thin", line: { width: 1.2, color: css("--bad") } } },
      main: { line: { width: 2, color: css("--s1") } },
      roof: { line: { width: 1.2, dash: "dash" } },
    };
    return data.map((trace) => {
      const look = looks[trace.meta];
      if (!look) return trace;
      const made = { ...trace };
      for (const part of Object.keys(look)) made[part] = { ...look[part], ...trace[part] };
      return made;
    });
  }

  function layoutOf(drawing, width, fixed) {
    const layout = { ...drawing.layout, template: template(width < NARROW) };
    if (fixed) layout.width = width;
    if (layout.meta && layout.meta.unknown) layout.plot_bgcolor = css("--unknown");
    return layout;
  }

  const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false };

  function draw(figure) {
    if (figure.dataset.drawn || !window.Plotly) return;
    figure.dataset.drawn = "yes";
    const drawing = JSON.parse(figure.querySelector("script").textContent);
    const plot = figure.querySelector(".plot");
    window.Plotly.newPlot(plot, traces(drawing.data), layoutOf(drawing, plot.clientWidth), CONFIG);
  }

  function redraw() {
    const paper = document.documentElement.classList.contains("paper");
    document.querySelectorAll("figure[data-drawn]").forEach((figure) => {
      const drawing = JSON.parse(figure.querySelector("script").textContent);
      const plot = figure.querySelector(".plot");
      const width = paper ? PAPER[figure.classList.contains("wide") ? "wide" : "half"] : plot.clientWidth;
      window.Plotly.react(plot, traces(drawing.data), layoutOf(drawing, width, paper), CONFIG);
    });
  }

  // Paper has its own width, and is white whatever the screen is.
  function print(begins) {
    if (begins) document.querySelectorAll("figure").forEach(draw);
    document.documentElement.classList.toggle("paper", begins);
    redraw();
    if (!begins) document.querySelectorAll("figure[data-drawn] .plot").forEach((plot) => window.Plotly.Plots.resize(plot));
  }

  function drawAll(figures) {
    const waiting = [...figures];
    const idle = window.requestIdleCallback || ((work) => setTimeout(work, 20));
    const next = () => {
      const figure = waiting.find((one) => !one.dataset.drawn);
      if (!figure) return;
      draw(figure);
      idle(next);
    };
    const watcher = new IntersectionObserver(
      (seen) => seen.filter((one) => one.isIntersecting).forEach((one) => draw(one.target)), { rootMargin: "400px" });
    waiting.forEach((figure) => watcher.observe(figure));
    idle(next);
  }

  // A cell's text sorts as a number if it begins with one (its noise follows), unknown ones come last.
  function value(row, column, numeric) {
    const text = row.cells[column].textContent.trim();
    if (!numeric) return text.toLowerCase();
    const found = parseFloat(text);
    return Number.isNaN(found) ? null : found;
  }

  function sort(table, column, button) {
    const head = table.tHead.rows[0].cells[column];
    const numeric = head.classList.contains("n");
    const up = head.getAttribute("aria-sort") !== "ascending";
    [...table.tHead.rows[0].cells].forEach((cell) => cell.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows].map((row) => [value(row, column, numeric), row]);
    rows.sort(([a], [b]) => {
      if (a === b) return 0;
      if (a === null) return 1;
      if (b === null) return -1;
      const less = numeric ? a - b : a.localeCompare(b, "en", { numeric: true });
      return up ? less : -less;
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
    button.focus();
  }

  function equip(box) {
    const table = box.querySelector("table");
    const rows = [...table.tBodies[0].rows];
    if (rows.length < 2) return;
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.textContent;
      button.addEventListener("click", () => sort(table, column, button));
      cell.replaceChildren(button);
    });
    if (rows.length < 9) return;
    const tools = document.createElement("div");
    const label = document.createElement("label");
    const input = document.createElement("input");
    const count = document.createElement("span");
    tools.className = "tools";
    input.type = "search";
    label.append("Filter ", input);
    count.setAttribute("role", "status");
    count.textContent = `${rows.length} rows`;
    const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().replaceAll("*", "×").split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row) => {
        const fits = words.every((word) => texts.get(row).includes(word) || texts.get(row).includes(word.replaceAll("x", "×")));
        row.hidden = !fits;
        shown += fits;
      });
      count.textContent = `${shown} of ${rows.length} rows`;
    });
    tools.append(label, count);
    box.querySelector(".scroll").before(tools);
  }

  function openTarget() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  }

  function line(tag, text, parent) {
    const element = document.createElement(tag);
    element.textContent = text;
    parent.append(element);
    return element;
  }

  async function live() {
    const answer = await fetch(document.body.dataset.live).catch(() => null);
    if (!answer || !answer.ok) return;
    const running = await answer.json();
    document.querySelectorAll(".live").forEach((section) => {
      section.hidden = running.running.length === 0;
      const box = section.querySelector(".running");
      box.replaceChildren();
      for (const one of running.running) {
        const text = `${one.problem} on ${one.device}: ${one.words}`;
        line("p", text, box);
        if (one.fraction !== null) {
          const bar = line("progress", "", box);
          bar.max = 1;
          bar.value = one.fraction;
          bar.setAttribute("aria-label", text);
        }
      }
    });
  }

  document.querySelectorAll(".table").forEach(equip);
  drawAll(document.querySelectorAll("figure"));
  dark.addEventListener("change", redraw);
  phone.addEventListener("change", redraw);
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  addEventListener("hashchange", openTarget);
  openTarget();
  if (document.body.dataset.live) {
    live();
    setInterval(live, 2000);
  }
})();
