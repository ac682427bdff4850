// The Pareto view: what plans cost at which peak, with the plan of the page and usual ones marked.

import { axis, color, height, text, textWidth } from "./chart.js";
import { el, watched } from "./dom.js";
import { bytes, percent, thousands, ticks } from "./format.js";

/** pareto fills the section of the curve. */
export function pareto(section, state) {
  const { points, marks } = state.page.pareto;
  if (points.length + marks.length === 0) {
    section.append(
      el("p", {}, "No curve was asked for: memopt report --pareto N plans to N budgets."),
    );
    return;
  }
  const plot = el("div", {
    class: "plot",
    role: "img",
    "aria-label": "Chart of cost over peak; the table below has its numbers.",
  });
  section.append(
    el("p", { class: "answer" }, answer(points)),
    plot,
    table(points, marks, state.page.plan.recompute.nodes),
  );
  const u = new uPlot(options(points, marks), data(points, marks), plot);
  state.on("theme", () => u.redraw(false));
  watched(plot, (width) => u.setSize({ width, height: height(width) }));
}

function answer(points) {
  if (points.length === 0) {
    return "Lower peaks cost time: each mark is a plan.";
  }
  const low = points[0];
  const high = points[points.length - 1];
  return (
    `From ${bytes(high.live_bytes)} at ${percent(high.overhead)} more time down to ` +
    `${bytes(low.live_bytes)} at ${percent(low.overhead)}: each point is the plan that is found first for a ` +
    "budget; inputs and weights come on top."
  );
}

/** data puts curve and marks on one axis, as the chart wants them. */
function data(points, marks) {
  const all = [
    ...points.map((p) => ({ x: p.live_bytes, curve: p.overhead * 100, mark: null })),
    ...marks.map((m) => ({ x: m.live_bytes, curve: null, mark: m.overhead * 100 })),
  ].sort((a, b) => a.x - b.x);
  return [all.map((p) => p.x), all.map((p) => p.curve), all.map((p) => p.mark)];
}

function options(points, marks) {
  const all = [...points, ...marks];
  const xs = all.map((p) => p.live_bytes);
  const low = Math.min(...xs);
  const high = Math.max(...xs);
  const space = Math.max((high - low) * 0.08, high * 0.01, 1);
  const top = Math.max(...all.map((p) => p.overhead * 100), 1) * 1.15;
  return {
    width: 600,
    height: 260,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, range: () => [low - space, high + space] },
      y: { range: () => [-top * 0.03, top] },
    },
    series: [
      {},
      {
        stroke: () => color("accent"),
        width: 2,
        spanGaps: true,
        points: { show: true, size: 7, fill: () => color("accent") },
      },
      {
        paths: () => null,
        stroke: () => color("ink"),
        points: { show: true, size: 11, fill: () => color("paper"), width: 2 },
      },
    ],
    axes: [
      axis({
        splits: (u, _axis, from, to) => ticks(from, to, Math.max(2, u.width / 120)),
        values: (_u, splits) => splits.map((n) => bytes(n).replace(/\.00 /, " ")),
      }),
      axis({ size: 60, values: (_u, splits) => splits.map((n) => `${n} %`) }),
    ],
    hooks: { draw: [(u) => labels(u, marks)] },
  };
}

function labels(u, marks) {
  const taken = [];
  const { left, width, top, height: tall } = u.bbox;
  const ratio = devicePixelRatio;
  for (const m of marks) {
    const x = u.valToPos(m.live_bytes, "x", true);
    let y = u.valToPos(m.overhead * 100, "y", true) - 10 * ratio;
    while (
      taken.some((t) => Math.abs(t.y - y) < 15 * ratio && Math.abs(t.x - x) < 220 * ratio) &&
      y > top + 15 * ratio
    ) {
      y -= 15 * ratio;
    }
    taken.push({ x, y });
    const right = x + textWidth(u.ctx, m.name) > left + width;
    text(
      u.ctx,
      m.name,
      x + (right ? -8 : 8) * ratio,
      Math.min(y, top + tall),
      color("ink"),
      right ? "right" : "left",
    );
  }
}

function table(points, marks, again) {
  const rows = [
    ...marks.map((m) => (m.chosen ? { ...m, nodes: again } : m)),
    ...points
      .filter((p) => p.nodes > 0 || p.overhead > 0)
      .map((p) => ({ ...p, name: `budget ${bytes(p.budget_bytes)}` })),
  ].sort((a, b) => a.live_bytes - b.live_bytes || a.overhead - b.overhead);
  const head = ["Plan", "Peak", "More time", "Recomputed nodes"].map((t, i) =>
    el("th", { scope: "col", class: i > 0 ? "number" : null }, t),
  );
  const body = rows.map((r) =>
    el(
      "tr",
      { class: r.chosen ? "chosen" : null },
      el("th", { scope: "row" }, r.name, r.chosen ? " (this page)" : ""),
      el("td", { class: "number" }, bytes(r.live_bytes)),
      el("td", { class: "number" }, percent(r.overhead)),
      el("td", { class: "number" }, r.nodes === undefined ? "–" : thousands(r.nodes)),
    ),
  );
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Plans and their costs" },
    el("table", { id: "plans" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)),
  );
}
