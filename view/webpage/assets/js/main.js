// The page: reads its data, makes a section for each view, and draws each when it is near.

import { arena } from "./arena.js";
import { recolor } from "./chart.js";
import { read } from "./data.js";
import { details } from "./details.js";
import { el, measure, named } from "./dom.js";
import { bytes, percent, thousands } from "./format.js";
import { neighbours } from "./neighbours.js";
import { pareto } from "./pareto.js";
import { runs } from "./runs.js";
import { clusters, stashes } from "./stashes.js";
import { State } from "./state.js";
import { timeline } from "./timeline.js";
import { treemap } from "./treemap.js";

const views = [
  ["timeline", "Timeline", "Memory over the step", timeline],
  ["arena", "Arena", "Where it lies in the arena", arena],
  ["treemap", "Peak", "Parts of the peak", (s, state) => treemap(s, state, clusterOf(state.page))],
  ["pareto", "Cost", "Cost of lower peaks", pareto],
  ["clusters", "Clusters", "Clusters that can be recomputed", clusters],
  ["stashes", "Stashes", "Stashed activations", stashes],
  ["graph", "Graph", "The graph around a node", neighbours],
  ["runs", "Run", "Measured against predicted", runs],
];

/** clusterOf says which cluster could make a block again. */
function clusterOf(page) {
  const of = new Map(page.plan.stashed.map((s, i) => [s.value, page.stash_clusters[i]]));
  return (e, block) => {
    const v = e.blocks.value[block];
    return v < 0 ? null : (of.get(e.graph.value(v)) ?? null);
  };
}

/** card is one number of the summary. */
function card(label, value, field, raw) {
  return el(
    "div",
    { class: "card" },
    el("dt", {}, label),
    el("dd", { "data-field": field, "data-value": raw }, value),
  );
}

/** movedPeak is the memory of a plan whose values move, in the fields of one without moves. */
function movedPeak({ plan, moves }) {
  return {
    baseline_bytes: plan.peak.baseline_bytes,
    planned_bytes: moves.peak_live_bytes,
    arena_bytes: moves.arena_bytes,
    persistent_bytes: moves.persistent_bytes,
    total_bytes: moves.total_bytes,
  };
}

function summary(page) {
  const { recompute } = page.plan;
  const moves = page.moves;
  const peak = moves ? movedPeak(page) : page.plan.peak;
  const list = el("dl", { class: "cards" });
  list.append(
    card("Peak as it is", bytes(peak.baseline_bytes), "baseline_bytes", peak.baseline_bytes),
  );
  if (page.executions.length > 1) {
    list.append(
      card("Peak of the plan", bytes(peak.planned_bytes), "planned_bytes", peak.planned_bytes),
    );
    const overhead = moves ? moves.overhead : recompute.overhead;
    list.append(card("More time", percent(overhead), "overhead", overhead));
    list.append(card("Recomputed nodes", thousands(recompute.nodes), "nodes", recompute.nodes));
  }
  if (moves) {
    list.append(card("Moved", bytes(moves.moved_bytes), "moved_bytes", moves.moved_bytes));
    list.append(card("On the host", bytes(moves.host_peak), "host_peak", moves.host_peak));
  }
  list.append(card("Arena", bytes(peak.arena_bytes), "arena_bytes", peak.arena_bytes));
  list.append(
    card(
      "Inputs and weights",
      bytes(peak.persistent_bytes),
      "persistent_bytes",
      peak.persistent_bytes,
    ),
  );
  list.append(card("Together", bytes(peak.total_bytes), "total_bytes", peak.total_bytes));
  return list;
}

function tellModel(page) {
  const line = document.getElementById("model");
  line.append(named(page.title, 200));
  const dims = Object.entries(page.plan.dims).map(([name, n]) => `${name}=${n}`);
  line.append(
    `, ${thousands(page.plan.model.nodes)} nodes`,
    dims.length > 0 ? ", " : "",
    named(dims.join(", "), 200),
  );
  if (page.plan.step) {
    line.append(el("br"), "step: ", named(page.plan.step.text, 400));
  }
  document
    .getElementById("made")
    .append(
      `Made by memopt ${page.version}. Times are estimates for ${page.plan.recompute.profile} where they are not `,
      "measured. The charts are drawn by uPlot (MIT licence, in the source of this page).",
    );
}

/** drawn draws a view. One that fails leaves the others as they are. */
function drawn(section, make, state) {
  try {
    make(section, state);
  } catch (error) {
    section.append(el("p", { class: "warning" }, `This view cannot be shown: ${error.message}`));
    reportError(error);
  }
}

/** sections makes a section and a link for each view, and draws it when it comes near. The function that
 * it returns draws all that are left. */
function sections(main, state) {
  const links = document.getElementById("views");
  const waiting = new Map();
  const draw = (section) => {
    const make = waiting.get(section);
    if (make) {
      waiting.delete(section);
      drawn(section, make, state);
    }
  };
  const near = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) {
          near.unobserve(entry.target);
          draw(entry.target);
        }
      }
    },
    { rootMargin: "600px" },
  );
  for (const [id, name, title, make] of views) {
    links.append(el("li", {}, el("a", { href: `#${id}` }, name)));
    const section = el("section", { id, class: "view", "aria-labelledby": `${id}-title` });
    section.append(el("h2", { id: `${id}-title` }, title));
    if (id === "timeline") {
      const panel = el("aside", {
        class: "details",
        id: "details",
        "aria-label": "The chosen step",
      });
      main.append(el("div", { class: "beside" }, section, panel));
      drawn(section, make, state);
      drawn(panel, details, state);
      continue;
    }
    main.append(section);
    waiting.set(section, make);
    near.observe(section);
  }
  return () => {
    for (const section of [...waiting.keys()]) {
      draw(section);
    }
  };
}

/** themes sets colours by buttons and by the system, and what a printer gets: light colours, all views,
 * the width of a sheet. */
function themes(state, drawAll) {
  const root = document.documentElement;
  const buttons = document.querySelectorAll("[data-theme]");
  const changed = () => {
    recolor();
    state.tell("theme");
  };
  const put = (theme) => {
    if (theme === "auto") {
      delete root.dataset.theme;
    } else {
      root.dataset.theme = theme;
    }
    for (const b of buttons) {
      b.setAttribute("aria-pressed", String(b.dataset.theme === theme));
    }
    changed();
  };
  let chosen = "auto";
  for (const b of buttons) {
    b.addEventListener("click", () => {
      chosen = b.dataset.theme;
      put(chosen);
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  addEventListener("beforeprint", () => {
    root.dataset.print = "yes";
    put("light");
    drawAll();
    measure();
  });
  addEventListener("afterprint", () => {
    delete root.dataset.print;
    put(chosen);
    measure();
  });
}

async function begin() {
  const status = document.getElementById("status");
  const main = document.getElementById("main");
  try {
    const page = await read(document.getElementById("data"));
    const state = new State(page);
    tellModel(page);
    main.append(summary(page));
    for (const warning of page.plan.warnings) {
      main.append(el("p", { class: "warning" }, named(warning, 2000)));
    }
    themes(state, sections(main, state));
    status.remove();
    performance.mark("drawn");
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    status.textContent = `This page cannot be shown: ${error.message}. It needs a browser of 2023 or later.`;
    throw error;
  }
}

begin();
