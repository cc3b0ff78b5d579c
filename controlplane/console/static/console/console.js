// What the console adds to htmx, Alpine and Chart.js, all of which come with unfold.
"use strict";

const headrace = {
  // Whether a part may refresh now: the page is seen, nobody is typing or selecting in the part, no menu of it is open.
  isLooking(part) {
    if (document.visibilityState !== "visible") return false;
    const focused = document.activeElement;
    if (focused && part.contains(focused) && focused.matches("input, select, textarea")) return false;
    if (part.querySelector("details[open]:not([data-keeps])")) return false;
    const selection = document.getSelection();
    return !(selection && !selection.isCollapsed && part.contains(selection.anchorNode));
  },

  span(seconds) {
    let left = Math.max(Math.floor(seconds), 0);
    const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    for (let place = 0; place < units.length; place++) {
      const [size, unit] = units[place];
      if (left < size) continue;
      let text = `${Math.floor(left / size)} ${unit}`;
      if (place < 2 && left < 10 * size) {
        const [smaller, name] = units[place + 1];
        const rest = Math.floor((left % size) / smaller);
        if (rest) text += ` ${rest} ${name}`;
      }
      return text;
    }
    return "0 s";
  },

  // Relative times stay true while nothing else changes.
  tick() {
    for (const time of document.querySelectorAll("time[datetime]:not([data-fixed])")) {
      const away = (Date.parse(time.dateTime) - Date.now()) / 1000;
      let text = headrace.span(Math.abs(away));
      if (!("span" in time.dataset)) text = Math.abs(away) < 1 ? "now" : away > 0 ? `in ${text}` : `${text} ago`;
      if (time.textContent !== text) time.textContent = text;
    }
  },

  colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  },

  palette: ["#0b84c6", "#e08a00", "#1a9e6a", "#9b5de5", "#d1495b", "#3f8f9b", "#a07a2c", "#6b7a99"],

  // A chart is a canvas whose data are in the JSON script beside it: {labels, unit, stacked, lines: [{name, values, place}]}.
  // A line's place in the palette is that in the list, unless it says otherwise.
  chart(canvas) {
    const data = JSON.parse(document.getElementById(canvas.dataset.source).textContent);
    const old = Chart.getChart(canvas);
    if (old) old.destroy();
    const text = headrace.colour("--hr-muted");
    const grid = headrace.colour("--hr-line");
    const datasets = data.lines.map((line, place) => {
      const colour = headrace.palette[(line.place ?? place) % headrace.palette.length];
      return {
        label: line.name,
        data: line.values,
        borderColor: colour,
        backgroundColor: data.stacked ? colour + "55" : colour,
        fill: data.stacked ? (place ? "-1" : "origin") : false,
        stepped: Boolean(data.stepped),
        borderWidth: 1.6,
        pointRadius: data.points || 0,
        pointHitRadius: 8,
        spanGaps: false,
      };
    });
    new Chart(canvas, {
      type: "line",
      data: { labels: data.labels, datasets },
      options: {
        animation: false,
        responsive: true,
        maintainAspectRatio: false,
        interaction: { mode: "index", intersect: false },
        plugins: {
          legend: { position: "bottom", labels: { color: text, boxWidth: 10, boxHeight: 10, font: { family: "Inter, sans-serif" } } },
          tooltip: { itemSort: (a, b) => b.raw - a.raw },
        },
        scales: {
          x: { ticks: { color: text, maxTicksLimit: 7, maxRotation: 0 }, grid: { color: grid } },
          y: {
            beginAtZero: true,
            stacked: Boolean(data.stacked),
            title: { display: Boolean(data.unit), text: data.unit, color: text },
            ticks: { color: text, precision: data.precision ?? 0 },
            grid: { color: grid },
          },
        },
      },
    });
  },

  charts(root) {
    root.querySelectorAll("canvas[data-source]").forEach(headrace.chart);
  },
};

// The conditions in htmx's triggers look names up on the window.
window.headrace = headrace;

document.addEventListener("DOMContentLoaded", () => {
  headrace.charts(document);
  setInterval(headrace.tick, 1000);
  document.body.addEventListener("htmx:afterSwap", (event) => headrace.charts(event.detail.elt));
  // A part that can no longer be had (logged out, restarting) stays as it was, and says that it is old.
  document.body.addEventListener("htmx:sendError", (event) => event.target.classList.add("hr-stale"));
  document.body.addEventListener("htmx:responseError", (event) => event.target.classList.add("hr-stale"));
  // Colours of charts are read once; when the theme changes they are read again.
  new MutationObserver(() => headrace.charts(document)).observe(document.documentElement, {
    attributes: true,
    attributeFilter: ["class"],
  });
  document.body.addEventListener("change", (event) => {
    if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
  });
});
