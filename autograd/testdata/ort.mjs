// Runs models in stock ONNX Runtime: node ort.mjs FOLDER..., each with model.onnx, manifest.json (name, type, shape and raw
// file of every input). Writes output_N.bin and outputs.json beside them. onnxruntime-node is looked for from ORT_NODE_DIR.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import path from 'node:path';

const require = createRequire(path.join(process.env.ORT_NODE_DIR ?? process.cwd(), 'x.js'));
const ort = require('onnxruntime-node');
const arrays = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array, float64: Float64Array };
for (const folder of process.argv.slice(2)) {
  try {
    const session = await ort.InferenceSession.create(path.join(folder, 'model.onnx'), { graphOptimizationLevel: 'basic', logSeverityLevel: 3 });
    const feeds = {};
    for (const item of JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json')))) {
      const raw = fs.readFileSync(path.join(folder, item.file));
      feeds[item.name] = new ort.Tensor(item.type, new arrays[item.type](raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.byteLength)), item.shape);
    }
    const out = await session.run(feeds);
    const list = session.outputNames.map((name, i) => {
      const t = out[name];
      fs.writeFileSync(path.join(folder, `output_${i}.bin`), Buffer.from(t.data.buffer, t.data.byteOffset, t.data.byteLength));
      return { name, shape: t.dims, file: `output_${i}.bin` };
    });
    fs.writeFileSync(path.join(folder, 'outputs.json'), JSON.stringify(list));
  } catch (e) {
    fs.writeFileSync(path.join(folder, 'error.txt'), String(e));
  }
}
