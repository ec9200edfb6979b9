"use strict";
(function () {
  const source = document.getElementById("paths");
  if (!source) return;
  const all = JSON.parse(source.textContent);
  const get = (id) => document.getElementById(id);
  const chart = get("chart"), readout = get("readout"), NS = "http://www.w3.org/2000/svg";
  const L = 56, R = 14, T = 10, B = 40;
  let view = null, W = 860, H = 380;

  function run() { return all.runs[get("run").value]; }
  function whole() { const t = run().t; return [t[0], t[t.length - 1]]; }
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
    const found = [];
    for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step; v += step) found.push(Math.abs(v) < 1e-9 * step ? 0 : v);
    return found;
  }
  function short(v) { return v === null ? "–" : Number(v.toPrecision(4)).toString(); }

  function draw() {
    W = Math.max(320, Math.min(900, chart.clientWidth)); H = Math.round(160 + 0.26 * W);
    const r = run(), s = r.states[get("variable").value], level = get("level").value;
    const [low, high] = s.bands[level], line = get("ode").checked ? s.ode : s.mean;
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
    if (r.end < view[1]) element("rect", { x: x(Math.max(r.end, view[0])), y: T, width: x(view[1]) - x(Math.max(r.end, view[0])), height: H - T - B, fill: "var(--ahead)" }, svg);
    for (const v of ticks(bottom, top, 5)) {
      element("line", { x1: L, x2: W - R, y1: y(v), y2: y(v), stroke: "var(--line)" }, svg);
      element("text", { x: L - 8, y: y(v) + 4, "text-anchor": "end" }, svg, short(v));
    }
    for (const v of ticks(view[0], view[1], Math.max(3, Math.round(W / 120)))) element("text", { x: x(v), y: H - B + 18, "text-anchor": "middle" }, svg, short(v));
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
    svg.onpointermove = (e) => {
      const t = time(e), i = r.t.reduce((b, v, k) => Math.abs(v - t) < Math.abs(r.t[b] - t) ? k : b, 0);
      mark.setAttribute("x1", x(r.t[i])); mark.setAttribute("x2", x(r.t[i])); mark.setAttribute("visibility", "visible");
      readout.textContent = `time ${short(r.t[i])}: mean ${short(s.mean[i])}, ${Math.round(100 * level)} % interval ${short(low[i])} to ${short(high[i])}`;
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
  }
  function slid() {
    const [a, b] = whole();
    const low = a + (b - a) * get("first").value / 1000, high = a + (b - a) * get("last").value / 1000;
    if (high - low > 0.01 * (b - a)) { view = [low, high]; draw(); }
  }
  function reset() { view = whole(); sliders(); draw(); }
  for (const id of ["variable", "level", "ode"]) get(id).addEventListener("change", draw);
  for (const id of ["first", "last"]) get(id).addEventListener("input", slid);
  get("run").addEventListener("change", reset);
  get("reset").addEventListener("click", reset);
  window.addEventListener("resize", draw);
  reset();
})();
