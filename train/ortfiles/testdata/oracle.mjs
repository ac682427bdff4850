// Trains with onnxruntime-training's own runtime and prints what it has then:
//   node oracle.mjs ORTWEB ARTEFACTS STEPS
// ORTWEB is a folder with onnxruntime-web 1.19.2 (npm install --ignore-scripts onnxruntime-web@1.19.2);
// ARTEFACTS has training_model.onnx, eval_model.onnx, optimizer_model.onnx, checkpoint, and the inputs
// of all steps, in the order of the model's inputs, as input_N.bin with their elements.
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [web, dir, steps] = process.argv.slice(2);
const dist = path.join(path.resolve(web), 'node_modules', 'onnxruntime-web', 'dist');
const build = 'ort-training-wasm-simd-threaded';
const factory = (await import(pathToFileURL(path.join(dist, build + '.mjs')).href)).default;
const M = await factory({ numThreads: 1, wasmBinary: fs.readFileSync(path.join(dist, build + '.wasm')) });

const text = (at) => { let s = ''; for (; M.HEAPU8[at]; at++) s += String.fromCharCode(M.HEAPU8[at]); return s; };
function check(bad, what) {
  if (!bad) return;
  const at = M.stackAlloc(8);
  M._OrtGetLastError(at, at + 4);
  throw new Error(what + ': ' + text(M.HEAPU32[(at + 4) >> 2]));
}
function load(name) {
  const data = fs.readFileSync(path.join(dir, name)), at = M._malloc(data.length);
  M.HEAPU8.set(data, at);
  return [at, data.length];
}
function tensor(type, at, bytes, dims) {
  const where = M._malloc(4 * dims.length + 4);
  dims.forEach((d, i) => { M.HEAP32[(where >> 2) + i] = d; });
  const t = M._OrtCreateTensor(type, at, bytes, where, dims.length, 1);
  check(!t, 'tensor');
  return t;
}

check(M._OrtInit(1, 3), 'init');
const options = M._OrtCreateSessionOptions(0, true, true, 0, false, 0, 0, 3, 0, 0);
check(!options, 'options');
const checkpoint = M._OrtTrainingLoadCheckpoint(...load('checkpoint'));
check(!checkpoint, 'checkpoint');
const session = M._OrtTrainingCreateSession(options, checkpoint, ...load('training_model.onnx'),
  ...load('eval_model.onnx'), ...load('optimizer_model.onnx'));
check(!session, 'session');

function parameters(trainable) {
  const at = M._malloc(8);
  check(M._OrtTrainingGetParametersSize(session, at, trainable), 'size');
  const n = M.HEAP32[at >> 2], data = M._malloc(4 * n);
  check(M._OrtTrainingCopyParametersToBuffer(session, tensor(1, data, 4 * n, [n]), n, trainable), 'parameters');
  return Array.from(M.HEAPF32.subarray(data >> 2, (data >> 2) + n));
}

const inputs = JSON.parse(fs.readFileSync(path.join(dir, 'inputs.json')));
const out = { start: parameters(false), losses: [], ends: [] };
for (let step = 0; step < Number(steps); step++) {
  const list = M._malloc(4 * inputs.length), results = M._malloc(64);
  inputs.forEach((x, i) => {
    const [at, bytes] = load(`input_${i}.bin`);
    M.HEAPU32[(list >> 2) + i] = tensor(x.type, at, bytes, x.dims);
  });
  M.HEAPU32.fill(0, results >> 2, (results >> 2) + 16);
  const run = M._OrtCreateRunOptions(3, 0, false, 0);
  check(M._OrtTrainingRunTrainStep(session, list, inputs.length, results, 1, run), 'step');
  const where = M._malloc(16);
  check(M._OrtGetTensorData(M.HEAPU32[results >> 2], where, where + 4, where + 8, where + 12), 'loss');
  out.losses.push(M.HEAPF32[M.HEAPU32[(where + 4) >> 2] >> 2]);
  check(M._OrtTrainingOptimizerStep(session, run), 'optimizer');
  check(M._OrtTrainingLazyResetGrad(session), 'reset');
  out.ends.push(parameters(false));
}
console.log(JSON.stringify(out));
process.exit(0);
