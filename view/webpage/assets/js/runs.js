// What was measured, beside what the plan predicts: from verify, run and train, and from a profile.

import { axis, color, height } from "./chart.js";
import { choice, el, named, watched } from "./dom.js";
import { bytes, percent, thousands, time } from "./format.js";
import { table } from "./tables.js";

/** runs fills the section of what was measured. */
export function runs(section, state) {
  const list = state.page.runs;
  if (list.length === 0) {
    section.append(
      el(
        "p",
        {},
        "No measurements were given. memopt report --run FILE takes the output of verify, run and train ",
        "with -O json, a job's metrics.jsonl, and the profile of run --profile.",
      ),
    );
    return;
  }
  list.forEach((run, i) => {
    section.append(el("h3", {}, named(run.file, 80)));
    try {
      show(section, run, state, i);
    } catch {
      section.append(
        el("p", {}, "This file lacks fields of a report of its kind, so it cannot be shown."),
      );
    }
  });
}

/** show shows what one file has. */
function show(section, run, state, i) {
  const make = {
    "memopt.run/v1": ofRun,
    "memopt.verify/v1": ofVerify,
    "memopt.train/v1": ofTrain,
  }[run.schema];
  if (make) {
    section.append(...make(run.report, state));
  } else if (run.schema === "memopt.metrics/v1") {
    curves(section, run.lines, state, i);
  } else {
    section.append(...profile(run.profile, state, i));
  }
}

/** facts is a table of what was predicted and what was measured. */
function facts(columns, rows) {
  const head = ["", ...columns].map((t) =>
    el("th", { scope: "col", class: t ? "number" : null }, t),
  );
  const body = rows.map(([name, ...cells]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, name),
      cells.map((c) => el("td", { class: "number" }, c)),
    ),
  );
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Predicted and measured" },
    el("table", { class: "measured" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)),
  );
}

/** beside is a row of a prediction, a measurement and their difference. */
function beside(name, predicted, measured) {
  const apart = predicted > 0 ? percent((measured - predicted) / predicted) : "–";
  return [name, bytes(predicted), bytes(measured), apart];
}

function peaks(run) {
  const p = run.peak;
  return [
    beside("live bytes", p.predicted_live_bytes, p.measured_live_bytes),
    beside("arena", p.arena_bytes, p.measured_arena_bytes),
  ];
}

const sides = ["Predicted", "Measured", "Apart"];

function ofRun(run, state) {
  const out = [facts(sides, peaks(run))];
  if (run.time_ms) {
    const e = state.execution;
    out.push(
      el(
        "p",
        {},
        `A step took ${time(run.time_ms.median / 1e3)} (median of ${thousands(run.steps)}, on ${run.backend}); `,
        `the plan's estimate is ${time(e.start[e.count])} for ${state.page.plan.recompute.profile}.`,
      ),
    );
  }
  return out;
}

function ofVerify(v) {
  const out = [el("p", {}, v.equal ? "All outputs are equal." : "Outputs differ.")];
  for (const side of ["baseline", "planned"]) {
    if (v[side]) {
      out.push(
        el("h4", {}, side === "baseline" ? "Baseline" : "Plan"),
        facts(sides, peaks(v[side])),
      );
    }
  }
  if (typeof v.slowdown === "number") {
    out.push(
      el("p", {}, `The plan takes ${thousands(v.slowdown, 2)} times as long as the baseline.`),
    );
  }
  return out;
}

function ofTrain(t) {
  const rows = [
    ["updates", thousands(t.steps)],
    ["loss at first", loss(t.loss_first)],
    ["loss at last", loss(t.loss_last)],
  ];
  const out = [facts(["Value"], rows)];
  if (t.peak?.arena_bytes && t.peak?.measured_arena_bytes) {
    out.push(facts(sides, [beside("arena", t.peak.arena_bytes, t.peak.measured_arena_bytes)]));
  }
  return out;
}

/** loss prints a loss, which is a text where it is not finite. */
function loss(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(6))) : String(value);
}

const measures = [
  ["loss", "Loss"],
  ["eval_loss", "Evaluation loss"],
  ["learning_rate", "Learning rate"],
  ["grad_norm", "Gradient norm"],
  ["tokens_per_s", "Tokens per second"],
  ["samples_per_s", "Samples per second"],
];

/** curves draws what a training job told of itself. */
function curves(section, lines, state, at) {
  const there = measures.filter(([key]) => lines.some((l) => typeof l[key] === "number"));
  if (there.length === 0) {
    section.append(el("p", {}, "These metrics have no numbers."));
    return;
  }
  let shown = there[0][0];
  const plot = el("div", {
    class: "plot",
    role: "img",
    "aria-label": "Chart of a measure over updates",
  });
  const data = () => {
    const rows = lines.filter((l) => typeof l[shown] === "number");
    return [rows.map((l) => l.step), rows.map((l) => l[shown])];
  };
  const options = {
    width: 600,
    height: 240,
    legend: { show: false },
    scales: { x: { time: false } },
    series: [
      {},
      {
        stroke: () => color("accent"),
        width: 2,
        points: { show: lines.length < 60, size: 6, fill: () => color("accent") },
      },
    ],
    axes: [axis({}), axis({ size: 70 })],
  };
  section.append(
    choice("Measure", `measure-${at}`, there, shown, (v) => {
      shown = v;
      u.setData(data());
    }),
    plot,
  );
  const u = new uPlot(options, data(), plot);
  state.on("theme", () => u.redraw(false));
  watched(plot, (width) => u.setSize({ width, height: height(width) }));
}

/** profile compares what nodes took with what they were estimated to take. */
function profile(p, state, at) {
  const e = state.execution;
  const steps = new Map();
  for (let s = 0; s < e.count; s++) {
    steps.set(e.name(s), s);
  }
  const rows = p.nodes.map((n) => {
    const s = steps.get(n.name) ?? -1;
    return { ...n, step: s, seconds: s < 0 ? null : e.seconds(s), live: s < 0 ? null : e.total[s] };
  });
  const measured = rows.reduce((sum, r) => sum + r.median_ns, 0) / 1e9;
  const columns = [
    { title: "Node", key: (r) => r.name, cell: (r) => goTo(r, state) },
    { title: "Operator", key: (r) => r.op, cell: (r) => named(r.op, 40) },
    { title: "Took", number: true, key: (r) => r.median_ns, cell: (r) => time(r.median_ns / 1e9) },
    {
      title: "Estimated",
      number: true,
      key: (r) => r.seconds,
      cell: (r) => (r.seconds === null ? "not in this plan" : time(r.seconds)),
    },
    {
      title: "Live then",
      number: true,
      key: (r) => r.live_bytes,
      cell: (r) => bytes(r.live_bytes),
    },
    {
      title: "Predicted",
      number: true,
      key: (r) => r.live,
      cell: (r) => (r.live === null ? "–" : bytes(r.live)),
    },
  ];
  const text =
    `${thousands(rows.length)} nodes took ${time(measured)} together (medians over ${thousands(p.steps)} steps, ` +
    `on ${p.backend}); the estimate for this page's plan is ${time(e.start[e.count])}.`;
  return [
    el("p", {}, text),
    table(`profile-${at}`, "Profiled nodes", columns, rows, (r) => `${r.name} ${r.op}`, 2),
  ];
}

function goTo(row, state) {
  if (row.step < 0) {
    return named(row.name, 60);
  }
  const go = () => state.choose(row.step);
  return el("button", { type: "button", class: "link", onclick: go }, named(row.name, 60));
}
