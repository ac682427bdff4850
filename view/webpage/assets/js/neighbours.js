// The graph around a node: who makes what it reads, and who reads what it makes, two steps around.

import { el, escaped, named, short, svg } from "./dom.js";
import { bytes } from "./format.js";

const mostNodes = 8; // in a column
const mostFound = 12; // names that a search shows
const columnNames = ["Two before", "Before", "Node", "Behind", "Two behind"];

/** neighbours fills the section of the graph. */
export function neighbours(section, state) {
  new Neighbours(section, state);
}

class Neighbours {
  constructor(section, state) {
    this.state = state;
    this.edges = svg("svg", { class: "edges", "aria-hidden": "true" });
    this.columns = el("div", { class: "columns" });
    this.found = el("ul", { class: "found" });
    this.facts = el("p", { class: "answer" });
    const search = el("input", {
      type: "search",
      id: "node-search",
      oninput: (e) => this.search(e.target.value),
    });
    this.frame = el("div", { class: "neighbours" }, this.edges, this.columns);
    section.append(
      el("div", { class: "controls" }, el("label", {}, "Find a node, operator or value ", search)),
      this.found,
      this.facts,
      el(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "Graph around the node" },
        this.frame,
      ),
    );
    state.on("node", () => this.show());
    state.on("execution", () => {
      if (this.state.node >= this.state.execution.graph.count) {
        this.state.node = this.state.execution.node[this.state.step];
      }
      this.show();
    });
    new ResizeObserver(() => this.connect()).observe(this.columns);
    this.show();
  }

  search(text) {
    const wanted = text.trim().toLowerCase();
    const { graph } = this.state.execution;
    const hits = [];
    for (let n = 0; n < graph.count && wanted !== "" && hits.length < mostFound; n++) {
      const has = (name) => name.toLowerCase().includes(wanted);
      const made = Array.from(graph.outputsOf(n), (v) => graph.value(v)).find(has) ?? null;
      if (has(graph.name(n)) || has(graph.operator(n))) {
        hits.push(this.hit(n, null));
      } else if (made !== null) {
        hits.push(this.hit(n, made));
      }
    }
    this.found.replaceChildren(...hits);
    if (wanted !== "" && hits.length === 0) {
      this.found.append(el("li", {}, "No node has that in its name."));
    }
  }

  /** hit is a node that a search finds, by a value that it makes where it is not by its own name. */
  hit(n, made) {
    const { graph } = this.state.execution;
    const pick = () => this.state.pick(n);
    return el(
      "li",
      {},
      el("button", { type: "button", class: "link", onclick: pick }, named(graph.name(n), 60)),
      ` ${escaped(short(graph.operator(n), 40))}`,
      made === null ? "" : ", makes ",
      made === null ? "" : named(made, 60),
    );
  }

  show() {
    const { graph } = this.state.execution;
    const { node } = this.state;
    this.boxes = new Map();
    const lists = around(graph, node);
    this.columns.replaceChildren(...lists.map((list, i) => this.column(list, i)));
    this.facts.replaceChildren(
      named(graph.name(node), 120),
      ` is ${article(graph.operator(node))} `,
      named(graph.operator(node), 60),
      `; it reads ${graph.inputsOf(node).length} and makes ${graph.outputsOf(node).length} values`,
      this.again(node),
    );
    this.connect();
  }

  again(node) {
    const runs = this.state.execution.runs[node];
    return runs > 1 ? `, and the plan runs it ${runs} times.` : ".";
  }

  column(list, i) {
    const out = el("div", { class: "column" }, el("h3", {}, columnNames[i]));
    for (const n of list.slice(0, mostNodes)) {
      const box = this.box(n, columnNames[i]);
      this.boxes.set(n, box);
      out.append(box);
    }
    if (list.length > mostNodes) {
      out.append(el("p", { class: "soft" }, `and ${list.length - mostNodes} more`));
    }
    if (list.length === 0) {
      out.append(el("p", { class: "soft" }, i < 2 ? "inputs only" : "none"));
    }
    return out;
  }

  box(n, where) {
    const { graph, runs } = this.state.execution;
    const made = Array.from(graph.outputsOf(n)).reduce(
      (sum, v) => sum + Math.max(graph.valueBytes[v], 0),
      0,
    );
    const again = runs[n] > 1 ? el("span", { class: "badge" }, `runs ${runs[n]} times`) : "";
    const label = `${where}: ${escaped(short(graph.name(n), 80))}, ${escaped(short(graph.operator(n), 40))}, makes ${bytes(made)}`;
    return el(
      "button",
      {
        type: "button",
        class: n === this.state.node ? "node current" : "node",
        "aria-label": runs[n] > 1 ? `${label}, runs ${runs[n]} times` : label,
        "aria-current": n === this.state.node ? "true" : null,
        onclick: () => this.state.pick(n),
      },
      el("strong", {}, named(graph.operator(n), 30)),
      named(graph.name(n), 44),
      el("span", { class: "soft" }, bytes(made)),
      again,
    );
  }

  /** connect draws the edges between the boxes that are there. */
  connect() {
    const frame = this.frame.getBoundingClientRect();
    this.edges.setAttribute("width", frame.width);
    this.edges.setAttribute("height", frame.height);
    this.edges.replaceChildren();
    const { graph } = this.state.execution;
    for (const [from, a] of this.boxes) {
      for (const to of graph.consumers(from)) {
        const b = this.boxes.get(to);
        if (b) {
          this.edges.append(edge(a.getBoundingClientRect(), b.getBoundingClientRect(), frame));
        }
      }
    }
  }
}

function article(word) {
  return /^[AEIOU]/i.test(word) ? "an" : "a";
}

function edge(a, b, frame) {
  const [x0, y0] = [a.right - frame.left, a.top + a.height / 2 - frame.top];
  const y1 = b.top + b.height / 2 - frame.top;
  if (Math.abs(a.left - b.left) < 1) {
    return svg("path", { d: `M${x0},${y0}C${x0 + 30},${y0} ${x0 + 30},${y1} ${x0},${y1}` });
  }
  const x1 = b.left - frame.left;
  const bend = Math.max(24, Math.abs(x1 - x0) / 2);
  return svg("path", { d: `M${x0},${y0}C${x0 + bend},${y0} ${x1 - bend},${y1} ${x1},${y1}` });
}

/** around are the nodes in five columns, each node in the one that is the nearest. */
function around(graph, node) {
  const seen = new Set([node]);
  const fresh = (list) => {
    const out = [];
    for (const n of list) {
      if (!seen.has(n)) {
        seen.add(n);
        out.push(n);
      }
    }
    return out;
  };
  const before = fresh(graph.producers(node));
  const behind = fresh(graph.consumers(node));
  const before2 = fresh(before.flatMap((n) => graph.producers(n)));
  const behind2 = fresh(behind.flatMap((n) => graph.consumers(n)));
  return [before2, before, [node], behind, behind2];
}
