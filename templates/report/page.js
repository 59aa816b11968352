// A cursor over all that has the page's axis of time, and buttons that copy a command. Everything is
// drawn without this script; values are read off the paths. Nothing is fetched, nothing is evaluated.
(() => {
  "use strict";
  const WIDTH = 2000, HEIGHT = 1000;  // as hpckit/account/page/plots.py
  const SVG = "http://www.w3.org/2000/svg";
  const axis = document.documentElement.dataset;
  const two = (value) => String(value).padStart(2, "0");

  function clock(seconds) {
    const whole = Math.floor(seconds);
    const minutes = Math.floor(whole / 60), hours = Math.floor(minutes / 60);
    return axis.unit === "h:mm" ? `${hours}:${two(minutes % 60)}:${two(whole % 60)}`
      : `${minutes}:${two(whole % 60)}`;
  }

  // The corners of each stretch of a path of M, l and h, which are written as steps.
  function stretches(path) {
    const found = [];
    let x = 0, y = 0;
    for (const [, letter, text] of path.getAttribute("d").matchAll(/([Mlh])([^Mlh]*)/g)) {
      const steps = (text.match(/-?\d+/g) ?? []).map(Number);
      if (letter === "M") {
        [x, y] = steps;
        found.push([[x, y]]);
      }
      if (letter === "h") found.at(-1).push([x += steps[0], y]);
      for (let at = 0; letter === "l" && at < steps.length; at += 2) {
        found.at(-1).push([x += steps[at], y += steps[at + 1]]);
      }
    }
    return found;
  }

  function valueAt(curve, x, top) {
    const points = curve.find((one) => one[0][0] - 3 <= x && x <= one.at(-1)[0] + 3);
    if (!points) return null;
    let low = 0, high = points.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle][0] <= x) low = middle;
      else high = middle;
    }
    const [a, b] = [points[low], points[high]];
    const part = b[0] > a[0] ? Math.min(Math.max((x - a[0]) / (b[0] - a[0]), 0), 1) : 0;
    return (1 - (a[1] + part * (b[1] - a[1])) / HEIGHT) * top;
  }

  function medianOf(values) {
    const known = values.filter((one) => one !== null).sort((a, b) => a - b);
    const half = known.length >> 1;
    if (!known.length) return null;
    return known.length % 2 ? known[half] : (known[half - 1] + known[half]) / 2;
  }

  const areas = [...document.querySelectorAll("svg.area")];
  const cursors = areas.map((area) => {
    const line = document.createElementNS(SVG, "path");
    line.setAttribute("class", "cursor");
    line.setAttribute("d", "M0 0V1000");
    line.setAttribute("visibility", "hidden");
    return area.appendChild(line);
  });
  const clocks = [...document.querySelectorAll("svg.xs")].map((marks) => {
    const text = document.createElementNS(SVG, "text");
    text.setAttribute("class", "now");
    text.setAttribute("y", "16");
    return marks.appendChild(text);
  });
  const plots = [...document.querySelectorAll(".plot")].map((figure) => {
    const area = figure.querySelector(".area"), top = Number(area.dataset.top);
    return { area, top, read: [...figure.querySelectorAll(".values li:not(.limit)")].map((item) => {
      const shown = item.querySelector("b");
      return { look: item.className, shown, mean: shown.textContent };
    }) };
  });

  function tell(plot, x) {
    for (const one of plot.read) {
      one.curves ??= [...plot.area.querySelectorAll(`.line.${one.look}`)].map(stretches);
      const value = medianOf(one.curves.map((curve) => valueAt(curve, x, plot.top)));
      one.shown.textContent = value === null ? "–" : value.toFixed(plot.top >= 20 ? 0 : 2);
    }
  }

  function show(share) {
    for (const line of cursors) {
      line.setAttribute("transform", `translate(${share * WIDTH} 0)`);
      line.setAttribute("visibility", "visible");
    }
    for (const text of clocks) {
      text.setAttribute("x", `${share * 100}%`);
      text.textContent = clock(share * Number(axis.last));
    }
    for (const plot of plots) tell(plot, share * WIDTH);
  }

  function hide() {
    for (const line of cursors) line.setAttribute("visibility", "hidden");
    for (const text of clocks) text.textContent = "";
    for (const plot of plots) for (const one of plot.read) one.shown.textContent = one.mean;
  }

  for (const area of areas) {
    area.addEventListener("pointermove", (event) => {
      const box = area.getBoundingClientRect();
      show(Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1));
    });
    area.addEventListener("pointerleave", hide);
  }

  async function copy(code) {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch {  // served by plain http, or not allowed: as a person would
      getSelection().selectAllChildren(code);
      return document.execCommand("copy");
    }
  }

  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      button.textContent = await copy(button.parentElement.querySelector("code")) ? "Copied" : "Selected";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
})();
