// The data of the page: gzip in base64, with columns of numbers as differences (docs/page.md).

/** kinds are the kinds of bytes, in the order of their columns. */
export const kinds = [
  "weights",
  "state",
  "gradients",
  "activations",
  "moved",
  "temporaries",
  "workspaces",
  "subgraphs",
];

/** phases are the parts of a step, by the numbers that columns have. */
export const phases = ["forward", "backward", "update"];

/** read unpacks the data that lie in an element. */
export async function read(element) {
  const text = atob(element.textContent);
  element.remove();
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    packed[i] = text.charCodeAt(i);
  }
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const page = await new Response(stream).json();
  page.graphs = page.graphs.map((g) => new Graph(page.names, g));
  page.executions = page.executions.map((e) => new Execution(page.names, page.graphs, e));
  return page;
}

/** summed undoes differences. */
function summed(list) {
  const out = new Float64Array(list.length);
  let at = 0;
  for (let i = 0; i < list.length; i++) {
    at += list[i];
    out[i] = at;
  }
  return out;
}

/** Graph is a graph: nodes, values, and who reads what. */
class Graph {
  constructor(names, g) {
    this.names = names;
    this.count = g.name.length;
    this.label = summed(g.name);
    this.op = g.op;
    this.inputs = summed(g.inputs);
    this.inputsAt = summed(g.inputs_at);
    this.outputs = summed(g.outputs);
    this.outputsAt = summed(g.outputs_at);
    this.valueName = summed(g.value_name);
    this.valueBytes = g.value_bytes;
    this.maker = new Int32Array(this.valueName.length).fill(-1);
    this.readers = new Map();
    this.places = null;
    for (let n = 0; n < this.count; n++) {
      for (const v of this.outputsOf(n)) {
        this.maker[v] = n;
      }
      for (const v of new Set(this.inputsOf(n))) {
        const list = this.readers.get(v);
        if (list) {
          list.push(n);
        } else {
          this.readers.set(v, [n]);
        }
      }
    }
  }

  name(node) {
    return this.names[this.label[node]];
  }

  operator(node) {
    return this.names[this.op[node]];
  }

  value(v) {
    return this.names[this.valueName[v]];
  }

  inputsOf(node) {
    return this.inputs.subarray(this.inputsAt[node], this.inputsAt[node + 1]);
  }

  outputsOf(node) {
    return this.outputs.subarray(this.outputsAt[node], this.outputsAt[node + 1]);
  }

  /** producers are the nodes that make what a node reads. */
  producers(node) {
    const out = new Set();
    for (const v of this.inputsOf(node)) {
      if (this.maker[v] >= 0) {
        out.add(this.maker[v]);
      }
    }
    return [...out];
  }

  /** consumers are the nodes that read what a node makes. */
  consumers(node) {
    const out = new Set();
    for (const v of this.outputsOf(node)) {
      for (const n of this.readers.get(v) ?? []) {
        out.add(n);
      }
    }
    return [...out];
  }

  /** between are the values that one node makes and another reads. */
  between(from, to) {
    return [...new Set(this.inputsOf(to))].filter((v) => this.maker[v] === from);
  }

  /** find is the node of a name, or of a value's maker; -1 where there is none. */
  find(name) {
    if (this.places === null) {
      this.places = new Map();
      for (let v = 0; v < this.maker.length; v++) {
        this.places.set(this.value(v), this.maker[v]);
      }
      for (let n = 0; n < this.count; n++) {
        this.places.set(this.name(n), n);
      }
    }
    return this.places.get(name) ?? -1;
  }
}

/** Execution is one way to run the step: as the graph is, or as the plan runs it. */
class Execution {
  constructor(names, graphs, e) {
    this.names = names;
    this.title = e.name;
    this.graph = graphs[e.graph];
    this.graphIndex = e.graph;
    this.peak = e.peak;
    this.persistent = e.persistent_bytes;
    this.arenaBytes = e.arena_bytes;
    this.steps(e.steps);
    this.levels = e.levels.map((l) => ({ width: l.width, at: summed(l.at) }));
    this.blocks = blocks(e.blocks);
    this.asked = -1;
    this.always = blocks(e.always);
    this.host = e.host_bytes ? summed(e.host_bytes) : null;
    this.copies = e.copies ? copies(names, e.copies) : [];
  }

