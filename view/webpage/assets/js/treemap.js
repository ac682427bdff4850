// The treemap of the peak: what is live then, grouped by layer, operator or cluster.

import { kinds } from "./data.js";
import { pickNode } from "./details.js";
import { choice, el, escaped, named, short, watched } from "./dom.js";
import { bytes, percent, thousands } from "./format.js";

const none = "(none)";
const leastArea = 260; // of a rectangle that is drawn by itself, in square pixels

/** treemap fills the section of the treemap. */
export function treemap(section, state, clusterOf) {
  const map = el("div", { class: "treemap" });
  const answer = el("p", { class: "answer" });
  let by = "layer";
  let width = 0;
  const options = [
    ["layer", "Layer"],
    ["operator", "Operator"],
    ["cluster", "Cluster"],
  ];
  const draw = () => {
    if (width > 0) {
      answer.replaceChildren(...summary(state));
      map.replaceChildren(...cells(groups(state, by, clusterOf), width, state, by));
      map.style.height = `${tall(width)}px`;
    }
  };
  section.append(
    el(
      "div",
      { class: "controls" },
      choice("Group by", "group", options, by, (v) => {
        by = v;
        draw();
      }),
    ),
    answer,
    map,
  );
  state.on("execution", draw);
  watched(map, (now) => {
    width = now;
    draw();
  });
}

function tall(width) {
  return Math.round(Math.min(Math.max(width * 0.5, 320), 560));
}

function summary(state) {
  const e = state.execution;
  return [
    `At the peak of the ${e.title}, when `,
    named(e.name(e.peak), 80),
    ` runs, ${bytes(e.total[e.peak])} are live. An area is a number of bytes; press one to see its node.`,
  ];
}

/** groups are what is live at the peak, summed up, the largest first. */
function groups(state, by, clusterOf) {
  const e = state.execution;
  const found = new Map();
  for (const i of e.liveAt(e.peak)) {
    const key = keyOf(e, i, by, clusterOf);
    const group = found.get(key) ?? { key, bytes: 0, items: [] };
    group.bytes += e.blocks.bytes[i];
    group.items.push({ block: i, bytes: e.blocks.bytes[i] });
    found.set(key, group);
  }
  return [...found.values()].sort((a, b) => b.bytes - a.bytes || (a.key < b.key ? -1 : 1));
}

function keyOf(e, i, by, clusterOf) {
  const b = e.blocks;
  switch (by) {
    case "layer":
      return e.names[b.layer[i]];
    case "operator":
      return b.made[i] < 0 ? none : e.operator(b.made[i]);
  }
  return clusterOf(e, i) ?? none;
}

function cells(list, width, state, by) {
  const total = list.reduce((sum, g) => sum + g.bytes, 0);
  const out = [];
  for (const { item: group, x, y, w, h } of squarified(list, 0, 0, width, tall(width))) {
    const box = el("section", { class: "group" }, header(group, total, w));
    place(box, x, y, w, h);
    const inside = h > 46 && w > 30 ? 20 : 0;
    if (inside === 0) {
      box.querySelector("h3").classList.add("bare");
    }
    box.append(...values(group, w - 4, h - inside - 4, inside, state));
    out.push(box);
  }
  if (out.length === 0) {
    out.push(el("p", {}, `No value is live by ${by}.`));
  }
  return out;
}

function header(group, total, width) {
  const text = `${escaped(short(group.key, 80))}, ${bytes(group.bytes)}, ${percent(group.bytes / total)}`;
  return el(
    "h3",
    { title: text, "data-group": escaped(group.key), "data-bytes": group.bytes },
    width > 30 ? text : "",
  );
}

function values(group, width, height, top, state) {
  const area = Math.max(width * height, 1);
  const least = (leastArea / area) * group.bytes;
  const items = group.items.filter((i) => i.bytes >= least);
  const rest = group.bytes - items.reduce((sum, i) => sum + i.bytes, 0);
  if (rest > 0) {
    items.push({ block: -1, bytes: rest, count: group.items.length - items.length });
  }
  if (width < 4 || height < 4) {
    return [];
  }
  return squarified(items, 2, top + 2, width, height).map(({ item, x, y, w, h }) => {
    const cell = item.block < 0 ? remainder(item) : button(item, state, w, h, group.key);
    place(cell, x, y, w, h);
    return cell;
  });
}

function remainder(item) {
  const text = `${thousands(item.count)} smaller ones, ${bytes(item.bytes)}`;
  return el("div", { class: "cell rest", title: text });
}

function button(item, state, w, h, key) {
  const e = state.execution;
  const kind = kinds[e.blocks.kind[item.block]];
  const text = `${escaped(short(e.blockName(item.block), 80))}, ${kind}, ${bytes(item.bytes)}`;
  const made = e.blocks.made[item.block];
  return el(
    "button",
    {
      type: "button",
      class: `cell ${kind}`,
      title: text,
      "aria-label": text,
      onclick: () => {
        if (made >= 0) {
          state.choose(made);
          pickNode(state, e.node[made]);
        }
      },
    },
    w > 50 && h > 18
      ? el("span", {}, escaped(short(within(e.blockName(item.block), key), 60)))
      : "",
  );
}

/** within is a name without the path of its layer, which stands above it. */
function within(name, layer) {
  return name.startsWith(`${layer}/`) ? name.slice(layer.length + 1) : name;
}

function place(element, x, y, w, h) {
  element.style.left = `${x}px`;
  element.style.top = `${y}px`;
  element.style.width = `${Math.max(w, 0)}px`;
  element.style.height = `${Math.max(h, 0)}px`;
}

/** squarified divides a rectangle among items by their bytes, in rows along its shorter side, so that
 * the parts are as square as can be (Bruls, Huizing, van Wijk: Squarified Treemaps, 2000). Items
 * come in descending order. */
function squarified(items, x, y, w, h) {
  const out = [];
  let rest = items.reduce((sum, i) => sum + i.bytes, 0);
  let at = 0;
  while (at < items.length && rest > 0) {
    const side = Math.min(w, h);
    const scale = (w * h) / rest;
    let end = at + 1;
    let sum = items[at].bytes;
    while (end < items.length) {
      const next = sum + items[end].bytes;
      if (worst(items, at, end + 1, next, side, scale) > worst(items, at, end, sum, side, scale)) {
        break;
      }
      sum = next;
      end++;
    }
    const thick = side > 0 ? (sum * scale) / side : 0;
    let along = 0;
    for (let i = at; i < end; i++) {
      const long = (items[i].bytes / sum) * side;
      out.push(
        w <= h
          ? { item: items[i], x: x + along, y, w: long, h: thick }
          : { item: items[i], x, y: y + along, w: thick, h: long },
      );
      along += long;
    }
    if (w <= h) {
      y += thick;
      h -= thick;
    } else {
      x += thick;
      w -= thick;
    }
    rest -= sum;
    at = end;
  }
  return out;
}

/** worst is the least square part of a row: its longer side over its shorter one. */
function worst(items, from, to, sum, side, scale) {
  const area = sum * scale;
  const ratio = (bytes) => {
    const part = bytes * scale;
    const long = (side * side * part) / (area * area);
    return Math.max(long, 1 / Math.max(long, 1e-12));
  };
  return Math.max(ratio(items[from].bytes), ratio(items[to - 1].bytes));
}
