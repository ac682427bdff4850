// Clusters that can be recomputed, and stashed activations with why they are kept and what would help.

import { pickNode } from "./details.js";
import { el, named } from "./dom.js";
import { bytes, thousands, time } from "./format.js";
import { table } from "./tables.js";

/** clusters fills the section of clusters. */
export function clusters(section, state) {
  const { clusters: rows } = state.page.plan;
  if (rows.length === 0) {
    section.append(
      el(
        "p",
        {},
        "No subgraph of this graph can be recomputed as ONNX Runtime's optimizer does it.",
      ),
    );
    return;
  }
  const columns = [
    { title: "Cluster", key: (r) => r.config, cell: (r) => named(r.config, 80) },
    { title: "Found", number: true, key: (r) => r.frequency, cell: (r) => thousands(r.frequency) },
    { title: "Recomputed", number: true, key: (r) => r.applied, cell: (r) => thousands(r.applied) },
    {
      title: "Saves",
      number: true,
      key: (r) => r.saving_bytes,
      cell: (r) => bytes(r.saving_bytes),
    },
    {
      title: "Lowers the peak by",
      number: true,
      key: (r) => r.peak_drop_bytes,
      cell: (r) => (r.peak_drop_bytes === null ? "–" : bytes(r.peak_drop_bytes)),
    },
    {
      title: "Formula",
      key: (r) => r.saving_expr ?? "",
      cell: (r) => named(r.saving_expr ?? "unknown", 80),
    },
  ];
  section.append(table("clusters-table", "Clusters", columns, rows, (r) => r.config, 3));
}

/** stashes fills the section of stashed activations. */
export function stashes(section, state) {
  const alive = new Map(state.page.explain.alive.map((a) => [a.value, a]));
  const clusters = new Map(state.page.plan.clusters.map((c) => [c.config, c]));
  const moved = new Set(state.page.executions.flatMap((e) => e.copies.map((c) => c.name)));
  const rows = state.page.plan.stashed.map((stash, i) => {
    const moves = state.page.moves && moved.has(stash.value);
    const s = moves ? { ...stash, why_kept: "it moves to the host and back", moves } : stash;
    const live = alive.get(s.value);
    const cluster = state.page.stash_clusters[i];
    return { ...s, live, cluster, fix: fix(s, live, clusters.get(cluster)) };
  });
  if (rows.length === 0) {
    section.append(el("p", {}, "No value is stashed for the backward half."));
    return;
  }
  const columns = [
    { title: "Value", key: (r) => r.value, cell: (r) => value(r, state) },
    { title: "Operator", key: (r) => r.op, cell: (r) => named(r.op, 40) },
    { title: "Size", number: true, key: (r) => r.bytes, cell: (r) => bytes(r.bytes) },
    {
      title: "At the peak",
      key: (r) => (r.live ? "yes" : "no"),
      cell: (r) => (r.live ? "yes" : "no"),
    },
    {
      title: "Kept because",
      key: (r) => r.why_kept ?? "",
      cell: (r) =>
        r.why_kept === null ? "recomputed" : r.moves ? "moved" : named(r.why_kept, 200),
    },
    { title: "Cheapest fix", key: (r) => -r.fix.saves, cell: (r) => r.fix.text },
  ];
  const words = (r) => [r.value, r.op, r.producer, r.why_kept ?? "recomputed"].join(" ");
  section.append(table("stash-table", "Stashed activations", columns, rows, words, 2));
}

function value(row, state) {
  const graph = state.execution.graph;
  return el(
    "button",
    {
      type: "button",
      class: "link",
      onclick: () => {
        const node = state.execution.graph.find(row.producer);
        if (node >= 0) {
          pickNode(state, node);
        }
      },
    },
    named(row.value, 60),
    graph.find(row.value) < 0 ? " " : "",
  );
}

/** fix is what lowers the peak for a stash at the least cost, as far as it was tried. */
function fix(stash, live, cluster) {
  if (stash.why_kept === null || stash.moves) {
    return { saves: 0, text: "–" };
  }
  const best = live?.fixes.find((f) => f.saves_bytes > 0);
  if (best) {
    const text = `saves ${bytes(best.saves_bytes)} for ${time(best.costs_ms / 1e3)}: `;
    return { saves: best.saves_bytes, text: el("span", {}, text, named(best.how, 200)) };
  }
  if (cluster?.peak_drop_bytes > 0) {
    const text = `its cluster lowers the peak by ${bytes(cluster.peak_drop_bytes)}: `;
    return {
      saves: cluster.peak_drop_bytes,
      text: el("span", {}, text, named(cluster.config, 80)),
    };
  }
  if (!live) {
    return { saves: 0, text: "no fix is needed: it is not live at the peak" };
  }
  return {
    saves: 0,
    text:
      live.fixes.length > 0
        ? "no fix lowers the peak by itself"
        : "no fix was tried: --top says for how many",
  };
}