  steps(s) {
    this.count = s.node.length;
    this.node = summed(s.node);
    this.stepName = summed(s.name);
    this.layer = s.layer;
    this.repeats = s.repeats;
    this.phase = s.phase;
    this.start = new Float64Array(this.count + 1);
    for (let i = 0; i < this.count; i++) {
      this.start[i + 1] = this.start[i] + s.nanoseconds[i] / 1e9;
    }
    this.live = s.live_bytes.map((column) => (column.length === 0 ? null : summed(column)));
    this.total = new Float64Array(this.count);
    for (const column of this.live) {
      if (column !== null) {
        for (let i = 0; i < this.count; i++) {
          this.total[i] += column[i];
        }
      }
    }
    this.runs = new Int32Array(this.graph.count);
    this.first = new Int32Array(this.graph.count).fill(-1);
    for (let i = 0; i < this.count; i++) {
      if (this.runs[this.node[i]]++ === 0) {
        this.first[this.node[i]] = i;
      }
    }
  }

  name(step) {
    return this.names[this.stepName[step]];
  }

  operator(step) {
    return this.graph.operator(this.node[step]);
  }

  layerOf(step) {
    return this.names[this.layer[step]];
  }

  /** at is the live bytes of a kind at a step, what lives throughout left out. */
  at(kind, step) {
    return this.live[kind] === null ? 0 : this.live[kind][step];
  }

  /** seconds is the time of one step. */
  seconds(step) {
    return this.start[step + 1] - this.start[step];
  }

  /** liveAt are the blocks that are live at a step, the largest first. The last answer is kept. */
  liveAt(step) {
    if (this.asked !== step) {
      const b = this.blocks;
      const out = [];
      for (let i = 0; i < b.first.length && b.first[i] <= step; i++) {
        if (b.last[i] >= step) {
          out.push(i);
        }
      }
      this.asked = step;
      this.answer = out.sort((x, y) => b.bytes[y] - b.bytes[x] || x - y);
    }
    return this.answer;
  }

  blockName(i) {
    return this.names[this.blocks.name[i]];
  }

  /** visible are the indices of the steps to draw between two steps: few enough to be drawn fast,
   * the highest and the lowest of each group among them. */
  visible(from, to, most) {
    let steps = null;
    for (const level of this.levels) {
      if (((to - from) / level.width) * 2 <= most) {
        steps = level.at;
        break;
      }
    }
    if (to - from <= most || steps === null) {
      const out = [];
      for (let s = Math.max(0, Math.floor(from)); s < Math.min(this.count, to + 1); s++) {
        out.push(s);
      }
      return out;
    }
    const low = Math.max(0, below(steps, from) - 1);
    return Array.from(steps.subarray(low, Math.min(steps.length, below(steps, to) + 2)));
  }

  /** stepAt is the step that runs at a time. */
  stepAt(seconds) {
    let low = 0;
    let high = this.count - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.start[middle] <= seconds) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
}

/** below is how many numbers of an ascending list are less than a number. */
function below(list, n) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < n) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** copies are those between the memories of device and host, with their times in seconds. */
function copies(names, c) {
  const begun = summed(c.begun);
  const name = summed(c.name);
  const start = summed(c.start_ns);
  return c.bytes.map((bytes, i) => ({
    begun: begun[i],
    wait: c.wait[i] < 0 ? -1 : begun[i] + c.wait[i],
    out: c.out[i] === 1,
    name: names[name[i]],
    bytes,
    start: start[i] / 1e9,
    end: (start[i] + c.time_ns[i]) / 1e9,
  }));
}

function blocks(b) {
  const first = summed(b.first);
  return {
    first,
    last: first.map((f, i) => f + b.length[i] - 1),
    value: summed(b.value),
    name: summed(b.name),
    layer: b.layer,
    kind: b.kind,
    bytes: b.bytes,
    made: summed(b.made),
    reader: b.reader.map((r, i) => (r < 0 ? -1 : first[i] + r)),
    offset: summed(b.offset),
  };
}
