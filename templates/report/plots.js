// Plots that can be zoomed, in the place of the page's static ones, each when it comes into view.
// Numbers are packed as hpckit/report/plot_data.py says. Nothing is fetched, nothing is evaluated.
(() => {
  "use strict";
  Bokeh.set_log_level("error");

  const data = JSON.parse(document.getElementById("plot-data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isTouched = matchMedia("(pointer: coarse)").matches;
  const FONT = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
  const GAP = 65535;
  const live = new Map();
  let embeddings = 0;

  const make = (name, attributes) => new (Bokeh.Models.get(name))(attributes);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const view = (text) => new DataView(bytes(text).buffer);

  function times(axis, unit_s) {
    const packed = view(data.axes[axis]);
    return Float64Array.from({ length: packed.byteLength / 4 }, (_, at) => packed.getFloat32(4 * at, true) / unit_s);
  }

  function unpacked(text, low, high) {
    const packed = view(text);
    return Float64Array.from({ length: packed.byteLength / 2 }, (_, at) => {
      const code = packed.getUint16(2 * at, true);
      return code === GAP ? NaN : low + (code / (GAP - 1)) * (high - low);
    });
  }

  const clock = (seconds) => {
    const whole = Math.max(0, Math.round(seconds));
    const two = (value) => String(value).padStart(2, "0");
    const parts = [Math.floor(whole / 60) % 60, whole % 60].map(two).join(":");
    return whole >= 3600 ? `${Math.floor(whole / 3600)}:${parts}` : parts;
  };

  // A patch a stretch without gaps, between the lowest and the highest.
  function bands(x, lows, highs) {
    const xs = [], ys = [];
    let first = -1;
    for (let at = 0; at <= x.length; at++) {
      const known = at < x.length && !Number.isNaN(lows[at]) && !Number.isNaN(highs[at]);
      if (known && first < 0) first = at;
      if (!known && first >= 0) {
        const there = Array.from(x.slice(first, at));
        xs.push([...there, ...there.slice().reverse()]);
        ys.push([...highs.slice(first, at), ...Array.from(lows.slice(first, at)).reverse()]);
        first = -1;
      }
    }
    return { xs, ys };
  }

  function axis(kind, shown) {
    return make("LinearAxis", {
      ticker: make("BasicTicker", { desired_num_ticks: kind === "x" ? 6 : 2, num_minor_ticks: 0 }),
      formatter: make("BasicTickFormatter", { use_scientific: false }),
      axis_line_color: null, major_tick_line_color: colour("edge"), minor_tick_line_color: null,
      major_tick_in: 0, major_tick_out: 4,
      major_label_text_color: colour("faint"), major_label_text_font: FONT, major_label_text_font_size: "11px",
      axis_label_text_color: colour("faint"), axis_label_text_font: FONT, axis_label_text_font_size: "11px",
      axis_label_text_font_style: "normal", axis_label_standoff: 2, visible: shown,
    });
  }

  function panelPlot(group, panel, shared, isLast) {
    const x = times(panel.axis, group.unit_s);
    const values = unpacked(panel.values, panel.low, panel.high);
    const lows = panel.lows ? unpacked(panel.lows, panel.low, panel.high) : values;
    const highs = panel.highs ? unpacked(panel.highs, panel.low, panel.high) : values;
    const when = Array.from(x, (value) => clock(value * group.unit_s));
    const source = make("ColumnDataSource", { data: { x, value: values, low: lows, high: highs, when } });
    const line = { line_color: colour(panel.look), line_width: 1.4 };
    const curve = make("GlyphRenderer", {
      data_source: source,
      glyph: make("Line", { x: { field: "x" }, y: { field: "value" }, ...line }),
    });
    const dots = make("GlyphRenderer", {  // what a line does not show: a value between two gaps
      data_source: source,
      glyph: make("Scatter", { x: { field: "x" }, y: { field: "value" }, size: { value: 1.4 },
        fill_color: { value: colour(panel.look) }, line_color: { value: null } }),
    });
    const renderers = [dots, curve];
    if (panel.lows) {
      renderers.unshift(make("GlyphRenderer", {
        data_source: make("ColumnDataSource", { data: bands(x, lows, highs) }),
        glyph: make("Patches", { xs: { field: "xs" }, ys: { field: "ys" },
          fill_color: { value: colour(panel.look) }, fill_alpha: { value: 0.25 }, line_color: { value: null } }),
      }));
    }
    for (const [kind, first, last] of group.shades) {
      renderers.push(make("BoxAnnotation", {
        left: first / group.unit_s, right: last / group.unit_s, level: "underlay",
        fill_color: colour(kind === "idle" ? "shade-idle" : "shade-none"), fill_alpha: Number(colour("shade")),
        line_color: null,
      }));
    }
    if (panel.limit !== null) {
      renderers.push(make("Span", { location: panel.limit, dimension: "width", line_color: colour("limit"),
        line_width: 1.2, line_dash: [5, 4] }));
    }
    const unit = panel.unit ? ` ${panel.unit}` : "";
    const digits = panel.top >= 20 ? "0" : "0.00";
    const tips = [["at", "@when"], [panel.title, `@value{${digits}}${unit}`]];
    if (panel.lows) tips.push(["lowest, highest", `@low{${digits}}, @high{${digits}}${unit}`]);
    const box = make("BoxZoomTool", { dimensions: "width" });
    const wheel = make("WheelZoomTool", { dimensions: "width", maintain_focus: false });
    const hover = make("HoverTool", { renderers: [curve], tooltips: tips, mode: "vline",
      line_policy: "nearest", attachment: "horizontal" });
    const cross = make("CrosshairTool", { overlay: shared.cross });
    shared.wheels.push(wheel);
    shared.boxes.push(box);
    const xAxis = axis("x", true), yAxis = axis("y", true);
    if (isLast) xAxis.axis_label = `${group.unit} since the start`;
    else { xAxis.major_label_text_font_size = "0px"; xAxis.major_tick_out = 0; xAxis.major_label_standoff = 0; }
    yAxis.ticker = make("FixedTicker", { ticks: [0, panel.top / 2, panel.top] });
    yAxis.formatter.precision = panel.top >= 4 ? 0 : 2;  // as hpckit/report/plot_svg.py has it
    const grid = { grid_line_color: colour("grid"), grid_line_width: 1 };
    return make("Plot", {
      x_range: shared.range, y_range: make("Range1d", { start: 0, end: panel.top }),
      renderers, above: [], left: [yAxis], below: [xAxis],
      center: [make("Grid", { dimension: 0, ticker: xAxis.ticker, ...grid }),
        make("Grid", { dimension: 1, ticker: yAxis.ticker, ...grid })],
      title: make("Title", { text: panel.caption, text_font: FONT, text_font_size: "12px",
        text_font_style: "normal", text_color: colour("ink"), standoff: 4 }),
      toolbar: make("Toolbar", { tools: isTouched ? [wheel, hover, cross] : [box, wheel, hover, cross],
        active_drag: isTouched ? null : box, active_scroll: null, active_inspect: [hover, cross],
        active_tap: null, active_multi: null, logo: null }),
      toolbar_location: null, width_policy: "max", height: isLast ? 134 : 96, height_policy: "fixed",
      min_border_left: 48, min_border_right: 10, min_border_top: 4, min_border_bottom: isLast ? 40 : 6,
      background_fill_color: null, border_fill_color: null, outline_line_color: null,
    });
  }

  // The core bundle makes documents from JSON only: an empty column, which then gets its plots.
  function embedded(target_id) {
    const root = { type: "object", name: "Column", id: `${target_id}-${++embeddings}`,
      attributes: { children: [], spacing: 0, width_policy: "max", sizing_mode: "stretch_width" } };
    const doc = { version: Bokeh.version, title: document.title, roots: [root] };
    return Bokeh.embed.embed_item({ doc, root_id: root.id, target_id });
  }

  function groupOf(figure) {
    return data.groups.find((group) => group.key === figure.dataset.plot);
  }

  async function build(figure) {
    const group = groupOf(figure);
    const first = group.first / group.unit_s, last = group.last / group.unit_s;
    const range = make("Range1d", { start: first, end: last, bounds: [first, last],
      min_interval: (last - first) / 5000 });
    const shared = { range, cross: make("Span", { dimension: "height", line_color: colour("faint"),
      line_width: 1, line_alpha: 0.6 }), wheels: [], boxes: [] };
    const plots = group.panels.map((panel, at) => panelPlot(group, panel, shared, at === group.panels.length - 1));
    const target = figure.querySelector(".live");
    target.replaceChildren();
    target.hidden = false;
    const views = await embedded(target.id);
    views.roots[0].model.children = plots;
    figure.querySelector(".static").hidden = true;
    figure.querySelector(".controls").hidden = false;
    return { range, first, last, wheels: shared.wheels, views };
  }

  function zoomWithWheel(figure, is_on) {
    const plot = live.get(figure);
    if (!plot) return;
    for (const wheel of plot.wheels) wheel.active = is_on;
    figure.querySelector("[data-do=wheel]").setAttribute("aria-pressed", String(is_on));
  }

  function reset(figure) {
    const plot = live.get(figure);
    if (plot) plot.range.setv({ start: plot.first, end: plot.last });
  }

  function show(figure) {
    if (live.has(figure)) return;
    live.set(figure, null);
    build(figure).then((plot) => live.set(figure, plot));
  }

  const figures = [...document.querySelectorAll("[data-plot]")].filter(groupOf);
  for (const figure of figures) {
    const wheel = figure.querySelector("[data-do=wheel]");
    if (isTouched) wheel.textContent = "Pinch to zoom";
    wheel.addEventListener("click", () => zoomWithWheel(figure, wheel.getAttribute("aria-pressed") !== "true"));
    figure.querySelector("[data-do=reset]").addEventListener("click", () => reset(figure));
    const area = figure.querySelector(".live");
    area.addEventListener("dblclick", () => reset(figure));
    if (!isTouched) area.addEventListener("click", () => zoomWithWheel(figure, true));
  }
  document.addEventListener("pointerdown", (event) => {
    for (const figure of figures) {
      if (!isTouched && !figure.contains(event.target)) zoomWithWheel(figure, false);
    }
  });
  const hint = document.querySelector(".hint");
  if (hint && !isTouched) hint.hidden = false;
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) show(entry.target);
  }, { rootMargin: "400px" });
  for (const figure of figures) watcher.observe(figure);
  dark.addEventListener("change", () => {
    for (const [figure, plot] of live) {
      if (!plot) continue;
      plot.views.clear();
      const { start, end } = plot.range;
      build(figure).then((again) => {
        again.range.setv({ start, end });
        live.set(figure, again);
      });
    }
  });
})();
