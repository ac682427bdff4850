// Package prepare readies training jobs: it makes the ranks of a job agree, finds first weights, and describes the
// job for its checkpoints. Every error comes before the first step.
//
// The parts, in the order of a job:
//
//   - Ranks compares the ranks of a job by hashes of their settings and files, and settles errors and sizes that all
//     of them share.
//   - Weights and Artefacts give parameters their first values, from a file of safetensors or from the checkpoint of
//     onnxruntime-training.
//   - Manifest, Job.Identity and OpenMetrics describe the job in its folder, and to the other ranks.
package prepare
