"use strict";
(function () {
  const source = document.getElementById("paths");
  if (!source) return;
  const all = JSON.parse(source.textContent);
  const get = (id) => document.getElementById(id);
  const chart = get("chart"), readout = get("readout"), NS = "http://www.w3.org/2000/svg";
  const L = 56, R = 14, T = 10, B = 40;
  let view = null, at = null, read = null, shown = [], W = 860, H = 380;

  function experiment() { return all.experiments[get("run").value]; }
  function whole() { const t = experiment().t; return [t[0], t[t.length - 1]]; }
  function element(name, attributes, parent, text) {
    const e = document.createElementNS(NS, name);
    for (const k in attributes) e.setAttribute(k, attributes[k]);
    if (text !== undefined) e.textContent = text;
    parent.appendChild(e);
    return e;
  }
  function ticks(low, high, count) {
    const raw = (high - low) / count, power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const values = [];
    for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step; v += step) values.push(Math.abs(v) < 1e-9 * step ? 0 : v);
    return values;
  }
  function short(v, digits = 4) { return v === null ? "–" : Number(v.toPrecision(digits)).toString(); }

  function draw() {
    W = Math.max(320, Math.min(900, chart.clientWidth)); H = Math.round(160 + 0.26 * W);
    const r = experiment(), s = r.states[get("variable").value], level = get("level").value;
    const shape = get("ode").checked && s.ode ? s.ode : s.full, [low, high] = shape.bands[level], line = shape.mean;
    const inside = r.t.map((t, i) => i).filter((i) => r.t[i] >= view[0] && r.t[i] <= view[1]);
    const points = s.data ? s.data.t.map((t, i) => [t, s.data.y[i]]).filter((p) => p[0] >= view[0] && p[0] <= view[1]) : [];
    const values = inside.flatMap((i) => [low[i], high[i], line[i]]).concat(points.map((p) => p[1])).filter((v) => v !== null);
    let bottom = Math.min(...values), top = Math.max(...values);
    if (!(top > bottom)) { top = bottom + 1; bottom -= 1; }
    const margin = 0.05 * (top - bottom);
    bottom -= margin; top += margin;
    const x = (t) => L + (W - L - R) * (t - view[0]) / (view[1] - view[0]);
    const y = (v) => H - B - (H - T - B) * (v - bottom) / (top - bottom);
    const svg = document.createElementNS(NS, "svg");
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    if (r.end < view[1]) {
      const ahead = x(Math.max(r.end, view[0]));
      element("rect", { x: ahead, y: T, width: x(view[1]) - ahead, height: H - T - B, fill: "var(--ahead)", class: "ahead" }, svg);
      if (x(view[1]) - ahead > 70) element("text", { x: ahead + 8, y: T + 15 }, svg, "forecast");
    }
    for (const v of ticks(bottom, top, 5)) {
      element("line", { x1: L, x2: W - R, y1: y(v), y2: y(v), stroke: "var(--line)" }, svg);
      element("text", { x: L - 8, y: y(v) + 4, "text-anchor": "end" }, svg, short(v));
    }
    for (const v of ticks(view[0], view[1], Math.max(3, Math.round(W / 120)))) element("text", { x: x(v), y: H - B + 18, "text-anchor": "middle" }, svg, short(v, 6));
    element("text", { x: (L + W - R) / 2, y: H - 4, "text-anchor": "middle" }, svg, all.unit ? `time (${all.unit})` : "time");
    const drawn = inside.filter((i) => low[i] !== null && line[i] !== null);
    const path = (list) => list.map((p, i) => (i ? "L" : "M") + p[0].toFixed(2) + " " + p[1].toFixed(2)).join("");
    if (drawn.length > 1) {
      const up = drawn.map((i) => [x(r.t[i]), y(high[i])]), down = drawn.map((i) => [x(r.t[i]), y(low[i])]).reverse();
      element("path", { d: path(up.concat(down)) + "Z", fill: "var(--band)", class: "band" }, svg);
      element("path", { d: path(drawn.map((i) => [x(r.t[i]), y(line[i])])), fill: "none", stroke: "var(--blue)", "stroke-width": 2, class: "mean" }, svg);
    }
    for (const p of points) element("circle", { cx: x(p[0]), cy: y(p[1]), r: 3, fill: "var(--ink)" }, svg);
    const mark = element("line", { y1: T, y2: H - B, stroke: "var(--soft)", visibility: "hidden" }, svg);
    const zone = element("rect", { y: T, height: H - T - B, fill: "var(--band)", visibility: "hidden" }, svg);
    chart.replaceChildren(svg);
    let from = null;
    const time = (e) => {
      const box = svg.getBoundingClientRect(), px = (e.clientX - box.left) * W / box.width;
      return Math.min(view[1], Math.max(view[0], view[0] + (view[1] - view[0]) * (px - L) / (W - L - R)));
    };
    read = (i) => {
      at = i;
      mark.setAttribute("x1", x(r.t[i])); mark.setAttribute("x2", x(r.t[i])); mark.setAttribute("visibility", "visible");
      readout.textContent = `time ${short(r.t[i], 6)}: mean ${short(line[i])}, ${Math.round(100 * level)} % interval ${short(low[i])} to ${short(high[i])}`;
    };
    shown = inside;
    svg.onpointermove = (e) => {
      const t = time(e);
      read(inside.reduce((b, k) => Math.abs(r.t[k] - t) < Math.abs(r.t[b] - t) ? k : b, inside[0]));
      if (from !== null) {
        zone.setAttribute("x", x(Math.min(from, t))); zone.setAttribute("width", Math.abs(x(t) - x(from))); zone.setAttribute("visibility", "visible");
      }
    };
    svg.onpointerdown = (e) => { from = time(e); e.preventDefault(); };
    svg.onpointerup = (e) => {
      const t = time(e);
      if (from !== null && Math.abs(x(t) - x(from)) > 12) { view = [Math.min(from, t), Math.max(from, t)]; sliders(); draw(); }
      from = null;
    };
    svg.onpointerleave = () => { mark.setAttribute("visibility", "hidden"); from = null; zone.setAttribute("visibility", "hidden"); };
  }
  function sliders() {
    const [a, b] = whole();
    get("first").value = Math.round(1000 * (view[0] - a) / (b - a));
    get("last").value = Math.round(1000 * (view[1] - a) / (b - a));
    get("first-time").textContent = short(view[0], 6);
    get("last-time").textContent = short(view[1], 6);
  }
  function slid(moved) {
    const [a, b] = whole(), first = get("first"), last = get("last"), least = 20;
    if (last.value - first.value < least) {
      if (moved === "first") first.value = Math.max(0, last.value - least);
      else last.value = Math.min(1000, Number(first.value) + least);
    }
    view = [a + (b - a) * first.value / 1000, a + (b - a) * last.value / 1000];
    sliders();
    draw();
  }
  function step(e) {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!way || !shown.length) return;
    e.preventDefault();
    const place = shown.indexOf(at);
    read(place < 0 ? shown[way > 0 ? 0 : shown.length - 1] : shown[Math.min(shown.length - 1, Math.max(0, place + way))]);
  }
  function reset() { view = whole(); sliders(); draw(); }
  for (const id of ["variable", "level", "ode"]) get(id).addEventListener("change", draw);
  for (const id of ["first", "last"]) get(id).addEventListener("input", () => slid(id));
  get("run").addEventListener("change", reset);
  get("reset").addEventListener("click", reset);
  chart.addEventListener("keydown", step);
  window.addEventListener("resize", draw);
  reset();
})();
