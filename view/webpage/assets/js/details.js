// What is live at the chosen step: beside the timeline and the arena, and what both tell.

import { kinds, phases } from "./data.js";
import { el, named } from "./dom.js";
import { bytes, thousands, time } from "./format.js";

const mostRows = 10;

/** details fills the panel of the chosen step. */
export function details(panel, state) {
  let waiting = false;
  const later = () => {
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        show(panel, state);
      });
    }
  };
  state.on("step", later);
  state.on("execution", later);
  show(panel, state);
}

function show(panel, state) {
  const { execution: e, step } = state;
  const node = e.node[step];
  panel.dataset.step = step;
  panel.replaceChildren(
    el("h3", { id: "node-name", "data-node": e.graph.operator(node) }, named(e.name(step))),
    el(
      "div",
      { class: "chosen-step" },
      facts(e, step),
      el(
        "div",
        {},
        byKind(e, step),
        el("button", { type: "button", onclick: () => pickNode(state, node) }, "Show in the graph"),
      ),
    ),
    table(e, step, state),
  );
}

/** pickNode chooses a node and goes to where its neighbours are shown. */
export function pickNode(state, node) {
  state.pick(node);
  document.getElementById("graph").scrollIntoView();
}

function facts(e, step) {
  const node = e.node[step];
  const list = el("dl", { class: "facts" });
  const fact = (name, ...value) => list.append(el("dt", {}, name), el("dd", {}, ...value));
  fact("Operator", named(e.operator(step)));
  fact("Layer", named(e.layerOf(step)));
  fact("Step", `${thousands(step + 1)} of ${thousands(e.count)}, ${phases[e.phase[step]]}`);
  fact("Takes", `${time(e.seconds(step))}, from ${time(e.start[step])} on`);
  if (e.repeats[step] >= 0) {
    fact("Runs again", `first run at step ${thousands(e.repeats[step] + 1)}`);
  } else if (e.runs[node] > 1) {
    fact("Runs again", `${e.runs[node] - 1} more ${e.runs[node] === 2 ? "time" : "times"} later`);
  }
  fact(
    "Live",
    el("strong", { "data-live": e.total[step] }, bytes(e.total[step])),
    " beside the values that live throughout",
  );
  if (e.host !== null) {
    fact("On the host", el("span", { "data-on-host": e.host[step] }, bytes(e.host[step])));
  }
  return list;
}

function byKind(e, step) {
  const total = Math.max(e.total[step], 1);
  const bar = el("div", { class: "bar", "aria-hidden": "true" });
  const words = [];
  kinds.forEach((kind, k) => {
    const n = e.at(k, step);
    if (n > 0) {
      const part = el("span", { class: kind });
      part.style.width = `${(n / total) * 100}%`;
      bar.append(part);
      words.push(el("li", {}, el("span", { class: `swatch ${kind}` }), ` ${kind} ${bytes(n)}`));
    }
  });
  return el("div", {}, bar, el("ul", { class: "kinds" }, words));
}

function table(e, step, state) {
  const live = e.liveAt(step);
  const head = ["Size", "Value", "Made by", "Read last by"].map((t) =>
    el("th", { scope: "col" }, t),
  );
  const body = el("tbody");
  for (const i of live.slice(0, mostRows)) {
    body.append(row(e, i, state));
  }
  const rest = live.slice(mostRows);
  if (rest.length > 0) {
    const sum = rest.reduce((n, i) => n + e.blocks.bytes[i], 0);
    body.append(
      el(
        "tr",
        {},
        el("td", { class: "number" }, bytes(sum)),
        el("td", { colspan: 3 }, `${thousands(rest.length)} more`),
      ),
    );
  }
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Values live at this step" },
    el(
      "table",
      { id: "live", class: "wide" },
      el("caption", {}, `Live: ${thousands(live.length)} values`),
      el("thead", {}, el("tr", {}, head)),
      body,
    ),
  );
}

function row(e, i, state) {
  const b = e.blocks;
  const kind = kinds[b.kind[i]];
  return el(
    "tr",
    {},
    el("td", { class: "number" }, bytes(b.bytes[i])),
    el(
      "td",
      {},
      el("span", { class: `swatch ${kind}`, title: kind }),
      " ",
      named(e.blockName(i), 60),
    ),
    el("td", {}, stepButton(e, b.made[i], state)),
    el("td", {}, stepButton(e, b.reader[i], state)),
  );
}

/** stepButton leads to a step. */
export function stepButton(e, step, state) {
  if (step < 0) {
    return "–";
  }
  const go = () => state.choose(step);
  return el("button", { type: "button", class: "link", onclick: go }, named(e.name(step), 40));
}
