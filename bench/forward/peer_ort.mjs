// Runs an ONNX graph in stock ONNX Runtime, for bench/forward.
// usage: node peer_ort.mjs MODEL FOLDER THREADS; onnxruntime-node is found as Node finds packages, from ORT_NODE_DIR.
// Each line on standard input is one step; the answer is its time and the processors' in milliseconds, and output 0.
// Threads wait without spinning unless BENCH_SPIN is set.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';

process.env.ORT_DISABLE_TELEMETRY = '1'; // read when the library is loaded
const require = createRequire(path.join(process.env.ORT_NODE_DIR ?? process.cwd(), 'x.js'));
const ort = require('onnxruntime-node');
const [model, folder, threads] = process.argv.slice(2);
const session = await ort.InferenceSession.create(model, {
  intraOpNumThreads: Number(threads), interOpNumThreads: 1,
  extra: { session: { intra_op: { allow_spinning: process.env.BENCH_SPIN ? '1' : '0' } } },
});
const arrays = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array, float64: Float64Array };
const feeds = {};
for (const item of JSON.parse(fs.readFileSync(path.join(folder, 'manifest.json')))) {
  const raw = fs.readFileSync(path.join(folder, item.file));
  const data = new arrays[item.numpy](raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.byteLength));
  feeds[item.name] = new ort.Tensor(item.numpy, data, item.shape);
}
console.log('ready');
for await (const _ of readline.createInterface({ input: process.stdin })) {
  const before = process.cpuUsage();
  const t0 = performance.now();
  const out = await session.run(feeds);
  const ms = performance.now() - t0;
  const used = process.cpuUsage(before);
  console.log(ms, (used.user + used.system) / 1000, Number(out[session.outputNames[0]].data[0]));
}
